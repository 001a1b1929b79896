"""Format the first jobs of a change for the page of a canary: a line for each, with its life-line and a bar that grows.

Pure functions from `operations.canary_jobs.FirstJob` to `Content`. Called by `widgets/canary_page`.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from rqtui.model import State
from rqtui.operations.canary import CanaryProgress
from rqtui.operations.canary_jobs import End, FirstJob
from rqtui.text import formats
from rqtui.text.masking import mask_text
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe

LONG_LINE_CELLS = 110  # from this width on, a job needs one line
KIND_FROM_CELLS = 60  # from this width on, a line has the kind of the job
_ID_CELLS = 14
_KIND_CELLS = 16
_MOST_LINES = 3  # of one life-line on a narrow page
_BAR_CELLS = (10, 20)  # of a narrow and of a wide page
_BAR_SPANS_MS = tuple(
    seconds * 1000
    for seconds in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 43_200, 86_400)
)
_ON_WORKER = " on worker "
_STATE_WORDS = {State.READY: "ready", State.RESERVED: "running"}
_BAR_SIGNS = {State.READY: "∙", State.RESERVED: "━"}  # which differ without colours, and in ASCII
_END_SIGNS = {
    End.DONE: (formats.SEVERITY_SIGNS["ok"], "$state-done"),
    End.FAILED: (formats.SEVERITY_SIGNS["critical"], "$state-dead"),
    End.UNKNOWN: (formats.SEVERITY_SIGNS["unknown"], "$state-reserved"),
}


def format_first_jobs(progress: CanaryProgress, past: str, width: int, height: int) -> list[Content]:
    """Format the first jobs for a page with `width` cells and `height` rows. `past` is the past tense of the verb.

    On a wide page a job has one line. On a narrow page its life-line is below it, or only its last step is beside it
    if not all life-lines fit into the rows.
    """
    span_ms = choose_bar_span_ms(progress)
    is_wide = width >= LONG_LINE_CELLS
    has_kind = width >= KIND_FROM_CELLS
    heads = [_format_head(record, progress.now_ms, span_ms, _BAR_CELLS[is_wide], has_kind) for record in progress.jobs]
    steps_by_job = [describe_steps(record, past, progress.now_ms) for record in progress.jobs]
    if not is_wide:
        lines: list[Content] = []
        for head, steps in zip(heads, steps_by_job, strict=True):
            lines += [head, *(Content(f"  {line}") for line in _wrap_steps(steps, width - 2))]
        if len(lines) <= height:
            return lines
    lines = []
    for head, steps in zip(heads, steps_by_job, strict=True):
        cells = max(8, width - head.cell_length - 2)
        candidates = (" → ".join(steps), _shorten_steps(steps))
        text = next((text for text in candidates if text and formats.cell_len(text) <= cells), steps[-1])
        lines.append(Content.assemble(head, "  ", formats.fit_to_width(text, cells).rstrip()))
    return lines


def _wrap_steps(steps: Sequence[str], width: int) -> list[str]:
    """Wrap a life-line to a few lines, or to one line without what the title says. The last line is cut."""
    lines = formats.wrap_to_width(" → ".join(steps), width)
    short = _shorten_steps(steps)
    if len(lines) > 1 and formats.cell_len(short) <= width:
        return [short]
    rest = " ".join(lines[_MOST_LINES - 1 :])
    return [*lines[: _MOST_LINES - 1], *([formats.fit_to_width(rest, width).rstrip()] if rest else [])]


def _shorten_steps(steps: Sequence[str]) -> str:
    """Return a life-line without the verb and the word `worker`."""
    return " → ".join(steps[1:]).replace(_ON_WORKER, " on ", 1)


def _format_head(record: FirstJob, now_ms: int, span_ms: int, bar_cells: int, has_kind: bool) -> Content:
    """Format the sign, the id, the kind (on a page that is wide enough) and the bar of a first job."""
    sign, hue = _END_SIGNS[record.end] if record.end else ("●", f"$state-{_find_state(record)}")
    id = formats.fit_to_width(formats.shorten_job_id(record.job.id, _ID_CELLS), _ID_CELLS)
    kind = formats.fit_to_width(format_field_value(record.job.name) or formats.NONE, _KIND_CELLS)
    bar = _build_bar(record, now_ms, span_ms, bar_cells)
    return Content.assemble((sign, hue), f" {id} ", (f"{kind} " * has_kind, "$muted"), bar)


def _find_state(record: FirstJob) -> State:
    return record.steps[-1].state if record.steps else State.READY


def choose_bar_span_ms(progress: CanaryProgress) -> int:
    """Return the duration of a full bar: the shortest one of a list that contains all first jobs so far."""
    longest_ms = max((_find_last_ms(record, progress.now_ms) - record.sent_ms for record in progress.jobs), default=0)
    return next((span_ms for span_ms in _BAR_SPANS_MS if span_ms >= longest_ms), _BAR_SPANS_MS[-1])


def _find_last_ms(record: FirstJob, now_ms: int) -> int:
    return now_ms if record.ended_ms is None and record.end is None else record.ended_ms or record.sent_ms


def _build_bar(record: FirstJob, now_ms: int, span_ms: int, cells: int) -> Content:
    """Build the bar of a job: its time in each state in the state's colour, and the rest of the span."""
    ends_ms = [*(step.at_ms for step in record.steps[1:]), _find_last_ms(record, now_ms)]
    parts: list[tuple[str, str]] = []
    used = 0
    for step, end_ms in zip(record.steps, ends_ms, strict=False):
        end = min(cells, round(cells * (end_ms - record.sent_ms) / span_ms))
        if end > used:
            parts.append((_BAR_SIGNS[step.state] * (end - used), f"$state-{step.state}"))
            used = end
    return Content.assemble(*parts, ("▁" * (cells - used), "$frame"))


