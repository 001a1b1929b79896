"""Validate the keymap of the config file against the bindings that exist.

A key has one meaning per screen. An entry that breaks this rule, or names an unknown binding or key, is left out and
reported; the other entries apply. `keys.set_keymap` and `App.set_keymap` receive the valid entries.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from textual.binding import Binding
from textual.keys import Keys

from rqtui.config.file import Config, build_similar_word_hint
from rqtui.tui import keys
from rqtui.tui.format.theme import THEMES
from rqtui.verbs import VERBS

_KEY_NAMES = {key.value for key in Keys} | keys.KEY_SIGNS.keys()
_ALL_SCREENS: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MovableBinding:
    """A key binding that the config file can move: its keys, the screens it works on (empty: all), and its label."""

    keys: tuple[str, ...]
    screens: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class ValidatedKeymap:
    """The valid keys by binding id, in the form of `App.set_keymap`, and a sentence for each invalid entry."""

    keymap: Mapping[str, str]
    problems: tuple[str, ...]


def validate_keymap(entries: Mapping[str, str], config: Config) -> ValidatedKeymap:
    """Split the keymap of the config file into valid entries and problems.

    `entries` has the keys by the name of a binding.
    """
    if not entries:
        return ValidatedKeymap({}, ())
    bindings = list_movable_bindings()
    valid_keys: dict[str, str] = {}
    names: dict[str, str] = {}  # names as written in the file, by id
    problems: list[str] = []
    for binding_name, wanted_keys in entries.items():
        try:
            binding_id, parsed_keys = _parse_keymap_entry(binding_name, wanted_keys, bindings)
        except ValueError as error:
            problems.append(f"{config.format_key_position('keymap', binding_name)}: {error}")
            continue
        valid_keys[binding_id], names[binding_id] = parsed_keys, binding_name
    while clash := _find_key_clash(valid_keys, bindings):
        binding_id, key, other_id = clash
        shown_key, binding_name = keys.format_keys(key), bindings[other_id].name
        position = config.format_key_position("keymap", names[binding_id])
        problems.append(f'{position}: keymap.{names[binding_id]}: "{shown_key}" is taken by {binding_name} already.')
        del valid_keys[binding_id]
    return ValidatedKeymap(valid_keys, tuple(problems))


def list_movable_bindings() -> dict[str, MovableBinding]:
    """Return all key bindings that the config file can move, by binding id."""
    bindings: dict[str, MovableBinding] = {}
    for general_key in keys.GENERAL_KEYS:
        ids, key_names = keys.list_binding_ids(general_key), general_key.keys.split(",")
        groups = [key_names] if len(ids) == 1 else [[key] for key in key_names]
        for binding_id, group in zip(ids, groups, strict=True):
            bindings[binding_id] = MovableBinding(tuple(group), general_key.screens, f'"{general_key.label}"')
    for replay_key in keys.REPLAY_KEYS:
        bindings[replay_key.id] = MovableBinding(
            tuple(replay_key.keys.split(",")), ("Replay",), f'"{replay_key.label}" of a recording'
        )
    for key in keys.VERB_KEYS:
        names = " or ".join(verb.label for verb in keys.find_verbs_on_key(key))
        bindings[f"verb_{key}"] = MovableBinding((key,), _ALL_SCREENS, f'"{names}"')
    return bindings | dict(_list_dialog_bindings())


def map_keymap_names_to_ids() -> dict[str, str]:
    """Return the binding id for each name that the config's keymap may use: an id, a key's name or a verb's name."""
    ids_by_name = {binding_id: binding_id for binding_id in list_movable_bindings()}
    ids_by_name |= {
        general_key.id: ids[0]
        for general_key in keys.GENERAL_KEYS
        if len(ids := keys.list_binding_ids(general_key)) == 1
    }
    return ids_by_name | {verb.name: f"verb_{verb.key}" for verb in VERBS if verb.key and verb.name not in ids_by_name}


