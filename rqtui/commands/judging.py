"""`health`, `check`, `layouts`: is all well, is each job in exactly one place, and which systems does rqtui speak?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.commands import documents, output
from rqtui.commands.looking import QUEUE, QUEUES, note_if_unknown
from rqtui.commands.session import DONE, REFUSED, Session, command
from rqtui.errors import RqtuiError, UsageError, WrongType

if TYPE_CHECKING:
    from rqtui.engine import Engine
    from rqtui.layout import Layout
    from rqtui.model import Finding, Ref

UNKNOWN = 3
HEALTH_CODES = {"ok": 0, "warning": 1, "critical": 2, "unknown": UNKNOWN}
STEP = 500  # ids looked at per round trip
_SENTENCES = {
    "two-places": ("critical", "it stands in {where}"),
    "no-place": ("critical", "it has a record, but stands in no place: nobody will run it"),
    "corrupt-record": ("critical", "its record or its line of attempts cannot be read"),
    "orphan-line": ("warning", "{where} holds a line of a job that is not there"),
}


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    command(app, "health", failure=UNKNOWN)(health)
    command(app, "check")(check)
    command(app, "layouts")(layouts)


def health(session: Session, queues: QUEUES = None) -> int:
    """Is all well? Exit 0 fine, 1 warning, 2 critical, 3 unknown.

    Example: rqtui health mail --json
    """
    from rqtui import health as judge
    from rqtui.model import Focus, Ref

    try:
        engine = session.engine(discover=not queues)
        counted = engine.snapshot(Focus(queues=tuple(session.queues(engine, queues or ()))))
        server = judge.server_findings(engine.client)
    except RqtuiError:
        if session.as_json:
            output.write_json({"severity": "unknown", "findings": []})
        raise
    for queue in counted.queues if queues else ():
        note_if_unknown(queue)
    refs = [Ref(queue.layout, queue.name) for queue in counted.queues]
    severity = judge.severity([*server, *(finding for queue in counted.queues for finding in queue.findings)])
    pairs = [(ref, queue.findings) for ref, queue in zip(refs, counted.queues, strict=True)]
    if session.as_json:
        found = [documents.finding(one, engine.words(ref), ref.layout) for ref, each in pairs for one in each]
        found += [documents.finding(one, "") for one in server]
        output.write_json({"severity": severity, "findings": found})
    else:
        lines = [line for ref, each in pairs for line in _sentences(each, engine.words(ref))]
        output.write_lines([severity, *lines, *_sentences(server, "")])
    return HEALTH_CODES[severity]


def _sentences(found: Sequence[Finding], words: str) -> list[str]:
    from rqtui.tui.display import safe

    lines = []
    for finding in found:
        ids = "".join(f" {safe(id)}:" for id in finding.ids)
        where = f"{finding.queue}: " if finding.queue else ""
        todo = documents.remedy(finding, words)
        text = f"{safe(where)}{ids} {safe(finding.text)}".replace("  ", " ").strip()
        lines.append(f"{finding.severity:<8}  {text}{f' · {safe(todo)}' if todo else ''}")
    return lines


def check(
    session: Session,
    queue: QUEUE,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what is found.")] = False,
) -> int:
    """Look for jobs in two places or in none, and mend them.

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
            "queue": documents.text(ref.queue),
            "checked": checked,
            "findings": [documents.finding(finding, words, ref.layout) for finding in found],
            "repaired": repaired,
        }
        if repair:
            document["mended"] = [documents.finding(finding, words, ref.layout) for finding in mended]
        output.write_json(document)
    else:
        mended_note = f", {repaired} mended" if repair else ""
        output.write_lines(
            [f"{checked} jobs looked at{mended_note}, {len(found)} left to mend", *_sentences(found, words)]
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
    from rqtui import scripts

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
    """Mends by id; the ids that were mended."""
    from rqtui.commands.acting import stranger

    ids = list(dict.fromkeys(id for finding in found for id in finding.ids))
    mended: set[bytes] = set()
    with output.progress("mending", len(ids)) as bar:
        for outcomes in engine.acts("repair", ref, [stranger(ref, id) for id in ids]):
            mended |= {outcome.id for outcome in outcomes if outcome.moved}
            bar.step(len(outcomes))
    return mended


def layouts(session: Session) -> int:
    """The systems that rqtui speaks; needs no Redis.

    Example: rqtui layouts --json
    """
    from rqtui import layouts, unspoken

    documents_ = [_layout(layouts.make(name)) for name in layouts.names()]
    if session.as_json:
        output.write_json(documents_)
        return DONE
    for document in documents_:
        places = ", ".join(place["place"] for place in document["places"])
        output.write_lines([f"{document['layout']}: {places}"])
        moves = [
            [name, " ".join(verb["from"]), " ".join(verb["to"]), verb["text"]]
            for name, verb in document["verbs"].items()
        ]
        output.write_table(("verb", "from", "to", "does"), moves)
    titles = ", ".join(system.title for system in unspoken.SYSTEMS)
    output.write_lines([f"known by sight, and not spoken yet: {titles}"])
    return DONE


def _layout(layout: Layout) -> dict[str, Any]:
    from rqtui.layout import sources, targets

    return {
        "layout": layout.name,
        "places": [
            {
                "place": place.name,
                "state": place.state.value,
                "key": place.key,
                "type": place.type,
                "score": place.score,
            }
            for place in layout.places
        ],
        "verbs": {
            name: {"from": list(sources(script)), "to": list(targets(script)), "text": script.summary}
            for name, script in layout.scripts.items()
            if not script.read_only
        },
        "options": dict(layout.options),
    }
