"""Implement `act`: run a verb of a system on jobs by id, on the jobs of a place that match a filter, or on a queue.

The arguments of a verb and the meaning of its replies are read from its script's header. Jobs are looked up first, and
the token of the lease that was read is sent with the verb. If another client leased the job meanwhile, the script
replies `stale`. Other modules check the options (`act_options`), ask (`act_confirmation`), print the outcomes
(`act_result`), read `--set` (`set_fields`) and copy jobs (`act_duplicate`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import act_duplicate, act_result, documents, output, synonyms
from rqtui.cli.act_confirmation import confirm_dangerous_verb, is_dangerous
from rqtui.cli.act_options import (
    BATCH,
    ActRequest,
    CanaryOptions,
    Target,
    build_force_and_token,
    changes_one_place,
    check_act_options,
    check_canary_verb,
    choose_hand_out_limit,
    find_place,
    find_verb_target,
    parse_rate_limit,
    require_one_id,
    takes_field,
    takes_place,
)
from rqtui.cli.arguments import QUEUE, build_job_of_id
from rqtui.cli.session import DONE, INTERRUPTED, REFUSED, Session
from rqtui.cli.set_fields import parse_set_options
from rqtui.cli.signals import stop_on_signals
from rqtui.errors import RqtuiError, UsageError, WrongType
from rqtui.text.masking import reveal_secrets

if TYPE_CHECKING:
    from redis import Redis

    from rqtui.engine.engine import Engine
    from rqtui.model import Job, Outcome, Ref
    from rqtui.operations.canary import CanaryProgress
    from rqtui.operations.journal import Circumstances
    from rqtui.operations.rate_limit import Limits
    from rqtui.operations.undo import UndoRecorder
    from rqtui.scripts.script import Script
    from rqtui.verbs import Verb

LOOKUP_BATCH = 100  # jobs per round trip, when they are named by id
PAGE_JOBS = 500  # jobs per round trip, when a place is read
NO_LIMIT = 10**12  # jobs; no limit, for verbs that the engine applies job by job
RECENT_IDS = 10_000  # recent jobs that are compared to find one that is read twice


def _complete_verbs(incomplete: str) -> list[str]:
    """Return the verbs whose name begins with `incomplete`, for shell completion of `rqtui act`."""
    from rqtui.verbs import VERBS

    return [name for verb in VERBS if (name := verb.name.replace(" ", "-")).startswith(incomplete)]


def act(
    session: Session,
    verb: Annotated[
        str,
        typer.Argument(
            metavar="VERB",
            help="The verb: ack, requeue, delete, pause …; `rqtui systems` lists them.",
            autocompletion=_complete_verbs,
        ),
    ],
    queue: QUEUE,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="The ids of jobs or workers; base64:… for an id that is not text."),
    ] = None,
    place: Annotated[
        str, typer.Option("--place", metavar="PLACE", help="Take jobs of this place, which --filter or --all select.")
    ] = "",
    expression: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="EXPR", help="Take the jobs that match; the syntax is that of `rqtui jobs --filter`."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Take all jobs of the place.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Take at most N jobs.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="T",
            help="Act only if the job has the lease with this token; without it, the lease that rqtui read.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Act even if a worker holds the job.")] = False,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="Set a field that the verb takes, such as delay=90s; repeatable."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the jobs by place, error and age; change nothing.")
    ] = False,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="5/s", help="Change the jobs at this speed: 5/s, 90/m.")
    ] = None,
    stop_at_failures: Annotated[
        int | None,
        typer.Option(
            "--stop-at-failures",
            metavar="N",
            help="With --rate, stop when N jobs of these queues have failed since the start.",
        ),
    ] = None,
    stop_at_depth: Annotated[
        int | None, typer.Option("--stop-at-depth", metavar="N", help="With --rate, stop when N jobs are ready.")
    ] = None,
    canary: Annotated[
        int | None,
        typer.Option(
            "--canary",
            metavar="N",
            help="Change N jobs first, and the others only after these N succeeded; at 20/s without --rate.",
        ),
    ] = None,
    canary_wait: Annotated[
        str | None,
        typer.Option(
            "--canary-wait", metavar="TIME", help="Stop if no worker takes a first job for so long; 5m without it."
        ),
    ] = None,
    canary_run: Annotated[
        str | None,
        typer.Option("--canary-run", metavar="TIME", help="Stop if a first job runs for so long; 1h without it."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a dangerous change.")] = False,
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="Record the reason in the journal and in killed jobs.")
    ] = "",
) -> int:
    """Run a verb, such as requeue or delete, on jobs or on a queue.

    Example: rqtui act requeue mail --place dead --filter err:timeout --json
    """
    if limit is not None and limit < 1:
        raise UsageError("--limit is a whole number from 1 on.")
    engine = session.create_engine()
    ref = engine.resolve_or_discover(queue)
    variant = _find_verb_variant(engine, ref, verb)
    if variant is not None and variant.script == "enqueue":
        unfit_options = (place, everything, expression is not None, dry_run, rate is not None, canary is not None)
        id = require_one_id(verb, ids or (), unfit_options)
        return _copy_one_job(session, engine, ref, variant, id, fields or (), force, why)
    verb = variant.script if variant is not None else verb
    script = _find_verb_script(engine, ref, verb)
    if not dry_run:
        session.refuse_if_read_only(f"act {verb}")
        engine.raise_if_refused(verb, ref)
    raw_ids = tuple(documents.parse_id(id) for id in ids or ())
    place = find_place(engine.systems[ref.system], script, place) if place else ""
    rate_limit = parse_rate_limit(
        variant, rate, stop_at_failures, stop_at_depth, CanaryOptions(canary, canary_wait, canary_run)
    )
    if canary is not None:
        check_canary_verb(engine.systems[ref.system], script)
    request = ActRequest(ref, raw_ids, place, expression, everything, limit, dry_run, yes, rate_limit)
    form = {
        **parse_set_options(script, fields or (), engine.systems[ref.system].options),
        **build_force_and_token(script, len(raw_ids), token, is_forced=force),
    }
    if why and takes_field(script, "reason"):
        form.setdefault("reason", why)
    form = dict(engine.check_target_queue(verb, ref, form))
    if dry_run:
        return _run_verb_script(session, engine, request, script, form)
    from rqtui.operations.journal import Circumstances

    speed = rate_limit.describe() if rate_limit else ""
    circumstances = Circumstances(why=why, chosen=_describe_selection(request), rate=speed).add_form(form)
    with _record_changes(session, engine, ref, verb, circumstances, _choose_ids_to_read_ahead(request, script)) as (
        completed_verbs
    ):
        code = _run_verb_script(session, engine, request, script, form)
        if code == DONE:
            completed_verbs.append(verb)
    return code


def _find_verb_variant(engine: Engine, ref: Ref, verb: str) -> Verb | None:
    """Return the row of a verb that runs the script of another verb, as `duplicate` runs `enqueue`; else None.

    The row is also None if the system lacks that script.
    """
    from rqtui.verbs import VERBS_BY_NAME

    row, system = VERBS_BY_NAME.get(verb.replace("-", " ")), engine.systems[ref.system]
    return row if row is not None and row.script and system.can(row.script) else None


def _copy_one_job(
    session: Session,
    engine: Engine,
    ref: Ref,
    variant: Verb,
    id: str,
    fields: Sequence[str],
    is_forced: bool,
    reason: str,
) -> int:
    """Run a verb that copies one job, such as `duplicate`, and return the exit code."""
    session.refuse_if_read_only(f"act {variant.name}")
    from rqtui.operations.journal import Circumstances

    forced: dict[str, object] = {"force": True} if is_forced else {}
    with _record_changes(session, engine, ref, "enqueue", Circumstances(why=reason)):
        return act_duplicate.copy_one_job(session, engine, ref, variant, documents.parse_id(id), fields, forced)


def _find_verb_script(engine: Engine, ref: Ref, verb: str) -> Script:
    """Return the script of a verb. Raises UsageError with a suggestion if the system has no such verb."""
    from rqtui.verbs import VERBS

    system = engine.systems[ref.system]
    if verb == "enqueue":
        raise UsageError("new jobs come by rqtui put, which has options for all that they need.")
    script = system.scripts.get(verb)
    if verb in system.missing_verbs:
        system.script(verb)  # raises with the reason
    if script is None or script.read_only:
        rows = [
            row for row in (*system.verbs(), *VERBS) if system.can(row.script or row.name) and row.name != "enqueue"
        ]
        names = list(dict.fromkeys(row.name.replace(" ", "-") for row in rows))
        if (swapped := synonyms.find_synonym(ref.queue, names)) and not synonyms.find_synonym(verb, names):
            raise UsageError(f"the verb comes before the queue: rqtui act {swapped} {verb}.")
        nearest_name = synonyms.find_nearest_name(verb, names, likeness=0.7)
        hint = (
            f'. Did you mean "{nearest_name}"? rqtui systems lists all verbs.'
            if nearest_name
            else f"; its verbs: {', '.join(names)}."
        )
        raise UsageError(f'{system.name} has no verb "{verb}"{hint}')
    return script


def _run_verb_script(
    session: Session, engine: Engine, request: ActRequest, script: Script, form: dict[str, object]
) -> int:
    """Run a verb's script on its jobs, queue or workers, print the outcomes, and return the exit code.

    Raises UsageError if the options do not fit the verb.
    """
    target = find_verb_target(script)
    check_act_options(request, script, target, engine.systems[request.ref.system])
    run = {
        Target.NEXT_JOBS: _hand_out_next_jobs,
        Target.JOBS: _apply_verb_to_jobs,
        Target.WORKERS: _apply_verb_to_queue,
        Target.QUEUE: _apply_verb_to_queue,
    }
    return run[target](session, engine, request, script, form)


def _describe_selection(request: ActRequest) -> str:
    """Describe for the journal which jobs a place, filter or limit selects; empty if jobs are named by id."""
    if request.ids:
        return ""  # the journal lists the ids
    which = f"/{request.expression}" if request.expression is not None else "all" if request.everything else ""
    upper_limit = f", at most {request.limit}" if request.limit is not None else ""
    return (f"{which} of {request.place}" if which and request.place else which or request.place) + upper_limit


def _count_places(engine: Engine, ref: Ref) -> dict[str, dict[str, int]]:
    """Count the jobs per place of a queue as {queue: {place: number}}; empty if Redis cannot be read."""
    try:
        [queue] = engine.send_requests([engine.systems[ref.system].queue_request(ref.queue)])
    except RqtuiError:
        return {}
    return {} if queue.error else {ref.queue: queue.map_counts_by_place()}


def _choose_ids_to_read_ahead(request: ActRequest, script: Script) -> Sequence[bytes]:
    """Return the ids whose jobs are read before the steps that need them; none if a person is asked in between."""
    is_unasked = request.is_confirmed or not is_dangerous(script)
    return request.ids if is_unasked and find_verb_target(script) is Target.JOBS and len(request.ids) == 1 else ()


def _prefetch_counts_and_jobs(engine: Engine, keeper: UndoRecorder, ref: Ref, verb: str, ids: Sequence[bytes]) -> None:
    """Read the counts of the queue and these jobs in one round trip, and the counts again in that of the change."""
    system = engine.systems[ref.system]
    try:
        counts = system.queue_request(ref.queue)
        jobs = [system.job_request(ref.queue, id, 0) for id in ids]
        saves = keeper.build_read_requests(system, verb, ref.queue, ids)
    except RqtuiError:
        return  # The step that builds this request reports the error.
    engine.read_ahead([counts, *jobs, *saves], after=[counts])


@contextmanager
def _record_changes(
    session: Session,
    engine: Engine,
    ref: Ref,
    verb: str,
    circumstances: Circumstances,
    ids_to_read: Sequence[bytes] = (),
) -> Iterator[list[str]]:
    """Record the changes made inside a `with` block for `undo` and `operations`, even if the block is interrupted.

    The jobs of `ids_to_read` are read in the round trip that counts the queue.

    The block appends the verbs that it completed to the yielded list. A verb is also recorded if it changed no job that
    can be counted, such as a verb that hands out jobs or sets settings.
    """
    from rqtui.config.state_folder import find_state_folder
    from rqtui.operations.journal import Journal
    from rqtui.operations.undo import UndoRecorder

    def close_undo_record(verb: str, system: str, queue: str) -> str:
        """Close the undo record of a change and return the name that the journal stores."""
        return keeper.end_change(verb, system, queue)

    journal = Journal(find_state_folder(), session.settings.url, session.settings.profile, close_undo_record)
    keeper = UndoRecorder(find_state_folder(), session.settings.url, journal)
    for operation in journal.recover_interrupted():
        output.print_message(
            f"a change {operation.describe_interruption()}; rqtui operations shows it, "
            f"rqtui undo reverts what was done."
        )
    if keeper.problem:
        output.print_message(f"nothing can be undone: {keeper.problem}.")
    engine.change_recorder = keeper
    if ids_to_read:
        _prefetch_counts_and_jobs(engine, keeper, ref, verb, ids_to_read)
    began_ms = int(time.time() * 1000)
    journal.expect_change(
        verb, ref.queue, ref.system, replace(circumstances, began_ms=began_ms, before=_count_places(engine, ref))
    )
    completed_verbs: list[str] = []
    try:
        yield completed_verbs
    finally:
        changes = keeper.open_changes()
        recorded_operations = [
            journal.record_change(name, changed.queue, changed.system, change.ids, change.answers, count=change.count)
            for (name, changed), change in changes.items()
        ]
        recorded_operations += [
            journal.record_change(name, ref.queue, ref.system) for name in (() if changes else completed_verbs)
        ]
        counts_after = _count_places(engine, ref) if recorded_operations else {}
        engine.end_read_ahead()
        for operation in recorded_operations:
            journal.record_counts_after(operation, counts_after)
        keeper.discard_unchanged(lambda _verb, _ref: True)
        if journal.problem:
            output.print_message(journal.problem)


# ── on jobs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _apply_verb_to_jobs(
    session: Session, engine: Engine, request: ActRequest, script: Script, form: dict[str, object]
) -> int:
    """Run a verb's script on the selected jobs, print the outcomes, and return the exit code."""
    if request.is_dry_run:
        chunks = iter([_load_named_jobs(engine, request)]) if request.ids else _iterate_matching_jobs(engine, request)
        is_forced = bool(form.get("force"))
        return act_result.write_dry_run_report(session, engine, request.ref, script, chunks, is_forced=is_forced)
    if request.rate_limit is not None:
        return _apply_verb_at_rate(session, engine, request, script, form, request.rate_limit)
    if request.is_whole_place:
        return _apply_verb_to_place(session, engine, request, script, form)
    return _apply_verb_to_listed_jobs(session, engine, request, script, form)


