"""Print what `act` did, or would do in a dry run, as JSON or as a table and a sentence, and compute the exit code."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any

from rqtui import verbs
from rqtui.cli import documents, output
from rqtui.cli.session import DONE, REFUSED, Session

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Job, Outcome, Ref
    from rqtui.reports.plans import Plan
    from rqtui.scripts.script import Script
    from rqtui.system_base.system import System

SCREENFUL = 50  # outcomes that are listed
UNCHANGED_WORDS = frozenset(
    {"already", "done", "empty", "exists", "fine"}
)  # nothing to do, because the job already is in that state: a success


def build_missing_outcome(script: Script, job: Job) -> Outcome:
    """Build the outcome for a job that does not exist, with the script's own text if its header has one."""
    from rqtui.model import Outcome

    reply = script.returns.get("gone")
    return Outcome(script.name, job.id, "gone", reply.text if reply else "no such job")


def build_wrong_place_outcome(script: Script, job: Job) -> Outcome:
    """Build the outcome for a job in a place from which the verb takes none."""
    from rqtui.model import Outcome

    return Outcome(script.name, job.id, "wrong_place", f"it is {job.place}, where {script.name} takes none")


def build_empty_outcome(script: Script) -> Outcome:
    """Build the outcome of a purge that found no job, with the script's own text if its header has one."""
    from rqtui.model import Outcome

    return Outcome(script.name, b"", "empty", script.returns["empty"].text)


