"""Change many jobs with one verb: dry run, question, then chunks or a throttled change.

The dry run is computed on the engine's thread while the question is open, and ends with the question. The change itself
is requested per id, so a job that moved in the meantime is reported and not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from rqtui.engine import ticker
from rqtui.errors import UsageError
from rqtui.model import Job, Ref
from rqtui.operations.journal import Circumstances
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui.host import Host
from rqtui.tui.services import form_values, verb_resolution
from rqtui.tui.services.batches import Batch, Batches, VerbRequest
from rqtui.tui.services.outcome_counts import OutcomeCounts
from rqtui.tui.services.rate_limited_changes import RateLimitedChanges
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.widgets import question_text
from rqtui.verbs import THROTTLE_FIELDS, Verb, find_verb

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.operations.rate_limit import Limits
    from rqtui.reports import plans
    from rqtui.tui.widgets.question_dialog import FormReply, Values

_RATE_FIELDS = frozenset(field.name for field in THROTTLE_FIELDS)


class JobSelection(NamedTuple):
    """The many jobs that one verb will change: those in `jobs_by_queue`, or all jobs in `place` of the only queue.

    `about` describes what the jobs have in common, `count_difference` how their number differs from the number in the
    row of the view.
    """

    verb: Verb
    jobs_by_queue: tuple[tuple[Ref, tuple[Job, ...]], ...]
    total: int
    target: Target
    place: str = ""
    about: str = ""
    count_difference: str = ""
    is_exact: bool = True

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The queues of the jobs that the verb will change."""
        return tuple(ref for ref, _jobs in self.jobs_by_queue)

    @property
    def script(self) -> str:
        """The name of the script that changes the selected jobs."""
        return self.verb.script or self.verb.name

    @property
    def common_place(self) -> str:
        """The place of all jobs that the verb will change; empty if they are in several places."""
        places = {job.place for _ref, jobs in self.jobs_by_queue for job in jobs}
        if self.place or not places:
            return self.place or self.target.place
        return places.pop() if len(places) == 1 else ""

    def yield_dry_run_steps(self, engine: Engine) -> Iterator[plans.Plan]:
        """Return the steps of the dry run of the change, which run on the engine's thread."""
        from rqtui.reports import plans  # imported late, because it imports the engine and undo

        return (
            plans.yield_place_plans(engine, self.refs[0], self.place)
            if self.place
            else plans.yield_job_plans(engine, self.jobs_by_queue)
        )


