"""Bulk changes: a verb on everything that matches: a dry run, a question, then chunks, or a drip.

The dry run is made by the engine's thread while the question stands there; saying yes or no ends it. What is done is
asked per id, so what moved meanwhile is answered and not changed.
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
from rqtui.tui.services import forms, verb_resolution
from rqtui.tui.services.batches import Batch, Batches, Request
from rqtui.tui.services.rate_limited import RateLimited
from rqtui.tui.services.tally import Tally
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.widgets import questions
from rqtui.verbs import DRIP, Verb, verb

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.operations.rate_limit import Brake
    from rqtui.reports import plans
    from rqtui.tui.widgets.dialogs import Given, Values

_DRIPS = frozenset(field.name for field in DRIP)


class Choice(NamedTuple):
    """Many jobs that a verb is to be done to: `chosen` by queue, or all that stands in `place` of the only queue.

    `about` are the words for what they have in common, `counted` those for how many a row counted.
    """

    verb: Verb
    chosen: tuple[tuple[Ref, tuple[Job, ...]], ...]
    total: int
    target: Target
    place: str = ""
    about: str = ""
    counted: str = ""
    exact: bool = True

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The queues."""
        return tuple(ref for ref, _jobs in self.chosen)

    @property
    def script(self) -> str:
        """What does it."""
        return self.verb.script or self.verb.name

    def plan(self, engine: Engine) -> Iterator[plans.Plan]:
        """Its dry run; on the engine's thread."""
        from rqtui.reports import plans  # late: with it come the engine and undo

        return plans.of_place(engine, self.refs[0], self.place) if self.place else plans.of_jobs(engine, self.chosen)


class BulkChanges:
    """Changes of many jobs of a session."""

    def __init__(self, host: Host, session: Session, batches: Batches, drips: RateLimited) -> None:
        self._host, self._session, self._batches, self._drips = host, session, batches, drips

    def begin_many(
        self, verb_name: str, chosen: Sequence[tuple[Ref, Sequence[Job]]], about: str, counted: str = ""
    ) -> None:
        """A verb on jobs of several queues; `about` says what they have in common: `error "TimeoutError: #"`, `counted`
        how they differ from those that the row counted: `2 500 counted here, 31 more match`."""
        row = verb(verb_name)
        held = tuple((ref, tuple(jobs)) for ref, jobs in chosen if jobs)
        can = [pair for pair in held if self._session.layouts[pair[0].layout].can(row.script or row.name)]
        if not can:
            self._host.say(
                f"nothing to {row.label}." if not held else f"this system cannot {row.label} a job.", "warning"
            )
            return
        ref, jobs = can[0]
        target = Target(ref, jobs[0].place, jobs, state=jobs[0].state)
        self._ask(Choice(row, tuple(can), sum(len(jobs) for _ref, jobs in can), target, "", about, counted))

    def begin(self, row: Verb, target: Target) -> None:
        """A verb on a whole place, or on many of its jobs."""
        if target.ref is None:
            return
        about = f"/{target.filter}" if target.filter else ""
        place = target.place if target.whole else ""
        total = forms.total(self._session, target)
        exact = forms.is_exact(self._session, target)
        self._ask(Choice(row, ((target.ref, target.jobs),), total, target, place, about, exact=exact))

    # -- asking ---------------------------------------------------------------------------------------------------

    def _ask(self, choice: Choice, given: Given | None = None, problem: str = "") -> None:
        from rqtui.tui.widgets.dialogs import Question

        session = self._session
        system = session.layouts[choice.refs[0].layout]
        own = verb_resolution.fields(system, choice.verb)
        dialog = Question(
            safe(_title(choice)),
            self._lines(choice, None),
            verb_resolution.with_drip(system, choice.verb, own),
            choice.verb.label,
            choice.verb.danger,
            lambda values: self._check(choice, values),
            given.typed if given else None,
            problem,
            guard=forms.word_to_type(session, choice.verb, choice.refs),
            is_form=choice.verb.needs_form,
        )

        def planned(answered: ticker.Answered) -> None:
            if answered.result is not None:
                dialog.show_lines(self._lines(choice, answered.result))
            elif answered.error:
                dialog.show_lines([*self._lines(choice, None)[:-1], _failed(answered.error)])

        def decided(given: Given | None) -> None:
            session.end_work(plan)
            if given is not None:
                self._send(choice, given)

        self._host.app.push_screen(dialog, decided)
        plan = session.work(choice.plan, planned)

    def _lines(self, choice: Choice, plan: plans.Plan | None) -> list[Content]:
        session = self._session
        place = f" · {choice.target.place}" if len(choice.refs) == 1 else ""
        names = ", ".join(safe(ref.queue) for ref in choice.refs[:3])
        more = f" and {len(choice.refs) - 3} more" if len(choice.refs) > 3 else ""
        where = formats.fit(names + more + place, 34).rstrip()
        url = safe(session.url)
        made = [questions.line("where", where, ("  on ", "$muted"), url)]
        if choice.about:
            made.append(questions.line("what", (formats.fit(safe(choice.about), 60).rstrip(), "$strong")))
        if choice.counted:
            made.append(questions.line("count", choice.counted))
        if choice.target.looked:
            looked = formats.count(choice.target.looked, width=12)
            words = f"only among the first {looked}: the rest was not looked at"
            made.append(questions.line("", (words, "$state-reserved")))
        made += questions.warnings(choice.verb, choice.target)
        most = max(len(jobs) for _ref, jobs in choice.chosen) if len(choice.refs) > 1 else choice.total
        undo = forms.undo_words(session, choice.verb, choice.refs[0], most, choice.target.place)
        made += [questions.line("undo", undo)] if undo else []
        room = questions.room(self._host.app.size.width)
        if plan is None:
            return [*made, questions.line("dry run", ("looking …", "$muted"))]
        return [
            *made,
            *questions.plan_lines(plan, self._batches.speeds.get(choice.script), choice.refs, room),
        ]

    def _check(self, choice: Choice, values: Values) -> None:
        """Raises, in words, what no script would take."""
        form, brake = _split(values)
        if brake is None and any(name in values for name in _DRIPS):
            raise UsageError("a limit needs a rate: say how many jobs per second.")
        system = self._session.layouts[choice.refs[0].layout]
        if brake is not None and len(verb_resolution.by_verb(system, choice.verb, form)) > 1:
            raise UsageError("a drip runs one verb; fill in the field of one.")
        forms.check(self._session, choice.verb, choice.target, form)

    # -- sending --------------------------------------------------------------------------------------------------

    def _send(self, choice: Choice, given: Given) -> None:
        layouts, (values, brake) = self._session.layouts, _split(given.values)
        how = Circumstances(chosen=_chosen(choice), rate=brake.words() if brake else "")
        for name, form in verb_resolution.by_verb(layouts[choice.refs[0].layout], choice.verb, values):
            first = verb_resolution.completed(layouts[choice.refs[0].layout], name, choice.target, form)
            if brake is not None:
                self._drips.start(name, choice.chosen, first, brake, choice.place, how)
                continue
            batch = Batch(Tally(name, choice.refs[0], choice.total), how=how)
            batch.refused = lambda reason: self._ask(choice, given, reason)
            requests = []
            for ref, jobs in choice.chosen:
                completed = verb_resolution.completed(layouts[ref.layout], name, choice.target, form)
                requests.append(Request(name, ref, completed, batch, jobs, choice.place))
            self._batches.send(*requests)


