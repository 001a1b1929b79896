"""Changes: the half of the app that asks, sends verbs to the ticker, counts the answers and puts them into words."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from textual.content import Content

from rqtui import server, tick
from rqtui.errors import UsageError
from rqtui.model import Ref
from rqtui.tui import acts, display, happened, help, keys
from rqtui.tui.overview import Overview
from rqtui.tui.view import Target
from rqtui.verbs import Field, Verb

if TYPE_CHECKING:
    from rqtui.tui.app import Cockpit
    from rqtui.tui.dialogs import Given, Values

MANY = 500  # answers; a change of more shows how far it is


@dataclass(frozen=True, slots=True)
class _Request:
    """What was sent for a script, to send it again (a purge goes on) or to show its form again (it was refused)."""

    verb: Verb
    ref: Ref
    target: Target
    form: Values
    given: Given | None


class Changes:
    """A mixin of the app."""

    _tallies: dict[tuple[str, Ref], acts.Tally]
    _requests: dict[tuple[str, Ref], _Request]

    def _begin_changes(self) -> None:
        self._tallies, self._requests = {}, {}

    @property
    def _app(self) -> Cockpit:
        return cast("Cockpit", self)

    # -- which verb -----------------------------------------------------------------------------------------------

    def verb_for(self, key: str) -> Verb | None:
        """Which verb a key means for what is under the cursor; None when it can do nothing here."""
        return acts.verb_for(self._app.layouts, key, self._app.target())

    def check_verb(self, key: str) -> bool | None:
        """Whether a verb's key works now: False hides it, None shows it grey."""
        if self._app.settings.read_only:
            return False
        if self._app.engine is None:
            return None
        if isinstance(self._app.view, Overview) and all(verb.scope == "job" for verb in keys.verbs_of(key)):
            return False
        ref = self._app.target().ref
        if ref and not any(self._app.layouts[ref.layout].can(verb.name) for verb in keys.verbs_of(key)):
            return False
        if self._app.lost or self._app.snapshot is None:
            return None
        return True if self.verb_for(key) else None

    def offered(self) -> list[tuple[Verb, str]]:
        """The verbs that the palette has now, each with its script's first line."""
        target = self._app.target()
        if self._app.settings.read_only or self._app.lost or target.ref is None:
            return []
        system = self._app.layouts[target.ref.layout]
        return [
            (v, _first_clause(system.scripts[v.name].summary))
            for v in system.verbs()
            if acts.offered(system, v, target)
        ]

    # -- asking ---------------------------------------------------------------------------------------------------

    def action_verb(self, key: str) -> None:
        """Asks what has to be asked, and sends the verb."""
        verb = self.verb_for(key)
        if verb:
            self.begin(verb, self._app.target())

    def begin(self, verb: Verb, target: Target, *, is_chosen: bool = False) -> None:
        """The way from a verb to its request: a question where one is due, then the inbox."""
        fields = self._fields(verb, target)
        if acts.asks_first(verb, target, bool(fields), is_chosen):
            self._ask(verb, target, fields)
        else:
            self._send(verb, target, None)

    def _fields(self, verb: Verb, target: Target) -> tuple[Field, ...]:
        fields = verb.form if target.ref is None else acts.fields(self._app.layouts[target.ref.layout], verb)
        if verb.name != "enqueue" or not isinstance(self._app.view, Overview):
            return fields
        named = acts.QUEUE_FIELD if target.ref is None else Field("queue", "queue", default=target.ref.queue)
        return (named, *fields)

    def _ask(
        self, verb: Verb, target: Target, fields: tuple[Field, ...], given: Given | None = None, problem: str = ""
    ) -> None:
        total = self._total(target)
        named = target.ref.queue if target.ref and not any(field.name == "queue" for field in fields) else ""
        from rqtui.tui.dialogs import Question

        dialog = Question(
            display.safe(help.question(verb, target, total, named)),
            help.question_lines(verb, target, total, server.mask(self._app.settings.url)),
            fields,
            verb.label,
            verb.danger,
            lambda values: self._check(verb, target, values),
            given.typed if given else None,
            problem,
        )

        def decided(given: Given | None) -> None:
            if given is not None:
                self._send(verb, target, given)

        self._app.push_screen(dialog, decided)

    def _total(self, target: Target) -> int:
        snapshot = self._app.snapshot
        page = snapshot.page(target.ref, target.place) if snapshot and target.ref else None
        return page.total if target.whole and page else len(target.jobs)

    def _check(self, verb: Verb, target: Target, values: Values) -> None:
        """Raises, in words, what no script would take; nothing is sent."""
        parts = self._parts(verb, target, values)
        if not parts:
            raise UsageError("fill in at least one field.")
        sample = target.jobs[:1]
        if target.whole and target.ref and self._app.snapshot:
            page = self._app.snapshot.page(target.ref, target.place)
            sample = page.jobs[:1] if page else ()
        for name, ref, form in parts:
            if sample or verb.scope != "job":
                self._app.layouts[ref.layout].act_asks(name, ref.queue, sample, form)

    def _parts(self, verb: Verb, target: Target, values: Values) -> list[tuple[str, Ref, Values]]:
        """(script, queue, form) for each script that a form is for."""
        values = dict(values)
        queue = values.pop("queue", None)
        same = target.ref is not None and queue == target.ref.queue
        ref = target.ref if queue is None or same else self._app.find(str(queue))
        ref = ref or self._app.find(acts.QUEUE_FIELD.default)
        system = self._app.layouts[ref.layout]
        return [(name, ref, acts.completed(system, name, target, form)) for name, form in acts.by_verb(verb, values)]

    # -- sending --------------------------------------------------------------------------------------------------

    def _send(self, verb: Verb, target: Target, given: Given | None) -> None:
        for name, ref, form in self._parts(verb, target, given.values if given else {}):
            key = (name, ref)
            self._requests[key] = _Request(verb, ref, target, form, given)
            total = self._total(target) if verb.scope == "job" else 0
            self._tallies.setdefault(key, acts.Tally(name, ref)).total += total
            self._post_request(name, self._requests[key])

    def _post_request(self, name: str, request: _Request) -> None:
        target, ticker = request.target, self._app.ticker
        if target.whole and request.verb.scope == "job":
            ticker.act_on_place(name, request.ref, target.place, request.form)
        else:
            ticker.act(name, request.ref, target.jobs if request.verb.scope == "job" else (), request.form)

    def stop_changes(self) -> bool:
        """Ends a change of many jobs between two chunks; False where there is none."""
        if not self._is_busy():
            return False
        for key in self._tallies:
            self._requests.pop(key, None)  # a purge does not go on
        self._app.ticker.cancel()
        return True

    def _is_busy(self) -> bool:
        return any(max(tally.seen, tally.moved) >= MANY for tally in self._tallies.values())

    def progress(self) -> Content | None:
        """How far a change of many jobs is; None where there is none."""
        for tally in self._tallies.values():
            if max(tally.seen, tally.moved) >= MANY:
                done = display.count(max(tally.seen, tally.moved), width=9)
                of = f" of {display.count(tally.total, width=9)}" if tally.total else ""
                return Content.assemble((f"{tally.verb} {done}{of}", "$accented"), ("  Esc stops", "$muted"))
        return None

    # -- answers --------------------------------------------------------------------------------------------------

    def acted(self, message: tick.Acted) -> None:
        """Counts outcomes; at the end of a request says what became of it."""
        key = (message.verb, message.ref)
        tally = self._tallies.setdefault(key, acts.Tally(message.verb, message.ref))
        tally.add(message.outcomes)
        if not message.is_last:
            self._app.show_keys()
            return
        if self._goes_on(key, message, tally):
            return
        self._tallies.pop(key, None)
        request = self._requests.pop(key, None)
        if message.verb == "enqueue" and tally.moved:
            # Only now: a name must not be written for a job that was refused.
            self._app.ticker.call(key, lambda engine: engine.announce(message.ref))
        refused = message.error if not tally.seen else (tally.sentence_of_refusal() if tally.is_refused else "")
        if refused and request and request.given and self._app.screen is self._app.view:
            names = {f.name for f in request.verb.form if (f.verb or request.verb.name) == message.verb}
            fields = tuple(f for f in self._fields(request.verb, request.target) if f.name in {*names, "queue"})
            self._ask(request.verb, request.target, fields, request.given, refused)
            return
        self._tell(message, tally)
        for view in self._app._views():
            view.acted(tally.ids)
        self._app.show_keys()

    def _goes_on(self, key: tuple[str, Ref], message: tick.Acted, tally: acts.Tally) -> bool:
        """A purge takes a chunk per call, until nothing is left."""
        request = self._requests.get(key)
        left = tally.last.values.get("left") if tally.last else None
        if message.verb != "purge" or message.error or request is None or not left:
            return False
        tally.last = None
        self._post_request(message.verb, request)
        self._app.show_keys()
        return True

    def _tell(self, message: tick.Acted, tally: acts.Tally) -> None:
        words = tally.sentence() if tally.seen or not message.error else ""
        if message.error:
            self._app.say(message.error, "error")
        if words:
            self._app.say(words, "information" if tally.moved else "warning")
        told = words.partition(": ")[2] or message.error
        self._app.changes.append(happened.Entry(time.time(), message.verb, message.ref.queue, display.safe(told)))


def _first_clause(summary: str) -> str:
    return summary.partition(";")[0].rstrip(".") + "."