def find_theme_problems(config: Config) -> list[str]:
    """Return a sentence for every unknown theme in the config file."""
    tables = [((), config.top), *((("profiles", name), table) for name, table in config.profiles.items())]
    return [
        f"{config.format_key_position(*path, 'theme')}: {problem}"
        for path, table in tables
        if "theme" in table and (problem := explain_unknown_theme(table["theme"]))
    ]


def explain_unknown_theme(name: str) -> str:
    """Return why a theme's name is unknown, with a suggestion, or "" for a known theme."""
    from textual.theme import BUILTIN_THEMES

    theme_names = {theme.name for theme in THEMES} | BUILTIN_THEMES.keys()
    return "" if name in theme_names else f'there is no theme "{name}". {build_similar_word_hint(name, theme_names)}'


def _list_dialog_bindings() -> Iterator[tuple[str, MovableBinding]]:
    """Yield (binding id, binding) of the dialogs, whose keys cannot clash with those of views."""
    from rqtui.tui.widgets.filter_line import FilterLine
    from rqtui.tui.widgets.finder import Finder, FindLine
    from rqtui.tui.widgets.help_page import KeyPage
    from rqtui.tui.widgets.question_dialog import Question
    from rqtui.tui.widgets.text_dialog import Pages

    for dialog in (Question, Pages, KeyPage, FilterLine, Finder, FindLine):
        for binding in dialog.BINDINGS:
            match binding:
                case Binding(id=str(id), key=key, description=label):
                    yield id, MovableBinding(tuple(key.split(",")), (dialog.__name__,), f'"{label or id}"')


def _parse_keymap_entry(name: str, wanted: str, bindings: Mapping[str, MovableBinding]) -> tuple[str, str]:
    """Return (binding id, keys in Textual's notation) of a keymap entry. Raises ValueError with an error message."""
    ids_by_name = map_keymap_names_to_ids()
    if name not in ids_by_name:
        raise ValueError(f'keymap has no binding "{name}". {build_similar_word_hint(name, ids_by_name)}')
    parsed_keys = [_to_textual_key(key) for key in map(str.strip, wanted.split(","))]
    for key in parsed_keys:
        if not _is_valid_key(key):
            raise ValueError(f'keymap.{name}: there is no key "{key}"; write d, D, ctrl+d, enter, comma or the like.')
    return ids_by_name[name], ",".join(parsed_keys)


def _to_textual_key(key: str) -> str:
    return next(iter(Binding.make_bindings([(key, "")]))).key if key else key


def _is_valid_key(key: str) -> bool:
    last = key.rpartition("+")[2]
    if len(last) == 1 or _KEY_NAMES & {key, last}:
        return True
    try:
        return bool(unicodedata.lookup(last.replace("_", " ")))
    except KeyError:
        return False


def _find_key_clash(
    valid_keys: Mapping[str, str], bindings: Mapping[str, MovableBinding]
) -> tuple[str, str, str] | None:
    """Return (id, key, other id) of the last keymap entry whose key another binding uses on the same screen.

    Returns None if no keys clash.
    """
    current_keys = {
        binding_id: tuple(valid_keys[binding_id].split(",")) if binding_id in valid_keys else binding.keys
        for binding_id, binding in bindings.items()
    }
    for binding_id in reversed(list(valid_keys)):
        for other_id, other_keys in current_keys.items():
            if other_id != binding_id and _has_common_screen(bindings[binding_id].screens, bindings[other_id].screens):
                for key in current_keys[binding_id]:
                    if key in other_keys:
                        return binding_id, key, other_id
    return None


def _has_common_screen(first_screens: tuple[str, ...], second_screens: tuple[str, ...]) -> bool:
    """Return whether two bindings are active on a common screen. A dialog hides the keys of the view below."""
    if any(name[:1].isupper() for name in (*first_screens, *second_screens)):
        return first_screens == second_screens
    return not first_screens or not second_screens or bool(set(first_screens) & set(second_screens))
