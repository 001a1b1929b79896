"""Bulk: a verb on everything that matches: a dry run, a question, then chunks, or drops.

The dry run is made by the engine's thread while the question stands there; saying yes or no ends it. What is done is
asked per id, so what moved meanwhile is answered and not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from rqtui import server, tick
from rqtui.errors import UsageError
from rqtui.model import Job, Ref
from rqtui.tui import acts, display, questions
from rqtui.tui.part import Part
from rqtui.tui.view import Target
from rqtui.verbs import DRIP, Verb, verb

if TYPE_CHECKING:
    from rqtui.drip import Brake
    from rqtui.engine import Engine
    from rqtui.reports import plans
    from rqtui.tui.dialogs import Given, Values

_DRIPS = frozenset(field.name for field in DRIP)


class Choice(NamedTuple):
    """Many jobs that a verb is to be done to: `chosen` by queue, or all that stands in `place` of the only queue.

    `about` are the words for what they have in common.
    """

    verb: Verb
    chosen: tuple[tuple[Ref, tuple[Job, ...]], ...]
    total: int
    target: Target
    place: str = ""
    about: str = ""

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


class Bulk(Part):
    """A mixin of the app."""

    def begin_many(self, verb_name: str, chosen: Sequence[tuple[Ref, Sequence[Job]]], about: str) -> None:
        """A verb on jobs of several queues; `about` says what they have in common: `error "TimeoutError: #"`."""
        app, row = self.cockpit, verb(verb_name)
        if not app.may_change():
            return
        held = tuple((ref, tuple(jobs)) for ref, jobs in chosen if jobs)
        can = [pair for pair in held if app.layouts[pair[0].layout].can(row.script or row.name)]
        if not can:
            app.say(f"nothing to {row.label}." if not held else f"this system cannot {row.label} a job.", "warning")
            return
        ref, jobs = can[0]
        target = Target(ref, jobs[0].place, jobs, state=jobs[0].state)
        self._ask_bulk(Choice(row, tuple(can), sum(len(jobs) for _ref, jobs in can), target, "", about))

    def begin_bulk(self, row: Verb, target: Target) -> None:
        """A verb on a whole place, or on many of its jobs."""
        if target.ref is None:
            return
        about = f"/{target.filter}" if target.filter else ""
        place = target.place if target.whole else ""
        total = self.cockpit.total(target)
        self._ask_bulk(Choice(row, ((target.ref, target.jobs),), total, target, place, about))

    # -- asking ---------------------------------------------------------------------------------------------------

    def _ask_bulk(self, choice: Choice, given: Given | None = None, problem: str = "") -> None:
        from rqtui.tui.dialogs import Question

        app = self.cockpit
        system = app.layouts[choice.refs[0].layout]
        own = acts.fields(system, choice.verb)
        dialog = Question(
            display.safe(_title(choice)),
            self._lines(choice, None),
            acts.with_drip(system, choice.verb, own),
            choice.verb.label,
            choice.verb.danger,
            lambda values: self._check_bulk(choice, values),
            given.typed if given else None,
            problem,
            guard=app.guard(choice.verb, choice.refs),
            own=len(own),
        )

        def planned(answered: tick.Answered) -> None:
            if answered.result is not None:
                dialog.show_lines(self._lines(choice, answered.result))
            elif answered.error:
                dialog.show_lines([*self._lines(choice, None)[:-1], _failed(answered.error)])

        def decided(given: Given | None) -> None:
            app.ticker.end_work(planned)
            if given is not None:
                self._send_bulk(choice, given)

        app.push_screen(dialog, decided)
        app.work(choice.plan, planned)

    def _lines(self, choice: Choice, plan: plans.Plan | None) -> list[Content]:
        app = self.cockpit
        place = f" · {choice.target.place}" if len(choice.refs) == 1 else ""
        names = ", ".join(display.safe(ref.queue) for ref in choice.refs[:3])
        more = f" and {len(choice.refs) - 3} more" if len(choice.refs) > 3 else ""
        where = display.fit(names + more + place, 34).rstrip()
        url = display.safe(server.mask(app.settings.url))
        made = [questions.line("where", where, ("  on ", "$muted"), url)]
        if choice.about:
            made.append(questions.line("what", (display.fit(display.safe(choice.about), 60).rstrip(), "$strong")))
        if choice.target.looked:
            looked = display.count(choice.target.looked, width=12)
            words = f"only among the first {looked}: the rest was not looked at"
            made.append(questions.line("", (words, "$state-reserved")))
        made += questions.warnings(choice.verb, choice.target)
        most = max(len(jobs) for _ref, jobs in choice.chosen) if len(choice.refs) > 1 else choice.total
        undo = app.undo_words(choice.verb, choice.refs[0], most, choice.target.place)
        made += [questions.line("undo", undo)] if undo else []
        if plan is None:
            return [*made, questions.line("dry run", ("looking …", "$muted"))]
        return [
            *made,
            *questions.plan_lines(plan, app.speeds.get(choice.script), choice.refs, questions.room(app.size.width)),
        ]

    def _check_bulk(self, choice: Choice, values: Values) -> None:
        """Raises, in words, what no script would take."""
        app, (form, brake) = self.cockpit, _split(values)
        if brake is None and any(name in values for name in _DRIPS):
            raise UsageError("a line to stop at goes with a rate: say how many per second.")
        if brake is not None and len(acts.by_verb(choice.verb, form)) > 1:
            raise UsageError("a drip does one thing; fill in one of the fields.")
        app.check_form(choice.verb, choice.target, form)

    # -- sending --------------------------------------------------------------------------------------------------

    def _send_bulk(self, choice: Choice, given: Given) -> None:
        from rqtui.tui.changes import Batch, Request

        app, (values, brake) = self.cockpit, _split(given.values)
        for name, form in acts.by_verb(choice.verb, values):
            first = acts.completed(app.layouts[choice.refs[0].layout], name, choice.target, form)
            if brake is not None:
                app.start_drip(name, choice.chosen, first, brake, choice.place)
                continue
            batch = Batch(acts.Tally(name, choice.refs[0], choice.total))
            batch.refused = lambda reason: self._ask_bulk(choice, given, reason)
            requests = []
            for ref, jobs in choice.chosen:
                completed = acts.completed(app.layouts[ref.layout], name, choice.target, form)
                requests.append(Request(name, ref, completed, batch, jobs, choice.place))
            app.send(*requests)


def _split(values: Values) -> tuple[Values, Brake | None]:
    """The form, and the brake of a drip where a rate was given."""
    from rqtui.drip import Brake

    form = {name: value for name, value in values.items() if name not in _DRIPS}
    per_s = values.get("rate")
    if not isinstance(per_s, float):
        return form, None
    failures, depth = values.get("stop_at_failures"), values.get("stop_at_depth")
    whole = [value if isinstance(value, int) else None for value in (failures, depth)]
    return form, Brake(per_s, *whole)


def _title(choice: Choice) -> str:
    number = questions.jobs(choice.total)
    asked = choice.verb.question or choice.verb.label.capitalize()
    if choice.place:
        return f"{asked}: all {number} in {choice.place}"
    if len(choice.refs) > 1:
        return f"{asked}: {number} of {len(choice.refs)} queues"
    if choice.about:
        return f"{asked}: {number} that match" + ("es" if choice.total == 1 else "")
    return f"{asked}: {number}" if choice.total == 1 else f"{asked}: {number} that are marked"


def _failed(error: str) -> Content:
    return questions.line("dry run", (display.safe(error), "$state-dead"))