def _apply_verb_to_listed_jobs(
    session: Session, engine: Engine, request: ActRequest, script: Script, form: dict[str, object]
) -> int:
    """Run a verb's script on jobs named by id or matched by a filter, and print their outcomes in the same order.

    If the verb takes none of the jobs where they are now, it is refused before the question of a dangerous verb.
    """
    jobs, system = _load_requested_jobs(engine, request), engine.systems[request.ref.system]
    existing = [job for job in jobs if job.place]
    # With `--force` a script takes jobs from more places than the verb does.
    taken_places = {place.name for place in system.places if system.can(script.name, place.name)} | {*script.sources}
    is_needless = existing and script.sources and not any(job.place in taken_places for job in existing)
    asks = is_dangerous(script) or bool(system.verb_effects.get(script.name))
    if is_needless and asks and not request.is_confirmed:
        outcomes = [
            act_result.build_wrong_place_outcome(script, job)
            if job.place
            else act_result.build_missing_outcome(script, job)
            for job in jobs
        ]
        return _print_outcomes(session, engine, request, script, outcomes, "", 0)
    if existing:
        confirm_dangerous_verb(session, engine, request, script, len(existing))
    is_confirmed = (
        existing or request.is_confirmed or not is_dangerous(script)
    )  # otherwise a missing job may appear before the call, without a confirmation
    outcomes = [
        act_result.build_missing_outcome(script, job)
        for job in jobs
        if not job.place and (_needs_job_data(script) or not is_confirmed)
    ]
    targets = [job for job in jobs if job.place or not outcomes]
    steps = engine.yield_verb_steps(script.name, request.ref, targets, form) if targets else ()
    with output.show_progress(script.name, len(jobs)) as bar:
        collected, broken_off = _collect_outcomes(steps, engine.client, bar, len(targets))
    outcomes += collected
    order = {job.id: number for number, job in enumerate(jobs)}  # chunks are grouped by place
    outcomes.sort(key=lambda outcome: order[outcome.id])
    return _print_outcomes(session, engine, request, script, outcomes, broken_off, _count_moved_jobs(outcomes))