def build_act_document(ref: Ref, script: Script, moved: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON document of an `act` command."""
    return {"verb": script.name, **documents.build_queue_fields(ref.queue), "moved": moved, "results": results}


def write_outcomes(
    session: Session,
    ref: Ref,
    script: Script,
    outcomes: Sequence[Outcome],
    moved: int = 0,
    extra: dict[str, Any] | None = None,
) -> int:
    """Print the outcomes of `act` and return the exit code: 0 if every job is now in the requested state, else 1."""
    if session.as_json:
        output.write_json(
            {**build_act_document(ref, script, moved, documents.build_outcome_documents(outcomes)), **(extra or {})}
        )
    else:
        counts_by_word = Counter(outcome.word for outcome in outcomes)
        if moved > counts_by_word[script.done_word]:  # a verb on a place answers once for all of them
            counts_by_word = Counter({script.done_word: moved})
        _write_outcome_summary(ref, script, outcomes, counts_by_word)
    return DONE if _list_success_words(script).issuperset(outcome.word for outcome in outcomes) else REFUSED


def _list_success_words(script: Script) -> set[str]:
    """Return the words in a script's replies that count as success."""
    return {script.done_word, "would", *UNCHANGED_WORDS}


def _write_outcome_summary(ref: Ref, script: Script, outcomes: Sequence[Outcome], counts_by_word: Counter[str]) -> None:
    """Print a table of the outcomes if they fit on a screen, and the number of outcomes per word."""
    if len(outcomes) <= SCREENFUL:
        is_of_jobs = any(column.name in ("id", "member") for column in script.each)
        rows = [
            [documents.format_id(o.id) if is_of_jobs or o.id else ref.queue, o.word, _describe_outcome(o)]
            for o in outcomes
        ]
        output.write_table(("id", "answer", "meaning"), rows)
    output.print_message(
        f"{script.name}: "
        + (" · ".join(f"{number} {word}" for word, number in counts_by_word.items()) or "no job matches")
    )


def _describe_outcome(outcome: Outcome) -> str:
    """Return the text of an outcome, with the new token if the job now has a new lease."""
    token = outcome.values.get("token")
    return (
        f"{outcome.text}; token {documents.encode_text(token)}"
        if isinstance(token, str | bytes) and token
        else outcome.text
    )


# ── of a dry run ──────────────────────────────────────────────────────────────────────────────────────────────────


def write_dry_run_report(
    session: Session, engine: Engine, ref: Ref, script: Script, chunks: Iterator[Sequence[Job]], *, is_forced: bool
) -> int:
    """Print the predicted outcome of each job and the counts of a dry run, and return the exit code.

    With `is_forced` the verb takes jobs from all places that its script names.
    The outcomes of a million jobs are not kept in memory: for `--json` they are buffered in a temporary file.
    """
    from rqtui.model import Outcome
    from rqtui.operations import undo
    from rqtui.reports import plans

    system = engine.systems[ref.system]

    def predict_outcome(job: Job) -> Outcome:
        if not job.place:
            return build_missing_outcome(script, job)
        if not system.can(script.name, job.place) and not (is_forced and job.place in script.sources):
            return build_wrong_place_outcome(script, job)
        return Outcome(script.name, job.id, "would", f"it is {job.place}; {script.name} would be asked for")

    printed_outcomes: list[Outcome] = []
    counts_by_word: Counter[str] = Counter()

    def yield_found_jobs() -> Iterator[list[Job]]:
        for jobs in chunks:
            outcomes = [predict_outcome(job) for job in jobs]
            counts_by_word.update(outcome.word for outcome in outcomes)
            printed_outcomes.extend(outcomes[: SCREENFUL + 1 - len(printed_outcomes)])
            if session.as_json:
                spool.writelines(json.dumps(row) + "\n" for row in documents.build_outcome_documents(outcomes))
            yield [job for job in jobs if job.place]

    with SpooledTemporaryFile(max_size=_MEMORY_CHARACTERS, mode="w+", encoding="ascii") as spool:
        plan = plans.build_chunk_plan(engine, ref, yield_found_jobs())
        place = plan.samples[0].place if plan.samples else ""
        undoing = undo.describe_undo(system, script.name, plan.total, place, undo_key=undo.UNDO_COMMAND)
        if session.as_json:
            extra = _build_plan_fields(system, script, plan, undoing)
            spool.seek(0)
            output.write_long_json(
                {**build_act_document(ref, script, 0, []), **extra}, "results", map(json.loads, spool)
            )
        else:
            _write_dry_run_counts(plan, undoing)
            _write_outcome_summary(ref, script, printed_outcomes, counts_by_word)
    return DONE if _list_success_words(script).issuperset(counts_by_word) else REFUSED


_MEMORY_CHARACTERS = 1 << 20  # characters of buffered outcomes


def write_place_dry_run(
    session: Session, engine: Engine, ref: Ref, script: Script, place: str, jobs: Iterable[Job]
) -> int:
    """Print the counts of the jobs that a verb on a place (empty: on all places) would take; return the exit code."""
    from rqtui.model import Outcome
    from rqtui.operations import undo
    from rqtui.reports import plans

    system = engine.systems[ref.system]
    plan = plans.build_chunk_plan(engine, ref, ([job] for job in jobs))
    undoing = undo.describe_undo(system, script.name, plan.total, place, undo_key=undo.UNDO_COMMAND)
    if not session.as_json:
        _write_dry_run_counts(plan, undoing)
        return DONE
    outcome = Outcome(script.name, b"", "would", f"{script.name} would be asked for on {place or ref.queue}")
    return write_outcomes(session, ref, script, [outcome], extra=_build_plan_fields(system, script, plan, undoing))


def build_dry_run_fields(system: System, script: Script) -> dict[str, Any]:
    """Return the fields of a dry run's JSON document: what would be lost, and side effects."""
    row = verbs.find_verb(script.name)
    effect = system.verb_effects.get(script.name) or row.effect or None
    return {"dry_run": True, "lost": row.lost or None, "effect": effect}


def _build_plan_fields(system: System, script: Script, plan: Plan, undoing: str) -> dict[str, Any]:
    """Return the fields of a dry run's JSON document with the plan of the jobs that the verb would take."""
    return {**build_dry_run_fields(system, script), "plan": _build_dry_run_counts(plan, undoing)}


def _build_dry_run_counts(plan: Plan, undoing: str) -> dict[str, Any]:
    """Build the counts of a dry run as JSON. `about_ms` is an estimate of how long the change will take."""
    return {
        "total": plan.total,
        "looked_at": plan.looked,
        "exact": plan.exact,
        "by_queue": [{**documents.build_queue_fields(ref.queue), "count": number} for ref, number in plan.by_queue],
        "by_place": [{"place": place, "count": number} for place, number in plan.by_place],
        "by_error": [
            {"error": documents.mask_job_text(error) or "", "count": number} for error, number in plan.by_error
        ],
        "by_age": [{"age": age, "count": number} for age, number in plan.by_age],
        "samples": [documents.build_id_fields(job.id) for job in plan.samples],
        "about_ms": None if plan.seconds is None else round(plan.seconds * 1000),
        "undo": undoing,
    }


def _write_dry_run_counts(plan: Plan, undoing: str) -> None:
    """Print the counts of a dry run as a table, and whether the change can be undone."""
    from rqtui.text.formats import format_quantity
    from rqtui.text.masking import mask_text

    counts = [("place", plan.by_place), ("error", plan.by_error), ("age", plan.by_age)]
    rows = [[label, mask_text(group_name), str(number)] for label, counted in counts for group_name, number in counted]
    if rows:
        output.write_table(("by", "what", "jobs"), rows, right=("jobs",))
    output.print_message(f"dry run: {format_quantity(plan.total, 'job')}; {undoing}.")
