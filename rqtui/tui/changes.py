"""Changes: the half of the app that asks, sends verbs to the ticker, counts the answers and puts them into words.

`copy_job.py` copies, `bulk.py` asks about many of them, `dripping.py` does them slowly; all of them send from here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui import server, tick
from rqtui.errors import UsageError
from rqtui.model import Job, Ref
from rqtui.tui import acts, display, happened, keys, questions
from rqtui.tui.bulk import Bulk
from rqtui.tui.copy_job import CopyJob
from rqtui.tui.dripping import Dripping
from rqtui.tui.overview import Overview
from rqtui.tui.view import Target
from rqtui.verbs import Field, Verb

if TYPE_CHECKING:
    from rqtui.tui.dialogs import Given, Values

MANY = 500  # answers; a change of more shows how far it is
TOO_SHORT_S = 0.5  # of a change, to measure how fast it went


@dataclass(slots=True)
class Batch:
    """Requests that are told as one: `open` of them are under way. `refused` shows the form again with the reason."""

    tally: acts.Tally
    open: int = 0
    error: str = ""
    queues: list[Ref] = field(default_factory=list)
    is_stopped: bool = False
    refused: Callable[[str], None] | None = None
    then: Callable[[acts.Tally], None] | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One verb on one queue: jobs, or with `place` all that stands there, or neither. Kept to send it again."""

    name: str
    ref: Ref
    form: Values
    batch: Batch
    jobs: Sequence[Job] = ()
    place: str = ""


