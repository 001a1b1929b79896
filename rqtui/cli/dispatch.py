"""Implement `dispatch`: run the dispatcher in the foreground, for machines without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES
from rqtui.cli.loop_runner import MAX_BATCH, ONCE, Report, check_batch_size, run_foreground_loop
from rqtui.cli.session import NO_WAIT, Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine.loops import Round, ScriptStep

_COLUMNS = ("dispatched", "delayed", "ready", "backing_off")


def dispatch(
    session: Session,
    queues: QUEUES = None,
    batch_size: Annotated[
        int | None, typer.Option("-n", "--batch-size", metavar="N", help="Move at most N jobs per batch.")
    ] = None,
    delayed_key: Annotated[
        str | None,
        typer.Option(
            "-d",
            "--delayed-task-zset-key",
            metavar="K",
            help="The key of the delayed tasks, as the system's option `delayed`.",
        ),
    ] = None,
    ready_key: Annotated[
        str | None,
        typer.Option(
            "-r",
            "--ready-task-list-key",
            metavar="K",
            help="The key of the ready tasks, as the system's option `ready`.",
        ),
    ] = None,
    verbose: Annotated[
        int,
        typer.Option(
            "-v", "--verbose", count=True, help="Print the totals when they change; with -vv each queue and each step."
        ),
    ] = 0,
    once: ONCE = False,
    no_wait: NO_WAIT = False,
) -> int:
    """Dispatch jobs when they are due, until stopped.

    The command takes the place of redis_queue_dispatcher, with the same options, default keys and table.

    Example: rqtui dispatch mail --verbose
    """
    if batch_size is not None and batch_size > MAX_BATCH:  # the original accepts any number
        output.print_message(f"-n {batch_size} is more than a call may move: batches of {MAX_BATCH}.")
        batch_size = MAX_BATCH
    check_batch_size(batch_size, "-n/--batch-size")
    keys = {name: key for name, key in (("delayed", delayed_key), ("ready", ready_key)) if key is not None}
    session, unasked = _add_dispatcher_keys(session, keys, is_open=not queues)
    kind = _Table if verbose == 1 and not session.as_json else Report
    every_step = bool(verbose or once)
    report = kind(session, _build_dispatch_line, ("queue", *_COLUMNS), every_step, unasked)
    with report:
        return run_foreground_loop(session, "dispatch", queues, report, limit=batch_size, once=once, no_wait=no_wait)


def _add_dispatcher_keys(session: Session, keys: dict[str, str], *, is_open: bool) -> tuple[Session, str]:
    """Return the session with the keys of `-d` and `-r` as options of the system `dispatcher`.

    If no key, system or queue is given (`is_open`), the system's default keys are also dispatched, as
    redis_queue_dispatcher does. Then the system's name is returned too, else an empty string.
    """
    from rqtui.config.settings import DEFAULT_SYSTEM
    from rqtui.connection.connect import hide_url_passwords
    from rqtui.connection.urls import parse_multi_host_url
    from rqtui.systems import registry

    systems = session.settings.systems
    hosts = parse_multi_host_url(session.settings.url, hide_url_passwords(session.settings.url))
    if not keys and (systems or not is_open or (hosts is not None and hosts.kind == "cluster")):
        return session, ""  # the system's two keys are in different slots of a Cluster
    [name] = [
        system_name
        for system_name in registry.list_own_system_names()
        if {"delayed", "ready"} <= set(registry.create_system(system_name).defaults)
    ]
    if not keys:
        return _replace_systems(session, DEFAULT_SYSTEM, name), name
    given_specs = [spec for spec in systems if registry.parse_system_name(spec) == name]
    if systems and not given_specs:
        raise UsageError(f"-d and -r name keys of the system {name}; say --system {name}, or leave --system away.")
    if any("," in key for key in keys.values()):
        raise UsageError("a key with a comma cannot be an option of a system.")
    added = ",".join(f"{option}={key}" for option, key in keys.items())
    base_spec = given_specs[0] if given_specs else name
    return _replace_systems(session, f"{base_spec}{',' if ':' in base_spec else ':'}{added}"), ""


def _replace_systems(session: Session, *systems: str) -> Session:
    """Return the session with other `--system` options."""
    return replace(session, settings=replace(session.settings, systems=systems))


class _Table(Report):
    """The printed table of redis_queue_dispatcher (src/main.rs): one line per changed round, summed over all queues.

    The titles are repeated after 51 lines, as in redis_queue_dispatcher. `backing_off` is in seconds.
    """

    _EDGE = "+---------------" * len(_COLUMNS) + "+"
    _PAGE = 51
    _lines = 0
    _last: tuple[int, ...] = ()

    def _write_lines(self, lines: Sequence[dict[str, Any]]) -> None:
        if not lines:
            return
        dispatched, *counts = (sum(line[name] or 0 for line in lines) for name in _COLUMNS[:-1])
        if not dispatched and self._last == (0, *counts):
            return
        self._last = (dispatched, *counts)
        if self._lines % self._PAGE == 0:
            output.write_lines([self._EDGE, _format_table_row(_COLUMNS), self._EDGE])
        self._lines += 1
        output.write_lines([_format_table_row((*self._last, ceil(lines[0]["backing_off_ms"] / 1000)))])

    def close(self) -> None:
        """Print the lower edge of the table."""
        if self._lines:
            output.write_lines([self._EDGE])


def _format_table_row(cells: Sequence[object]) -> str:
    return "|" + "".join(f"{cell!s:^15}|" for cell in cells)


def _build_dispatch_line(step: ScriptStep | None, queue: str, finished_round: Round) -> dict[str, Any]:
    """Build the printed line of one dispatch step. `ready` is the number of ready jobs before the batch."""
    reply_values = step.values if step else {}
    return {
        **documents.build_queue_fields(queue),
        "dispatched": step.moved if step else 0,
        "delayed": reply_values.get("scheduled"),
        "ready": reply_values.get("ready"),
        "backing_off_ms": round(finished_round.wait_s * 1000),
    }