def _needs_job_data(script: Script) -> bool:
    """Return whether the script needs data of the job: its place, its whole entry, or a new entry built from it.

    Such a script cannot be called for a job that was not found.
    """
    args = (*script.args, *script.each)
    return any(arg.name == "new" or (arg.name in ("place", "member") and not arg.optional) for arg in args)


def _apply_verb_to_place(
    session: Session, engine: Engine, request: ActRequest, script: Script, form: dict[str, object]
) -> int:
    """Run a verb's script on all jobs of a place, one chunk at a time, and return the exit code.

    The jobs need not fit into one page or one sample.
    """
    total = _count_jobs_of_place(engine, request)
    if total:
        confirm_dangerous_verb(session, engine, request, script, total)
    steps = engine.apply_verb_to_place(script.name, request.ref, request.place, form) if total else ()
    with output.show_progress(script.name, total) as bar:
        outcomes, broken_off = _collect_outcomes(steps, engine.client, bar, total)
    return _print_outcomes(session, engine, request, script, outcomes, broken_off, _count_moved_jobs(outcomes))


def _count_jobs_of_place(engine: Engine, request: ActRequest) -> int:
    """Return how many jobs a place holds. Raises WrongType if its key holds another type."""
    page = engine.fetch_page(request.ref, request.place, 0, 1)
    if page.error:
        raise WrongType(page.error)
    return page.job_count