def _split(values: Values) -> tuple[Values, Brake | None]:
    """The form, and the brake of a drip where a rate was given."""
    from rqtui.operations.rate_limit import Brake

    form = {name: value for name, value in values.items() if name not in _DRIPS}
    per_s = values.get("rate")
    if not isinstance(per_s, float):
        return form, None
    failures, depth = values.get("stop_at_failures"), values.get("stop_at_depth")
    whole = [value if isinstance(value, int) else None for value in (failures, depth)]
    return form, Brake(per_s, *whole)


def _chosen(choice: Choice) -> str:
    """Which jobs, in words for the journal."""
    if choice.place:
        return f"all of {choice.place}"
    where = f" of {choice.target.place}" if choice.target.place else ""
    jobs = formats.numbered(choice.total, "job")
    if choice.target.holder:
        return f"{jobs} of {choice.target.holder}"
    return f"{choice.about}{where}" if choice.about else f"{jobs}{where}, marked"


def _title(choice: Choice) -> str:
    number = questions.jobs(choice.total) if choice.exact else f"about {questions.jobs(choice.total)}"
    asked = choice.verb.question or choice.verb.label.capitalize()
    if choice.place:
        return f"{asked}: all {'' if choice.exact else 'of '}{number} in {choice.place}"
    if len(choice.refs) > 1:
        return f"{asked}: {number} of {len(choice.refs)} queues"
    if choice.about:
        return f"{asked}: {number} that match" + ("es" if choice.total == 1 else "")
    if choice.target.holder:
        return f"{asked}: {number} of {formats.elide_middle(choice.target.holder, 32)}"
    return f"{asked}: {number}" if choice.total == 1 else f"{asked}: {number} that are marked"


def _failed(error: str) -> Content:
    return questions.line("dry run", (safe(error), "$state-dead"))
