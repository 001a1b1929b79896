"""Implement `check`: find jobs that are not in exactly one place; `--repair` repairs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import documents, findings, output
from rqtui.cli.arguments import QUEUE, build_job_of_id, report_unknown_queue
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import UsageError, WrongType

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Finding, Ref
    from rqtui.system_base.system import System

STEP = 500  # ids checked per round trip
_SENTENCES = {
    "two-places": ("critical", "it is in {where}"),
    "no-place": ("critical", "it has a record, but is in no place: no worker will run it"),
    "corrupt-record": ("critical", "its record or its line of attempts cannot be read"),
    "orphan-line": ("warning", "{where} has a line of a job that does not exist"),
}


def check(
    session: Session,
    queue: QUEUE,
    repair: Annotated[bool, typer.Option("--repair", help="Repair the jobs that were found.")] = False,
) -> int:
    """Find the jobs of a queue that are in two places or in none; --repair repairs them.

    Example: rqtui check mail --repair
    """
    if repair:
        session.refuse_if_read_only("check --repair")
    engine = session.create_engine()
    ref = engine.resolve_or_discover(queue)
    checked, remaining, now_ms = _find_misplaced_jobs(engine, ref)
    repairs: list[Finding] = []
    if repair and remaining:
        repairs, repaired_ids = remaining, _repair_jobs(engine, ref, remaining)
        checked, remaining, now_ms = _find_misplaced_jobs(engine, ref)
        repairs = [finding for finding in repairs if finding.ids[0] in repaired_ids]
    queue_argument = engine.format_argument(ref)
    repaired = len({id for finding in repairs for id in finding.ids})
    if session.as_json:
        document = {
            **documents.build_queue_fields(ref.queue),
            "checked": checked,
            "findings": [
                findings.build_finding_document(finding, queue_argument, ref.system, now_ms) for finding in remaining
            ],
            "repaired": repaired,
        }
        if repair:
            document["mended"] = [
                findings.build_finding_document(finding, queue_argument, ref.system, now_ms) for finding in repairs
            ]
        output.write_json(document)
    else:
        from rqtui.text.formats import format_quantity

        repaired_text = f", {repaired} repaired" if repair else ""
        output.write_lines(
            [
                f"{format_quantity(checked, 'job')} checked{repaired_text}, {len(remaining)} left to repair",
                *findings.format_findings(remaining, queue_argument, now_ms),
            ]
        )
    return REFUSED if remaining else DONE


def _find_misplaced_jobs(engine: Engine, ref: Ref) -> tuple[int, list[Finding], int]:
    """Search all keys of a queue for jobs that are in two places or in none.

    Reads a bounded number of jobs per step. Returns the number of jobs read, and a finding per misplaced job.
    """
    from rqtui.model import Focus

    system = engine.systems[ref.system]
    places = {place.name for place in system.places}
    counted = engine.take_snapshot(Focus(queues=(ref,))).queues[0]
    if counted.error:
        raise WrongType(counted.error)
    report_unknown_queue(engine, counted)
    checked, found_findings = 0, {}
    with output.show_progress("checking", sum(count.count for count in counted.counts)) as bar:
        for walked, number, rows in _iterate_check_calls(engine, ref):
            if walked in places:
                checked += number
                bar.add_steps(number)
            for id, kind, where in rows:
                finding = _build_job_finding(
                    system, ref, id, kind.replace("_", "-"), where, engine.format_argument(ref)
                )
                found_findings[id, finding.kind] = finding  # SCAN may show an entry twice
    return checked, list(found_findings.values()), counted.counted_ms


def _iterate_check_calls(engine: Engine, ref: Ref) -> Iterator[tuple[str, int, list[tuple[bytes, str, str]]]]:
    """Call the `check` script repeatedly, and yield (walk name, jobs checked, rows of misplaced jobs) of each call."""
    from rqtui.scripts import script as scripts

    system = engine.systems[ref.system]
    if "check" not in system.scripts:
        raise UsageError(f"the system {system.name} has no check; rqtui health reports its problems.")
    walk, cursor = system.script("check").keys[0].name, "0"
    while True:
        call = system.build_call("check", ref.queue, {"walk": walk, "cursor": cursor, "limit": STEP})
        reply = scripts.run_call(engine.client, call)
        yield walk, reply.values["checked"], reply.rows
        if reply.word == "end":
            return
        walk, cursor = reply.values["walk"], reply.values["cursor"]


def _build_job_finding(system: System, ref: Ref, id: bytes, kind: str, places: str, queue_argument: str) -> Finding:
    """Build the finding of one job that is in two places or in none."""
    from rqtui.model import Finding

    severity, sentence = _SENTENCES.get(kind, ("warning", kind))
    keys = system.keys(ref.queue)
    names = places.split()
    return Finding(
        kind,
        severity,
        ref.queue,
        sentence.format(where=" and ".join(names)),
        f"rqtui check {queue_argument} --repair",
        tuple(keys.get(name, name) for name in names),
        (id,),
    )


def _repair_jobs(engine: Engine, ref: Ref, found_findings: Sequence[Finding]) -> set[bytes]:
    """Repair the jobs that the findings name, and return the ids of the repaired jobs."""
    ids = list(dict.fromkeys(id for finding in found_findings for id in finding.ids))
    repaired: set[bytes] = set()
    with output.show_progress("mending", len(ids)) as bar:
        for outcomes in engine.yield_verb_steps("repair", ref, [build_job_of_id(ref, id) for id in ids]):
            repaired |= {outcome.id for outcome in outcomes if outcome.moved}
            bar.add_steps(len(outcomes))
    return repaired