def _collect_outcomes(
    chunks: Iterable[list[Outcome]], client: Redis, bar: output.Progress, total: int
) -> tuple[list[Outcome], str]:
    """Return the outcomes of all chunks, and a sentence with the reason if a signal stopped the command early.

    The chunk in progress is finished first: it is one call, so no job is left half changed.
    """
    outcomes: list[Outcome] = []
    with stop_on_signals(client) as stop:
        for chunk in chunks:
            outcomes += chunk
            bar.add_steps(len(chunk))
            if stop.is_set() and len(outcomes) < total:
                return outcomes, f"stopped after {len(outcomes)} of {total}: interrupted"
    return outcomes, ""


def _print_outcomes(
    session: Session,
    engine: Engine,
    request: ActRequest,
    script: Script,
    outcomes: Sequence[Outcome],
    broken_off: str,
    moved: int,
) -> int:
    """Print the outcomes of the jobs and return the exit code. After a signal, also record where the change stopped."""
    code = act_result.write_outcomes(session, request.ref, script, outcomes, moved)
    if not broken_off:
        return code
    _report_early_stop(engine, request, script, broken_off)
    return INTERRUPTED


def _count_moved_jobs(outcomes: Iterable[Outcome]) -> int:
    """Return how many jobs the outcomes say were moved."""
    return sum(outcome.moved for outcome in outcomes)


