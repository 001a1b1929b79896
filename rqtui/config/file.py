"""The config file: its place, its values, and its errors.

`read` understands what it can and lists the rest as problems, each with its line. No Textual, no redis: names of
themes, keys and columns are checked by the screen. `config/resolve.py` puts the command line and the environment before
it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rqtui.config import thresholds, toml_lines
from rqtui.config.settings import LONGEST_S, SHORTEST_S
from rqtui.errors import RqtuiError, UsageError

CONFIG_VARIABLE = "RQTUI_CONFIG"
NAME = "config.toml"
COLUMNS_OF = ("board", "scheduled", "ready", "reserved", "done", "dead")
_SCHEMES = ("redis://", "rediss://", "unix://", "redis+", "rediss+")  # the last two: sentinels and Cluster
_GUARDS = frozenset({"read_only", "deny", "guarded"})  # not understood, these must not mean "everything is allowed"


class Problem(NamedTuple):
    """What is wrong, and on which line of the file."""

    line: int
    text: str
    is_guard: bool = False  # nobody knows what it would have forbidden


@dataclass(frozen=True, slots=True)
class Config:
    """What a config file says, as far as it can be understood.

    `top` and each profile hold values by key; `lines` the lines of all keys, by their path.
    """

    path: Path
    is_there: bool = False
    top: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)  # URLs may hold passwords
    keymap: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    redact: tuple[str, ...] = ()
    thresholds: thresholds.Rules = ()
    lines: Mapping[toml_lines.Path, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def at(self, *path: str) -> str:
        """Where a key stands: `…/config.toml:12`."""
        return f"{self.path}:{toml_lines.line_of(self.lines, path)}"

    def sentences(self) -> tuple[str, ...]:
        """The problems, each with file and line."""
        return tuple(f"{self.path}:{problem.line}: {problem.text}" for problem in self.problems)


def path(asked: str = "", environ: Mapping[str, str] = os.environ) -> tuple[Path, str]:
    """Where the config file is, and who says so: `--config`, RQTUI_CONFIG, else the platform's folder."""
    if asked:
        return Path(asked), "--config"
    if environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE]), CONFIG_VARIABLE
    from platformdirs import user_config_dir

    return Path(user_config_dir("rqtui", appauthor=False)) / NAME, ""


def find(asked: str = "", environ: Mapping[str, str] = os.environ) -> Config:
    """The config that holds. One that was named must be there: else UsageError."""
    where, who = path(asked, environ)
    if not who and not where.exists():
        return Config(where)
    try:
        return read(where, where.read_text("utf-8"))
    except UnicodeDecodeError:
        return Config(where, True, problems=(Problem(1, "this is no text in UTF-8.", is_guard=True),))
    except OSError as error:
        if who:
            raise UsageError(f"{who}: the config file {where} cannot be read: {error.strerror}.") from None
        return Config(where, True, problems=(Problem(1, f"it cannot be read: {error.strerror}.", is_guard=True),))


# -- reading ----------------------------------------------------------------------------------------------------------


def read(where: Path, text: str) -> Config:
    """What a config file with this text says."""
    try:
        document = toml_lines.read(text)
    except toml_lines.BrokenToml as error:
        return Config(where, True, problems=(Problem(error.line, f"this is no TOML: {error}.", is_guard=True),))
    reading = _Reading(toml_lines.lines(text))
    top = reading.values(document, _TOP, ())
    config = Config(
        where,
        True,
        {key: value for key, value in top.items() if key not in _SECTIONS},
        reading.profiles(top.get("profiles", {})),
        reading.each(top.get("keymap", {}), _keys, ("keymap",)),
        reading.columns(top.get("columns", {})),
        tuple(reading.values(top.get("redact", {}), {"keys": _words}, ("redact",)).get("keys", ())),
        reading.thresholds(top.get("thresholds", {}), ("thresholds",)),
        reading.lines,
    )
    reading.check_default(config)
    return replace(config, problems=tuple(sorted(reading.problems, key=lambda problem: problem.line)))


