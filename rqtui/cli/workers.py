"""`workers`: the workers of the queues, and the jobs that each holds. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, engine_for, note_if_unheard
from rqtui.cli.sampling import silent_systems
from rqtui.cli.session import DONE, REFUSED, Session

if TYPE_CHECKING:
    from rqtui.model import Job, Worker
    from rqtui.reports.workers import Seat


def workers(session: Session, queues: QUEUES = None) -> int:
    """The workers of the queues: the jobs that each holds, and its last sign of life.

    Example: rqtui workers mail --json
    """
    from rqtui.reports import workers as report

    engine, refs = engine_for(session, queues)
    seats, now_ms, problems = report.report(engine, refs)
    for problem in problems:
        output.say(problem)
    if session.as_json:
        output.write_json([_worker(seat, now_ms) for seat in seats])
    else:
        _write_workers(seats, now_ms)
        note_if_unheard(engine, refs)
        if silent := silent_systems(engine, refs, "worker"):
            output.say(f"{silent} no names of workers.")
        if not seats:
            output.say("no worker has given a sign of life, and none holds a job.")
    return REFUSED if problems else DONE


def _worker(seat: Seat, now_ms: int) -> dict[str, Any]:
    """A worker of `workers`; what only its own sign of life tells is null where it never gave one."""
    from rqtui.model import Worker
    from rqtui.reports.workers import TROUBLED

    worker, beats = seat.worker or Worker(seat.name, seat.ref.queue, 0, 0), seat.worker is not None
    return {
        "worker": documents.text(worker.name),
        **documents.queue_fields(seat.ref.queue),
        "queues": [documents.text(queue) for queue in seat.queues],
        "layout": seat.ref.layout,
        "beat_at_ms": worker.beat_ms or None,
        "ttl_ms": worker.ttl_ms if beats else None,
        "late": worker.is_late(now_ms) if beats else seat.standing in TROUBLED,
        "order": worker.order if beats else None,
        "started_at_ms": worker.started_ms,
        "pid": worker.pid or None,
        "host": documents.text(worker.host) or None,
        "job": documents.text(worker.job) or None,
        "state": seat.standing.value,
        "system_state": documents.text(worker.state) or None,
        "facts": documents.facts(worker.facts),
        "held": [_held(job) for job in seat.jobs],
        "exact": seat.is_whole,
    }


def _beat(worker: Worker | None, now_ms: int) -> str:
    """How long ago its last beat was."""
    from rqtui.text.formats import age

    if worker is None:
        return "never"
    return f"{age(now_ms - worker.beat_ms)} ago" if worker.beat_ms else "not known"


def _held(job: Job) -> dict[str, Any]:
    return {
        **documents.id_fields(job.id),
        "name": documents.text(job.name) or None,
        "reserved_at_ms": job.reserved_ms,
        "deadline_at_ms": job.deadline_ms,
    }


def _write_workers(seats: Iterable[Seat], now_ms: int) -> None:
    from rqtui.reports.workers import fact, fact_names
    from rqtui.text.formats import ZERO, age, job_id
    from rqtui.text.sanitise import safe

    rows, found = [], list(seats)
    names = fact_names(found)
    for seat in found:
        job, worker = seat.job, seat.worker
        held = len(seat.jobs)
        told = worker.job if worker else b""  # empty where it says nothing of a job
        rows.append(
            [
                seat.standing.value,
                seat.name,
                ", ".join(seat.queues),
                seat.ref.layout,
                str(held),
                *(fact(seat, name) or ZERO for name in names),
                job.name if job else "",
                job_id(job.id if job else told, 48) if job or told else "",
                "" if seat.since_ms is None else age(now_ms - seat.since_ms),
                _beat(worker, now_ms),
                " @ ".join(part for part in (worker.pid, worker.host) if part) if worker else "",
            ]
        )
    titles = (
        "state",
        "worker",
        "queue",
        "layout",
        "holds",
        *map(safe, names),
        "job",
        "id",
        "for",
        "last beat",
        "pid @ host",
    )
    if rows:
        output.write_table(titles, rows, right=("holds", "for", "last beat"))
