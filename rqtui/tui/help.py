"""Pages and sentences of the screen that are made from the tables: help, loops, questions, the diagnosis, the demo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from textual.content import Content

from rqtui.tui import display, keys
from rqtui.tui.view import Target
from rqtui.verbs import Verb

if TYPE_CHECKING:
    from rqtui.loops import Loop
    from rqtui.model import Worker
    from rqtui.scenarios.scenario import Scenario

_KEY = 16  # cells for a key
_TEXT = 60  # cells for what stands beside it, so that it fits on 80


def what(target: Target, total: int) -> str:
    """What a verb acts on, in words."""
    if target.whole:
        return f"all {display.count(total, width=12)} jobs in {target.place}"
    if len(target.jobs) == 1:
        return display.elide_middle(display.safe(target.jobs[0].id), 40)
    return f"{len(target.jobs)} marked jobs"


def question(verb: Verb, target: Target, total: int, queue: str) -> str:
    """The title of a question: `Delete 3 marked jobs`, `New job in mail`."""
    if verb.name == "enqueue":
        return f"New job in {queue}" if queue else "New job"
    if verb.scope == "place":
        return f"{verb.question or verb.label.capitalize()} {target.place} of {queue}"
    asked = verb.question or verb.label.capitalize()
    return f"{asked}: {what(target, total)}" if verb.scope == "job" else f"{asked} {queue}"


def question_lines(verb: Verb, target: Target, total: int, url: str) -> list[Content]:
    """What, how many, where, what is lost."""
    if not target.ref:
        return []
    lines = []
    if verb.name != "enqueue":
        where = display.safe(target.ref.queue) + (f" · {target.place}" if verb.scope != "queue" else "")
        lines.append(Content.assemble(("where  ", "$muted"), where, ("  on ", "$muted"), display.safe(url)))
    if verb.scope == "job":
        lines.append(Content.assemble(("what   ", "$muted"), what(target, total)))
        if len(target.jobs) > 1:
            names = ", ".join(display.job_id(job.id, 16) for job in target.jobs[:3])
            more = f" and {len(target.jobs) - 3} more" if len(target.jobs) > 3 else ""
            lines.append(Content.assemble(("       ", "$muted"), (names + more, "$muted")))
    if target.is_held and verb.name in ("delete", "kill", "purge"):
        has_tokens = target.whole or all(job.token for job in target.jobs)
        then = "its answer will change nothing" if has_tokens else "it goes on, and may still give it back"
        lines.append(Content.styled(f"A worker holds it: {then}.", "$state-reserved"))
    if verb.lost:
        lines.append(Content.assemble(("lost   ", "$muted"), (verb.lost, "$state-dead")))
    return lines


def diagnosis(url: str, error: str, next_s: float) -> Content:
    """What the screen says while there has never been an answer: where it asked, what went wrong, when it asks next."""
    from rqtui import server

    facts = [Content.assemble((f"{label:<10}", "$muted"), display.safe(value)) for label, value in _parts(url)]
    return Content("\n").join(
        [
            Content.styled("No answer from Redis yet", "b $state-dead"),
            Content(),
            Content.styled(display.safe(server.mask(url)), "$strong"),
            *facts,
            Content(),
            Content(display.safe(error)),
            Content(),
            Content.assemble(
                (f"The next try is in {max(0, round(next_s))} s.   ", "$muted"),
                ("r", "b $accented"),
                (" tries now   ", "$muted"),
                ("q", "b $accented"),
                (" quits", "$muted"),
            ),
            Content.styled("Without a Redis: rqtui demo", "$muted"),
        ]
    )


def _parts(url: str) -> list[tuple[str, str]]:
    """Host, port, database, TLS and user of a URL that `connect` has accepted."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return [("socket", unquote(parts.path))]
    user = unquote(parts.username or "") or ("default" if parts.password else "")
    return [
        ("host", parts.hostname or "localhost"),
        ("port", str(parts.port or 6379)),
        ("database", parts.path.strip("/") or "0"),
        ("TLS", "yes" if parts.scheme == "rediss" else "no"),
        ("login", f"{user}, with a password" if parts.password else (user or "none")),
    ]


