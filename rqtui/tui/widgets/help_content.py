"""Build the help pages from the tables of keys, verbs and demos."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.text import formats
from rqtui.tui import keys
from rqtui.tui.widgets.help_page import KeyGroup, KeyLine

if TYPE_CHECKING:
    from rqtui.scenarios.scenario import Scenario
    from rqtui.verbs import Verb

_TEXT_CELLS = 58  # cells of the text beside a key, which fits on 80 with a scrollbar


def build_key_groups(
    view: str,
    active_names: Collection[str] = (),
    controls: Iterable[keys.Control] = (),
    *,
    may_change: bool = True,
    missing_verbs: Mapping[str, str] = MappingProxyType({}),
) -> list[KeyGroup]:
    """Group every key for the help page: first those in `active_names`, which work on the current row now.

    Then follow other keys of this screen, changes, keys of every screen, keys of the demo, and keys of other screens.
    `missing_verbs` says for a verb why it does not exist here.
    """
    controls = tuple(controls)
    looks = keys.list_general_keys(with_demo=bool(controls))
    of_this = [look for look in looks if view in look.screens]
    verbs = [verb for key in keys.VERB_KEYS for verb in keys.find_verbs_on_key(key)]
    active = _build_active_group(active_names, verbs, of_this)
    other_verbs = [verb for verb in verbs if verb.name not in active_names]
    elsewhere = " elsewhere" if active.lines and len(other_verbs) < len(verbs) else ""
    off = "" if may_change else ", off now (read-only)"
    groups = [
        active,
        _build_look_group("On this screen", [look for look in of_this if look.id not in active_names]),
        KeyGroup(
            f"Changing{elsewhere}: UPPERCASE{off}",
            tuple(_build_verb_line(verb, missing_verbs.get(verb.name, "")) for verb in other_verbs),
        ),
        _build_look_group("Everywhere: lowercase looks", [look for look in looks if not look.screens]),
        KeyGroup(
            "The demo: digits and signs act on its workers, not on the queue",
            tuple(KeyLine(control.key, formats.fit_to_width(control.label, 14), control.text) for control in controls),
        ),
        *_build_groups_of_other_screens(view, looks),
    ]
    return [group for group in groups if group.lines]


def _build_active_group(
    active_names: Collection[str], verbs: Iterable[Verb], looks: Iterable[keys.GeneralKey]
) -> KeyGroup:
    """Group the keys that work on the current row now: first the changes, then the keys of this screen."""
    changes = [_build_verb_line(verb) for verb in verbs if verb.name in active_names]
    others = [_build_look_line(look) for look in looks if look.id in active_names]
    return KeyGroup("Here and now", (*changes, *others))


def _build_look_group(title: str, looks: Iterable[keys.GeneralKey], screen: str = "") -> KeyGroup:
    return KeyGroup(title, tuple(_build_look_line(look, screen) for look in looks))


def _build_groups_of_other_screens(view: str, looks: Iterable[keys.GeneralKey]) -> list[KeyGroup]:
    """Group the keys that do not work on this screen. A key of several screens is listed under the first of them."""
    by_screen: dict[str, list[keys.GeneralKey]] = {}
    for look in looks:
        if look.screens and view not in look.screens:
            by_screen.setdefault(look.screens[0], []).append(look)
    return [_build_look_group(f"On {screen}", there, screen) for screen, there in by_screen.items()]


def _build_look_line(look: keys.GeneralKey, on: str = "") -> KeyLine:
    also = " and ".join(screen for screen in look.screens if screen != on) if on else ""
    signs = keys.spell_out_signs(keys.format_keys(keys.find_current_keys(look)))
    return KeyLine(signs, look.help, f"also on {also}" if also else "", look.id)


def _build_verb_line(verb: Verb, lack: str = "") -> KeyLine:
    takes = ", ".join(verb.takes) or f"the {verb.scope}"
    more = lack or takes + (" · asks first" if verb.is_dangerous or verb.effect else "")
    return KeyLine(keys.find_current_key(verb.key), formats.fit_to_width(verb.label, 14), more, verb.name)


def _format_hanging(key: str, text: str) -> list[Content]:
    """Format a key and its text, wrapped beside the key."""
    labels = (key, *[""] * len(text))
    lines = zip(labels, formats.wrap_to_width(text, _TEXT_CELLS), strict=False)
    return [Content.assemble((formats.fit_to_width(label, 9), "b $accented"), line) for label, line in lines]


def build_demo_page(story: Scenario, url: str) -> Content:
    """Build the page that lists what to try and what to watch in a demo."""
    lines = [Content.styled(line, "$strong") for line in formats.wrap_to_width(story.summary, 9 + _TEXT_CELLS)]
    lines += [Content(), Content.styled("try", "b $strong")]
    lines += [
        line
        for signs, text in story.tries
        for line in _format_hanging(keys.apply_keymap(signs), keys.apply_keymap(text))
    ]
    lines += [Content(), Content.styled("watch", "b $strong")]
    lines += [line for text in story.watch for line in _format_hanging("", text)]
    lines += [Content(), Content.styled(f"The Redis of this demo: redis-cli -u {url}", "$muted")]
    return Content("\n").join(lines)