def _report_early_stop(engine: Engine, request: ActRequest, script: Script, reason: str) -> None:
    """Record in the journal why a change of jobs stopped before its end, and print the reason."""
    if engine.change_recorder:
        engine.change_recorder.record_stop(script.name, request.ref, reason)
    output.print_message(f"{reason}.")


def _load_requested_jobs(engine: Engine, request: ActRequest) -> list[Job]:
    """Load the jobs named by id, or else the jobs that match `--filter`."""
    return _load_named_jobs(engine, request) if request.ids else _load_matching_jobs(engine, request)


def _load_named_jobs(engine: Engine, request: ActRequest) -> list[Job]:
    """Load the jobs named by id. A missing job becomes a stub, so that the script reports it as missing."""
    system, ids = engine.systems[request.ref.system], list(dict.fromkeys(request.ids))
    loaded_jobs: list[Job] = []
    for start in range(0, len(ids), LOOKUP_BATCH):
        chunk = ids[start : start + LOOKUP_BATCH]
        jobs = engine.send_requests([system.job_request(request.ref.queue, id, 0) for id in chunk])
        loaded_jobs += [job or build_job_of_id(request.ref, id) for id, job in zip(chunk, jobs, strict=True)]
    return loaded_jobs


def _load_matching_jobs(engine: Engine, request: ActRequest) -> list[Job]:
    """Load the jobs of a place that match `--filter`, without their bodies, up to `--limit`."""
    matching: dict[bytes, Job] = {}
    for jobs in _scan_place(engine, request):
        matching.update((job.id, replace(job, body=None, history=(), error="")) for job in jobs)
        if request.limit is not None and len(matching) >= request.limit:
            break
    return list(matching.values())[: request.limit]


