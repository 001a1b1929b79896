"""What `act` answers: a document, or a table and a sentence, after a dry run with counts; and the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqtui import verbs
from rqtui.cli import documents, output
from rqtui.cli.session import DONE, REFUSED, Session

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Job, Outcome, Ref
    from rqtui.reports.plans import Plan
    from rqtui.scripts.script import Script

ALREADY = frozenset({"already", "done", "empty", "exists", "fine"})  # not done now, since it is so: a success


def gone(script: Script, job: Job) -> Outcome:
    """The answer about a job that nobody sees, in the script's words where it has some."""
    from rqtui.model import Outcome

    said = script.returns.get("gone")
    return Outcome(script.name, job.id, "gone", said.text if said else "no such job")


def nothing(script: Script) -> Outcome:
    """The answer of a purge that found nothing, in the script's words."""
    from rqtui.model import Outcome

    return Outcome(script.name, b"", "empty", script.returns["empty"].text)


def document(ref: Ref, script: Script, moved: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    """What `act` answers."""
    return {"verb": script.name, **documents.queue_fields(ref.queue), "moved": moved, "results": results}


def write(
    session: Session,
    ref: Ref,
    script: Script,
    outcomes: Sequence[Outcome],
    moved: int,
    extra: dict[str, Any] | None = None,
) -> int:
    """Writes the answers, and gives the exit code: 0 when what was asked for is so, now or before."""
    succeeded = {script.done_word, "would", *ALREADY}
    if session.as_json:
        output.write_json({**document(ref, script, moved, documents.outcomes(outcomes)), **(extra or {})})
    else:
        if len(outcomes) <= 50:  # a screenful
            is_of_jobs = any(column.name in ("id", "member") for column in script.each)
            rows = [[documents.label(o.id) if is_of_jobs or o.id else ref.queue, o.word, _meaning(o)] for o in outcomes]
            output.write_table(("id", "answer", "meaning"), rows)
        words = Counter(outcome.word for outcome in outcomes)
        if moved > words[script.done_word]:  # a verb on a place answers once for all of them
            words = Counter({script.done_word: moved})
        output.say(
            f"{script.name}: " + (" · ".join(f"{number} {word}" for word, number in words.items()) or "no job matches")
        )
    return DONE if all(outcome.word in succeeded for outcome in outcomes) else REFUSED


def _meaning(outcome: Outcome) -> str:
    """The words of an answer, and the token of the lease from now on, where it tells one."""
    token = outcome.values.get("token")
    return (
        f"{outcome.text}; token {documents.text(token)}" if isinstance(token, str | bytes) and token else outcome.text
    )


# ── of a dry run ──────────────────────────────────────────────────────────────────────────────────────────────────


def write_dry_run(session: Session, engine: Engine, ref: Ref, script: Script, jobs: Sequence[Job]) -> int:
    """The answers that the jobs would get as far as anybody can say, and the counts."""
    from rqtui.model import Outcome
    from rqtui.operations import undo
    from rqtui.reports import plans

    layout = engine.layouts[ref.layout]

    def would(job: Job) -> Outcome:
        if not job.place:
            return gone(script, job)
        if not layout.can(script.name, job.place):
            return Outcome(script.name, job.id, "wrong_place", f"it is {job.place}, where {script.name} takes none")
        return Outcome(script.name, job.id, "would", f"it is {job.place}; {script.name} would be asked for")

    there = [job for job in jobs if job.place]
    *_steps, plan = plans.of_jobs(engine, [(ref, there)])
    undoing = undo.words(layout, script.name, len(there), there[0].place if there else "", by=undo.COMMAND)
    row = verbs.verb(script.name)
    effect = layout.effects.get(script.name) or row.effect or None
    extra = {"dry_run": True, "plan": _counts(plan, undoing), "lost": row.lost or None, "effect": effect}
    if not session.as_json:
        _write_counts(plan, undoing)
    return write(session, ref, script, [would(job) for job in jobs], 0, extra=extra)


def _counts(plan: Plan, undoing: str) -> dict[str, Any]:
    """The counts of a dry run; `about_ms` is how long it will take, as far as one look tells."""
    return {
        "total": plan.total,
        "looked_at": plan.looked,
        "exact": plan.exact,
        "by_queue": [{**documents.queue_fields(ref.queue), "count": number} for ref, number in plan.by_queue],
        "by_place": [{"place": place, "count": number} for place, number in plan.by_place],
        "by_error": [{"error": documents.text(error), "count": number} for error, number in plan.by_error],
        "by_age": [{"age": age, "count": number} for age, number in plan.by_age],
        "samples": [documents.id_fields(job.id) for job in plan.samples],
        "about_ms": None if plan.seconds is None else round(plan.seconds * 1000),
        "undo": undoing,
    }


def _write_counts(plan: Plan, undoing: str) -> None:
    from rqtui.text.formats import numbered

    counts = [("place", plan.by_place), ("error", plan.by_error), ("age", plan.by_age)]
    rows = [[label, words, str(number)] for label, counted in counts for words, number in counted]
    if rows:
        output.write_table(("by", "what", "jobs"), rows, right=("jobs",))
    output.say(f"dry run: {numbered(plan.total, 'job')}; {undoing}.")
