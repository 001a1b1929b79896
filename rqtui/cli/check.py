"""`check`: is each job in exactly one place? With `--repair` it repairs the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import documents, findings, output
from rqtui.cli.arguments import QUEUE, note_if_unknown, stranger
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import UsageError, WrongType

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.layout.layout import Layout
    from rqtui.model import Finding, Ref

STEP = 500  # ids looked at per round trip
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
    engine = session.engine()
    ref = engine.seek(queue)
    checked, found = _walk(engine, ref)
    mended: list[Finding] = []
    if repair and found:
        mended, repaired_ids = found, _repair(engine, ref, found)
        checked, found = _walk(engine, ref)
        mended = [finding for finding in mended if finding.ids[0] in repaired_ids]
    words = engine.words(ref)
    repaired = len({id for finding in mended for id in finding.ids})
    if session.as_json:
        document = {
            **documents.queue_fields(ref.queue),
            "checked": checked,
            "findings": [findings.document(finding, words, ref.layout) for finding in found],
            "repaired": repaired,
        }
        if repair:
            document["mended"] = [findings.document(finding, words, ref.layout) for finding in mended]
        output.write_json(document)
    else:
        from rqtui.text.formats import numbered

        done = f", {repaired} repaired" if repair else ""
        output.write_lines(
            [
                f"{numbered(checked, 'job')} looked at{done}, {len(found)} left to repair",
                *findings.sentences(found, words),
            ]
        )
    return REFUSED if found else DONE


def _walk(engine: Engine, ref: Ref) -> tuple[int, list[Finding]]:
    """Everything in a queue's keys, a bounded step per round trip: (jobs looked at, findings)."""
    from rqtui.model import Focus

    layout = engine.layouts[ref.layout]
    places = {place.name for place in layout.places}
    counted = engine.snapshot(Focus(queues=(ref,))).queues[0]
    if counted.error:
        raise WrongType(counted.error)
    note_if_unknown(counted)
    checked, found = 0, {}
    with output.progress("checking", sum(count.count for count in counted.counts)) as bar:
        for walked, number, rows in _steps(engine, ref):
            if walked in places:
                checked += number
                bar.step(number)
            for id, kind, where in rows:
                finding = _finding(layout, ref, id, kind.replace("_", "-"), where, engine.words(ref))
                found[id, finding.kind] = finding  # SCAN may show an entry twice
    return checked, list(found.values())


def _steps(engine: Engine, ref: Ref) -> Iterator[tuple[str, int, list[tuple[bytes, str, str]]]]:
    from rqtui.scripts import script as scripts

    layout = engine.layouts[ref.layout]
    if "check" not in layout.scripts:
        raise UsageError(f"the layout {layout.name} has no check; rqtui health looks for its faults.")
    walk, cursor = layout.script("check").keys[0].name, "0"
    while True:
        call = layout.call("check", ref.queue, {"walk": walk, "cursor": cursor, "limit": STEP})
        answer = scripts.run(engine.client, call)
        yield walk, answer.values["checked"], answer.rows
        if answer.word == "end":
            return
        walk, cursor = answer.values["walk"], answer.values["cursor"]


def _finding(layout: Layout, ref: Ref, id: bytes, kind: str, where: str, words: str) -> Finding:
    from rqtui.model import Finding

    severity, sentence = _SENTENCES.get(kind, ("warning", kind))
    keys = layout.keys(ref.queue)
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


def _repair(engine: Engine, ref: Ref, found: Sequence[Finding]) -> set[bytes]:
    """Repairs jobs by id; the ids that were repaired."""
    ids = list(dict.fromkeys(id for finding in found for id in finding.ids))
    mended: set[bytes] = set()
    with output.progress("mending", len(ids)) as bar:
        for outcomes in engine.acts("repair", ref, [stranger(ref, id) for id in ids]):
            mended |= {outcome.id for outcome in outcomes if outcome.moved}
            bar.step(len(outcomes))
    return mended