def _iterate_matching_jobs(engine: Engine, request: ActRequest) -> Iterator[list[Job]]:
    """Yield the jobs that match `--filter`, with their errors, one page at a time.

    The jobs need not fit into memory. A job that moves along its place while the pages are read may appear again in a
    later page. Only the ids of the last `RECENT_IDS` jobs are compared.
    """
    remaining, recent_ids = request.limit, dict[bytes, None]()
    for jobs in _scan_place(engine, request):
        fresh = list({job.id: job for job in jobs if job.id not in recent_ids}.values())[:remaining]
        recent_ids.update((job.id, None) for job in fresh)
        for id in list(islice(recent_ids, max(0, len(recent_ids) - RECENT_IDS))):
            del recent_ids[id]
        yield [replace(job, body=None, history=()) for job in fresh]
        if remaining is not None:
            remaining -= len(fresh)
            if not remaining:
                return


def _scan_place(engine: Engine, request: ActRequest) -> Iterator[list[Job]]:
    """Yield the jobs of a place that match `--filter`, one page at a time, with a progress bar."""
    from rqtui.engine import filters

    accepts = filters.parse_filter(request.expression or "", [engine.systems[request.ref.system]])
    body_bytes = documents.BODY_BYTES if accepts.needs_job_bodies and accepts.terms else 0
    with output.show_progress("looking") as bar:
        for page in engine.walk_pages(request.ref, request.place, PAGE_JOBS, body_bytes):
            bar.total = page.job_count
            bar.add_steps(len(page.jobs))
            yield [job for job in page.jobs if accepts(job)]


# ── on jobs, so many per second ───────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _RateLimitedChange:
    """The progress of a change that is limited to a number of jobs per second (`--rate`)."""

    total: int  # jobs
    outcomes: list[Outcome] = field(default_factory=list)
    stop_reason: str = ""  # why the change stopped before its end; empty if all jobs were done
    is_interrupted: bool = False
    canary: CanaryProgress | None = None  # None: no job of a canary was looked up


def _apply_verb_at_rate(
    session: Session, engine: Engine, request: ActRequest, script: Script, form: dict[str, object], limits: Limits
) -> int:
    """Run a verb's script at `--rate` until all jobs are done or a limit stops the change; return the exit code.

    The outcomes are printed at the end, with the reason if a limit or a signal stopped the change.
    """
    from rqtui.model import Outcome

    existing: list[Job] = []
    missing: list[Job] = []
    if request.is_whole_place:
        number = _count_jobs_of_place(engine, request)
    else:
        loaded_jobs = _load_requested_jobs(engine, request)
        existing, missing = [job for job in loaded_jobs if job.place], [job for job in loaded_jobs if not job.place]
        number = len(existing)
    if number:
        confirm_dangerous_verb(session, engine, request, script, number)
    change = _run_rate_limited_steps(engine, request, script, form, limits, existing, number)
    outcomes, reason = change.outcomes, change.stop_reason
    extra: dict[str, object] = {"stopped": reason or None, "left": max(0, change.total - len(outcomes))}
    if limits.canary_jobs is not None:
        extra["canary"] = documents.build_canary_document(change.canary)
    missing_text = script.returns["gone"].text if "gone" in script.returns else "the job does not exist"
    outcomes += [Outcome(script.name, job.id, "gone", missing_text) for job in missing]
    code = act_result.write_outcomes(session, request.ref, script, outcomes, _count_moved_jobs(outcomes), extra=extra)
    if not reason:
        return code
    _report_early_stop(engine, request, script, reason)
    return INTERRUPTED if change.is_interrupted else REFUSED


def _run_rate_limited_steps(
    engine: Engine,
    request: ActRequest,
    script: Script,
    form: dict[str, object],
    limits: Limits,
    existing: Sequence[Job],
    total: int,
) -> _RateLimitedChange:
    """Run a verb's script on the `existing` jobs, or on a whole place, in steps limited by `--rate`.

    Ctrl+C stops the change between two jobs. Of a whole place only the jobs that are due in the next step are listed;
    `total` is the number of its jobs before the first step.
    """
    from rqtui.operations import rate_limit

    change = _RateLimitedChange(total)
    place = request.place if request.is_whole_place else ""
    steps = rate_limit.yield_rate_limited_steps(
        engine, script.name, [(request.ref, existing)], form, limits, place=place
    )
    with output.show_progress(f"throttled {script.name}", total or None) as bar:
        try:
            for step in steps:
                change.outcomes += [outcome for _ref, outcome in step.outcomes]
                change.total = bar.total = step.total
                bar.add_steps(len(step.outcomes))
                if step.canary is not None:
                    _print_ended_first_jobs(change.canary, step.canary)
                    change.canary = step.canary
                    if step.canary.has_passed and step.done < step.total:
                        text = step.canary.describe_pass(step.total - step.done, limits.jobs_per_s)
                        output.print_message(f"{text}.")
                if not step.stop_reason:
                    time.sleep(rate_limit.STEP_INTERVAL_S)
                elif step.stop_reason.startswith("stopped"):
                    change.stop_reason = step.stop_reason
        except KeyboardInterrupt:
            change.is_interrupted = True
            change.stop_reason = f"stopped after {len(change.outcomes)} of {change.total}: interrupted"
    return change


