"""`workers`, `errors`, `kinds`: what the views of those names show. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from rqtui.commands import documents, output
from rqtui.commands.looking import QUEUES
from rqtui.commands.session import DONE, REFUSED, Session, command

if TYPE_CHECKING:
    from rqtui.engine import Engine
    from rqtui.model import Job, Ref
    from rqtui.reports.errors import Errors, Group
    from rqtui.reports.kinds import Kind, Kinds
    from rqtui.reports.sampling import Size
    from rqtui.reports.workers import Seat

T = TypeVar("T")


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    command(app, "workers")(workers)
    command(app, "errors")(errors)
    command(app, "kinds")(kinds)


def _asked(session: Session, queues: list[str] | None) -> tuple[Engine, list[Ref]]:
    engine = session.engine(discover=not queues)
    return engine, session.queues(engine, queues or ())


def _last(steps: Iterable[T | None], what: str) -> T:
    """The whole report, with a bar while it is made; the last step is never None."""
    found: T | None = None
    with output.progress(what) as bar:
        for step in steps:
            bar.step(1)
            found = step if step is not None else found
    assert found is not None
    return found


# -- workers -----------------------------------------------------------------------------------------------------------


def workers(session: Session, queues: QUEUES = None) -> int:
    """Who works on the queues, what each holds, and when it gave its last sign of life.

    Example: rqtui workers mail --json
    """
    from rqtui.reports import workers as report

    engine, refs = _asked(session, queues)
    seats, now_ms, problems = report.report(engine, refs)
    for problem in problems:
        output.say(problem)
    if session.as_json:
        output.write_json([_worker(seat, now_ms) for seat in seats])
    else:
        _write_workers(seats, now_ms)
        if silent := _systems(refs, engine, "worker"):
            output.say(f"{silent} no names of workers.")
        if not seats:
            output.say("no worker has given a sign of life, and none holds a job.")
    return REFUSED if problems else DONE


def _worker(seat: Seat, now_ms: int) -> dict[str, Any]:
    """A worker of `workers`; what only its own sign of life tells is null where it never gave one."""
    from rqtui.model import Worker

    said = documents.worker(seat.ref, seat.worker or Worker(seat.name, seat.ref.queue, 0, 0), now_ms)
    if seat.worker is None:
        said |= {"beat_at_ms": None, "ttl_ms": None, "order": None, "late": seat.standing in _late()}
    return {
        **said,
        "state": seat.standing.value,
        "held": [_held(job) for job in seat.jobs],
        "exact": seat.is_whole,
    }


def _late() -> frozenset[str]:
    from rqtui.reports.workers import TROUBLED

    return frozenset(TROUBLED)


def _held(job: Job) -> dict[str, Any]:
    return {
        **documents.id_fields(job.id),
        "name": documents.text(job.name) or None,
        "reserved_at_ms": job.reserved_ms,
        "deadline_at_ms": job.deadline_ms,
    }


def _write_workers(seats: Iterable[Seat], now_ms: int) -> None:
    from rqtui.tui.display import age, job_id

    rows = []
    for seat in seats:
        job, worker = seat.job, seat.worker
        held = len(seat.jobs)
        id = job.id if job else worker.job if worker else b""
        rows.append(
            [
                seat.standing.value,
                seat.name,
                seat.ref.queue,
                seat.ref.layout,
                str(held),
                job.name if job else "",
                job_id(id, 48) if id else "",
                "" if seat.since_ms is None else age(now_ms - seat.since_ms),
                "never" if worker is None else f"{age(now_ms - worker.beat_ms)} ago",
                " @ ".join(part for part in (worker.pid, worker.host) if part) if worker else "",
            ]
        )
    titles = ("state", "worker", "queue", "layout", "holds", "job", "id", "for", "last beat", "pid @ host")
    if rows:
        output.write_table(titles, rows, right=("holds", "for", "last beat"))


def _systems(refs: Iterable[Ref], engine: Engine, what: str) -> str:
    """The systems among these queues that do not tell it, as the beginning of a sentence; empty where all do."""
    silent = sorted({ref.layout for ref in refs if what not in engine.layouts[ref.layout].tells})
    return f"{' and '.join(silent)} {'keeps' if len(silent) == 1 else 'keep'}" if silent else ""


# -- errors ------------------------------------------------------------------------------------------------------------


def errors(session: Session, queues: QUEUES = None) -> int:
    """Dead jobs and those that wait for another try, grouped by what their errors have in common.

    Example: rqtui errors mail --json
    """
    from rqtui.reports import errors as report

    engine, refs = _asked(session, queues)
    found = _last(report.report(engine, refs), "looking")
    if session.as_json:
        groups = [_group(group, found.size.is_whole) for group in found.groups]
        output.write_json({**_size(found.size), "errors": groups})
    else:
        _write_errors(found)
        if silent := _systems(refs, engine, "error"):
            output.say(f"{silent} no errors.")
        _write_size(found.size, "no job has died, and none waits for another try" if not found.groups else "")
    return _code(found.size)


def _group(group: Group, is_exact: bool) -> dict[str, Any]:
    example = group.example
    return {
        "error": documents.text(group.message) or None,
        "dead": group.dead,
        "retrying": group.retrying,
        "exact": is_exact,
        "first_at_ms": group.first_ms,
        "last_at_ms": group.last_ms,
        "names": [documents.text(name) for name in group.kinds],
        "queues": [{"queue": documents.text(ref.queue), "layout": ref.layout} for ref in group.refs],
        "example": {
            **documents.id_fields(example.id),
            "queue": documents.text(example.queue),
            "layout": example.layout,
            "place": example.place,
            "error": documents.text(example.error) or None,
        },
    }


def _write_errors(found: Errors) -> None:
    from rqtui.tui.display import age, mask_text

    now_ms = found.size.taken_ms

    def ago(at_ms: int | None) -> str:
        return "" if at_ms is None else age(max(0, now_ms - at_ms))

    rows = [
        [
            str(group.dead),
            str(group.retrying),
            mask_text(group.message) or "(no error is kept)",
            ", ".join(group.kinds[:3]) + (f" +{len(group.kinds) - 3}" if len(group.kinds) > 3 else ""),
            ", ".join(ref.queue for ref in group.refs[:3])
            + (f" +{len(group.refs) - 3}" if len(group.refs) > 3 else ""),
            ago(group.first_ms),
            ago(group.last_ms),
        ]
        for group in found.groups
    ]
    titles = ("dead", "retry", "error", "job", "queue", "first", "last")
    if rows:
        output.write_table(titles, rows, right=("dead", "retry", "first", "last"))


# -- kinds -------------------------------------------------------------------------------------------------------------


def kinds(session: Session, queues: QUEUES = None) -> int:
    """For each kind of job how many stand where, how many failed, and how long they wait and run.

    Example: rqtui kinds mail --json
    """
    from rqtui.reports import kinds as report

    engine, refs = _asked(session, queues)
    found = _last(report.report(engine, refs), "looking")
    if session.as_json:
        output.write_json({**_size(found.size), "kinds": [_kind(kind, found.size.is_whole) for kind in found.kinds]})
    else:
        _write_kinds(found)
        if silent := _systems(refs, engine, "name"):
            output.say(f"{silent} no kinds of jobs.")
        _write_size(found.size, "no jobs" if not found.kinds and not found.silent else "")
    return _code(found.size)


def _kind(kind: Kind, is_exact: bool) -> dict[str, Any]:
    from rqtui.model import State

    return {
        "name": documents.text(kind.name) or None,
        "queue": documents.text(kind.ref.queue),
        "layout": kind.ref.layout,
        "counts": {state.value: kind.counts.get(state, 0) for state in State},
        "exact": is_exact,
        "failed": kind.failed,
        "wait_ms": kind.wait_ms,
        "run_ms": kind.run_ms,
        "oldest_ready_ms": kind.oldest_ready_ms,
    }


def _write_kinds(found: Kinds) -> None:
    from rqtui.model import State
    from rqtui.tui.display import age, duration

    rows = [
        [
            kind.name or "(no kind)",
            kind.ref.queue,
            *(str(kind.counts.get(state, 0)) for state in State),
            str(kind.failed),
            age(kind.wait_ms),
            duration(kind.run_ms),
            age(kind.oldest_ready_ms),
        ]
        for kind in found.kinds
    ]
    titles = ("job", "queue", *(state.value for state in State), "failed", "waits", "runs", "oldest")
    if rows:
        output.write_table(titles, rows, right=titles[2:])


# -- what the two have in common ---------------------------------------------------------------------------------------


def _size(size: Size) -> dict[str, Any]:
    return {"taken_at_ms": size.taken_ms, "looked": size.looked, "of": size.of, "exact": size.is_whole}


def _write_size(size: Size, empty: str) -> None:
    for line in _size_lines(size, empty):
        output.say(line)


def _size_lines(size: Size, empty: str) -> Iterator[str]:
    if size.looked < size.of:
        yield f"a sample: {size.looked} of {size.of} jobs were looked at."
    if size.queues < size.of_queues:
        yield f"{size.queues} of {size.of_queues} queues were looked at; name those that you mean."
    yield from size.problems
    if empty and not size.problems:
        yield f"{empty}."


def _code(size: Size) -> int:
    return REFUSED if size.problems else DONE
