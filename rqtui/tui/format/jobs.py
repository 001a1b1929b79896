"""Describe a job for its page: its properties, facts and body, and the hints in the frame of a place.

The functions are pure, from `model.Job` to `Content` with the theme's variables. All data goes through `safe`. A job's
row in a table is built in `tui/format/columns.py`, its history in `tui/format/timeline.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from typing import NamedTuple

from textual.content import Content, Span
from textual.style import Style

from rqtui.model import Fact, Job, Place, Queue, State
from rqtui.system_base.record_sample import KEYS_PER_STEP
from rqtui.system_base.system import find_late_place, is_state_counted_at
from rqtui.text import formats
from rqtui.text.body import is_shown_as_json, render_body
from rqtui.text.facts import LABEL, format_fact
from rqtui.text.masking import build_masking_cache_key, mask_text
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.columns import compute_job_time_ms

_ROOMY, _MOST_LABEL = 45, 22  # panes of at least so many cells have names of up to so many cells
_INDENT = 2
LATE_MS = 1500  # a loop polls once a second: jobs that are less late will be moved soon
EMPTY_SENTENCES: dict[State, str] = {
    State.SCHEDULED: "no job is due later",
    State.READY: "no job is ready: N enqueues one",
    State.RESERVED: "no worker holds a job",
    State.DONE: "no finished job is stored",
    State.DEAD: "no job has died",
}


def format_empty_place(place: Place, places: Sequence[Place], *, is_late: bool, can_change: bool = True) -> str:
    """Return the sentence that is shown in place of the jobs of an empty place, which is one of `places`.

    `is_late`: the place contains only jobs whose lease has expired. `can_change`: a key that enqueues may be suggested.
    """
    if is_late:
        return "no lease is over"
    has_twin = any(other.state is place.state and not other.where and other is not place for other in places)
    if (place.state is State.DEAD or has_twin) and place.name != place.state:
        return f"no job is in {place.name}"
    sentence = keys.apply_keymap(EMPTY_SENTENCES[place.state])
    return sentence if can_change else sentence.partition(":")[0]


def format_unmet_place(place: Place) -> str:
    """Return the sentence for a place whose jobs a walk over all keys searches, if it found none so far."""
    return f"no job of {place.name} was met so far: {KEYS_PER_STEP} keys are searched at each refresh"


class PropertyLayout(NamedTuple):
    """The layout of names and values on a job's page.

    `cells` is the width of the name column, in a pane of `width` cells (0: unlimited). Continuation lines of a value
    start below its first line.
    """

    cells: int = LABEL
    width: int = 0

    def format_line(self, name: str, value: Content | str) -> Content:
        """Return a name with its value beside it, or below it if a word of the value is too long for its column."""
        is_short = formats.cell_len(name) < self.cells
        name_cell = Content.styled(formats.fit_to_width(name, self.cells) if is_short else f"{name} ", "$muted")
        value = Content(value) if isinstance(value, str) else value
        value_cells = self.width - name_cell.cell_length
        if not self.width or value.cell_length <= value_cells:
            return Content.assemble(name_cell, value)
        longest_word = max(map(formats.cell_len, value.plain.split()), default=0)
        if value_cells < longest_word <= self.width:
            indent = " " * min(_INDENT, self.width - longest_word)
            return Content("\n").join(
                [name_cell.rstrip(), *(Content(indent) + line for line in value.wrap(self.width - len(indent)))]
            )
        first_line, *other_lines = value.wrap(max(1, value_cells))
        return Content("\n").join(
            [Content.assemble(name_cell, first_line), *(Content(" " * self.cells) + line for line in other_lines)]
        )


UNLIMITED_LAYOUT = PropertyLayout()


def choose_property_layout(facts: Sequence[Fact], width: int) -> PropertyLayout:
    """Return the layout of names and values on a job's page with these facts, in a pane of `width` cells."""
    longest_name = max((formats.cell_len(safe(fact.name)) for fact in facts), default=0)
    return PropertyLayout(max(LABEL, min(longest_name + 1, LABEL + 1 if width < _ROOMY else _MOST_LABEL)), width)


