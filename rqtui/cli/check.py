"""Implement `check`: find jobs that are not in exactly one place; `--repair` repairs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import documents, findings, output
from rqtui.cli.arguments import QUEUE, build_job_stub, report_unknown_queue
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import UsageError, WrongType

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Finding, Ref
    from rqtui.system_base.system import System

STEP = 500  # ids checked per round trip
_SENTENCES = {
    "two-places": ("critical", "it stands in {where}"),
    "no-place": ("critical", "it has a record, but stands in no place: nobody will run it"),
    "corrupt-record": ("critical", "its record or its line of attempts cannot be read"),
    "orphan-line": ("warning", "{where} holds a line of a job that is not there"),
}


def check(
    session: Session,
    queue: QUEUE,
    repair: Annotated[bool, typer.Option("--repair", help="Repair these jobs.")] = False,
) -> int:
    """Check a queue for jobs in two places or in none; --repair repairs them.

    Example: rqtui check mail --repair
    """
    if repair:
        session.refuse_if_read_only("check --repair")
    engine = session.create_engine()
    ref = engine.resolve_or_discover(queue)
    checked, remaining = _check_queue(engine, ref)
    repairs: list[Finding] = []
    if repair and remaining:
        repairs, repaired_ids = remaining, _repair(engine, ref, remaining)
        checked, remaining = _check_queue(engine, ref)
        repairs = [finding for finding in repairs if finding.ids[0] in repaired_ids]
    words = engine.format_argument(ref)
    repaired = len({id for finding in repairs for id in finding.ids})
    if session.as_json:
        document = {
            **documents.build_queue_fields(ref.queue),
            "checked": checked,
            "findings": [findings.build_document(finding, words, ref.system) for finding in remaining],
            "repaired": repaired,
        }
        if repair:
            document["mended"] = [findings.build_document(finding, words, ref.system) for finding in repairs]
        output.write_json(document)
    else:
        from rqtui.text.formats import format_quantity

        done = f", {repaired} repaired" if repair else ""
        output.write_lines(
            [
                f"{format_quantity(checked, 'job')} looked at{done}, {len(remaining)} left to repair",
                *findings.format_findings(remaining, words),
            ]
        )
    return REFUSED if remaining else DONE


def _check_queue(engine: Engine, ref: Ref) -> tuple[int, list[Finding]]:
    """Read all keys of a queue in bounded steps and return (number of jobs checked, findings)."""
    from rqtui.model import Focus

    system = engine.systems[ref.system]
    places = {place.name for place in system.places}
    counted = engine.take_snapshot(Focus(queues=(ref,))).queues[0]
    if counted.error:
        raise WrongType(counted.error)
    report_unknown_queue(engine, counted)
    checked, found_findings = 0, {}
    with output.show_progress("checking", sum(count.count for count in counted.counts)) as bar:
        for walked, number, rows in _iterate_steps(engine, ref):
            if walked in places:
                checked += number
                bar.step(number)
            for id, kind, where in rows:
                finding = _build_finding(system, ref, id, kind.replace("_", "-"), where, engine.format_argument(ref))
                found_findings[id, finding.kind] = finding  # SCAN may show an entry twice
    return checked, list(found_findings.values())


def _iterate_steps(engine: Engine, ref: Ref) -> Iterator[tuple[str, int, list[tuple[bytes, str, str]]]]:
    """Yield (walk name, jobs checked, faulty rows) of each call of the `check` script."""
    from rqtui.scripts import script as scripts

    system = engine.systems[ref.system]
    if "check" not in system.scripts:
        raise UsageError(f"the system {system.name} has no check; rqtui health looks for its faults.")
    walk, cursor = system.script("check").keys[0].name, "0"
    while True:
        call = system.build_call("check", ref.queue, {"walk": walk, "cursor": cursor, "limit": STEP})
        answer = scripts.run_call(engine.client, call)
        yield walk, answer.values["checked"], answer.rows
        if answer.word == "end":
            return
        walk, cursor = answer.values["walk"], answer.values["cursor"]


def _build_finding(system: System, ref: Ref, id: bytes, kind: str, where: str, words: str) -> Finding:
    """Return the finding of one faulty job."""
    from rqtui.model import Finding

    severity, sentence = _SENTENCES.get(kind, ("warning", kind))
    keys = system.keys(ref.queue)
    names = where.split()
    return Finding(
        kind,
        severity,
        ref.queue,
        sentence.format(where=" and ".join(names)),
        f"rqtui check {words} --repair",
        tuple(keys.get(name, name) for name in names),
        (id,),
    )


def _repair(engine: Engine, ref: Ref, found_findings: Sequence[Finding]) -> set[bytes]:
    """Repair the jobs of the findings and return the ids of those that were repaired."""
    ids = list(dict.fromkeys(id for finding in found_findings for id in finding.ids))
    repaired: set[bytes] = set()
    with output.show_progress("mending", len(ids)) as bar:
        for outcomes in engine.yield_verb_steps("repair", ref, [build_job_stub(ref, id) for id in ids]):
            repaired |= {outcome.id for outcome in outcomes if outcome.moved}
            bar.step(len(outcomes))
    return repaired