class Changes(Bulk, Dripping, CopyJob):
    """A mixin of the app."""

    _open: dict[tuple[str, Ref], deque[Request]]  # by what their answers are called, in the order they were sent
    speeds: dict[str, float]  # jobs per second that a verb did here

    def begin_session(self) -> None:
        """Nothing is under way."""
        super().begin_session()
        self._open, self.speeds = {}, {}

    # -- which verb -----------------------------------------------------------------------------------------------

    def verb_for(self, key: str, target: Target | None = None) -> Verb | None:
        """Which verb a key means for what is under the cursor, or for `target`; None when it can do nothing here."""
        target = target or self.cockpit.target()
        verb = acts.verb_for(self.cockpit.layouts, key, target)
        return None if verb is None or self.cockpit.denial(verb.script or verb.name, target.ref) else verb

    def check_verb(self, key: str, target: Target | None = None) -> bool | None:
        """Whether a verb's key works now: False hides it, None shows it grey."""
        if self.cockpit.is_read_only:
            return False
        if self.cockpit.engine is None or (self.cockpit.view is not None and self.cockpit.view.is_too_small):
            return None
        target = target or self.cockpit.target()
        ref, is_overview = target.ref, isinstance(self.cockpit.view, Overview)
        if is_overview and all(verb.scope == "job" for verb in keys.verbs_of(key)):
            return False
        if ref is None and not is_overview and not self.verb_for(key, target):
            return False
        if ref and not any(self.cockpit.layouts[ref.layout].can(v.script or v.name) for v in keys.verbs_of(key)):
            return False
        if ref and all(self.cockpit.denial(v.script or v.name, ref) for v in keys.verbs_of(key)):
            return False
        if self.cockpit.lost or self.cockpit.snapshot is None:
            return None
        return True if self.verb_for(key, target) else None

    def offered(self) -> list[tuple[Verb, str]]:
        """The verbs that the palette has now, each with its script's first line."""
        target = self.cockpit.target()
        if self.cockpit.is_read_only or self.cockpit.lost or target.ref is None:
            return []
        system = self.cockpit.layouts[target.ref.layout]
        ways = [verb for key in ("", *keys.VERB_KEYS) for verb in keys.verbs_of(key) if verb.script]
        return [
            (v, v.summary or _first_clause(system.scripts[v.name].summary))
            for v in (*system.verbs(), *ways)
            if acts.offered(system, v, target) and not self.cockpit.denial(v.script or v.name, target.ref)
        ]

    # -- asking ---------------------------------------------------------------------------------------------------

    def action_verb(self, key: str) -> None:
        """Asks what has to be asked, and sends the verb."""
        verb, view = self.verb_for(key), self.cockpit.view
        if verb and not (view and view.begins(verb)):
            self.begin(verb, self.cockpit.target())

    def begin(self, verb: Verb, target: Target, *, is_chosen: bool = False) -> None:
        """The way from a verb to its request: a question where one is due, then the inbox."""
        if not self.may_change():
            return
        if verb.script == "enqueue":
            self.begin_copy(verb, target)
            return
        if acts.is_bulk(verb, target):
            self.begin_bulk(verb, target)
            return
        fields = self._fields(verb, target)
        if acts.asks_first(verb, target, bool(fields), is_chosen):
            self._ask(verb, target, fields)
        else:
            self._send(verb, target, None)

    def may_change(self) -> bool:
        """Whether anything can be changed now; says why not."""
        if self.cockpit.is_read_only or self.cockpit.lost or self.cockpit.engine is None:
            why = "changes are not allowed here" if self.cockpit.is_read_only else "Redis is away"
            self.cockpit.say(f"Nothing was changed: {why}.", "warning")
            return False
        return True

    def _fields(self, verb: Verb, target: Target) -> tuple[Field, ...]:
        fields = verb.form if target.ref is None else acts.fields(self.cockpit.layouts[target.ref.layout], verb)
        if verb.name != "enqueue" or not isinstance(self.cockpit.view, Overview):
            return fields
        named = acts.QUEUE_FIELD if target.ref is None else Field("queue", "queue", default=target.ref.queue)
        return (named, *fields)

    def _ask(
        self, verb: Verb, target: Target, fields: tuple[Field, ...], given: Given | None = None, problem: str = ""
    ) -> None:
        from rqtui.tui.dialogs import Question

        total = self.total(target)
        named = target.ref.queue if target.ref and not any(field.name == "queue" for field in fields) else ""
        undo = self.undo_words(verb, target.ref, total, target.place) if target.ref else ""
        url = server.mask(self.cockpit.settings.url)
        dialog = Question(
            display.safe(questions.title(verb, target, total, named)),
            questions.lines(verb, target, total, url, undo),
            fields,
            verb.label,
            verb.danger,
            lambda values: self.check_form(verb, target, values),
            given.typed if given else None,
            problem,
            bodies=given.bodies if given else None,
            guard=self.guard(verb, [target.ref] if target.ref else []),
        )

        def decided(given: Given | None) -> None:
            if given is not None:
                self._send(verb, target, given)

        self.cockpit.push_screen(dialog, decided)

    def undo_words(self, verb: Verb, ref: Ref, total: int, place: str) -> str:
        """Whether `z` takes it back, in words."""
        keeper = self.cockpit.keeper
        problem = keeper.checked() if keeper else "nothing is kept in this session"
        return questions.undo_words(self.cockpit.layouts[ref.layout], verb, total, place, problem)

    def guard(self, verb: Verb, refs: Sequence[Ref]) -> str:
        """What has to be typed before a dangerous verb in a guarded profile: the queue's name; of several, the verb."""
        if not (verb.danger and self.cockpit.settings.is_guarded and refs):
            return ""
        return refs[0].queue if len(refs) == 1 else verb.name

    def total(self, target: Target) -> int:
        """How many jobs or workers a verb would be done to."""
        snapshot = self.cockpit.snapshot
        page = snapshot.page(target.ref, target.place) if snapshot and target.ref else None
        if target.whole and page:
            return page.total if page.of is None else page.of
        return len(target.jobs) or len(target.workers)

    def check_form(self, verb: Verb, target: Target, values: Values) -> None:
        """Raises, in words, what no script would take; nothing is sent."""
        parts = self.parts(verb, target, values)
        if not parts:
            raise UsageError("fill in at least one field.")
        sample = target.jobs[:1]
        if target.whole and target.ref and self.cockpit.snapshot:
            page = self.cockpit.snapshot.page(target.ref, target.place)
            sample = page.jobs[:1] if page else ()
        for name, ref, form in parts:
            if verb.scope != "worker" and (sample or verb.scope != "job"):
                self.cockpit.layouts[ref.layout].act_asks(name, ref.queue, sample, form)

    def parts(self, verb: Verb, target: Target, values: Values) -> list[tuple[str, Ref, Values]]:
        """(script, queue, form) for each script that a form is for."""
        values = dict(values)
        queue = values.pop("queue", None)
        same = target.ref is not None and queue == target.ref.queue
        ref = target.ref if queue is None or same else self.cockpit.find(str(queue))
        ref = ref or self.cockpit.find(acts.QUEUE_FIELD.default)
        system = self.cockpit.layouts[ref.layout]
        return [(name, ref, acts.completed(system, name, target, form)) for name, form in acts.by_verb(verb, values)]

    # -- sending --------------------------------------------------------------------------------------------------

    def _send(self, verb: Verb, target: Target, given: Given | None) -> None:
        for name, ref, form in self.parts(verb, target, given.values if given else {}):
            batch = Batch(acts.Tally(name, ref, self.total(target) if verb.scope == "job" else 0))
            if given is not None:
                batch.refused = self._again(verb, target, given, name)
            if verb.scope == "worker":
                self.send(*(Request(name, ref, {**form, "worker": each}, batch) for each in target.workers))
            elif verb.scope == "job":
                self.send(Request(name, ref, form, batch, target.jobs, target.place if target.whole else ""))
            else:
                self.send(Request(name, ref, form, batch))

    def _again(self, verb: Verb, target: Target, given: Given, name: str) -> Callable[[str], None]:
        """Shows the part of a form that a script refused."""

        def ask(reason: str) -> None:
            names = {f.name for f in verb.form if (f.verb or verb.name) == name} | {"queue"}
            fields = tuple(field for field in self._fields(verb, target) if field.name in names)
            self._ask(verb, target, fields, given, reason)

        return ask

    def send(self, *requests: Request) -> None:
        """Puts requests into the inbox; those of one batch are told as one."""
        for request in requests:
            self._open.setdefault((request.name, request.ref), deque()).append(request)
            request.batch.open += 1
            request.batch.queues.append(request.ref)
            request.batch.tally.began_s = request.batch.tally.began_s or time.monotonic()
        for request in requests:
            self._post_request(request)

    def _post_request(self, request: Request) -> None:
        ticker = self.cockpit.ticker
        if request.place:
            ticker.act_on_place(request.name, request.ref, request.place, request.form)
        else:
            ticker.act(request.name, request.ref, request.jobs, request.form)

    def stop_changes(self) -> bool:
        """Ends a change of many jobs between two chunks, an undo, and a drip; False where there is none."""
        is_going = [self.stop_drip(), self.cockpit.stop_undo()]
        if not self._busy():
            return any(is_going)
        for batch in self._batches():
            batch.is_stopped = True  # a purge does not go on
        self.cockpit.ticker.cancel()
        return True

    def _batches(self) -> list[Batch]:
        return [request.batch for requests in self._open.values() for request in requests]

    def is_under_way(self, verb: str, ref: Ref) -> bool:
        """Whether an answer to this verb on this queue is still to come."""
        return bool(self._open.get((verb, ref)))

    def _busy(self) -> Batch | None:
        """The first batch of many answers that is under way."""
        long = (b for b in self._batches() if max(b.tally.seen, b.tally.moved) >= MANY or b.tally.total > MANY)
        return next(long, None)

    def progress(self) -> Content | None:
        """How far a change of many jobs is; None where there is none."""
        batch = self._busy()
        if batch is None:
            return self.cockpit.undo_progress() or self.drip_progress()
        tally = batch.tally
        done = max(tally.seen, tally.moved)
        words = f"{tally.verb} {display.count(done, width=9)}"
        if tally.total:
            words += f" of {display.count(tally.total, width=9)}"
            left = max(0, tally.total - done)
            words += f" · {questions.about(left / tally.per_s(time.monotonic()))} left" if done and left else ""
        return Content.assemble((words, "$accented"), (keys.renamed("  Esc stops"), "$muted"))

    # -- answers --------------------------------------------------------------------------------------------------

    def acted(self, message: tick.Acted) -> None:
        """Counts outcomes; at the end of a request says what became of it."""
        key = (message.verb, message.ref)
        requests = self._open.setdefault(key, deque())
        if not requests:  # sent past this half of the app
            requests.append(Request(*key, {}, Batch(acts.Tally(*key), 1, "", [message.ref])))
        request, batch = requests[0], requests[0].batch
        batch.tally.add(message.outcomes)
        if not message.is_last:
            self.cockpit.show_keys()
            return
        if self._goes_on(request, message):
            return
        requests.popleft()
        if not requests:
            del self._open[key]
        batch.open -= 1
        batch.error = batch.error or message.error
        if not batch.open:
            self._finish(batch)
        self.cockpit.show_keys()

    def _goes_on(self, request: Request, message: tick.Acted) -> bool:
        """A purge takes a chunk per call, until nothing is left."""
        batch = request.batch
        left = batch.tally.last.values.get("left") if batch.tally.last else None
        if message.verb != "purge" or message.error or batch.is_stopped or not left:
            return False
        batch.tally.last = None
        self._post_request(request)
        self.cockpit.show_keys()
        return True

    def _finish(self, batch: Batch) -> None:
        tally = batch.tally
        if tally.verb == "enqueue" and tally.moved:
            # Only now: a name must not be written for a job that was refused.
            self.cockpit.ticker.call(("announce", tally.ref), lambda engine: engine.announce(tally.ref))
        lasted_s = time.monotonic() - tally.began_s
        if tally.seen > MANY and lasted_s > TOO_SHORT_S:
            self.speeds[tally.verb] = tally.per_s(time.monotonic())
        refused = batch.error if not tally.seen else (tally.sentence_of_refusal() if tally.is_refused else "")
        if refused and batch.refused and self.cockpit.screen is self.cockpit.view:
            batch.refused(refused)
            return
        if batch.then and tally.moved:
            batch.then(tally)
        self.tell(tally, batch.error, batch.queues)
        for view in self.cockpit.drawn_views():
            view.acted(tally.ids)

    def tell(self, tally: acts.Tally, error: str, queues: Sequence[Ref]) -> None:
        """Says what became of a change, and writes it down."""
        words = tally.sentence() if tally.seen or not error else ""
        if error:
            self.cockpit.say(error, "error")
        if words:
            self.cockpit.say(words, "information" if tally.moved else "warning")
        told = words.removeprefix(f"{tally.verb}: ") or error
        names = list(dict.fromkeys(ref.queue for ref in queues)) or [tally.ref.queue]
        queue = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        self.cockpit.changes.append(happened.Entry(time.time(), tally.verb, queue, display.safe(told)))
        self.cockpit.note(tally, error, [*queues, tally.ref])


def _first_clause(summary: str) -> str:
    return summary.partition(";")[0].rstrip(".") + "."