def format_job_properties(
    job: Job,
    now_ms: int,
    known_fields: frozenset[str],
    is_revealed: bool = False,
    layout: PropertyLayout = UNLIMITED_LAYOUT,
) -> Content:
    """Return the known properties of a job as text, one per line.

    Properties that its system does not store are left out.
    """
    has_record = "tried" in known_fields
    has_lease = "lease" in known_fields or (
        job.ttr_ms and not any((fact.kind, fact.value) == ("duration", job.ttr_ms) for fact in job.facts)
    )
    attempts = f"{job.attempts} of {job.max_attempts}" if job.max_attempts else str(job.attempts)
    mask: Callable[[str], str] = str if is_revealed else mask_text
    rows: list[tuple[object, str, Content | str]] = [
        (True, "id", Content.styled(safe(job.id), "$strong")),
        ("name" in known_fields or job.name, "job", safe(mask(job.name)) or formats.NONE),
        (job.call, "call", safe(mask(job.call))),
        (True, "place", Content.styled(job.place, f"$state-{job.state}")),
        (compute_job_time_ms(job, now_ms) is not None, *_format_time_property(job, now_ms)),
        (has_record or job.attempts, "attempts", attempts),
        ("priority" in known_fields or job.priority, "priority", str(job.priority)),
        (has_lease, "lease", formats.format_age(job.ttr_ms) if job.ttr_ms else "the queue's default"),
        (job.worker or "lease" in known_fields, "worker", safe(mask(job.worker)) or formats.NONE),
        (True, "body", formats.format_size(job.body_bytes)),
    ]
    lines = [(label, value) for is_known, label, value in rows if is_known]
    if job.is_cancelled:
        lines.append(("cancel", Content.styled("asked for, its worker learns it soon", "$state-reserved")))
    if job.problem:
        lines.append(("problem", Content.styled(safe(mask(job.problem)), "$state-dead")))
    return Content("\n").join([layout.format_line(label, value) for label, value in lines])


def format_missing_job(*, in_replay: bool) -> Content:
    """Return the note above the values of a job that the last refresh did not find."""
    reason = "This job is not among the recorded jobs of this moment" if in_replay else "This job no longer exists"
    return Content.styled(f"{reason}; these are its last known values.\n", "$state-reserved")


