"""Build the text of a question before a change: what, how many, where, what is lost, undo, and the dry run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.model import Ref
from rqtui.text import formats
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.target import Target
from rqtui.verbs import Verb

if TYPE_CHECKING:
    from rqtui.reports.plans import Plan
    from rqtui.system_base.system import System

_LABEL_CELLS = 8  # cells of a line's label
_MAX_ROWS = 4  # errors and queues listed in a dry run


def compute_line_width(width: int) -> int:
    """Return the width of a line in a scrolling dialog, for the width of a terminal."""
    return max(20, min(76, int(width * 0.96)) - 7)


def format_labelled_line(label: str, *parts: str | tuple[str, str]) -> Content:
    """Format a line of a question with a muted label: `where mail · dead`."""
    return Content.assemble((f"{label:<{_LABEL_CELLS}}", "$muted"), *parts)


def describe_target(target: Target, total: int) -> str:
    """Describe what a verb acts on: a whole place, workers, one job or marked jobs."""
    if target.is_whole_place:
        return f"all {format_job_count(total)} in {target.place}"
    if target.workers:
        worker_name = formats.elide_middle(format_field_value(target.workers[0]), 40)
        return worker_name if len(target.workers) == 1 else f"{len(target.workers)} workers"
    if len(target.jobs) == 1:
        return formats.elide_middle(safe(target.jobs[0].id), 40)
    if target.holder:
        return f"{format_job_count(len(target.jobs))} of {formats.elide_middle(safe(target.holder), 32)}"
    return f"{len(target.jobs)} marked jobs"


def build_question_title(verb: Verb, target: Target, total: int, queue: str) -> str:
    """Build the title of a question before a change: `Delete: 3 marked jobs`, `Enqueue a job in mail`."""
    question = verb.question or verb.label.capitalize()
    if verb.name == "enqueue":
        return f"Enqueue a job in {queue}" if queue else "Enqueue a job"
    if verb.scope == "place":
        return f"{question} {target.place} of {queue}"
    return f"{question} {queue}" if verb.scope == "queue" else f"{question}: {describe_target(target, total)}"


def build_question_lines(verb: Verb, target: Target, total: int, url: str, undo_text: str) -> list[Content]:
    """Build the lines of a question: where, what, how many, what is lost, and whether the change can be undone."""
    if not target.ref:
        return []
    lines = []
    if verb.name != "enqueue":
        is_in_place = verb.scope in ("job", "place") and target.place
        where = safe(target.ref.queue) + (f" · {target.place}" if is_in_place else "")
        lines.append(format_labelled_line("where", where, ("  on ", "$muted"), safe(url)))
    if verb.scope in ("job", "worker"):
        lines.append(format_labelled_line("what", describe_target(target, total)))
    if len(target.jobs) > 1:
        names = ", ".join(formats.shorten_job_id(job.id, 16) for job in target.jobs[:3])
        more = f" and {len(target.jobs) - 3} more" if len(target.jobs) > 3 else ""
        lines.append(format_labelled_line("", (names + more, "$muted")))
    return [*lines, *build_warnings(verb, target), *([format_labelled_line("undo", undo_text)] if undo_text else [])]


def build_warnings(verb: Verb, target: Target) -> list[Content]:
    """Build the warnings of a question: a worker that loses its lease, side effects, and data that is lost."""
    lines = []
    if target.is_held and verb.name in ("delete", "kill", "purge", "release"):
        has_tokens = target.is_whole_place or all(job.token for job in target.jobs)
        consequence = "its answer will change nothing" if has_tokens else "it goes on, and may still release it"
        if verb.name == "release":
            consequence = "it goes on, and another one may begin the same job meanwhile"
        lines.append(
            Content.styled(
                f"{_describe_holder(target)} holds {_choose_pronoun(target)}: {consequence}.", "$state-reserved"
            )
        )
    if verb.effect:
        lines.append(format_labelled_line("then", verb.effect))
    if verb.lost:
        lines.append(format_labelled_line("lost", (verb.lost, "$state-dead")))
    return lines


def _describe_holder(target: Target) -> str:
    """Return the name of the worker that holds the target's only job, or `A worker`, to begin a warning."""
    names = [name for name in target.other_holders if name]
    return formats.elide_middle(format_field_value(names[0]), 24) if len(names) == 1 == len(target.jobs) else "A worker"