def describe_steps(record: FirstJob, past: str, now_ms: int) -> list[str]:
    """Describe the steps of a first job: `requeued`, `ready 0.4s`, `running 1.2s on worker w1`, `done after 1.6s`.

    `seen` marks a step whose time is that of the poll that found it.
    """
    end = safe(mask_text(record.describe_end()))
    if not record.is_moved:
        return [end]
    ends_ms = [*(step.at_ms for step in record.steps[1:]), _find_last_ms(record, now_ms)]
    steps = [past]
    for step, end_ms in zip(record.steps, ends_ms, strict=False):
        seen = "seen " if step.is_seen else ""
        worker = f"{_ON_WORKER}{format_field_value(step.worker)}" if step.worker else ""
        steps.append(f"{seen}{_STATE_WORDS[step.state]} {formats.format_duration(end_ms - step.at_ms)}{worker}")
    return [*steps, end] if end else steps


def format_bar_legend(progress: CanaryProgress) -> Content:
    """Format what the colours and the length of the bars mean."""
    span = formats.spell_duration(choose_bar_span_ms(progress) / 1000)
    ready, running = ((2 * sign, f"$state-{state}") for state, sign in _BAR_SIGNS.items())
    return Content.assemble(ready, (" ready  ", "$muted"), running, (f" running  a full bar is {span}", "$muted"))


def describe_limit(progress: CanaryProgress, wait_s: float, run_s: float) -> str:
    """Describe the limit that stops the change unless a first job is taken or ends, with the time that is left."""
    started_ms = [record.steps[-1].at_ms for record in progress.jobs if record.is_running]
    if not started_ms:
        left, limit = progress.wait_left_s, f"no worker takes one within {formats.format_age(1000 * wait_s)}"
    else:
        left, limit = (
            run_s - (progress.now_ms - min(started_ms)) / 1000,
            f"one runs for {formats.format_age(1000 * run_s)}",
        )
    return f"The change stops if {limit}: {formats.format_age(1000 * max(0.0, left))} left."


def describe_counts(progress: CanaryProgress) -> str:
    """Describe how many first jobs ended: `3 of 5 done`, `3 of 5 done, 1 failed`."""
    counts = [f"{progress.done} of {progress.total} done"]
    counts += [f"{progress.failed} failed"] if progress.failed else []
    return ", ".join(counts + ([f"{progress.unknown} ended"] if progress.unknown else []))
