"""Implement `workers`: list the workers of queues and the jobs that each worker holds. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, listen_for_heartbeats, open_engine, report_places_without_events
from rqtui.cli.sampling import describe_silent_systems
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Job, Ref, Worker
    from rqtui.reports.workers import WorkerEntry


def workers(
    session: Session,
    queues: QUEUES = None,
    inspect: Annotated[
        str,
        typer.Option(
            "--inspect", metavar="WORKER", help="Ask this worker for its running jobs, its tasks and its queues."
        ),
    ] = "",
) -> int:
    """Show the workers of queues: the jobs that each worker holds, and its last sign of life.

    Example: rqtui workers mail --json
    """
    from rqtui.reports import workers as report

    engine, refs = open_engine(session, queues)
    if inspect:
        return _inspect_worker(session, engine, refs, inspect)
    seconds = listen_for_heartbeats(engine, refs)
    entries, now_ms, problems = report.load_workers(engine, refs)
    for problem in problems:
        output.print_message(problem)
    if session.as_json:
        output.write_json([_build_worker_document(entry, now_ms) for entry in entries])
    else:
        _write_worker_table(entries, now_ms)
        if not seconds:
            report_places_without_events(engine, refs)
        if silent := describe_silent_systems(engine, refs, "worker"):
            output.print_message(f"{silent} no names of workers.")
        within = f" within {seconds:.1f} s" if seconds else ""
        if not entries:
            output.print_message(f"no worker has given a sign of life{within}, and none holds a job.")
        elif within:
            output.print_message(f"Redis stores no list of these workers: they gave a sign of life{within}.")
    engine.stop_listening()
    return REFUSED if problems else DONE


def _inspect_worker(session: Session, engine: Engine, refs: Sequence[Ref], worker: str) -> int:
    """Send a worker questions about its tasks and queues, and print its replies.

    Return `REFUSED` if replies are missing.
    """
    from rqtui.text import facts
    from rqtui.text.sanitise import safe

    ref = next((ref for ref in refs if engine.systems[ref.system].can("inspect")), None)
    if ref is None:
        titles = [system.name for system in engine.systems.values() if system.can("inspect")]
        candidates = f"those of {', '.join(titles)} do" if titles else "none of the chosen systems' workers do"
        raise UsageError(f"--inspect needs workers that answer questions: {candidates}, and no queue here is theirs.")
    with output.show_progress("waiting for replies"):
        *_before, inspection = engine.inspect_worker(ref, worker)
    if session.as_json:
        output.write_json(
            {
                "worker": documents.mask_job_text(inspection.worker),
                "layout": ref.system,
                "waited_ms": inspection.waited_ms,
                "facts": documents.build_fact_documents(inspection.facts),
                "unknown": list(inspection.missing),
            }
        )
    else:
        output.write_lines([line for fact in inspection.facts for line in facts.build_fact_lines(fact)])
        if inspection.facts:
            output.print_message(f"{safe(worker)} replied within {inspection.waited_ms / 1000:.1f} s.")
    if inspection.problem:
        output.print_message(f"{inspection.problem}.")
    return REFUSED if inspection.missing else DONE


def _build_worker_document(entry: WorkerEntry, now_ms: int) -> dict[str, Any]:
    """Build the JSON document of a worker. Values from its heartbeat are null if it never sent one."""
    from rqtui.model import Worker
    from rqtui.reports.workers import UNHEALTHY

    worker, has_heartbeat = entry.worker or Worker(entry.name, entry.ref.queue, 0, 0), entry.worker is not None
    return {
        "worker": documents.mask_job_text(worker.name) or "",
        **documents.build_queue_fields(entry.ref.queue),
        "queues": [documents.encode_text(queue) for queue in entry.queues],
        "layout": entry.ref.system,
        "beat_at_ms": worker.heartbeat_ms or None,
        "ttl_ms": worker.ttl_ms if has_heartbeat else None,
        "late": worker.is_late(now_ms) if has_heartbeat else entry.health in UNHEALTHY,
        "order": worker.order if has_heartbeat else None,
        "started_at_ms": worker.started_ms,
        "pid": worker.pid or None,
        "host": documents.encode_text(worker.host) or None,
        "job": documents.encode_text(worker.job) or None,
        "state": entry.health.value,
        "system_state": documents.mask_job_text(worker.state),
        "facts": documents.build_fact_documents(worker.facts),
        "held": [_build_held_job_document(job) for job in entry.jobs],
        "exact": entry.is_whole and not entry.has_unknown_jobs,
    }


def _format_heartbeat(worker: Worker | None, now_ms: int) -> str:
    """Format how long ago a worker sent its last heartbeat; `never` for a missing worker."""
    from rqtui.text.formats import format_age

    if worker is None:
        return "never"
    return f"{format_age(now_ms - worker.heartbeat_ms)} ago" if worker.heartbeat_ms else "not known"


def _build_held_job_document(job: Job) -> dict[str, Any]:
    """Build the JSON document of a job that a worker holds."""
    return {
        **documents.build_id_fields(job.id),
        "name": documents.mask_job_text(job.name),
        "reserved_at_ms": job.reserved_ms,
        "deadline_at_ms": job.deadline_ms,
    }


def _write_worker_table(entries: Iterable[WorkerEntry], now_ms: int) -> None:
    from rqtui.reports.workers import choose_fact_names, format_worker_fact
    from rqtui.text.formats import NONE, format_age, shorten_job_id
    from rqtui.text.masking import mask_text
    from rqtui.text.sanitise import safe

    rows, listed = [], list(entries)
    names = choose_fact_names(listed)
    for entry in listed:
        job, worker = entry.job, entry.worker
        job_count = len(entry.jobs)
        reported_id = worker.job if worker else b""  # empty if the worker reports no job
        rows.append(
            [
                entry.health.value,
                mask_text(entry.name),
                ", ".join(entry.queues),
                entry.ref.system,
                "?" if entry.has_unknown_jobs else str(job_count),
                *(format_worker_fact(entry, name) or NONE for name in names),
                mask_text(job.name) if job else "",
                shorten_job_id(job.id if job else reported_id, 48) if job or reported_id else "",
                "" if entry.since_ms is None else format_age(now_ms - entry.since_ms),
                _format_heartbeat(worker, now_ms),
                " @ ".join(part for part in (worker.pid, worker.host) if part) if worker else "",
            ]
        )
    titles = (
        "state",
        "worker",
        "queue",
        "system",
        "holds",
        *map(safe, names),
        "job",
        "id",
        "for",
        "heartbeat",
        "pid @ host",
    )
    if rows:
        output.write_table(titles, rows, right=("holds", "for", "heartbeat"))