def _print_ended_first_jobs(previous: CanaryProgress | None, progress: CanaryProgress) -> None:
    """Print a line about each first job that has ended since the previous poll: `order-17: done after 1.6s`."""
    ended = {(record.ref, record.job.id) for record in previous.jobs if record.end} if previous is not None else set()
    for record in progress.jobs:
        if record.end is not None and (record.ref, record.job.id) not in ended:
            output.print_message(f"{documents.format_id(record.job.id)}: {record.describe_end()}")


# ── on the next jobs ──────────────────────────────────────────────────────────────────────────────────────────────


def _hand_out_next_jobs(
    session: Session, engine: Engine, request: ActRequest, script: Script, form: dict[str, object]
) -> int:
    """Reserve or pop the next jobs of a queue and print each with its body. An empty queue counts as success."""
    from rqtui.scripts import script as scripts

    limit = choose_hand_out_limit(request)
    confirm_dangerous_verb(session, engine, request, script, limit)
    system = engine.systems[request.ref.system]
    call = system.build_call(script.name, request.ref.queue, {**form, "limit": limit})
    reply = scripts.run_call(engine.client, call)
    place = system.place((script.targets or script.sources)[0])  # `targets` is where the jobs are after the call
    jobs = [
        replace(job, place=place.name, state=place.state) for job in system.read_taken_jobs(request.ref.queue, reply)
    ]
    if place.state != "reserved":
        jobs = [replace(job, deadline_ms=None, token=b"") for job in jobs]
    if not jobs:
        output.print_message(f"{request.ref.queue}: {reply.text}.")
    if session.as_json:
        with reveal_secrets():  # the caller owns the jobs now: a masked body would be lost
            results = [
                {**documents.build_id_fields(job.id), "word": reply.word, "job": documents.build_job_document(job)}
                for job in jobs
            ]
            output.write_json(act_result.build_act_document(request.ref, script, len(jobs), results))
    elif jobs:
        rows = [
            [documents.format_id(job.id), documents.encode_text(job.token), documents.build_body_preview(job.body)]
            for job in jobs
        ]
        output.write_table(("id", "token", "body"), rows)
    return DONE


# ── on a queue, a place, workers ──────────────────────────────────────────────────────────────────────────────────


def _apply_verb_to_queue(
    session: Session, engine: Engine, request: ActRequest, script: Script, form: dict[str, object]
) -> int:
    """Run a verb's script on a queue, a place or workers, print the outcomes, and return the exit code."""
    from rqtui.model import Outcome

    system = engine.systems[request.ref.system]
    if request.place:
        form["place"] = request.place
    if request.everything and changes_one_place(script, system):
        listed = ", ".join(script.sources)
        raise UsageError(f"{script.name} takes one place of {system.name} at a time: --place with one of {listed}.")
    if request.is_dry_run and takes_place(script):
        places = [request.place] if request.place else script.sources
        pages = (page for place in places for page in engine.walk_pages(request.ref, place, PAGE_JOBS))
        jobs = islice((job for page in pages for job in page.jobs), request.limit)
        return act_result.write_place_dry_run(session, engine, request.ref, script, request.place, jobs)
    if request.is_dry_run:
        target = request.place or request.ref.queue
        outcomes = [Outcome(script.name, b"", "would", f"{script.name} would be asked for on {target}")]
        extra = act_result.build_dry_run_fields(system, script)
        return act_result.write_outcomes(session, request.ref, script, outcomes, extra=extra)
    confirm_dangerous_verb(session, engine, request, script, None)
    if request.ids:  # the names of workers
        outcomes = _apply_verb_to_workers(engine, request, script, form)
        return act_result.write_outcomes(session, request.ref, script, outcomes)
    if {column.name for column in script.each} == {"name", "value"}:
        outcomes = _send_queue_settings(engine, request, script, form)
        return act_result.write_outcomes(session, request.ref, script, outcomes)
    outcome, broken_off = _apply_verb_in_batches(engine, request, script, form)
    is_done = outcome.word == script.done_word and not broken_off
    if is_done and request.everything and takes_place(script):
        engine.unregister_queue(request.ref)
    moved = outcome.values.get("moved")
    return _print_outcomes(
        session, engine, request, script, [outcome], broken_off, moved if isinstance(moved, int) else 0
    )