def select_job_links(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts that lead to another job, in their order."""
    return [fact for fact in facts if fact.kind == "ref"]


def format_job_facts(
    facts: Sequence[Fact],
    now_ms: int,
    *,
    is_revealed: bool = False,
    chosen_link: int | None = None,
    max_lines: int = 99,
    layout: PropertyLayout = UNLIMITED_LAYOUT,
) -> Content:
    """Return the system-specific facts about a job as text: short ones beside their names, others below them.

    A long fact shows at most `max_lines` lines. `chosen_link` is the number of the reference that Enter opens, in the
    result of `select_job_links`. With it, a click on a reference runs the screen's action `link` with its number.
    """
    blocks: list[Content] = []
    number = 0
    for fact in facts:
        name, lines, is_block = format_fact(fact, is_revealed)
        if fact.kind == "ref" and chosen_link is not None:
            style = "b $ground on $accented" if number == chosen_link else "underline $accented"
            link = Content.styled(lines[0], style).stylize(Style.from_meta({"@click": f"screen.link({number})"}))
            blocks.append(layout.format_line(name, link))
            number += 1
        elif is_block:
            hidden = len(lines) - max_lines
            shown_lines = [
                *lines[:max_lines],
                *([f"… {formats.format_quantity(hidden, 'more line')}"] if hidden > 0 else []),
            ]
            text = "\n".join(f"  {line}" for line in shown_lines)
            blocks += [Content.styled(name, "$muted"), highlight_json(text) if fact.kind == "json" else Content(text)]
        else:
            blocks.append(layout.format_line(name, _format_short_fact(fact, lines[0], now_ms)))
    return Content("\n").join(blocks)


def _format_short_fact(fact: Fact, line: str, now_ms: int) -> Content:
    """Return a short fact as one line: JSON with colours, a point in time with its distance from now."""
    if fact.kind == "json":
        return highlight_json(line)
    if fact.kind != "instant" or not isinstance(fact.value, int):
        return Content(line)
    ms = now_ms - fact.value
    return Content.assemble(
        formats.format_instant(fact.value, now_ms),
        (f"  {formats.format_age(ms)} ago" if ms >= 0 else f"  in {formats.format_age(-ms)}", "$muted"),
    )


def _format_time_property(job: Job, now_ms: int) -> tuple[str, Content | str]:
    """Return the (label, text) of the time that matters in the job's state."""
    ms = compute_job_time_ms(job, now_ms)
    if ms is None:
        return "since", formats.NONE
    if job.state is State.SCHEDULED and job.due_ms is None:
        return "waits", f"for {formats.format_age(ms)}"
    if job.state is State.RESERVED and job.deadline_ms is None:
        return "runs", f"for {formats.format_age(ms)}"
    if job.state in (State.SCHEDULED, State.RESERVED):
        label = "due" if job.state is State.SCHEDULED else "lease ends"
        return label, f"in {formats.format_age(ms)}" if ms >= 0 else Content.styled(
            f"{formats.format_age(-ms)} ago", "$state-dead"
        )
    label = {State.READY: "waits", State.DEAD: "died"}.get(job.state, "ended")
    return label, f"for {formats.format_age(ms)}" if job.state is State.READY else f"{formats.format_age(ms)} ago"


NO_BODY = "it has no body"


def format_job_body(job: Job, width: int, is_revealed: bool = False) -> tuple[str, Content]:
    """Return (encoding, text) of a job's body for `width` cells; a body that was not fetched shows its size."""
    if job.body is None and not job.body_bytes:
        return "none", Content.styled(NO_BODY, "$muted")
    if job.body is None:
        key = keys.spell_out_signs(keys.find_current_key("open_job"))
        return "omitted", Content.styled(
            f"{formats.format_size(job.body_bytes)}: {key} shows it",
            "$muted",
        )
    return _format_body_bytes(job.body, is_revealed, width, build_masking_cache_key())


@lru_cache(16)
def _format_body_bytes(body: bytes, is_revealed: bool, width: int, _secrets: object) -> tuple[str, Content]:
    rendered = render_body(body, is_revealed, width=width)
    is_json = is_shown_as_json(rendered.encoding)
    return rendered.encoding, highlight_json(rendered.text) if is_json else Content(rendered.text)


_MOST_COLOURED = 65536  # characters that are coloured; the rest is plain
_HUES = {"key": "$json-key", "string": "$json-string", "number": "$json-number", "mark": "$muted"}
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*")(?P<key>:)?
      | (?P<number>-?\b\d[\d.eE+-]*|\b(?:true|false|null|NaN|Infinity)\b)
      | (?P<mark>[{}\[\],:]|•+)""",
    re.VERBOSE,
)


def highlight_json(text: str) -> Content:
    """Return indented JSON as `Content` with its keys, strings and numbers coloured. The text is not changed."""
    spans = []
    for match in _TOKEN.finditer(text, 0, _MOST_COLOURED):
        kind = match.lastgroup or "mark"
        end = match.end("string") if kind in ("key", "string") else match.end()
        spans.append(Span(match.start(), end, _HUES[kind]))
    return Content(text, spans)


def build_place_hints(
    queue: Queue | None, place: Place, places: Sequence[Place], scripts: Container[str]
) -> list[tuple[str, str]]:
    """Return the (text, style) hints below the frame of one of `places`: what happens next, and which key helps.

    The keys of the loops are named only if `scripts`, those of the system, contain dispatch and reap. A fact
    about a whole state is shown at only one of its places. If expired leases have a place of their own, the hint with
    the key is shown there.
    """
    state, late_place = place.state, find_late_place(places)
    if queue is None or (place is not late_place and not is_state_counted_at(place, places)):
        return []
    if state is State.SCHEDULED and queue.overdue:
        due_ms = queue.next_due_ms
        # A job that has been due for at most LATE_MS is moved by the next poll of a loop.
        is_late = due_ms is None or not -LATE_MS <= due_ms <= 0
        key_hint = f": {keys.find_current_key('dispatcher')} dispatches" if is_late and "dispatch" in scripts else ""
        return [(f"{formats.format_count(queue.overdue)} due{key_hint}", _choose_hint_style(is_late))]
    if state is State.SCHEDULED and queue.next_due_ms is not None:
        return [(f"next due in {formats.format_age(queue.next_due_ms)}", "muted")]
    if state is State.RESERVED and queue.expired and late_place is not None and place is not late_place:
        return [(f"{formats.format_count(queue.expired)} expired: {places.index(late_place) + 1} shows", "muted")]
    if state is State.RESERVED and queue.expired:
        expiry_ms = queue.next_expiry_ms
        is_late = expiry_ms is None or not -LATE_MS <= expiry_ms <= 0
        key_hint = f": {keys.find_current_key('reaper')} reaps" if is_late and "reap" in scripts else ""
        return [(f"{formats.format_count(queue.expired)} expired{key_hint}", _choose_hint_style(is_late))]
    if state is State.READY and queue.is_paused:
        return [(f"paused: {keys.find_current_key('resume')} resumes", "state-reserved")]
    return []


def _choose_hint_style(is_late: bool) -> str:
    """Return the style of a hint in a pane's frame: that of a warning if jobs are late."""
    return "state-dead" if is_late else "muted"
