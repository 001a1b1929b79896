"""`snapshot`, `jobs`, `show`: what there is. Nothing here changes anything."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.commands import documents, output
from rqtui.commands.session import DONE, REFUSED, Session, command
from rqtui.durations import backoff_s
from rqtui.errors import ServerError, UsageError, WrongType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rqtui.engine import Engine
    from rqtui.model import Job, Page, Queue, Ref, Snapshot

PAGE = 500  # jobs per round trip
SCAN = 100_000  # jobs that a filter looks through in one call; `next` tells where to go on

QUEUES = Annotated[list[str] | None, typer.Argument(metavar="[QUEUE]...", help="Which queues; all when none is named.")]
QUEUE = Annotated[str, typer.Argument(metavar="QUEUE", help="A queue, as NAME or LAYOUT:NAME.")]


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    command(app, "snapshot")(snapshot)
    command(app, "jobs")(jobs)
    command(app, "show")(show)


def snapshot(
    session: Session,
    queues: QUEUES = None,
    watch_s: Annotated[float | None, typer.Option("--watch", metavar="SECONDS", help="Again and again.")] = None,
) -> int:
    """Counts, workers and the verdict of queues.

    Example: rqtui snapshot mail --json
    """
    if watch_s is not None and not 0.05 <= watch_s <= 86_400:  # a day; NaN is refused too
        raise UsageError("--watch is a number of seconds between 0.05 and 86400.")
    if watch_s is None:
        engine = session.engine(discover=not queues)
        _write_snapshot(session, engine, _counted(session, engine, queues), is_stream=False)
        return DONE
    return _watch(session, queues, watch_s)


def _watch(session: Session, queues: list[str] | None, watch_s: float) -> int:
    """A snapshot each `watch_s`; while Redis is away it says so and tries again."""
    engine, failures = session.engine(), 0
    while True:
        try:
            if not queues:
                for _chunk in engine.discover():
                    pass
            found = _counted(session, engine, queues)
        except ServerError as error:
            wait_s = backoff_s(failures)
            failures += 1
            output.say(f"{error} Next try in {wait_s} s.")
            time.sleep(wait_s)
            continue
        failures = 0
        if sys.stdout.isatty() and not session.as_json:
            sys.stdout.write("\x1b[H\x1b[J")
        _write_snapshot(session, engine, found, is_stream=True)
        time.sleep(watch_s)


def _counted(session: Session, engine: Engine, queues: list[str] | None) -> Snapshot:
    from rqtui.model import Focus

    refs = session.queues(engine, queues or ())
    found = engine.snapshot(Focus(queues=tuple(refs)))
    for queue in found.queues if queues else ():
        note_if_unknown(queue)
    return found


def note_if_unknown(queue: Queue) -> None:
    """Says so when a queue that somebody named has never held a job: a slip of the pen looks like an empty queue."""
    if (
        not queue.error
        and not queue.findings
        and not any(count.count for count in queue.counts)
        and not any(queue.counters.get(n) for n in ("in", "out"))
    ):
        output.say(f'nothing is known of a queue "{queue.name}" ({queue.layout}); it counts as empty.')


def _write_snapshot(session: Session, engine: Engine, found: Snapshot, *, is_stream: bool) -> None:
    from rqtui.server import mask, probe
    from rqtui.unspoken import sentence

    info = probe(engine.client, session.settings.url)
    if session.as_json:
        document = {
            "taken_at_ms": found.taken_ms,
            "server": {"url": mask(session.settings.url), "kind": info.kind, "version": info.version},
            "queues": [documents.queue(queue) for queue in found.queues],
            "unspoken": [documents.unspoken(other) for other in engine.unspoken],
        }
        output.write_json(document, is_stream=is_stream)
        return
    if engine.unspoken and not is_stream:
        output.say(sentence(engine.unspoken))
    if not found.queues:
        output.write_lines([f"no queues at {mask(session.settings.url)} ({info.title})"])
        return
    _write_queues(found.queues)


def _write_queues(queues: Sequence[Queue]) -> None:
    from rqtui.model import State
    from rqtui.tui.display import age, count

    states = [state for state in State if any(number.state is state for queue in queues for number in queue.counts)]
    titles = ["queue", "layout", *states, "workers", "oldest", "verdict"]
    rows = []
    for queue in queues:
        exact = {number.state: number.exact for number in queue.counts}
        counts = [count(queue.count_in(state), exact[state], 11) if state in exact else "" for state in states]
        verdict = queue.verdict.text if not queue.findings else f"{queue.findings[0].text}"
        workers = "" if queue.workers is None else str(queue.workers)
        rows.append([queue.name, queue.layout, *counts, workers, age(queue.oldest_ready_ms), verdict])
    output.write_table(titles, rows, right=(*states, "workers", "oldest"))


def jobs(
    session: Session,
    queue: QUEUE,
    place: Annotated[str, typer.Argument(metavar="PLACE", help="scheduled, ready, reserved, done, dead …")],
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="How many at most.")] = 50,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="C", help="Where to go on: `next` of the last page.")
    ] = None,
    expression: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="EXPR", help="text /re/ !term id:x job:x err:x worker:x body:x, all must match."
        ),
    ] = None,
) -> int:
    """The jobs of a place, in its order.

    Example: rqtui jobs mail dead --filter 'err:timeout' --json
    """
    from rqtui import filters

    if limit < 1:
        raise UsageError("--limit is a whole number from 1 on.")
    accepts = filters.parse(expression or "")
    engine = session.engine()
    ref = engine.seek(queue)
    page = _page(engine, ref, place, limit, _offset(cursor), accepts if accepts.terms else None)
    if not session.as_json:
        _write_jobs(page)
        return DONE
    output.write_json(
        {
            "queue": documents.text(page.queue),
            "layout": page.layout,
            "place": page.place,
            "total": page.total if page.of is None else page.of,
            "exact": page.exact,
            "next": None if page.next is None else str(page.next),
            "jobs": [documents.job(job) for job in page.jobs],
        }
    )
    return DONE


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 15):  # below 2^53
        raise UsageError(f'"{cursor}" is no cursor; give what "next" said, or leave it away.')
    return int(cursor)


def _page(engine: Engine, ref: Ref, place: str, limit: int, offset: int, accepts: Callable[[Job], bool] | None) -> Page:
    """Up to `limit` jobs from `offset` on that `accepts` lets through; `next` is the first that was not looked at."""
    found: list[Job] = []
    looked, budget = offset, offset + (SCAN if accepts else limit)
    with output.progress("looking", None) as bar:
        while True:
            size = min(PAGE, budget - looked) if accepts else min(PAGE, limit - len(found))
            page = engine.page(ref, place, looked, size, documents.BODY_BYTES)
            if page.error:
                raise WrongType(page.error)  # any other error was raised by the engine
            bar.total = page.total
            for job in page.jobs:
                looked += 1
                if accepts is None or accepts(job):
                    found.append(job)
                if len(found) >= limit:
                    break
            bar.step(len(page.jobs))
            if len(found) >= limit or page.next is None or looked >= budget:
                following = looked if looked < page.total and page.jobs else None
                return replace(page, jobs=tuple(found), offset=offset, next=following)


def _write_jobs(page: Page) -> None:
    from rqtui.tui.display import age, body_view, job_id, size

    now_ms = time.time() * 1000
    rows = []
    for job in page.jobs:
        preview = "" if job.body is None else " ".join(body_view(job.body[:200]).text.split())
        tried = f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts)
        about = job.problem or job.error or preview[:60] or size(job.body_bytes)
        rows.append([job_id(job.id, 48), job.name, _moment(job, now_ms, age), tried, job.worker, about])
    if rows:
        titles = ("id", "job", _MOMENTS.get(page.place, "age"), "tried", "worker", "error or body")
        output.write_table(titles, rows, right=(titles[2], "tried"))
    following = f", go on with --cursor {page.next}" if page.next is not None else ""
    print(f"{len(page.jobs)} of {page.total} in {page.place}{following}", file=sys.stderr)


_MOMENTS = {"scheduled": "due in", "reserved": "lease"}


def _moment(job: Job, now_ms: float, age: Callable[[float | None], str]) -> str:
    """How long until it is due or its lease ends; else how long it has been there."""
    ahead = job.due_ms if job.due_ms is not None else job.deadline_ms
    if ahead is not None:
        return age(ahead - now_ms)
    return age(None if job.since_ms is None else now_ms - job.since_ms)


def show(
    session: Session,
    queue: QUEUE,
    id: Annotated[str, typer.Argument(metavar="ID", help="The job; base64:… where its id is no text.")],
    whole: Annotated[bool, typer.Option("--body", help="The whole body, however long it is.")] = False,
    is_raw: Annotated[bool, typer.Option("--raw", help="Nothing but the bytes of the body, on stdout.")] = False,
    is_revealed: Annotated[bool, typer.Option("--reveal", help="Do not mask passwords and tokens for people.")] = False,
) -> int:
    """All about one job, with its body and its failed attempts.

    Example: rqtui show mail welcome:42 --json
    """
    engine = session.engine()
    ref = engine.seek(queue)
    raw_id = documents.id_bytes(id)
    found = engine.job(ref, raw_id, -1 if whole or is_raw else documents.BODY_BYTES)
    if found is None:
        output.say(f'there is no job "{id}" in {ref.queue}.')
        return REFUSED
    if is_raw:
        if sys.stdout.isatty():
            raise UsageError(
                "--raw writes bytes as they are, which a terminal would obey; send them to a file or a pipe."
            )
        sys.stdout.flush()
        sys.stdout.buffer.write(found.body or b"")
        sys.stdout.buffer.flush()
        return DONE
    if session.as_json:
        output.write_json({**documents.job(found), "history": documents.history(found)})
        return DONE
    _write_job(found, whole, is_revealed)
    return DONE


def _write_job(job: Job, whole: bool, is_revealed: bool) -> None:
    from rqtui.tui.display import body_view, moment, safe, safe_lines, size

    facts: list[tuple[str, Any]] = [
        ("id", job.id),
        ("queue", f"{job.queue} ({job.layout})"),
        ("place", job.place),
        ("job", job.name),
        ("enqueued", moment(job.enqueued_ms) if job.enqueued_ms else ""),
        ("due", moment(job.due_ms) if job.due_ms else ""),
        ("reserved", moment(job.reserved_ms) if job.reserved_ms else ""),
        ("lease until", moment(job.deadline_ms) if job.deadline_ms else ""),
        ("worker", job.worker),
        ("token", job.token),
        ("priority", str(job.priority) if job.priority else ""),
        ("attempts", f"{job.attempts} of {job.max_attempts}" if job.max_attempts else str(job.attempts)),
        ("cancelled", "asked to stop" if job.cancelled else ""),
        ("problem", job.problem),
    ]
    lines = [f"{name:<12} {safe(value)}" for name, value in facts if value]
    for attempt in job.history:
        first, *rest = safe_lines(attempt.error) or [""]
        lines.append(f"{'failed':<12} {moment(attempt.end_ms)}  {safe(attempt.worker)}  {first}")
        lines += [" " * 13 + line for line in rest[-12:]]
    lines.append(f"{'body':<12} {size(job.body_bytes)}")
    if job.body is None:
        lines.append("  too long to show; --body shows it, --raw writes it")
    else:
        most = max(1, len(job.body)) if whole else documents.BODY_BYTES
        lines += ["  " + line for line in body_view(job.body, is_revealed, most).text.split("\n")]
    output.write_lines(lines)


__all__ = ["QUEUE", "QUEUES", "note_if_unknown", "register"]