def _choose_pronoun(target: Target) -> str:
    """Return `it` for one job of a target, `each of them` for several."""
    return "it" if len(target.jobs) == 1 else "each of them"


def describe_undo_of_change(system: System, verb: Verb, count: int = 0, place: str = "", problem: str = "") -> str:
    """Describe whether `z` can undo a change; empty for a new job and for a command to workers.

    `problem` is the reason why the undo store cannot save jobs.
    """
    if verb.name == "enqueue" or verb.scope == "worker" or verb.script == "enqueue":
        return ""
    from rqtui.operations import undo  # imported late, because no question opens before the first snapshot

    return keys.apply_keymap(undo.describe_undo(system, verb.script or verb.name, count, place, problem))


# -- a dry run --------------------------------------------------------------------------------------------------------


def format_dry_run(plan: Plan, speed: float | None, refs: Sequence[Ref], width: int) -> list[Content]:
    """Format a dry run: jobs read and expected duration, then errors, ages, queues and sample ids.

    `speed` is the measured rate of this verb in jobs per second; without it the plan's estimate is shown. `width` is
    the width of a line.
    """
    lines = [format_labelled_line("dry run", *_format_dry_run_size(plan, speed))]
    lines += _format_most_frequent(
        "error", [(safe(error) or "no message", number) for error, number in plan.by_error], width
    )
    if plan.by_age:
        ages = " · ".join(f"{formats.format_count(number)} {label}" for label, number in plan.by_age)
        lines.append(format_labelled_line("age", ages))
    if len(refs) > 1:
        lines += _format_most_frequent("queue", [(safe(ref.queue), number) for ref, number in plan.by_queue], width)
    if len(plan.by_place) > 1:
        lines.append(
            format_labelled_line(
                "place", " · ".join(f"{formats.format_count(number)} {place}" for place, number in plan.by_place)
            )
        )
    if plan.samples:
        cells = min(16, (width - _LABEL_CELLS) // len(plan.samples) - 2)
        names = "  ".join(formats.shorten_job_id(job.id, cells) for job in plan.samples)
        lines.append(format_labelled_line("e.g.", (names, "$muted")))
    return lines


def _format_dry_run_size(plan: Plan, speed: float | None) -> list[str | tuple[str, str]]:
    seconds = plan.total / speed if speed else plan.seconds
    pieces: list[str | tuple[str, str]] = [(format_job_count(plan.total), "$strong")]
    if not plan.exact:
        pieces.append(f" · the first {formats.format_count(plan.looked, width=12)} were looked at")
    if seconds is not None:
        pieces.append(f" · about {format_estimated_duration(seconds)}")
    return pieces


def format_job_count(number: int) -> str:
    """Format a number of jobs: `1 job`, `12 400 jobs`."""
    return formats.format_quantity(number, "job", 12)


def format_estimated_duration(seconds: float) -> str:
    """Format an estimated duration in whole seconds or more: `1 s`, `40 s`, `3 m`."""
    return formats.format_age(max(1000, round(seconds) * 1000))


def _format_most_frequent(label: str, counts: list[tuple[str, int]], width: int) -> list[Content]:
    """Format the most frequent values of a dry run, one line each, and the number of the others."""
    shown = counts[: _MAX_ROWS + (len(counts) == _MAX_ROWS + 1)]
    lines = [
        format_labelled_line(
            label if not index else "",
            (f"{formats.format_count(number):>7}  ", "$strong"),
            formats.fit_to_width(text, max(12, width - _LABEL_CELLS - 9)).rstrip(),
        )
        for index, (text, number) in enumerate(shown)
    ]
    others = counts[len(shown) :]
    if others:
        other_total = formats.format_count(sum(number for _words, number in others))
        lines.append(format_labelled_line("", (f"{other_total:>7}  with {len(others)} others", "$muted")))
    return lines
