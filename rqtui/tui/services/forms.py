"""Forms: the values of a verb's form for a target: the scripts that get them, and what they would refuse."""

from __future__ import annotations

from collections.abc import Sequence

from rqtui.errors import UsageError
from rqtui.model import Ref
from rqtui.text.sanitise import safe
from rqtui.tui.services import verb_resolution
from rqtui.tui.services.verb_resolution import Values
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.widgets import questions
from rqtui.verbs import Verb


def total(session: Session, target: Target) -> int:
    """How many jobs or workers a verb would be done to."""
    snapshot = session.snapshot
    page = snapshot.page(target.ref, target.place) if snapshot and target.ref else None
    if target.whole and page:
        return page.in_all
    return len(target.jobs) or len(target.workers)


def is_exact(session: Session, target: Target) -> bool:
    """Whether that number is counted: of a whole place that others share it is an estimate where it is long."""
    page = session.snapshot.page(target.ref, target.place) if session.snapshot and target.ref else None
    if not target.whole or page is None or page.of is None or target.ref is None:
        return True
    return not session.layouts[target.ref.layout].is_shared(target.place)


def parts(session: Session, verb: Verb, target: Target, values: Values) -> list[tuple[str, Ref, Values]]:
    """(script, queue, form) for each script that a form is for."""
    values = dict(values)
    queue = values.pop("queue", None)
    same = target.ref is not None and queue in (target.ref.queue, safe(target.ref.queue))
    ref = target.ref if queue is None or same else session.find(str(queue))
    ref = ref or session.find(verb_resolution.QUEUE_FIELD.default)
    system = session.layouts[ref.layout]
    return [
        (name, ref, verb_resolution.completed(system, name, target, form))
        for name, form in verb_resolution.by_verb(system, verb, values)
    ]


def check(session: Session, verb: Verb, target: Target, values: Values) -> None:
    """Raises, in words, what no script would take; nothing is sent."""
    made = parts(session, verb, target, values)
    if not made:
        raise UsageError("fill in at least one field.")
    sample = target.jobs[:1]
    if target.whole and target.ref and session.snapshot:
        page = session.snapshot.page(target.ref, target.place)
        sample = page.jobs[:1] if page else ()
    for name, ref, form in made:
        if verb.scope != "worker" and (sample or verb.scope != "job"):
            session.layouts[ref.layout].act_asks(name, ref.queue, sample, form)


def undo_words(session: Session, verb: Verb, ref: Ref, count: int, place: str) -> str:
    """Whether `z` undoes the change, in words."""
    problem = session.keeper.checked() if session.keeper else "nothing is kept in this session"
    return questions.undo_words(session.layouts[ref.layout], verb, count, place, problem)


def word_to_type(session: Session, verb: Verb, refs: Sequence[Ref]) -> str:
    """What has to be typed before a dangerous verb in a guarded profile: the queue's name; of several, the verb."""
    if not (verb.danger and session.settings.is_guarded and refs):
        return ""
    return safe(refs[0].queue) if len(refs) == 1 else verb.name
