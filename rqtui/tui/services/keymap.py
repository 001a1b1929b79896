"""Validate the keymap of the config file against the bindings that exist.

A key has one meaning per screen. An entry that breaks this rule, or names an unknown binding or key, is left out and
reported; the other entries apply. `keys.take` and `App.set_keymap` receive the valid entries.
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

_KEY_NAMES = {key.value for key in Keys}
_ALL_SCREENS: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MovableBinding:
    """A binding that can be moved: its keys, the screens it works on (empty: all), and its label."""

    keys: tuple[str, ...]
    screens: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class ValidatedKeymap:
    """The valid keys by binding id, in the form of `App.set_keymap`, and a sentence for each invalid entry."""

    keymap: Mapping[str, str]
    problems: tuple[str, ...]


def validate_keymap(entries: Mapping[str, str], config: Config) -> ValidatedKeymap:
    """Split a keymap into valid entries and problems. `entries` has the keys by the name of a binding."""
    if not entries:
        return ValidatedKeymap({}, ())
    bindings = list_movable_bindings()
    granted: dict[str, str] = {}
    names: dict[str, str] = {}  # names as written in the file, by id
    problems: list[str] = []
    for name, wish in entries.items():
        try:
            id, granted_keys = _parse_entry(name, wish, bindings)
        except ValueError as error:
            problems.append(f"{config.format_key_position('keymap', name)}: {error}")
            continue
        granted[id], names[id] = granted_keys, name
    while clash := _find_clash(granted, bindings):
        id, key, other = clash
        shown, name = keys.format_keys(key), bindings[other].name
        position = config.format_key_position("keymap", names[id])
        problems.append(f'{position}: keymap.{names[id]}: "{shown}" is taken by {name} already.')
        del granted[id]
    return ValidatedKeymap(granted, tuple(problems))


def list_movable_bindings() -> dict[str, MovableBinding]:
    """Return every binding that can be moved, by its id."""
    bindings: dict[str, MovableBinding] = {}
    for look in keys.GENERAL_KEYS:
        ids, each = keys.list_binding_ids(look), look.keys.split(",")
        parts = [each] if len(ids) == 1 else [[key] for key in each]
        for id, part in zip(ids, parts, strict=True):
            bindings[id] = MovableBinding(tuple(part), look.screens, f'"{look.label}"')
    for key in keys.VERB_KEYS:
        names = " or ".join(verb.label for verb in keys.find_verbs_on_key(key))
        bindings[f"verb_{key}"] = MovableBinding((key,), _ALL_SCREENS, f'"{names}"')
    return bindings | dict(_list_dialog_bindings())


def map_names_to_ids() -> dict[str, str]:
    """Return the binding id for each name that the config file may use: an id, a look's name or a verb's name."""
    ids_by_name = {id: id for id in list_movable_bindings()}
    ids_by_name |= {look.id: ids[0] for look in keys.GENERAL_KEYS if len(ids := keys.list_binding_ids(look)) == 1}
    return ids_by_name | {verb.name: f"verb_{verb.key}" for verb in VERBS if verb.key and verb.name not in ids_by_name}


def find_theme_problems(config: Config) -> list[str]:
    """Return a sentence for every unknown theme in the config file."""
    asked = [((), config.top), *((("profiles", name), table) for name, table in config.profiles.items())]
    return [
        f"{config.format_key_position(*path, 'theme')}: {wrong}"
        for path, table in asked
        if "theme" in table and (wrong := explain_unknown_theme(table["theme"]))
    ]


def explain_unknown_theme(name: str) -> str:
    """Return why a theme's name is unknown, with a suggestion, or "" for a known theme."""
    from textual.theme import BUILTIN_THEMES

    known = {theme.name for theme in THEMES} | BUILTIN_THEMES.keys()
    return "" if name in known else f'there is no theme "{name}". {build_similar_word_hint(name, known)}'


def _list_dialog_bindings() -> Iterator[tuple[str, MovableBinding]]:
    """Yield the bindings of dialogs. Their keys cannot clash with those of views."""
    from rqtui.tui.widgets.filter_line import FilterLine
    from rqtui.tui.widgets.finder import Finder, FindLine
    from rqtui.tui.widgets.help_page import KeyPage
    from rqtui.tui.widgets.question_dialog import Question
    from rqtui.tui.widgets.text_dialog import Pages

    for holder in (Question, Pages, KeyPage, FilterLine, Finder, FindLine):
        for binding in holder.BINDINGS:
            if isinstance(binding, Binding) and binding.id:
                each = tuple(binding.key.split(","))
                yield binding.id, MovableBinding(each, (holder.__name__,), f'"{binding.description or binding.id}"')


def _parse_entry(name: str, wish: str, bindings: Mapping[str, MovableBinding]) -> tuple[str, str]:
    """Return the binding id and its keys in Textual's notation. Raises ValueError with an error message."""
    ids_by_name = map_names_to_ids()
    if name not in ids_by_name:
        raise ValueError(f'keymap has no binding "{name}". {build_similar_word_hint(name, ids_by_name)}')
    wanted_keys = [_to_textual_key(key) for key in map(str.strip, wish.split(","))]
    for key in wanted_keys:
        if not _is_key(key):
            raise ValueError(f'keymap.{name}: there is no key "{key}"; write d, D, ctrl+d, enter, comma or the like.')
    return ids_by_name[name], ",".join(wanted_keys)


def _to_textual_key(key: str) -> str:
    return next(iter(Binding.make_bindings([(key, "")]))).key if key else key


def _is_key(key: str) -> bool:
    if key in _KEY_NAMES or key in keys.KEY_SIGNS:
        return True
    last = key.rpartition("+")[2]
    if len(last) == 1 or last in _KEY_NAMES:
        return True
    try:
        return bool(unicodedata.lookup(last.replace("_", " ")))
    except KeyError:
        return False


def _find_clash(granted: Mapping[str, str], bindings: Mapping[str, MovableBinding]) -> tuple[str, str, str] | None:
    """Return (id, key, other id) of the last entry whose key another binding uses on the same screen, or None."""
    current_keys = {id: tuple(granted[id].split(",")) if id in granted else each.keys for id, each in bindings.items()}
    for id in reversed(list(granted)):
        for other, taken in current_keys.items():
            if other != id and _share_screen(bindings[id].screens, bindings[other].screens):
                for key in current_keys[id]:
                    if key in taken:
                        return id, key, other
    return None


def _share_screen(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two bindings are active on a common screen. A dialog hides the keys of the view below."""
    if any(name[:1].isupper() for name in (*one, *other)):
        return one == other
    return not one or not other or bool(set(one) & set(other))
