"""Compute the values of a verb's form for a target: job totals, scripts with arguments, and validation."""

from __future__ import annotations

from collections.abc import Sequence

from rqtui.errors import UsageError
from rqtui.model import Page, Ref
from rqtui.text.sanitise import safe
from rqtui.tui.services import verb_resolution
from rqtui.tui.services.verb_resolution import Values
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.widgets import question_text
from rqtui.verbs import Verb


def count_targets(session: Session, target: Target) -> int:
    """Return the number of jobs or workers that a verb would change."""
    page = _find_page(session, target)
    return page.job_count if page else len(target.jobs) or len(target.workers)


def is_target_count_exact(session: Session, target: Target) -> bool:
    """Return whether the number of jobs that a verb would change is counted.

    It is an estimate for a long place that several queues share.
    """
    page = _find_page(session, target)
    if page is None or page.place_total is None:
        return True
    return not session.systems[page.system].is_shared(page.place)


def _find_page(session: Session, target: Target) -> Page | None:
    """Return the page that the last snapshot read from the place of a target, if the target is a whole place."""
    if session.snapshot is None or target.ref is None or not target.is_whole_place:
        return None
    return session.snapshot.find_page(target.ref, target.place)


def build_script_forms(session: Session, verb: Verb, target: Target, values: Values) -> list[tuple[str, Ref, Values]]:
    """Split the values of a verb's form by script. Return (script name, queue, arguments) for each script to run."""
    values = dict(values)
    queue = values.pop("queue", None)
    is_target_queue = target.ref is not None and queue in (target.ref.queue, safe(target.ref.queue))
    ref = target.ref if queue is None or is_target_queue else session.find(str(queue))
    ref = ref or session.find(verb_resolution.QUEUE_FIELD.default)
    system = session.systems[ref.system]
    return [
        (name, ref, verb_resolution.complete_script_arguments(system, name, target, form))
        for name, form in verb_resolution.group_values_by_script(system, verb, values)
    ]


def validate_form(session: Session, verb: Verb, target: Target, values: Values) -> None:
    """Raise UsageError with an error message if no script would accept the form's values. Nothing is sent."""
    script_forms = build_script_forms(session, verb, target, values)
    if not script_forms:
        raise UsageError("fill in at least one field.")
    page = _find_page(session, target)
    sample = page.jobs[:1] if page else target.jobs[:1]
    for name, ref, form in script_forms:
        if verb.scope != "worker" and (sample or verb.scope != "job"):
            session.systems[ref.system].verb_requests(name, ref.queue, sample, form)


def describe_undo_of_verb(session: Session, verb: Verb, ref: Ref, count: int, place: str) -> str:
    """Return a sentence on whether `z` can undo a verb on `count` jobs."""
    problem = session.keeper.check_problem() if session.keeper else "nothing is kept in this session"
    return question_text.describe_undo_of_change(session.systems[ref.system], verb, count, place, problem)


def choose_guard_word(session: Session, verb: Verb, refs: Sequence[Ref]) -> str:
    """Return the word that a user must type before a dangerous verb in a guarded profile.

    The word is the queue's name, or the verb for several queues. It is empty if no word is needed.
    """
    if not (verb.is_dangerous and session.settings.is_guarded and refs):
        return ""
    return safe(refs[0].queue) if len(refs) == 1 else verb.name
