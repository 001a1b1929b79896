"""A job in words: what its page says of it, its body, and what the frame and the emptiness of a place say.

Pure: from `model.Job` to `Content` with the theme's variables. All data goes through `safe`. Its line in a
table is made in `tui/format/columns.py`, its life in `tui/format/timeline.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from textual.content import Content, Span
from textual.style import Style

from rqtui.layout.layout import late_place, speaks_for_state
from rqtui.model import Fact, Job, Place, Queue, State
from rqtui.text import formats
from rqtui.text.body import body_view, is_tree, mask_text, secrets
from rqtui.text.facts import LABEL, said
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.columns import left_ms

_ROOMY, _MOST_LABEL = 45, 22  # cells of a pane from which on a name has so many at most
_INDENT = 2
LATE_MS = 1500  # a loop looks once a second: what is late by less will be moved in a moment
EMPTY: dict[State, str] = {
    State.SCHEDULED: "no job is due later",
    State.READY: "no job is ready: N enqueues one",
    State.RESERVED: "no worker holds a job",
    State.DONE: "no finished job is kept",
    State.DEAD: "no job has died",
}


def empty(place: Place, places: Sequence[Place], *, is_late: bool, may_change: bool = True) -> str:
    """What one of `places` says without jobs; `is_late`: it holds those of its state whose lease is over."""
    if is_late:
        return "no lease is over"
    has_twin = any(other.state is place.state and not other.where and other is not place for other in places)
    if (place.state is State.DEAD or has_twin) and place.name != place.state:
        return f"no job is in {place.name}"
    words = keys.renamed(EMPTY[place.state])
    return words if may_change else words.partition(":")[0]


class Sheet(NamedTuple):
    """Where names and values stand: so many `cells` for a name, and of a value the next line below its first one, in a
    pane of `width` cells (0: it is as wide as need be)."""

    cells: int = LABEL
    width: int = 0

    def line(self, name: str, value: Content | str) -> Content:
        """A name, and its value beside it; one whose words are longer than what is left there stands below."""
        head = Content.styled(f"{name:<{self.cells}}" if len(name) < self.cells else f"{name} ", "$muted")
        value = Content(value) if isinstance(value, str) else value
        room = self.width - head.cell_length
        if not self.width or value.cell_length <= room:
            return Content.assemble(head, value)
        longest = max(map(formats.cell_len, value.plain.split()), default=0)
        if room < longest <= self.width:
            indent = " " * min(_INDENT, self.width - longest)
            return Content("\n").join(
                [head.rstrip(), *(Content(indent) + each for each in value.wrap(self.width - len(indent)))]
            )
        first, *rest = value.wrap(max(1, room))
        return Content("\n").join([Content.assemble(head, first), *(Content(" " * self.cells) + each for each in rest)])


LOOSE = Sheet()


def sheet(found: Sequence[Fact], width: int) -> Sheet:
    """How a page of a job with these facts is laid out in so many cells."""
    longest = max((formats.cell_len(safe(fact.name)) for fact in found), default=0)
    return Sheet(max(LABEL, min(longest + 1, LABEL + 1 if width < _ROOMY else _MOST_LABEL)), width)


def properties(job: Job, now_ms: int, tells: frozenset[str], is_revealed: bool = False, on: Sheet = LOOSE) -> Content:
    """What is known of a job, a line each; of what its system does not tell, nothing."""
    has_record = "tried" in tells
    has_lease = "lease" in tells or (
        job.ttr_ms and not any((f.kind, f.value) == ("duration", job.ttr_ms) for f in job.facts)
    )
    tried = f"{job.attempts} of {job.max_attempts}" if job.max_attempts else str(job.attempts)
    known: list[tuple[object, str, Content | str]] = [
        (True, "id", Content.styled(safe(job.id), "$strong")),
        ("name" in tells or job.name, "job", safe(job.name) or formats.ZERO),
        (job.call, "call", safe(job.call if is_revealed else mask_text(job.call))),
        (True, "place", Content.styled(job.place, f"$state-{job.state}")),
        (left_ms(job, now_ms) is not None, *_time_line(job, now_ms)),
        (has_record or job.attempts, "attempts", tried),
        ("priority" in tells or job.priority, "priority", str(job.priority)),
        (has_lease, "lease", formats.age(job.ttr_ms) if job.ttr_ms else "as usual in this queue"),
        (job.worker or "lease" in tells, "worker", safe(job.worker) or formats.ZERO),
        (True, "body", formats.size(job.body_bytes)),
    ]
    lines = [(label, value) for is_known, label, value in known if is_known]
    if job.cancelled:
        lines.append(("cancel", Content.styled("asked for, its worker learns it soon", "$state-reserved")))
    if job.problem:
        lines.append(("problem", Content.styled(job.problem, "$state-dead")))
    return Content("\n").join([on.line(label, value) for label, value in lines])


def links(found: Sequence[Fact]) -> list[Fact]:
    """Those that lead to another job, in their order."""
    return [fact for fact in found if fact.kind == "ref"]


def facts(
    found: Sequence[Fact],
    now_ms: int,
    *,
    is_revealed: bool = False,
    are_links: bool = False,
    chosen: int = -1,
    most: int = 99,
    on: Sheet = LOOSE,
) -> Content:
    """What a system knows beyond the properties: short facts beside their names, others below, `most` lines of each.

    Where they `are_links`, a click on a ref is the action `link` of the screen with its number among the `links`, and
    `chosen` is the number of the one that Enter opens.
    """
    made: list[Content] = []
    number = 0
    for fact in found:
        name, lines, is_block = said(fact, is_revealed)
        if fact.kind == "ref" and are_links:
            style = "b $ground on $accented" if number == chosen else "underline $accented"
            link = Content.styled(lines[0], style).stylize(Style.from_meta({"@click": f"screen.link({number})"}))
            made.append(on.line(name, link))
            number += 1
        elif is_block:
            left = len(lines) - most
            shown = [*lines[:most], *([f"… {formats.numbered(left, 'more line')}"] if left > 0 else [])]
            text = "\n".join(f"  {line}" for line in shown)
            made += [Content.styled(name, "$muted"), highlighted(text) if fact.kind == "json" else Content(text)]
        else:
            made.append(on.line(name, _on_one_line(fact, lines[0], now_ms)))
    return Content("\n").join(made)


def _on_one_line(fact: Fact, line: str, now_ms: int) -> Content:
    if fact.kind == "json":
        return highlighted(line)
    if fact.kind != "instant" or not isinstance(fact.value, int):
        return Content(line)
    ms = now_ms - fact.value
    return Content.assemble(
        formats.instant(fact.value, now_ms),
        (f"  {formats.age(ms)} ago" if ms >= 0 else f"  in {formats.age(-ms)}", "$muted"),
    )


def _time_line(job: Job, now_ms: int) -> tuple[str, Content | str]:
    ms = left_ms(job, now_ms)
    if ms is None:
        return "since", formats.ZERO
    if job.state is State.SCHEDULED and job.due_ms is None:
        return "waits", f"for {formats.age(ms)}"
    if job.state is State.RESERVED and job.deadline_ms is None:
        return "runs", f"for {formats.age(ms)}"
    if job.state in (State.SCHEDULED, State.RESERVED):
        label = "due" if job.state is State.SCHEDULED else "lease ends"
        return label, f"in {formats.age(ms)}" if ms >= 0 else Content.styled(f"{formats.age(-ms)} ago", "$state-dead")
    label = {State.READY: "waits", State.DEAD: "died"}.get(job.state, "ended")
    return label, f"for {formats.age(ms)}" if job.state is State.READY else f"{formats.age(ms)} ago"


NO_BODY = "it has no body"


def body(job: Job, width: int, revealed: bool = False) -> tuple[str, Content]:
    """How the body is encoded, and its text for `width` cells; one that was not fetched says how long it is."""
    if job.body is None and not job.body_bytes:
        return "none", Content.styled(NO_BODY, "$muted")
    if job.body is None:
        return "omitted", Content.styled(
            f"{formats.size(job.body_bytes)}: {keys.spelled(keys.key('open_job'))} shows it", "$muted"
        )
    return _shown(job.body, revealed, width, secrets())


@lru_cache(16)
def _shown(body: bytes, revealed: bool, width: int, _secrets: object) -> tuple[str, Content]:
    view = body_view(body, revealed, width=width)
    coloured = is_tree(view.encoding)
    return view.encoding, highlighted(view.text) if coloured else Content(view.text)


_MOST_COLOURED = 65536  # characters; what stands below is plain
_HUES = {"key": "$json-key", "string": "$json-string", "number": "$json-number", "mark": "$muted"}
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*")(?P<key>:)?
      | (?P<number>-?\b\d[\d.eE+-]*|\b(?:true|false|null|NaN|Infinity)\b)
      | (?P<mark>[{}\[\],:]|•+)""",
    re.VERBOSE,
)


