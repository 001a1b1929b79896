"""Parse the replies of Celery's workers to remote control commands; used by `system` in this package.

Kombu stores a reply as a message whose body is `{worker: reply}` and whose header `ticket` names the request
(kombu/pidbox.py 5.7, `Node.reply`). A control command replies `{"ok": text}` or `{"error": text}`, an inspect command
with its data (celery/worker/control.py 5.7).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rqtui.model import Fact, Outcome, WorkerInspection
from rqtui.system_base.stored_values import as_dict
from rqtui.systems.celery import messages
from rqtui.text.formats import format_quantity

TIMEOUT_S = 2.0  # Celery's own tools wait for one second
INSPECTED = ("active", "active_queues", "registered", "stats")  # the commands of the script `inspect`
_MAX_TASKS = 50  # running tasks that are listed


class WorkerReply(NamedTuple):
    """The reply of one worker to one command."""

    worker: str
    ticket: str
    value: Any


def parse_reply(raw: bytes) -> Iterator[WorkerReply]:
    """Yield the reply in a message of Kombu; nothing if the bytes are no reply."""
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        return
    if not isinstance(message, dict):
        return
    headers, properties = (as_dict(message.get(part)) for part in ("headers", "properties"))
    body, _problem = messages.decode_body(message, headers, properties)
    for worker, value in as_dict(body).items():
        yield WorkerReply(str(worker), str(headers.get("ticket") or ""), value)


def summarise_replies(verb: str, id: bytes, replies: Sequence[WorkerReply], expected: int, waited_s: float) -> Outcome:
    """Return the outcome of a control command that `expected` workers received.

    The outcome is `unknown` while a worker did not reply, `refused` if every worker refused, else `asked`.
    """
    done: dict[str, list[str]] = {}
    refused: dict[str, list[str]] = {}
    for reply in replies:
        value = as_dict(reply.value)
        workers_by_text = refused if "ok" not in value else done
        workers_by_text.setdefault(str(value.get("ok") or value.get("error") or reply.value), []).append(reply.worker)
    parts = [f"{_name_workers(workers)} replied: {text}" for text, workers in done.items()]
    parts += [_NOTES[verb]] if done and verb in _NOTES else []
    parts += [f"{_name_workers(workers)} refused: {text}" for text, workers in refused.items()]
    if (silent := expected - len(replies)) > 0:
        whose = "the worker" if expected == 1 else f"{silent} of {expected} workers"
        parts.append(
            f"{whose} sent no reply within {waited_s:.1f} s, and may still do it; one of the pool solo replies after "
            "its task. rqtui workers --inspect NAME shows what a worker does"
        )
    word = "unknown" if silent > 0 else "asked" if done else "refused"
    return Outcome(verb, id, word, "; ".join(parts), int(word == "asked"), {"heard": expected})


_NOTES = {
    "time_limit": "a worker of Celery 5.7 applies it only after its next connection to Redis"
}  # create_request_cls, celery/worker/request.py 5.7


def _name_workers(workers: Sequence[str]) -> str:
    return workers[0] if len(workers) == 1 else format_quantity(len(workers), "worker")


def build_inspection(worker: str, replies: Sequence[WorkerReply], now_ms: int, waited_s: float) -> WorkerInspection:
    """Return what a worker replied to the commands in `INSPECTED`, as facts."""
    values = {reply.ticket: reply.value for reply in replies if reply.worker == worker}
    facts = [fact for name, build in _FACTS.items() if name in values for fact in build(values[name], now_ms)]
    missing = tuple(name for name in INSPECTED if name not in values)
    problem = (
        f"no reply from {worker} within {waited_s:.1f} s to {', '.join(missing)}: unknown. {_SILENT}" if missing else ""
    )
    return WorkerInspection(worker, now_ms, round(waited_s * 1000), tuple(facts), missing, problem)


def find_consumed_queues(worker: str, replies: Sequence[WorkerReply]) -> tuple[str, ...] | None:
    """Return the queues from which a worker consumes, by its reply to `active_queues`; None if there is none."""
    for reply in replies:
        if (reply.worker, reply.ticket) == (worker, "active_queues") and isinstance(reply.value, list):
            return tuple(str(queue.get("name")) for queue in reply.value if isinstance(queue, dict))
    return None


_SILENT = "A worker of the pool `solo` replies after its task: ask again. If it sends no heartbeats, it died"


def _build_active_facts(value: Any, now_ms: int) -> Iterator[Fact]:
    """Yield a fact per running task (`Request.info`, celery/worker/request.py 5.7)."""
    tasks = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    yield Fact("active", format_quantity(len(tasks), "task"))
    for task in tasks[:_MAX_TASKS]:
        start_s = task.get("time_start")
        yield Fact("runs", f"{task.get('name')}{_format_arguments(task)}")
        yield Fact("id", str(task.get("id")))
        if messages.is_number(start_s) and abs(start_s * 1000 - now_ms) < _DAY_MS * 400:
            yield Fact("since", round(start_s * 1000), "instant")
    if len(tasks) > _MAX_TASKS:
        yield Fact("runs", f"and {len(tasks) - _MAX_TASKS} more")


_DAY_MS = 86_400_000


def _format_arguments(task: Mapping[str, Any]) -> str:
    args, kwargs = task.get("args") or [], task.get("kwargs") or {}
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        return f" {args} {kwargs}"
    return f"({', '.join([*map(repr, args), *(f'{name}={value!r}' for name, value in kwargs.items())])})"


def _build_queue_facts(value: Any, _now_ms: int) -> Iterator[Fact]:
    queues = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    yield Fact("queues", ", ".join(str(queue.get("name")) for queue in queues) or "none")


def _build_registered_facts(value: Any, _now_ms: int) -> Iterator[Fact]:
    tasks = [str(each) for each in value] if isinstance(value, list) else []
    yield Fact("registered", ", ".join(tasks) or "none")


def _build_statistics_facts(value: Any, _now_ms: int) -> Iterator[Fact]:
    """Yield the facts of `stats` (`WorkController.stats`, celery/worker/worker.py 5.7)."""
    statistics = as_dict(value)
    pool, usage = as_dict(statistics.get("pool")), as_dict(statistics.get("rusage"))
    totals = {name: number for name, number in as_dict(statistics.get("total")).items() if messages.is_count(number)}
    processes = pool.get("processes")
    pids = [str(pid) for pid in processes] if isinstance(processes, list) else []
    lines = {
        "pool": str(pool.get("implementation") or "").partition(":")[0].rpartition(".")[2],
        "started with": pool.get("max-concurrency"),  # grow and shrink do not change this number
        "processes": f"{len(pids)}: {', '.join(pids)}" if pids else "",
        "prefetch": statistics.get("prefetch_count"),
        "ran": ", ".join(f"{number} {name}" for name, number in sorted(totals.items())) or "no task",
        "pid": statistics.get("pid"),
    }
    yield from (Fact(name, str(value)) for name, value in lines.items() if value not in (None, ""))
    if messages.is_number(uptime := statistics.get("uptime")):
        yield Fact("up", round(uptime * 1000), "duration")
    if messages.is_count(largest := usage.get("maxrss")):
        yield Fact("most memory", f"{largest / 1024:.0f} MB")  # Linux counts kB


_FACTS: Mapping[str, Callable[[Any, int], Iterator[Fact]]] = {
    "active": _build_active_facts,
    "active_queues": _build_queue_facts,
    "stats": _build_statistics_facts,
    "registered": _build_registered_facts,
}
"""The facts in the reply to each inspect command, in the order in which they are shown."""
