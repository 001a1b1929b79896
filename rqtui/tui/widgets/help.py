"""Pages and sentences of the screen that are made from the tables: help, questions, the demo."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.text import formats
from rqtui.tui import keys
from rqtui.tui.widgets.keypage import Group, Line

if TYPE_CHECKING:
    from rqtui.scenarios.scenario import Scenario
    from rqtui.verbs import Verb

_TEXT = 58  # cells for what stands beside it, so that it fits on 80 beside a scrollbar


def key_groups(
    view: str,
    here: Collection[str] = (),
    controls: Iterable[keys.Control] = (),
    *,
    may_change: bool = True,
    lacks: Mapping[str, str] = MappingProxyType({}),
) -> list[Group]:
    """Every key from the tables, each once: those in `here`, which work on this screen now, then others of this screen,
    changes, those of every screen, the demo's, other screens'. `lacks` says of a verb why there is none here."""
    controls = tuple(controls)
    looks = keys.looks(with_demo=bool(controls))
    of_this = [look for look in looks if view in look.screens]
    everywhere = [look for look in looks if not look.screens]
    elsewhere: dict[str, list[keys.Look]] = {}
    for look in looks:
        if look.screens and view not in look.screens:
            elsewhere.setdefault(look.screens[0], []).append(look)
    verbs = [verb for key in keys.VERB_KEYS for verb in keys.verbs_of(key)]
    now = [_verb_line(verb) for verb in verbs if verb.name in here]
    now += [_look_line(look) for look in of_this if look.id in here]
    rest = [verb for verb in verbs if verb.name not in here]
    off = "" if may_change else ", off now (read-only)"
    groups = [
        Group("Here and now", tuple(now)),
        Group("On this screen", tuple(_look_line(look) for look in of_this if look.id not in here)),
        Group(
            f"Changing{' elsewhere' if now and len(rest) < len(verbs) else ''}: UPPERCASE{off}",
            tuple(_verb_line(verb, lacks.get(verb.name, "")) for verb in rest),
        ),
        Group("Everywhere: lowercase looks", tuple(_look_line(look) for look in everywhere)),
        Group(
            "The demo: digits and signs act on its workers, not on the queue",
            tuple(Line(control.key, formats.fit(control.label, 14), control.text) for control in controls),
        ),
        *(Group(f"On {name}", tuple(_look_line(look, name) for look in there)) for name, there in elsewhere.items()),
    ]
    return [group for group in groups if group.lines]


def _look_line(look: keys.Look, on: str = "") -> Line:
    also = " and ".join(screen for screen in look.screens if screen != on) if on else ""
    signs = keys.spelled(keys.shown(keys.keys_of(look)))
    return Line(signs, look.help, f"also on {also}" if also else "", look.id)


def _verb_line(verb: Verb, lack: str = "") -> Line:
    takes = ", ".join(verb.takes) or f"the {verb.scope}"
    more = lack or takes + (" · asks first" if verb.danger or verb.effect else "")
    return Line(keys.key(verb.key), formats.fit(verb.label, 14), more, verb.name)


def _hanging(key: str, text: str) -> list[Content]:
    """A key and its text, wrapped beside it."""
    labels = (key, *[""] * len(text))
    lines = zip(labels, formats.wrap(text, _TEXT), strict=False)
    return [Content.assemble((formats.fit(label, 9), "b $accented"), line) for label, line in lines]


def demo_page(story: Scenario, url: str) -> Content:
    """What to try in a scenario, and what to watch."""
    lines = [Content.styled(line, "$strong") for line in formats.wrap(story.summary, 9 + _TEXT)]
    lines += [Content(), Content.styled("try", "b $strong")]
    lines += [line for signs, text in story.tries for line in _hanging(keys.renamed(signs), keys.renamed(text))]
    lines += [Content(), Content.styled("watch", "b $strong")]
    lines += [line for text in story.watch for line in _hanging("", text)]
    lines += [Content(), Content.styled(f"The Redis of this demo: redis-cli -u {url}", "$muted")]
    return Content("\n").join(lines)
