"""What a question says before a change: what, how many, where, what is lost, whether `z` undoes it; and a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.model import Ref
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.target import Target
from rqtui.verbs import Verb

if TYPE_CHECKING:
    from rqtui.layout.layout import Layout
    from rqtui.reports.plans import Plan

_LABEL = 8  # cells of the word that says what a line is about
_ROWS = 4  # errors, and queues, of a dry run


def room(width: int) -> int:
    """The cells of a line in a dialog that scrolls, on a terminal of that width."""
    return max(20, min(76, int(width * 0.96)) - 7)


def line(label: str, *parts: str | tuple[str, str]) -> Content:
    """`where   mail · dead`: a muted word, and what it is about."""
    return Content.assemble((f"{label:<{_LABEL}}", "$muted"), *parts)


def what(target: Target, total: int) -> str:
    """What a verb acts on, in words."""
    if target.whole:
        return f"all {jobs(total)} in {target.place}"
    if target.workers:
        one = formats.elide_middle(safe(target.workers[0]), 40)
        return one if len(target.workers) == 1 else f"{len(target.workers)} workers"
    if len(target.jobs) == 1:
        return formats.elide_middle(safe(target.jobs[0].id), 40)
    if target.holder:
        return f"{jobs(len(target.jobs))} of {formats.elide_middle(safe(target.holder), 32)}"
    return f"{len(target.jobs)} marked jobs"


def title(verb: Verb, target: Target, total: int, queue: str) -> str:
    """The title of a question: `Delete: 3 marked jobs`, `Enqueue a job in mail`."""
    asked = verb.question or verb.label.capitalize()
    if verb.name == "enqueue":
        return f"Enqueue a job in {queue}" if queue else "Enqueue a job"
    if verb.scope == "place":
        return f"{asked} {target.place} of {queue}"
    return f"{asked} {queue}" if verb.scope == "queue" else f"{asked}: {what(target, total)}"


def lines(verb: Verb, target: Target, total: int, url: str, undoing: str) -> list[Content]:
    """What, how many, where, what is lost, what can be undone."""
    if not target.ref:
        return []
    made = []
    if verb.name != "enqueue":
        is_in_place = verb.scope in ("job", "place") and target.place
        where = safe(target.ref.queue) + (f" · {target.place}" if is_in_place else "")
        made.append(line("where", where, ("  on ", "$muted"), safe(url)))
    if verb.scope in ("job", "worker"):
        made.append(line("what", what(target, total)))
    if len(target.jobs) > 1:
        names = ", ".join(formats.job_id(job.id, 16) for job in target.jobs[:3])
        more = f" and {len(target.jobs) - 3} more" if len(target.jobs) > 3 else ""
        made.append(line("", (names + more, "$muted")))
    return [*made, *warnings(verb, target), *([line("undo", undoing)] if undoing else [])]


def warnings(verb: Verb, target: Target) -> list[Content]:
    """The warnings: a worker whose job is cut off, and data that is lost."""
    made = []
    if target.is_held and verb.name in ("delete", "kill", "purge", "release"):
        has_tokens = target.whole or all(job.token for job in target.jobs)
        then = "its answer will change nothing" if has_tokens else "it goes on, and may still release it"
        if verb.name == "release":
            then = "it goes on, and another one may begin the same job meanwhile"
        made.append(Content.styled(f"{_holder(target)} holds {_it(target)}: {then}.", "$state-reserved"))
    if verb.effect:
        made.append(line("then", verb.effect))
    if verb.lost:
        made.append(line("lost", (verb.lost, "$state-dead")))
    return made


def _holder(target: Target) -> str:
    names = [name for name in target.others if name]
    return formats.elide_middle(safe(names[0]), 24) if len(names) == 1 == len(target.jobs) else "A worker"


def _it(target: Target) -> str:
    return "it" if len(target.jobs) == 1 else "each of them"


def undo_words(system: Layout, verb: Verb, count: int = 0, place: str = "", problem: str = "") -> str:
    """Whether `z` undoes the change, in words; nothing where a question makes no sense. `problem` is the keeper's."""
    if verb.name == "enqueue" or verb.scope == "worker" or verb.script == "enqueue":
        return ""
    from rqtui.operations import undo  # late: nobody asks before the first picture

    return keys.renamed(undo.words(system, verb.script or verb.name, count, place, problem))


# -- a dry run --------------------------------------------------------------------------------------------------------


def plan_lines(plan: Plan, speed: float | None, refs: Sequence[Ref], width: int) -> list[Content]:
    """A dry run: how many were looked at and how long it will take; then errors, ages, queues and samples.

    `speed` is how many jobs per second this verb did here before; without it the plan's own guess is told. `width` is
    that of a line.
    """
    made = [line("dry run", *_size(plan, speed))]
    made += _ranked("error", [(safe(error) or "no message", number) for error, number in plan.by_error], width)
    if plan.by_age:
        ages = " · ".join(f"{formats.count(number)} {label}" for label, number in plan.by_age)
        made.append(line("age", ages))
    if len(refs) > 1:
        made += _ranked("queue", [(safe(ref.queue), number) for ref, number in plan.by_queue], width)
    if len(plan.by_place) > 1:
        made.append(line("place", " · ".join(f"{formats.count(n)} {place}" for place, n in plan.by_place)))
    if plan.samples:
        cells = min(16, (width - _LABEL) // len(plan.samples) - 2)
        names = "  ".join(formats.job_id(job.id, cells) for job in plan.samples)
        made.append(line("e.g.", (names, "$muted")))
    return made


def _size(plan: Plan, speed: float | None) -> list[str | tuple[str, str]]:
    seconds = plan.total / speed if speed else plan.seconds
    words: list[str | tuple[str, str]] = [(jobs(plan.total), "$strong")]
    if not plan.exact:
        words.append(f" · the first {formats.count(plan.looked, width=12)} were looked at")
    if seconds is not None:
        words.append(f" · about {about(seconds)}")
    return words


def jobs(number: int) -> str:
    """`1 job`, `12 400 jobs`."""
    return formats.numbered(number, "job", 12)


def about(seconds: float) -> str:
    """A time that is a guess: `1 s`, `40 s`, `3 m`."""
    return formats.age(max(1000, round(seconds) * 1000))


def _ranked(label: str, counted: list[tuple[str, int]], width: int) -> list[Content]:
    """The most frequent, a line each, and how many more there are."""
    shown = counted[: _ROWS + (len(counted) == _ROWS + 1)]
    made = [
        line(
            label if not at else "",
            (f"{formats.count(number):>7}  ", "$strong"),
            formats.fit(words, max(12, width - _LABEL - 9)).rstrip(),
        )
        for at, (words, number) in enumerate(shown)
    ]
    rest = counted[len(shown) :]
    if rest:
        together = formats.count(sum(number for _words, number in rest))
        made.append(line("", (f"{together:>7}  with {len(rest)} others", "$muted")))
    return made