def highlighted(text: str) -> Content:
    """Indented JSON with its keys, strings and numbers in their hues; the text is taken as it is."""
    spans = []
    for match in _TOKEN.finditer(text, 0, _MOST_COLOURED):
        kind = match.lastgroup or "mark"
        end = match.end("string") if kind in ("key", "string") else match.end()
        spans.append(Span(match.start(), end, _HUES[kind]))
    return Content(text, spans)


def hints(queue: Queue | None, place: Place, places: Sequence[Place]) -> list[tuple[str, str]]:
    """(words, style) that the frame of one of `places` says below: what happens next there, and the key that helps.

    What is known of a whole state stands at one of its places; where expired leases stand apart, they have the key.
    """
    state, late = place.state, late_place(places)
    if queue is None or (place is not late and not speaks_for_state(place, places)):
        return []
    if state is State.SCHEDULED and queue.overdue:
        due_ms = queue.next_due_ms
        is_late = due_ms is None or not -LATE_MS <= due_ms <= 0  # else: due before all time, and not the next one
        helps = f": {keys.key('dispatcher')} dispatches" if is_late else ""
        return [(f"{formats.count(queue.overdue)} due{helps}", _alarm(is_late))]
    if state is State.SCHEDULED and queue.next_due_ms is not None:
        return [(f"next due in {formats.age(queue.next_due_ms)}", "muted")]
    if state is State.RESERVED and queue.expired and late is not None and place is not late:
        return [(f"{formats.count(queue.expired)} expired: {places.index(late) + 1} shows", "muted")]
    if state is State.RESERVED and queue.expired:
        expiry_ms = queue.next_expiry_ms
        is_late = expiry_ms is None or not -LATE_MS <= expiry_ms <= 0
        helps = f": {keys.key('reaper')} reaps" if is_late else ""
        return [(f"{formats.count(queue.expired)} expired{helps}", _alarm(is_late))]
    if state is State.READY and queue.paused:
        return [(f"paused: {keys.key('resume')} resumes", "state-reserved")]
    return []


def _alarm(is_late: bool) -> str:
    return "state-dead" if is_late else "muted"
