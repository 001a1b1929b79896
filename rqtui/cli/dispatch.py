"""`dispatch`: the dispatcher of the screen in the foreground, for machines without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES
from rqtui.cli.loop_runner import MOST, ONCE, Report, check_batch, run
from rqtui.cli.session import Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine.loops import Round, Step

_COLUMNS = ("dispatched", "delayed", "ready", "backing_off")


def dispatch(
    session: Session,
    queues: QUEUES = None,
    batch_size: Annotated[int | None, typer.Option("-n", "--batch-size", metavar="N", help="Jobs per batch.")] = None,
    delayed_key: Annotated[
        str | None,
        typer.Option(
            "-d", "--delayed-task-zset-key", metavar="K", help="The delayed tasks: a layout's option `delayed`."
        ),
    ] = None,
    ready_key: Annotated[
        str | None,
        typer.Option("-r", "--ready-task-list-key", metavar="K", help="The ready tasks: its option `ready`."),
    ] = None,
    verbose: Annotated[
        int,
        typer.Option(
            "-v", "--verbose", count=True, help="The numbers of all queues as they change; -vv: each queue, each step."
        ),
    ] = 0,
    once: ONCE = False,
) -> int:
    """Dispatch jobs when they are due, until stopped.

    It takes the place of redis_queue_dispatcher, with its options, its default keys and its table.

    Example: rqtui dispatch mail --verbose
    """
    if batch_size is not None and batch_size > MOST:  # the original takes any
        output.say(f"-n {batch_size} is more than a call may move: batches of {MOST}.")
        batch_size = MOST
    check_batch(batch_size, "-n/--batch-size")
    keys = {name: key for name, key in (("delayed", delayed_key), ("ready", ready_key)) if key is not None}
    session, unasked = _with_keys(session, keys, is_open=not queues)
    kind = _Table if verbose == 1 and not session.as_json else Report
    every_step = bool(verbose or once)
    report = kind(session, _dispatched, ("queue", *_COLUMNS), every_step, unasked)
    with report:
        return run(session, "dispatch", queues, report, limit=batch_size, once=once)


def _with_keys(session: Session, keys: dict[str, str], *, is_open: bool) -> tuple[Session, str]:
    """The session whose layout with the options `delayed` and `ready` has these keys, as the original's options say.

    Where nobody names a key, a layout or a queue (`is_open`), its default keys are served beside the default system, as
    the original serves them; then the name of that layout comes along.
    """
    from rqtui.config.settings import DEFAULT_SYSTEM
    from rqtui.connection.connect import mask
    from rqtui.connection.urls import hosts_of
    from rqtui.systems import registry

    layouts = session.settings.layouts
    hosts = hosts_of(session.settings.url, mask(session.settings.url))
    if not keys and (layouts or not is_open or (hosts is not None and hosts.kind == "cluster")):
        return session, ""  # its two keys lie in different slots of a Cluster
    [name] = [known for known in registry.own_names() if {"delayed", "ready"} <= set(registry.make(known).defaults)]
    if not keys:
        return _on(session, DEFAULT_SYSTEM, name), name
    given = [spec for spec in layouts if registry.name_of(spec) == name]
    if layouts and not given:
        raise UsageError(f"-d and -r name keys of the layout {name}; say --layout {name}, or leave --layout away.")
    if any("," in key for key in keys.values()):
        raise UsageError("a key with a comma cannot be an option of a layout.")
    added = ",".join(f"{option}={key}" for option, key in keys.items())
    before = given[0] if given else name
    return _on(session, f"{before}{',' if ':' in before else ':'}{added}"), ""


def _on(session: Session, *layouts: str) -> Session:
    return replace(session, settings=replace(session.settings, layouts=layouts))


class _Table(Report):
    """The table of redis_queue_dispatcher (src/main.rs): a line per round, over all queues; none without news.

    Its titles come again after 51 lines, as there; `backing_off` is in seconds.
    """

    _EDGE = "+---------------" * len(_COLUMNS) + "+"
    _PAGE = 51
    _lines = 0
    _last: tuple[int, ...] = ()

    def _write(self, lines: Sequence[dict[str, Any]]) -> None:
        if not lines:
            return
        dispatched, *standing = (sum(line[name] or 0 for line in lines) for name in _COLUMNS[:-1])
        if not dispatched and self._last == (0, *standing):
            return
        self._last = (dispatched, *standing)
        if self._lines % self._PAGE == 0:
            output.write_lines([self._EDGE, _row(_COLUMNS), self._EDGE])
        self._lines += 1
        output.write_lines([_row((*self._last, ceil(lines[0]["backing_off_ms"] / 1000)))])

    def close(self) -> None:
        """Draws the lower edge."""
        if self._lines:
            output.write_lines([self._EDGE])


def _row(cells: Sequence[object]) -> str:
    return "|" + "".join(f"{cell!s:^15}|" for cell in cells)


def _dispatched(step: Step | None, queue: str, done: Round) -> dict[str, Any]:
    """`ready` counts before the batch, as the program that this format comes from has it (redis_queue_dispatcher)."""
    values = step.values if step else {}
    return {
        **documents.queue_fields(queue),
        "dispatched": step.moved if step else 0,
        "delayed": values.get("scheduled"),
        "ready": values.get("ready"),
        "backing_off_ms": round(done.wait_s * 1000),
    }