def _apply_verb_to_workers(
    engine: Engine, request: ActRequest, script: Script, form: dict[str, object]
) -> list[Outcome]:
    """Run a verb's script on each named worker. The id of each returned outcome is the worker's name."""
    return [
        replace(outcome, id=worker)
        for worker in request.ids
        for outcome in engine.apply_verb(script.name, request.ref, (), {**form, "worker": worker})
    ]


def _send_queue_settings(engine: Engine, request: ActRequest, script: Script, form: dict[str, object]) -> list[Outcome]:
    """Send the queue settings given as `--set name=value` to Redis and return the outcome."""
    from rqtui.model import Outcome
    from rqtui.scripts import script as scripts

    if not form:
        raise UsageError(f"{script.name} needs --set SETTING=VALUE; an empty value brings the default back.")
    rows = [{"name": name, "value": value} for name, value in form.items()]
    call = engine.systems[request.ref.system].build_call(script.name, request.ref.queue, {}, rows)
    reply = scripts.run_call(engine.client, call)
    return [Outcome(script.name, b"", reply.word, reply.text, 0, reply.values)]


def _apply_verb_in_batches(
    engine: Engine, request: ActRequest, script: Script, form: dict[str, object]
) -> tuple[Outcome, str]:
    """Run a verb's script once, or in batches if it takes a limit and replies how many jobs are `remaining`.

    The batches end when as many jobs were changed as existed at the start. Also returns a sentence if a signal stopped
    the command between two calls.
    """
    if not any(arg.name == "limit" for arg in script.args):
        [outcome] = engine.apply_verb(script.name, request.ref, (), form)
        return outcome, ""
    limit, moved = request.limit, 0
    first: Outcome | None = None
    if script.name == "purge" and engine.systems[request.ref.system].purges_by_job(request.place):
        return _purge_shared_place(engine, request, script, form)
    with output.show_progress(script.name, limit) as bar, stop_on_signals(engine.client) as stop:
        while True:
            size = BATCH if limit is None else min(BATCH, limit - moved)
            [outcome] = engine.apply_verb(script.name, request.ref, (), {**form, "limit": size})
            if first is not None and not outcome.moved:  # another client emptied the queue, or the connection is lost
                return (first if outcome.word == "empty" else replace(outcome, values={"moved": moved})), ""
            moved += outcome.moved
            bar.add_steps(outcome.moved)
            remaining = outcome.values.get("left")
            reply_values = {**outcome.values, "moved": moved} if moved else outcome.values
            first = replace(outcome, moved=moved, values=reply_values)
            if limit is None and isinstance(remaining, int):
                limit = bar.total = moved + remaining
            if not outcome.moved or not isinstance(remaining, int) or not remaining or moved >= (limit or 0):
                return first, ""
            if stop.is_set():
                return first, f"stopped after {moved} of {limit}: interrupted"


def _purge_shared_place(
    engine: Engine, request: ActRequest, script: Script, form: dict[str, object]
) -> tuple[Outcome, str]:
    """Purge one queue's jobs from a place that also holds jobs of other queues, one job at a time.

    Returns the outcome, and a sentence if a signal stopped the purge between two steps.
    """
    limit = {"limit": NO_LIMIT if request.limit is None else request.limit}
    moved, broken_off = 0, ""
    outcome = act_result.build_empty_outcome(script)
    with output.show_progress(script.name, request.limit) as bar, stop_on_signals(engine.client) as stop:
        for chunk in engine.yield_verb_steps(script.name, request.ref, (), {**form, **limit}):
            for outcome in chunk:
                moved += outcome.moved
                bar.add_steps(outcome.moved)
            if stop.is_set():
                broken_off = f"stopped after {moved}: interrupted"
                break
    reply_values = {**outcome.values, "moved": moved} if outcome.values else outcome.values
    return replace(outcome, moved=moved, values=reply_values), broken_off