class BulkChanges:
    """The service that asks before changes of many jobs, and starts them."""

    def __init__(self, host: Host, session: Session, batches: Batches, rate_limited: RateLimitedChanges) -> None:
        self._host, self._session, self._batches, self._rate_limited = host, session, batches, rate_limited

    def confirm_change_of_queues(
        self, verb_name: str, jobs_by_queue: Sequence[tuple[Ref, Sequence[Job]]], about: str, count_difference: str = ""
    ) -> None:
        """Ask for confirmation before a verb on jobs of several queues, and show a dry run.

        `about` describes what the jobs have in common: `error "TimeoutError: #"`. `count_difference` says how they
        differ from the jobs that the row counted: `31 are not yet counted in the list.`
        """
        verb = find_verb(verb_name)
        nonempty = tuple((ref, tuple(jobs)) for ref, jobs in jobs_by_queue if jobs)
        capable = [pair for pair in nonempty if self._session.systems[pair[0].system].can(verb.script or verb.name)]
        if not capable:
            self._host.show_toast(
                f"nothing to {verb.label}." if not nonempty else f"this system cannot {verb.label} a job.", "warning"
            )
            return
        ref, jobs = capable[0]
        target = Target(ref, jobs[0].place, jobs)
        self._show_change_question(
            JobSelection(
                verb, tuple(capable), sum(len(jobs) for _ref, jobs in capable), target, "", about, count_difference
            )
        )

    def confirm_change_of_place(self, verb: Verb, target: Target) -> None:
        """Ask for confirmation before a verb on a whole place or on many of its jobs, and show a dry run."""
        if target.ref is None:
            return
        about = f"/{target.filter}" if target.filter else ""
        place = target.place if target.is_whole_place else ""
        total = form_values.count_targets(self._session, target)
        is_exact = form_values.is_target_count_exact(self._session, target)
        self._show_change_question(
            JobSelection(verb, ((target.ref, target.jobs),), total, target, place, about, is_exact=is_exact)
        )

    # -- asking ---------------------------------------------------------------------------------------------------

    def _show_change_question(self, selection: JobSelection, reply: FormReply | None = None, problem: str = "") -> None:
        from rqtui.tui.widgets.question_dialog import Question

        session = self._session
        system = session.systems[selection.refs[0].system]
        own_fields = verb_resolution.list_form_fields(system, selection.verb)
        own_fields = verb_resolution.add_queue_choices(own_fields, selection.refs[0], session.refs)
        plan: plans.Plan | None = None
        dialog = Question(
            safe(_build_question_title(selection)),
            self._build_question_lines(selection, None),
            verb_resolution.add_rate_fields(system, selection.verb, own_fields),
            selection.verb.label,
            selection.verb.is_dangerous,
            lambda values: self._validate_values(selection, values),
            reply.typed if reply else None,
            problem,
            guard=form_values.choose_guard_word(session, selection.verb, selection.refs),
            is_form=selection.verb.needs_form,
            describe_duration=lambda typed: self._describe_duration(selection, plan, typed),
        )

        def show_dry_run_plan(call_result: ticker.CallFinished) -> None:
            nonlocal plan
            if call_result.result is not None:
                plan = call_result.result
                dialog.fit_text(partial(self._fit_question_lines, selection, plan))
            elif call_result.error:
                dialog.replace_text(
                    [*self._build_question_lines(selection, None)[:-1], _format_plan_error(call_result.error)]
                )

        def start_change_if_accepted(reply: FormReply | None) -> None:
            session.stop_steps(plan_id)
            if reply is not None:
                self._start_change(selection, reply)

        self._host.app.push_screen(dialog, start_change_if_accepted)
        plan_id = session.run_steps(selection.yield_dry_run_steps, show_dry_run_plan)

    def _fit_question_lines(self, selection: JobSelection, plan: plans.Plan | None, rows: int) -> list[Content]:
        """Return the lines of a question with as many errors and queues as fit into the rows, but with one of each."""
        width = question_text.compute_line_width(self._host.app.size.width)
        lines: list[Content] = []
        for max_rows in range(question_text.MAX_ROWS, 0, -1):
            lines = self._build_question_lines(selection, plan, max_rows)
            if question_text.count_rows(lines, width) <= rows:
                break
        return lines

    def _build_question_lines(
        self, selection: JobSelection, plan: plans.Plan | None, max_rows: int = question_text.MAX_ROWS
    ) -> list[Content]:
        session, width = self._session, question_text.compute_line_width(self._host.app.size.width)
        lines = question_text.format_location(selection.refs, selection.common_place, session.url, selection.total)
        if selection.about:
            about = safe(selection.about)
            singular, plural = (
                ("It matches", "They match") if about.startswith("/") else ("It has the", "They have the")
            )
            lines.append(Content(f"{singular if selection.total == 1 else plural} {about}."))
        if selection.count_difference:
            lines.append(Content(selection.count_difference))
        if selection.target.scanned_jobs:
            scanned = question_text.format_job_count(selection.target.scanned_jobs)
            notice = f"Only the first {scanned} were searched, not the rest."
            lines.append(Content.styled(notice, "$state-reserved"))
        lines += question_text.build_warnings(selection.verb, selection.target)
        largest_total = (
            max(len(jobs) for _ref, jobs in selection.jobs_by_queue) if len(selection.refs) > 1 else selection.total
        )
        undo = form_values.describe_undo_of_verb(
            session, selection.verb, selection.refs[0], largest_total, selection.target.place
        )
        lines += [question_text.format_labelled_line("undo", undo)] if undo else []
        if plan is None:
            return [*lines, Content.styled("Reading the jobs …", "$muted")]
        has_errors = not selection.about.startswith("error")  # the jobs of an error group have one cause
        dry_run = question_text.format_dry_run(plan, selection.total, selection.refs, width, has_errors, max_rows)
        return [*lines, *dry_run]

    def _describe_duration(self, selection: JobSelection, plan: plans.Plan | None, typed: Mapping[str, str]) -> str:
        """Describe how long the change takes with the typed limits, such as `At 5/s this takes 8 min 20 s`."""
        from rqtui.operations.rate_limit import RATE_AFTER_CANARY, parse_rate

        canary = typed.get("canary", "").strip()
        rate = typed.get("rate", "").strip() or (RATE_AFTER_CANARY if canary else "")
        if rate:
            try:
                jobs_per_s = parse_rate(rate)
            except UsageError:
                return ""
            others = selection.total - (int(canary) if canary.isdecimal() else 0)
            if others <= 0:
                return "The first jobs are all of them."
            duration = formats.spell_duration(others / jobs_per_s)
            rate = f"At {formats.format_rate(jobs_per_s)}"
            return f"{rate} the others take {duration} after the first." if canary else f"{rate} this takes {duration}."
        speed = self._batches.speeds.get(selection.script)
        seconds = selection.total / speed if speed else plan.seconds if plan else None
        return f"All at once this takes about {formats.spell_duration(seconds)}." if seconds is not None else ""

    def _validate_values(self, selection: JobSelection, values: Values) -> None:
        """Raise UsageError with an error message if no script would accept these values of the question's form."""
        from rqtui.operations.canary import check_canary

        form, rate_limit = _split_rate_limit(values)
        if rate_limit is None and any(name in values for name in _RATE_FIELDS):
            raise UsageError("a change all at once cannot stop by itself: fill in the speed, for example 5/s.")
        system = self._session.systems[selection.refs[0].system]
        if rate_limit is not None and min(rate_limit.canary_wait_s, rate_limit.canary_run_s) < 1:
            raise UsageError("the first jobs need a time of one second or more, such as 10m.")
        if rate_limit is not None and rate_limit.canary_jobs is not None:
            check_canary([self._session.systems[ref.system] for ref in selection.refs], rate_limit.canary_jobs)
        if rate_limit is not None and len(verb_resolution.group_values_by_script(system, selection.verb, form)) > 1:
            raise UsageError("only one change can run at a limited speed; fill in the fields of one.")
        form_values.validate_form(self._session, selection.verb, selection.target, form)

    # -- sending --------------------------------------------------------------------------------------------------

    def _start_change(self, selection: JobSelection, reply: FormReply) -> None:
        systems, (values, rate_limit) = self._session.systems, _split_rate_limit(reply.values)
        circumstances = Circumstances(
            chosen=_describe_selected_jobs(selection), rate=rate_limit.describe() if rate_limit else ""
        )
        for name, form in verb_resolution.group_values_by_script(
            systems[selection.refs[0].system], selection.verb, values
        ):
            first_form = verb_resolution.complete_script_arguments(
                systems[selection.refs[0].system], name, selection.target, form
            )
            if rate_limit is not None:
                self._rate_limited.start_change(
                    name, selection.jobs_by_queue, first_form, rate_limit, selection.place, circumstances
                )
                continue
            batch = Batch(OutcomeCounts(name, selection.refs[0], selection.total), circumstances=circumstances)
            batch.on_refused = lambda reason: self._show_change_question(selection, reply, reason)
            requests = []
            for ref, jobs in selection.jobs_by_queue:
                completed = verb_resolution.complete_script_arguments(systems[ref.system], name, selection.target, form)
                requests.append(VerbRequest(name, ref, completed, batch, jobs, selection.place))
            self._batches.send_requests(*requests)


