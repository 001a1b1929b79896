"""Planning: `act --dry-run` says what would be asked for, and counts it by place, error and age; nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqtui import verbs
from rqtui.commands import documents, output, telling
from rqtui.commands.asking import Request
from rqtui.commands.session import Session

if TYPE_CHECKING:
    from rqtui.engine import Engine
    from rqtui.model import Job
    from rqtui.reports.plans import Plan
    from rqtui.scripts import Script


def write(session: Session, engine: Engine, request: Request, script: Script, jobs: Sequence[Job]) -> int:
    """The answers that the jobs would get as far as anybody can say, and the counts."""
    from rqtui import undo
    from rqtui.model import Outcome
    from rqtui.reports import plans

    layout = engine.layouts[request.ref.layout]

    def would(job: Job) -> Outcome:
        if not job.place:
            return telling.gone(script, job)
        if not layout.can(script.name, job.place):
            return Outcome(script.name, job.id, "wrong_place", f"it is {job.place}, where {script.name} takes none")
        return Outcome(script.name, job.id, "would", f"it is {job.place}; {script.name} would be asked for")

    there = [job for job in jobs if job.place]
    *_steps, plan = plans.of_jobs(engine, [(request.ref, there)])
    undoing = undo.words(layout, script.name, len(there), there[0].place if there else "", by=undo.COMMAND)
    extra = {"dry_run": True, "plan": document(plan, undoing), "lost": verbs.verb(script.name).lost or None}
    if not session.as_json:
        _write_counts(plan, undoing)
    return telling.write(session, request.ref, script, [would(job) for job in jobs], 0, extra=extra)


def document(plan: Plan, undoing: str) -> dict[str, Any]:
    """The counts of a dry run; `about_ms` is how long it will take, as far as one look tells."""
    return {
        "total": plan.total,
        "looked_at": plan.looked,
        "exact": plan.exact,
        "by_queue": [{"queue": documents.text(ref.queue), "count": number} for ref, number in plan.by_queue],
        "by_place": [{"place": place, "count": number} for place, number in plan.by_place],
        "by_error": [{"error": documents.text(error), "count": number} for error, number in plan.by_error],
        "by_age": [{"age": age, "count": number} for age, number in plan.by_age],
        "samples": [documents.id_fields(job.id) for job in plan.samples],
        "about_ms": None if plan.seconds is None else round(plan.seconds * 1000),
        "undo": undoing,
    }


def _write_counts(plan: Plan, undoing: str) -> None:
    counts = [("place", plan.by_place), ("error", plan.by_error), ("age", plan.by_age)]
    rows = [[label, words, str(number)] for label, counted in counts for words, number in counted]
    if rows:
        output.write_table(("by", "what", "jobs"), rows, right=("jobs",))
    output.say(f"dry run: {plan.total} jobs; {undoing}.")