class _Reading:
    """One pass over a document; what cannot be taken becomes a problem and is left out."""

    def __init__(self, lines: Mapping[toml_lines.Path, int]) -> None:
        self.lines = lines
        self.problems: list[Problem] = []

    def tell(self, path: toml_lines.Path, text: str, is_guard: bool = False) -> None:
        """Notes a problem at the line of a key."""
        self.problems.append(Problem(toml_lines.line_of(self.lines, path), text, is_guard))

    def values(self, table: Mapping[str, Any], known: Mapping[str, Take], path: toml_lines.Path) -> dict[str, Any]:
        """The values of the keys that are known; of others the nearest is named."""
        for key in table.keys() - known.keys():
            where = ".".join(path) or "the file"
            here = (*path, key)
            self.tell(here, f'{where} has no key "{key}". {hint(key, known)}', is_guard=_is_like_a_guard(key, known))
        return {key: taken for key in known if key in table for taken in self.taken(table[key], known[key], path, key)}

    def each(self, table: Mapping[str, Any], take: Take, path: toml_lines.Path) -> dict[str, Any]:
        """A table whose keys are the person's own."""
        return {key: taken for key in table for taken in self.taken(table[key], take, path, key)}

    def taken(self, value: Any, take: Take, path: toml_lines.Path, key: str) -> list[Any]:
        """The value, or nothing and a problem."""
        try:
            return [take(value)]
        except ValueError as error:
            name = ".".join((*path, key))
            self.tell((*path, key), f"{name}: expected {error}, found {_short(value)}.", is_guard=key in _GUARDS)
            return []

    def profiles(self, tables: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The profiles; one without a URL is told, and kept for the rest that it says."""
        made: dict[str, dict[str, Any]] = {}
        for name, table in self.each(tables, _table, ("profiles",)).items():
            made[name] = self.values(table, _PROFILE, ("profiles", name))
            if "thresholds" in made[name]:
                path = ("profiles", name, "thresholds")
                made[name]["thresholds"] = self.thresholds(made[name]["thresholds"], path)
            if "url" not in table:
                self.tell(("profiles", name), f'profile "{name}" has no url; expected url = "redis://host:6379/0".')
        return made

    def thresholds(self, table: Mapping[str, Any], path: toml_lines.Path) -> thresholds.Rules:
        """What is a finding, by the patterns of queues, in the order of the file."""
        tables = self.each(table, _table, path)
        return tuple((pattern, self.values(tables[pattern], _THRESHOLDS, (*path, pattern))) for pattern in tables)

    def columns(self, table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """The columns by place, or by `board`."""
        return self.values(table, dict.fromkeys(COLUMNS_OF, _words), ("columns",))

    def check_default(self, config: Config) -> None:
        """A default profile must be one of the profiles."""
        name = config.top.get("default_profile")
        if name and name not in config.profiles:
            self.tell(("default_profile",), f'there is no profile "{name}". {hint(name, config.profiles)}')


Take = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _read_only(value: Any) -> bool | str:
    if not isinstance(value, bool) and value != "always":
        raise ValueError('true, false or "always"')
    return bool(value) if isinstance(value, bool) else "always"


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) and word.strip() for word in value):
        raise ValueError('a list of texts, as in ["id", "job"]')
    return tuple(word.strip() for word in value)


def _keys(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError('keys, as in "d" or "d,ctrl+d"')
    return value.strip()


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a table")
    return value


def _deny(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    from rqtui.verbs import BY_NAME

    if not isinstance(value, dict):
        raise ValueError('a table from queues to verbs, as in { "billing*" = ["delete", "purge"] }')
    made = tuple((pattern, _words(verbs)) for pattern, verbs in value.items())
    for pattern, verbs in made:
        for verb in verbs:
            if verb not in BY_NAME:
                near = nearest(verb, BY_NAME)
                meant = f', did you mean "{near}"?' if near else ""
                raise ValueError(f'names of verbs for "{pattern}" ("{verb}" is none{meant})')
    return made


def _url(value: Any) -> str:
    if not isinstance(value, str) or not value.strip().startswith((*_SCHEMES, "${")):
        raise ValueError("a URL that begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")
    return value.strip()


def _interval(value: Any) -> float:
    from rqtui.durations import parse

    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise UsageError("no duration")
        seconds = parse(value) / 1000
    except RqtuiError:
        seconds = 0.0
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise ValueError(f'a time between {SHORTEST_S} s and {LONGEST_S:.0f} s, as in "2s"')
    return seconds


_SECTIONS = ("profiles", "keymap", "columns", "redact", "thresholds")
_THRESHOLDS: dict[str, Take] = {name: partial(thresholds.read, name) for name in thresholds.RULES}
_LOOK: dict[str, Take] = {"theme": _text, "interval": _interval, "calm": _flag, "ascii": _flag}
_TOP: dict[str, Take] = {"default_profile": _text, **_LOOK, **dict.fromkeys(_SECTIONS, _table)}
_PROFILE: dict[str, Take] = {
    "url": _url,
    "password_file": _text,
    "layouts": _words,
    "badge": _text,
    "read_only": _read_only,
    "guarded": _flag,
    "deny": _deny,
    "thresholds": _table,
    **_LOOK,
}


def nearest(word: str, known: Collection[str]) -> str:
    """The known word that was probably meant, or nothing."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word.replace("-", "_"), list(known), n=1, cutoff=0.6)), "")


def hint(word: str, known: Collection[str]) -> str:
    """`Did you mean "read_only"?`, or which words there are, as a sentence."""
    if near := nearest(word, known):
        return f'Did you mean "{near}"?'
    return f"There are: {', '.join(sorted(known))}." if known else "There are none."


def _is_like_a_guard(key: str, known: Collection[str]) -> bool:
    """Whether a key that is none was meant to forbid something (`readonly`)."""
    return bool(nearest(key, _GUARDS & set(known)))


def _short(value: Any) -> str:
    """A value as it may stand in a sentence: short, and never a URL, which may hold a password."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if "@" in text or len(text) > 40:
        return "another text"
    return f'"{text}"' if isinstance(value, str) else text