def keys_page(controls: Iterable[keys.Control] = ()) -> Content:
    """Every key, from the two tables and a demo's strip."""
    controls = tuple(controls)
    lines = [Content.styled("Looking: lowercase", "b $strong")]
    for look in keys.looks(with_demo=bool(controls)):
        where = f"  {' and '.join(look.screens)}" if look.screens else ""
        lines.append(_line(keys.shown(look.keys), look.help, where))
    lines += [Content(), Content.styled("Changing: UPPERCASE", "b $strong")]
    for key in keys.VERB_KEYS:
        for verb in keys.verbs_of(key):
            takes = ", ".join(verb.takes) or f"the {verb.scope}"
            lines.append(_line(key, display.fit(verb.label, 14), takes + (" · asks first" if verb.danger else "")))
    if controls:
        lines += [
            Content(),
            Content.styled("The demo: digits and signs act on its workers, not on the queue", "b $strong"),
        ]
        lines += [_line(control.key, display.fit(control.label, 14), control.text) for control in controls]
    return Content("\n").join(lines)


def _line(key: str, words: str, more: str) -> Content:
    return Content.assemble((display.fit(key, _KEY), "b $accented"), words, (more, "$muted"))


def _hanging(key: str, text: str) -> list[Content]:
    """A key and its text, wrapped beside it."""
    labels = (key, *[""] * len(text))
    lines = zip(labels, display.wrap(text, _TEXT), strict=False)
    return [Content.assemble((display.fit(label, 9), "b $accented"), line) for label, line in lines]


def demo_page(story: Scenario, url: str) -> Content:
    """What to try in a scenario, and what to watch."""
    lines = [Content.styled(line, "$strong") for line in display.wrap(story.summary, 9 + _TEXT)]
    lines += [Content(), Content.styled("try", "b $strong")]
    lines += [line for keys_, text in story.tries for line in _hanging(keys_, text)]
    lines += [Content(), Content.styled("watch", "b $strong")]
    lines += [line for text in story.watch for line in _hanging("", text)]
    lines += [Content(), Content.styled(f"The Redis of this demo: redis-cli -u {url}", "$muted")]
    return Content("\n").join(lines)


def workers_page(workers: Sequence[Worker] | None, now_ms: int, has_list: bool = True) -> Content:
    """Who works on a queue, those that were heard of last first; `has_list`: whether its system can tell."""
    if not workers and not has_list:
        return Content.styled("This system keeps no list of its workers.", "$muted")
    if not workers:
        return Content.styled("asking …" if workers is None else "No worker has given a sign of life.", "$muted")
    lines = [Content.styled(f"{'worker':<26}{'last beat':>12}  state", "$muted")]
    for worker in sorted(workers, key=lambda each: -each.beat_ms):
        is_late = worker.is_late(now_ms)
        state = "late: it may be gone" if is_late else worker.order
        job = f"  {display.job_id(worker.job, 16)}" if worker.job else ""
        lines.append(
            Content.assemble(
                display.fit(display.safe(worker.name), 26),
                (f"{display.age(max(0, now_ms - worker.beat_ms)) + ' ago':>12}  ", "$muted"),
                (state, "$state-dead" if is_late else "$state-ready"),
                (job, "$muted"),
            )
        )
    return Content("\n").join(lines)


def loops_page(loops: Mapping[str, Loop], queue: str = "", on: Mapping[str, bool] | None = None) -> Content:
    """The last steps of the loops that did something, newest first.

    For a `queue` of another system `on` says which loops it has, by their names, and whether they serve it.
    """
    lines: list[Content] = []
    for loop in loops.values():
        state = ("running", "$state-ready") if loop.is_running else ("off", "$state-reserved")
        if queue and on is not None:
            is_on, about = on.get(loop.name), f" for {display.safe(queue)}"
            state = ("on" + about, "$state-ready") if is_on else ("off" + about, "$state-reserved")
            state = (f"not needed{about}", "$muted") if is_on is None else state
        rounds = list(loop.rounds)
        waits = f"  rests {rounds[-1].wait_s:.1f} s" if rounds and loop.is_running else ""
        lines.append(Content.assemble((loop.name, "b $strong"), "  ", state, (waits, "$muted")))
        if rounds and rounds[-1].error:
            lines.append(Content.styled(f"  {display.safe(rounds[-1].error)}", "$state-dead"))
        steps = [(step, done) for done in reversed(rounds) for step in done.steps if step.moved or step.error]
        for step, done in steps[:20]:
            if step.error:
                detail = Content.styled(display.safe(step.error), "$state-dead")
            else:
                values = {name: n for name, n in step.values.items() if name not in ("moved", "next_ms") and n}
                more = ", ".join(f"{name} {value}" for name, value in values.items())
                detail = Content.assemble(f"{step.moved} moved", (f"  {more}  {done.ms:.1f} ms", "$muted"))
            at = display.clock(step.at_s * 1000)
            lines.append(Content.assemble((f"  {at}", "$muted"), "  ", display.safe(step.ref.queue), "  ", detail))
        if not steps:
            lines.append(Content.styled("  moved nothing yet", "$muted"))
        lines.append(Content())
    return Content("\n").join(lines)