def _split_rate_limit(values: Values) -> tuple[Values, Limits | None]:
    """Split a form's values into the arguments of the verb and the rate limit.

    The limit is None if neither a rate nor a number of first jobs was given.
    """
    from rqtui.operations.rate_limit import RATE_AFTER_CANARY, Limits, parse_rate

    arguments = {name: value for name, value in values.items() if name not in _RATE_FIELDS}
    per_s = values.get("rate", parse_rate(RATE_AFTER_CANARY) if "canary" in values else None)
    if not isinstance(per_s, float):
        return arguments, None
    names = ("stop_at_failures", "stop_at_depth", "canary")
    failures, depth, canary = (value if isinstance(value := values.get(name), int) else None for name in names)
    waits_s = {
        f"{name}_s": value / 1000
        for name in ("canary_wait", "canary_run")
        if isinstance(value := values.get(name), int)
    }
    return arguments, Limits(per_s, failures, depth, canary, **waits_s)


def _describe_selected_jobs(selection: JobSelection) -> str:
    """Describe for the journal which jobs a change was made on."""
    if selection.place:
        return f"all of {selection.place}"
    where = f" of {selection.common_place}" if selection.common_place else ""
    jobs = formats.format_quantity(selection.total, "job")
    if selection.target.holder:
        return f"{jobs} of {selection.target.holder}"
    return f"{selection.about}{where}" if selection.about else f"{jobs}{where}, marked"


def _build_question_title(selection: JobSelection) -> str:
    question = selection.verb.question or selection.verb.label.capitalize()
    jobs = question_text.format_job_count(selection.total)
    if selection.place:
        return f"{question} all {jobs if selection.is_exact else f'of about {jobs}'} in {selection.place}?"
    if len(selection.refs) > 1:
        return f"{question} {jobs} of {len(selection.refs)} queues?"
    if selection.target.holder:
        return f"{question} {jobs} of {formats.elide_middle(selection.target.holder, 32)}?"
    return f"{question} {'' if selection.is_exact else 'about '}{jobs}?"


def _format_plan_error(error: str) -> Content:
    return Content.styled(f"The jobs could not be read: {safe(error)}", "$state-dead")
