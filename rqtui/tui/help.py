"""Pages and sentences of the screen that are made from the tables: help, loops, questions, the diagnosis."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content

from rqtui.loops import Loop
from rqtui.model import State
from rqtui.tui import display, keys
from rqtui.tui.view import Target
from rqtui.verbs import Field, Verb

QUEUE_FIELD = Field("queue", "queue", default="default")


def what(target: Target, total: int) -> str:
    """What a verb acts on, in words."""
    if target.whole:
        return f"all {display.count(total, width=12)} jobs in {target.place}"
    if len(target.jobs) == 1:
        return display.elide_middle(display.safe(target.jobs[0].id), 40)
    return f"{len(target.jobs)} marked jobs"


def question_lines(verb: Verb, target: Target, total: int, url: str) -> list[Content]:
    """What, how many, where, what is lost."""
    if not target.ref:
        return []
    where = f"{target.ref.queue}" + (f" · {target.place}" if verb.scope != "queue" else "")
    lines = [Content.assemble(("where  ", "$muted"), display.safe(where), ("  on ", "$muted"), display.safe(url))]
    if verb.scope == "job":
        lines.append(Content.assemble(("what   ", "$muted"), what(target, total)))
    held = target.place == State.RESERVED or any(job.state is State.RESERVED for job in target.jobs)
    if held and verb.name in ("delete", "kill"):
        lines.append(Content.styled("A worker holds it: its answer will change nothing.", "$state-reserved"))
    if verb.lost:
        lines.append(Content.assemble(("lost   ", "$muted"), (verb.lost, "$state-dead")))
    lines.append(Content())
    return lines


def diagnosis(url: str, error: str) -> Content:
    """What the screen says while there has never been an answer."""
    from rqtui import server

    return Content.assemble(
        ("No answer from Redis yet\n\n", "b $state-dead"),
        (display.safe(server.mask(url)) + "\n\n", "$strong"),
        (display.safe(error) + "\n\n", ""),
        ("It is tried again by itself.  ", "$muted"),
        ("r", "b $accented"),
        (" tries now   ", "$muted"),
        ("q", "b $accented"),
        (" quits", "$muted"),
    )


def keys_page() -> Content:
    """Every key, from the two tables."""
    lines = [Content.styled("Looking: lowercase", "b $strong"), Content()]
    for look in keys.LOOKS:
        where = f"  ({', '.join(look.screens)})" if look.screens else ""
        lines.append(Content.assemble((f"{keys.shown(look.keys):<16}", "b $accented"), look.help, (where, "$muted")))
    lines += [
        Content.assemble((f"{'j k g G PgUp Dn':<16}", "b $accented"), "move"),
        Content(),
        Content.styled("Changing: UPPERCASE", "b $strong"),
        Content(),
    ]
    for key in keys.VERB_KEYS:
        for verb in keys.verbs_of(key):
            takes = ", ".join(verb.takes) or f"the {verb.scope}"
            asks = " · asks first" if verb.danger else ""
            lines.append(Content.assemble((f"{key:<16}", "b $accented"), f"{verb.label:<14}", (takes + asks, "$muted")))
    return Content("\n").join(lines)


def loops_page(loops: Mapping[str, Loop]) -> Content:
    """The last steps of the loops that did something, newest first."""
    lines: list[Content] = []
    for loop in loops.values():
        state = "running" if loop.is_running else "off"
        lines.append(Content.assemble((loop.name, "b $strong"), (f"  {state}", "$muted")))
        rounds = list(loop.rounds)
        if rounds and rounds[-1].error:
            lines.append(Content.styled(f"  {display.safe(rounds[-1].error)}", "$state-dead"))
        steps = [(step, done) for done in reversed(rounds) for step in done.steps if step.moved or step.error]
        for step, done in steps[:20]:
            if step.error:
                detail = Content.styled(display.safe(step.error), "$state-dead")
            else:
                values = {
                    name: value for name, value in step.values.items() if name not in ("moved", "next_ms") and value
                }
                more = ", ".join(f"{name} {value}" for name, value in values.items())
                detail = Content.assemble(f"{step.moved} moved", (f"  {more}  {done.ms:.1f} ms", "$muted"))
            lines.append(
                Content.assemble(
                    ("  " + display.clock(step.at_s * 1000), "$muted"), "  ", display.safe(step.ref.queue), "  ", detail
                )
            )
        if not steps:
            lines.append(Content.styled("  moved nothing yet", "$muted"))
        lines.append(Content())
    return Content("\n").join(lines)
