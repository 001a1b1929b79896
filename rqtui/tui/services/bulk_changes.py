"""Change many jobs with one verb: dry run, question, then chunks or a throttled change.

The dry run is computed on the engine's thread while the question is open, and ends with the question. The change itself
is requested per id, so a job that moved in the meantime is reported and not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from rqtui.tui.services.batches import Batch, Batches, Request
from rqtui.tui.services.rate_limited_changes import RateLimited
from rqtui.tui.services.tally import Tally
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


class Choice(NamedTuple):
    """The many jobs that a verb will change: `jobs_by_queue`, or all jobs in `place` of the only queue.

    `about` describes what the jobs have in common, `count_difference` how their number differs from the number in the
    row.
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
        """The queues of the chosen jobs."""
        return tuple(ref for ref, _jobs in self.jobs_by_queue)

    @property
    def script(self) -> str:
        """The name of the script that changes the jobs."""
        return self.verb.script or self.verb.name

    def plan_steps(self, engine: Engine) -> Iterator[plans.Plan]:
        """Return the steps of the dry run, which run on the engine's thread."""
        from rqtui.reports import plans  # imported late, because it imports the engine and undo

        return (
            plans.yield_place_plans(engine, self.refs[0], self.place)
            if self.place
            else plans.yield_job_plans(engine, self.jobs_by_queue)
        )


class BulkChanges:
    """Starts and confirms the changes of many jobs of a session."""

    def __init__(self, host: Host, session: Session, batches: Batches, drips: RateLimited) -> None:
        self._host, self._session, self._batches, self._drips = host, session, batches, drips

    def ask_about_queues(
        self, verb_name: str, jobs_by_queue: Sequence[tuple[Ref, Sequence[Job]]], about: str, count_difference: str = ""
    ) -> None:
        """Ask before a verb on jobs of several queues.

        `about` describes what the jobs have in common: `error "TimeoutError: #"`. `count_difference` says how they
        differ from the jobs that the row counted: `2 500 counted here, 31 more match`.
        """
        row = find_verb(verb_name)
        nonempty = tuple((ref, tuple(jobs)) for ref, jobs in jobs_by_queue if jobs)
        capable = [pair for pair in nonempty if self._session.systems[pair[0].system].can(row.script or row.name)]
        if not capable:
            self._host.show_toast(
                f"nothing to {row.label}." if not nonempty else f"this system cannot {row.label} a job.", "warning"
            )
            return
        ref, jobs = capable[0]
        target = Target(ref, jobs[0].place, jobs, state=jobs[0].state)
        self._show_question(
            Choice(row, tuple(capable), sum(len(jobs) for _ref, jobs in capable), target, "", about, count_difference)
        )

    def ask_about_place(self, row: Verb, target: Target) -> None:
        """Ask before a verb on a whole place or on many of its jobs."""
        if target.ref is None:
            return
        about = f"/{target.filter}" if target.filter else ""
        place = target.place if target.is_whole_place else ""
        total = form_values.count_selected(self._session, target)
        exact = form_values.is_exact(self._session, target)
        self._show_question(Choice(row, ((target.ref, target.jobs),), total, target, place, about, is_exact=exact))

    # -- asking ---------------------------------------------------------------------------------------------------

    def _show_question(self, choice: Choice, given: FormReply | None = None, problem: str = "") -> None:
        from rqtui.tui.widgets.question_dialog import Question

        session = self._session
        system = session.systems[choice.refs[0].system]
        own_fields = verb_resolution.list_fields(system, choice.verb)
        dialog = Question(
            safe(_build_title(choice)),
            self._build_lines(choice, None),
            verb_resolution.add_rate_fields(system, choice.verb, own_fields),
            choice.verb.label,
            choice.verb.is_dangerous,
            lambda values: self._validate(choice, values),
            given.typed if given else None,
            problem,
            guard=form_values.choose_guard_word(session, choice.verb, choice.refs),
            is_form=choice.verb.needs_form,
        )

        def show_plan(answered: ticker.CallFinished) -> None:
            if answered.result is not None:
                dialog.replace_text(self._build_lines(choice, answered.result))
            elif answered.error:
                dialog.replace_text([*self._build_lines(choice, None)[:-1], _format_plan_error(answered.error)])

        def handle_decision(given: FormReply | None) -> None:
            session.stop_steps(plan_id)
            if given is not None:
                self._send(choice, given)

        self._host.app.push_screen(dialog, handle_decision)
        plan_id = session.run_steps(choice.plan_steps, show_plan)

    def _build_lines(self, choice: Choice, plan: plans.Plan | None) -> list[Content]:
        session = self._session
        place = f" · {choice.target.place}" if len(choice.refs) == 1 else ""
        names = ", ".join(safe(ref.queue) for ref in choice.refs[:3])
        more = f" and {len(choice.refs) - 3} more" if len(choice.refs) > 3 else ""
        where = formats.fit_to_width(names + more + place, 34).rstrip()
        url = safe(session.url)
        lines = [question_text.format_line("where", where, ("  on ", "$muted"), url)]
        if choice.about:
            lines.append(
                question_text.format_line("what", (formats.fit_to_width(safe(choice.about), 60).rstrip(), "$strong"))
            )
        if choice.count_difference:
            lines.append(question_text.format_line("count", choice.count_difference))
        if choice.target.scanned_jobs:
            scanned = formats.format_count(choice.target.scanned_jobs, width=12)
            words = f"only among the first {scanned}: the rest was not looked at"
            lines.append(question_text.format_line("", (words, "$state-reserved")))
        lines += question_text.build_warnings(choice.verb, choice.target)
        largest_total = max(len(jobs) for _ref, jobs in choice.jobs_by_queue) if len(choice.refs) > 1 else choice.total
        undo = form_values.describe_undo(session, choice.verb, choice.refs[0], largest_total, choice.target.place)
        lines += [question_text.format_line("undo", undo)] if undo else []
        room = question_text.compute_line_width(self._host.app.size.width)
        if plan is None:
            return [*lines, question_text.format_line("dry run", ("looking …", "$muted"))]
        return [
            *lines,
            *question_text.format_plan(plan, self._batches.speeds.get(choice.script), choice.refs, room),
        ]

    def _validate(self, choice: Choice, values: Values) -> None:
        """Raise UsageError with an error message if no script would accept these values."""
        form, rate_limit = _split_rate_limit(values)
        if rate_limit is None and any(name in values for name in _RATE_FIELDS):
            raise UsageError("a limit needs a rate: say how many jobs per second.")
        system = self._session.systems[choice.refs[0].system]
        if rate_limit is not None and len(verb_resolution.group_values_by_script(system, choice.verb, form)) > 1:
            raise UsageError("a drip runs one verb; fill in the field of one.")
        form_values.validate_form(self._session, choice.verb, choice.target, form)

    # -- sending --------------------------------------------------------------------------------------------------

    def _send(self, choice: Choice, given: FormReply) -> None:
        systems, (values, rate_limit) = self._session.systems, _split_rate_limit(given.values)
        circumstances = Circumstances(chosen=_describe_jobs(choice), rate=rate_limit.describe() if rate_limit else "")
        for name, form in verb_resolution.group_values_by_script(systems[choice.refs[0].system], choice.verb, values):
            first_form = verb_resolution.complete_form(systems[choice.refs[0].system], name, choice.target, form)
            if rate_limit is not None:
                self._drips.start(name, choice.jobs_by_queue, first_form, rate_limit, choice.place, circumstances)
                continue
            batch = Batch(Tally(name, choice.refs[0], choice.total), circumstances=circumstances)
            batch.on_refused = lambda reason: self._show_question(choice, given, reason)
            requests = []
            for ref, jobs in choice.jobs_by_queue:
                completed = verb_resolution.complete_form(systems[ref.system], name, choice.target, form)
                requests.append(Request(name, ref, completed, batch, jobs, choice.place))
            self._batches.send(*requests)


