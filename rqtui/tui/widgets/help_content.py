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
    can_change: bool = True,
    missing_verbs: Mapping[str, str] = MappingProxyType({}),
    verb_labels: Mapping[str, str] = MappingProxyType({}),
    in_replay: bool = False,
) -> list[KeyGroup]:
    """Group every key for the help page: first those in `active_names`, which work on the current row now.

    Then follow other keys of this screen, changes, keys of every screen, keys of the demo, and keys of other screens.
    `missing_verbs` says for a verb why it does not exist here. `verb_labels` has the words of the queue's system for
    verbs, beside which the help names the verb of `rqtui act`. In a replay the keys of the time bar come first, and
    there are no changes.
    """
    controls = tuple(controls)
    general_keys = keys.list_general_keys(with_demo=bool(controls), in_replay=in_replay)
    view_keys = [general_key for general_key in general_keys if view in general_key.screens]
    verbs = [verb for key in (() if in_replay else keys.VERB_KEYS) for verb in keys.find_verbs_on_key(key)]
    active = _build_active_group(active_names, verbs, view_keys, verb_labels)
    other_verbs = [verb for verb in verbs if verb.name not in active_names]
    elsewhere = " elsewhere" if active.lines and len(other_verbs) < len(verbs) else ""
    lock_note = "" if can_change else ", off now (read-only)"
    groups = [
        _build_general_key_group("The time of the recording", keys.REPLAY_KEYS if in_replay else ()),
        active,
        _build_general_key_group(
            "On this screen", [general_key for general_key in view_keys if general_key.id not in active_names]
        ),
        KeyGroup(
            f"Changing{elsewhere}: UPPERCASE{lock_note}",
            tuple(_build_verb_line(verb, verb_labels, missing_verbs.get(verb.name, "")) for verb in other_verbs),
        ),
        _build_general_key_group(
            "Everywhere: lowercase looks", [general_key for general_key in general_keys if not general_key.screens]
        ),
        KeyGroup(
            "The demo: digits and signs act on its workers, not on the queue",
            tuple(KeyLine(control.key, formats.fit_to_width(control.label, 14), control.text) for control in controls),
        ),
        *_build_groups_of_other_screens(view, general_keys),
    ]
    return [group for group in groups if group.lines]


def _build_active_group(
    active_names: Collection[str],
    verbs: Iterable[Verb],
    general_keys: Iterable[keys.GeneralKey],
    verb_labels: Mapping[str, str],
) -> KeyGroup:
    """Group the keys that work on the current row now: first the changes, then the keys of this screen."""
    changes = [_build_verb_line(verb, verb_labels) for verb in verbs if verb.name in active_names]
    others = [_build_general_key_line(general_key) for general_key in general_keys if general_key.id in active_names]
    return KeyGroup("On the current row", (*changes, *others))


def _build_general_key_group(title: str, general_keys: Iterable[keys.GeneralKey], screen: str = "") -> KeyGroup:
    return KeyGroup(title, tuple(_build_general_key_line(general_key, screen) for general_key in general_keys))


def _build_groups_of_other_screens(view: str, general_keys: Iterable[keys.GeneralKey]) -> list[KeyGroup]:
    """Group the keys that do not work on this screen. A key of several screens is listed under the first of them."""
    by_screen: dict[str, list[keys.GeneralKey]] = {}
    for general_key in general_keys:
        if general_key.screens and view not in general_key.screens:
            by_screen.setdefault(general_key.screens[0], []).append(general_key)
    return [_build_general_key_group(f"On {screen}", screen_keys, screen) for screen, screen_keys in by_screen.items()]


def _build_general_key_line(general_key: keys.GeneralKey, listed_screen: str = "") -> KeyLine:
    other_screens = (
        " and ".join(screen for screen in general_key.screens if screen != listed_screen) if listed_screen else ""
    )
    signs = keys.spell_out_signs(keys.format_keys(keys.find_current_keys(general_key)))
    return KeyLine(signs, general_key.help, f"also on {other_screens}" if other_screens else "", general_key.id)


def _build_verb_line(verb: Verb, verb_labels: Mapping[str, str], missing_reason: str = "") -> KeyLine:
    label = verb_labels.get(verb.name, verb.label)
    places = ", ".join(verb.takes) or f"the {verb.scope}"
    own_word = f"{verb.name}: " if label != verb.label else ""
    details = own_word + (missing_reason or places + (" · asks first" if verb.is_dangerous or verb.effect else ""))
    return KeyLine(keys.find_current_key(verb.key), formats.fit_to_width(label, 14), details, verb.name)


def _format_key_with_text(key: str, text: str) -> list[Content]:
    """Format a key and its text, wrapped beside the key."""
    labels = (key, *[""] * len(text))
    lines = zip(labels, formats.wrap_to_width(text, _TEXT_CELLS), strict=False)
    return [Content.assemble((formats.fit_to_width(label, 9), "b $accented"), line) for label, line in lines]


def build_demo_page(scenario: Scenario, url: str) -> Content:
    """Build the help page that lists what to try and what to watch in a demo."""
    lines = [Content.styled(line, "$strong") for line in formats.wrap_to_width(scenario.summary, 9 + _TEXT_CELLS)]
    lines += [Content(), Content.styled("try", "b $strong")]
    lines += [
        line
        for signs, text in scenario.tries
        for line in _format_key_with_text(keys.apply_keymap(signs), keys.apply_keymap(text))
    ]
    lines += [Content(), Content.styled("watch", "b $strong")]
    lines += [line for text in scenario.watch for line in _format_key_with_text("", text)]
    lines += [Content(), Content.styled(f"The Redis of this demo: redis-cli -u {url}", "$muted")]
    return Content("\n").join(lines)
