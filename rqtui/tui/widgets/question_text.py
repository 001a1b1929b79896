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
MAX_ROWS = 4  # errors and queues listed in a dry run


def compute_line_width(width: int) -> int:
    """Return the width of a line in a scrolling dialog, for the width of a terminal."""
    return max(20, min(76, int(width * 0.96)) - 7)


def count_rows(lines: Sequence[Content], width: int) -> int:
    """Return the number of rows that lines take when they are wrapped to a width."""
    return sum(max(1, line.get_height({}, width)) for line in lines)


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
    """Build the title of a question before a change: `Delete 3 marked jobs?`, `Enqueue a job in mail`."""
    question = verb.question or verb.label.capitalize()
    if verb.name == "enqueue":
        return f"Enqueue a job in {queue}" if queue else "Enqueue a job"
    if verb.scope == "place":
        return f"{question} {target.place} of {queue}?"
    return f"{question} {queue if verb.scope == 'queue' else describe_target(target, total)}?"


def build_question_lines(verb: Verb, target: Target, url: str, undo_text: str) -> list[Content]:
    """Build the lines of a question: where, some ids, what is lost, and whether the change can be undone."""
    if not target.ref:
        return []
    lines = []
    if verb.name != "enqueue":
        is_in_place = verb.scope in ("job", "place") and target.place
        where = safe(target.ref.queue) + (f" · {target.place}" if is_in_place else "")
        lines.append(format_labelled_line("where", where, ("  on ", "$muted"), safe(url)))
    if len(target.jobs) > 1:
        names = ", ".join(formats.shorten_job_id(job.id, 16) for job in target.jobs[:3])
        more = f" and {len(target.jobs) - 3} more" if len(target.jobs) > 3 else ""
        lines.append(format_labelled_line("jobs", (names + more, "$muted")))
    return [*lines, *build_warnings(verb, target), *([format_labelled_line("undo", undo_text)] if undo_text else [])]


def build_warnings(verb: Verb, target: Target) -> list[Content]:
    """Build the warnings of a question: a worker that loses its lease, side effects, and data that is lost."""
    lines = []
    if target.is_held and verb.name in ("delete", "kill", "purge", "release"):
        has_tokens = target.is_whole_place or all(job.token for job in target.jobs)
        consequence = "its result will be refused" if has_tokens else "it may still release the job"
        if verb.name == "release":
            consequence = "another worker may start the same job"
        lines.append(
            Content.styled(
                f"{_describe_holder(target)} holds {_choose_pronoun(target)} and does not stop: {consequence}.",
                "$state-reserved",
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


def describe_undo_of_change(system: System, verb: Verb, count: int, place: str, problem: str = "") -> str:
    """Describe whether `z` can undo a change; empty for a new job and for a command to workers.

    `problem` is the reason why the undo store cannot save jobs.
    """
    if verb.name == "enqueue" or verb.scope == "worker" or verb.script == "enqueue":
        return ""
    from rqtui.operations import undo  # imported late, because no question opens before the first snapshot

    return keys.apply_keymap(undo.describe_undo(system, verb.script or verb.name, count, place, problem))


# -- a dry run --------------------------------------------------------------------------------------------------------


def format_dry_run(
    plan: Plan, total: int, refs: Sequence[Ref], width: int, has_errors: bool = True, max_rows: int = MAX_ROWS
) -> list[Content]:
    """Format a dry run: how many jobs were read, then their errors, ages, queues, places and some ids.

    `total` is the number of jobs in the title of the question, `width` the width of a line, `max_rows` the number of
    errors and of queues that are listed.
    """
    lines = [] if plan.total == total else [Content(f"There are {format_job_count(plan.total)} now.")]
    if not plan.exact:
        read_jobs = formats.format_count(plan.looked, width=12)
        lines.append(Content(f"The numbers below are those of the first {read_jobs}."))
    if has_errors:
        lines += _format_most_frequent(
            "errors",
            [(safe(error) or "no message", number) for error, number in plan.by_error],
            width,
            plan.looked,
            max_rows,
        )
    lines += _format_shares("age", plan.by_age)
    if len(refs) > 1:
        lines += _format_most_frequent(
            "queues", [(safe(ref.queue), number) for ref, number in plan.by_queue], width, 0, max_rows
        )
    if len(plan.by_place) > 1:
        lines += _format_shares("places", plan.by_place)
    if plan.samples:
        cells = min(16, (width - _LABEL_CELLS) // len(plan.samples) - 2)
        names = "  ".join(formats.shorten_job_id(job.id, cells) for job in plan.samples)
        lines.append(format_labelled_line("e.g.", (names, "$muted")))
    return lines


def _format_shares(label: str, counts: Sequence[tuple[str, int]]) -> list[Content]:
    """Format how many jobs have which value, in one line: `age  12 under 1 min · 3 under 1 h`, `age  all under 1 h`."""
    if len(counts) == 1:
        return [format_labelled_line(label, f"all {counts[0][0]}")]
    values = " · ".join(f"{formats.format_count(number)} {value}" for value, number in counts)
    return [format_labelled_line(label, values)] if counts else []


def format_location(refs: Sequence[Ref], place: str, url: str, total: int) -> list[Content]:
    """Format the sentence that says in which queues the `total` jobs of a change are, and on which server."""
    names = ", ".join(safe(ref.queue) for ref in refs[:3])
    more = f" and {formats.format_quantity(len(refs) - 3, 'more queue')}" if len(refs) > 3 else ""
    where = f"{place} of {names}" if len(refs) == 1 and place else names + more
    return [Content.assemble("It is in " if total == 1 else "They are in ", where, (f", on {safe(url)}.", "$muted"))]


def format_progress(change: str, done: int, total: int, facts: Sequence[str] = ()) -> Content:
    """Format the progress of a change for the footer: `requeue 408 of 2 500 · 5/s · 7 min left  X stop`.

    A `total` of 0 is not known yet. Empty facts are left out.
    """
    numbers = f" {_format_exact_count(done)}" + (f" of {_format_exact_count(total)}" if total else "")
    text = " · ".join([change + (numbers if done or total else ""), *filter(None, facts)])
    return Content.assemble(
        (text, "$accented"), (f"  {keys.find_current_key('stop')}", "b $strong"), (" stop", "$muted")
    )


def _format_exact_count(number: int) -> str:
    return formats.format_long_count(number) if number else "0"


def format_job_count(number: int) -> str:
    """Format a number of jobs: `1 job`, `12 400 jobs`."""
    return formats.format_quantity(number, "job", 12)


def _format_most_frequent(
    label: str, counts: list[tuple[str, int]], width: int, whole: int, max_rows: int
) -> list[Content]:
    """Format the most frequent values of a dry run, wrapped to the width of a line, and the number of the others."""
    shown = counts[: max_rows + (len(counts) == max_rows + 1)]
    lines = []
    for index, (text, number) in enumerate(shown):
        number_text = f"{'all' if number == whole else formats.format_count(number):>7}  "
        first, *others = filter(None, Content(text).wrap(max(12, width - _LABEL_CELLS - len(number_text))))
        lines.append(format_labelled_line("" if index else label, (number_text, "$strong"), first.plain))
        lines += [Content(" " * (_LABEL_CELLS + len(number_text)) + line.plain) for line in others]
    rest = counts[len(shown) :]
    if rest:
        rest_total = formats.format_count(sum(number for _words, number in rest))
        lines.append(format_labelled_line("", (f"{rest_total:>7}  with {len(rest)} others", "$muted")))
    return lines
