"""The keymap of the config file: which bindings there are, which of the wishes can be granted, and what is said else.

A key means one thing on a screen. A wish that breaks this, or names what is not there, is left out and told; the other
wishes hold. `keys.take` and `App.set_keymap` get what is left.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from textual.binding import Binding
from textual.keys import Keys

from rqtui.config.file import Config, hint
from rqtui.tui import keys
from rqtui.tui.format.theme import THEMES
from rqtui.verbs import VERBS

_NAMED = {key.value for key in Keys}
_EVERYWHERE: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """A binding that can be moved: its keys, on which screens it works (none: on all), and what it is called."""

    keys: tuple[str, ...]
    screens: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Checked:
    """Keys by binding id as `App.set_keymap` takes them, and sentences about the wishes that are not among them."""

    keymap: Mapping[str, str]
    problems: tuple[str, ...]


def checked(wishes: Mapping[str, str], config: Config) -> Checked:
    """What can be granted of `wishes`, which are keys by the name of a binding."""
    if not wishes:
        return Checked({}, ())
    known = bound()
    granted: dict[str, str] = {}
    names: dict[str, str] = {}  # as it stands in the file, by id
    problems: list[str] = []
    for name, wish in wishes.items():
        try:
            id, granted_keys = _understood(name, wish, known)
        except ValueError as error:
            problems.append(f"{config.at('keymap', name)}: {error}")
            continue
        granted[id], names[id] = granted_keys, name
    while clash := _clash(granted, known):
        id, key, other = clash
        shown, name = keys.shown(key), known[other].name
        problems.append(f'{config.at("keymap", names[id])}: keymap.{names[id]}: "{shown}" is taken by {name} already.')
        del granted[id]
    return Checked(granted, tuple(problems))


def bound() -> dict[str, Bound]:
    """Every binding that can be moved, by its id."""
    found: dict[str, Bound] = {}
    for look in keys.LOOKS:
        ids, each = keys.ids_of(look), look.keys.split(",")
        parts = [each] if len(ids) == 1 else [[key] for key in each]
        for id, part in zip(ids, parts, strict=True):
            found[id] = Bound(tuple(part), look.screens, f'"{look.label}"')
    for key in keys.VERB_KEYS:
        names = " or ".join(verb.label for verb in keys.verbs_of(key))
        found[f"verb_{key}"] = Bound((key,), _EVERYWHERE, f'"{names}"')
    return found | dict(_of_dialogs())


def names() -> dict[str, str]:
    """What the file may call a binding: its id, the look's name, or the verb's."""
    called = {id: id for id in bound()}
    called |= {look.id: ids[0] for look in keys.LOOKS if len(ids := keys.ids_of(look)) == 1}
    return called | {verb.name: f"verb_{verb.key}" for verb in VERBS if verb.key and verb.name not in called}


def theme_problems(config: Config) -> list[str]:
    """A sentence for every theme in the file that is none."""
    asked = [((), config.top), *((("profiles", name), table) for name, table in config.profiles.items())]
    return [
        f"{config.at(*path, 'theme')}: {wrong}"
        for path, table in asked
        if "theme" in table and (wrong := theme_problem(table["theme"]))
    ]


def theme_problem(name: str) -> str:
    """What is wrong with the name of a theme; nothing where there is one of that name."""
    from textual.theme import BUILTIN_THEMES

    known = {theme.name for theme in THEMES} | BUILTIN_THEMES.keys()
    return "" if name in known else f'there is no theme "{name}". {hint(name, known)}'


def _of_dialogs() -> Iterator[tuple[str, Bound]]:
    """The bindings of what opens above a screen; each keeps to itself."""
    from rqtui.tui.widgets.dialogs import Pages, Question
    from rqtui.tui.widgets.filterline import FilterLine
    from rqtui.tui.widgets.finder import Finder, FindLine
    from rqtui.tui.widgets.keypage import KeyPage

    for holder in (Question, Pages, KeyPage, FilterLine, Finder, FindLine):
        for binding in holder.BINDINGS:
            if isinstance(binding, Binding) and binding.id:
                each = tuple(binding.key.split(","))
                yield binding.id, Bound(each, (holder.__name__,), f'"{binding.description or binding.id}"')


def _understood(name: str, wish: str, known: Mapping[str, Bound]) -> tuple[str, str]:
    """The binding's id and its keys as Textual writes them. Raises ValueError with a sentence."""
    called = names()
    if name not in called:
        raise ValueError(f'keymap has no binding "{name}". {hint(name, called)}')
    wished = [_as_textual_writes(key) for key in map(str.strip, wish.split(","))]
    for key in wished:
        if not _is_key(key):
            raise ValueError(f'keymap.{name}: there is no key "{key}"; write d, D, ctrl+d, enter, comma or the like.')
    return called[name], ",".join(wished)


def _as_textual_writes(key: str) -> str:
    return next(iter(Binding.make_bindings([(key, "")]))).key if key else key


def _is_key(key: str) -> bool:
    if key in _NAMED or key in keys.SHOWN:
        return True
    last = key.rpartition("+")[2]
    if len(last) == 1 or last in _NAMED:
        return True
    try:
        return bool(unicodedata.lookup(last.replace("_", " ")))
    except KeyError:
        return False


def _clash(granted: Mapping[str, str], known: Mapping[str, Bound]) -> tuple[str, str, str] | None:
    """(id, key, other id) where a granted key is another binding's on the same screen; the last wish gives way."""
    now = {id: tuple(granted[id].split(",")) if id in granted else each.keys for id, each in known.items()}
    for id in reversed(list(granted)):
        for other, taken in now.items():
            if other != id and _meet(known[id].screens, known[other].screens):
                for key in now[id]:
                    if key in taken:
                        return id, key, other
    return None


def _meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether there is a screen that has both; what opens above a screen hides the screen's keys."""
    if any(name[:1].isupper() for name in (*one, *other)):
        return one == other
    return not one or not other or bool(set(one) & set(other))