def _split_rate_limit(values: Values) -> tuple[Values, Limits | None]:
    """Split a form's values into the verb's form and the rate limit. The limit is None if no rate was given."""
    from rqtui.operations.rate_limit import Limits

    form = {name: value for name, value in values.items() if name not in _RATE_FIELDS}
    per_s = values.get("rate")
    if not isinstance(per_s, float):
        return form, None
    failures, depth = values.get("stop_at_failures"), values.get("stop_at_depth")
    limits = [value if isinstance(value, int) else None for value in (failures, depth)]
    return form, Limits(per_s, *limits)


def _describe_jobs(choice: Choice) -> str:
    """Describe the chosen jobs for the journal."""
    if choice.place:
        return f"all of {choice.place}"
    where = f" of {choice.target.place}" if choice.target.place else ""
    jobs = formats.format_quantity(choice.total, "job")
    if choice.target.holder:
        return f"{jobs} of {choice.target.holder}"
    return f"{choice.about}{where}" if choice.about else f"{jobs}{where}, marked"


def _build_title(choice: Choice) -> str:
    number = (
        question_text.format_jobs(choice.total)
        if choice.is_exact
        else f"about {question_text.format_jobs(choice.total)}"
    )
    question = choice.verb.question or choice.verb.label.capitalize()
    if choice.place:
        return f"{question}: all {'' if choice.is_exact else 'of '}{number} in {choice.place}"
    if len(choice.refs) > 1:
        return f"{question}: {number} of {len(choice.refs)} queues"
    if choice.about:
        return f"{question}: {number} that match" + ("es" if choice.total == 1 else "")
    if choice.target.holder:
        return f"{question}: {number} of {formats.elide_middle(choice.target.holder, 32)}"
    return f"{question}: {number}" if choice.total == 1 else f"{question}: {number} that are marked"


def _format_plan_error(error: str) -> Content:
    return question_text.format_line("dry run", (safe(error), "$state-dead"))
