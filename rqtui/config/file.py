"""Find and read the config file, and collect its errors with their lines.

`parse_config` uses every value that it understands and lists the others as problems. No Textual and no redis: the
screen checks names of themes, keys and columns. `config/resolve.py` gives the command line and the environment
precedence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rqtui import files
from rqtui.config import thresholds, toml_lines
from rqtui.config.settings import MAX_INTERVAL_S, MIN_INTERVAL_S
from rqtui.errors import RqtuiError, UsageError

CONFIG_VARIABLE = "RQTUI_CONFIG"
FILE_BYTES = 1 << 20
NAME = "config.toml"
COLUMNS_OF = ("board", "scheduled", "ready", "reserved", "done", "dead")
_SCHEMES = ("redis://", "rediss://", "unix://", "redis+", "rediss+")  # the last two: sentinels and Cluster
_GUARDS = frozenset({"read_only", "deny", "guarded"})  # if these are invalid, rqtui must not allow everything


class Problem(NamedTuple):
    """An error in the config file, and its line."""

    line: int
    text: str
    is_guard: bool = False  # the invalid value may have forbidden something


@dataclass(frozen=True, slots=True)
class Config:
    """The values of a config file, as far as they are valid."""

    path: Path
    exists: bool = False
    top: Mapping[str, Any] = field(default_factory=dict)  # the values outside of sections, by key
    # The values of each profile, by key. Not in repr(), since URLs may have passwords.
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    keymap: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    redact: tuple[str, ...] = ()
    thresholds: thresholds.Rules = ()
    lines: Mapping[toml_lines.Path, int] = field(default_factory=dict)  # the line of each key, by its path
    problems: tuple[Problem, ...] = ()

    def locate_key(self, *path: str) -> str:
        """Return the position of a key: `…/config.toml:12`."""
        return f"{self.path}:{toml_lines.find_line(self.lines, path)}"

    def format_problems(self) -> tuple[str, ...]:
        """Return the problems, each with file and line."""
        return tuple(f"{self.path}:{problem.line}: {problem.text}" for problem in self.problems)


def find_path(asked: str = "", environ: Mapping[str, str] = os.environ) -> tuple[Path, str]:
    """Return the path of the config file and its source: `--config`, RQTUI_CONFIG, or "" for the platform's folder."""
    if asked:
        return Path(asked), "--config"
    if environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE]), CONFIG_VARIABLE
    from platformdirs import user_config_dir

    return Path(user_config_dir("rqtui", appauthor=False)) / NAME, ""


def load_config(asked: str = "", environ: Mapping[str, str] = os.environ) -> Config:
    """Return the effective config. Raises UsageError if a file that was named does not exist."""
    where, who = find_path(asked, environ)
    if not who and not where.exists():
        return Config(where)
    try:
        return load_file(where)
    except UnicodeDecodeError:
        return Config(where, True, problems=(Problem(1, "this is no text in UTF-8.", is_guard=True),))
    except OSError as error:
        if who:
            raise UsageError(f"{who}: the config file {where} cannot be read: {error.strerror}.") from None
        return Config(where, True, problems=(Problem(1, f"it cannot be read: {error.strerror}.", is_guard=True),))


# -- reading ----------------------------------------------------------------------------------------------------------


def load_file(file: Path) -> Config:
    """Read the config file at `where`. Raises OSError or UnicodeDecodeError if the file cannot be read as text."""
    text = files.read_named(file, FILE_BYTES, is_pipe_allowed=True).decode()
    return parse_config(file, text.replace("\r\n", "\n").replace("\r", "\n"))  # as read_text does


def parse_config(file: Path, text: str) -> Config:
    """Parse the text of a config file. Values that are not valid become problems."""
    try:
        document = toml_lines.parse_toml(text)
    except toml_lines.BrokenToml as error:
        return Config(file, True, problems=(Problem(error.line, f"this is no TOML: {error}.", is_guard=True),))
    reading = _Parser(toml_lines.find_lines(text))
    top = reading.parse_keys(document, _TOP, ())
    config = Config(
        file,
        True,
        {key: value for key, value in top.items() if key not in _SECTIONS},
        reading.parse_profiles(top.get("profiles", {})),
        reading.parse_table(top.get("keymap", {}), _parse_keys, ("keymap",)),
        reading.parse_columns(top.get("columns", {})),
        tuple(reading.parse_keys(top.get("redact", {}), {"keys": _parse_texts}, ("redact",)).get("keys", ())),
        reading.parse_thresholds(top.get("thresholds", {}), ("thresholds",)),
        reading.lines,
    )
    reading.check_default(config)
    return replace(config, problems=tuple(sorted(reading.problems, key=lambda problem: problem.line)))


class _Parser:
    """One pass over a document. A value that is not valid becomes a problem and is left out."""

    def __init__(self, lines: Mapping[toml_lines.Path, int]) -> None:
        self.lines = lines
        self.problems: list[Problem] = []

    def add_problem(self, path: toml_lines.Path, text: str, is_guard: bool = False) -> None:
        """Add a problem at the line of a key."""
        self.problems.append(Problem(toml_lines.find_line(self.lines, path), text, is_guard))

    def parse_keys(
        self, table: Mapping[str, Any], known: Mapping[str, ParseValue], path: toml_lines.Path
    ) -> dict[str, Any]:
        """Return the values of the known keys.

        An unknown key becomes a problem that names the most similar known key.
        """
        for key in table.keys() - known.keys():
            where = ".".join(path) or "the file"
            here = (*path, key)
            self.add_problem(
                here, f'{where} has no key "{key}". {build_hint(key, known)}', is_guard=_is_similar_to_guard(key, known)
            )
        return {
            key: taken for key in known if key in table for taken in self.parse_value(table[key], known[key], path, key)
        }

    def parse_table(self, table: Mapping[str, Any], take: ParseValue, path: toml_lines.Path) -> dict[str, Any]:
        """Return the values of a table whose keys the person chooses."""
        return {key: taken for key in table for taken in self.parse_value(table[key], take, path, key)}

    def parse_value(self, value: Any, take: ParseValue, path: toml_lines.Path, key: str) -> list[Any]:
        """Return a list with the parsed value, or an empty list after adding a problem."""
        try:
            return [take(value)]
        except _InnerError as error:
            inner = (*path, key, *error.keys)
            self.add_problem(inner, _explain_expectation(inner, error, error.value), is_guard=key in _GUARDS)
        except ValueError as error:
            self.add_problem((*path, key), _explain_expectation((*path, key), error, value), is_guard=key in _GUARDS)
        return []

    def parse_profiles(self, tables: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Return the profiles. A profile without a URL becomes a problem, but its other values are kept."""
        profiles: dict[str, dict[str, Any]] = {}
        for name, table in self.parse_table(tables, _check_table, ("profiles",)).items():
            former = {"layouts": _parse_texts} if "layouts" in table else {}  # the former name of `systems`
            profiles[name] = self.parse_keys(table, {**_PROFILE, **former}, ("profiles", name))
            if "thresholds" in profiles[name]:
                path = ("profiles", name, "thresholds")
                profiles[name]["thresholds"] = self.parse_thresholds(profiles[name]["thresholds"], path)
            if "url" not in table:
                self.add_problem(
                    ("profiles", name), f'profile "{name}" has no url; expected url = "redis://host:6379/0".'
                )
        return profiles

    def parse_thresholds(self, table: Mapping[str, Any], path: toml_lines.Path) -> thresholds.Rules:
        """Return the thresholds by patterns of queues, in the order of the file."""
        tables = self.parse_table(table, _check_table, path)
        return tuple((pattern, self.parse_keys(tables[pattern], _THRESHOLDS, (*path, pattern))) for pattern in tables)

    def parse_columns(self, table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """Return the columns by place, or by `board`."""
        return self.parse_keys(table, dict.fromkeys(COLUMNS_OF, _parse_texts), ("columns",))

    def check_default(self, config: Config) -> None:
        """Add a problem if the default profile does not exist."""
        name = config.top.get("default_profile")
        if name and name not in config.profiles:
            self.add_problem(("default_profile",), f'there is no profile "{name}". {build_hint(name, config.profiles)}')


ParseValue = Callable[[Any], Any]


def _parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def _parse_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _parse_read_only(value: Any) -> bool | str:
    if not isinstance(value, bool) and value != "always":
        raise ValueError('true, false or "always"')
    return bool(value) if isinstance(value, bool) else "always"


class _InnerError(ValueError):
    """An invalid value inside the value of a key; `keys` is the path to it from there."""

    def __init__(self, expected: str, value: Any, *keys: str) -> None:
        super().__init__(expected)
        self.value, self.keys = value, keys


def _explain_expectation(path: Sequence[str], expected: object, value: Any) -> str:
    """Return a sentence with the expected and the actual value."""
    return f"{'.'.join(path)}: expected {expected}, found {_describe_value(value)}."


def _parse_texts(value: Any) -> tuple[str, ...]:
    expected = 'a list of texts, as in ["id", "job"]'
    if not isinstance(value, list):
        raise ValueError(expected)
    for number, word in enumerate(value, 1):
        if not isinstance(word, str) or not word.strip():
            raise _InnerError(f"a text that is not empty as entry {number} of {expected}", word)
    return tuple(word.strip() for word in value)


def _parse_keys(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError('keys, as in "d" or "d,ctrl+d"')
    return value.strip()


def _check_table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a table")
    return value


def _parse_deny(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    from rqtui.verbs import VERBS_BY_NAME

    if not isinstance(value, dict):
        raise ValueError('a table from queues to verbs, as in { "billing*" = ["delete", "purge"] }')
    rules = []
    for pattern, verbs in value.items():
        try:
            rules.append((pattern, _parse_texts(verbs)))
        except ValueError as error:
            raise _InnerError(str(error), getattr(error, "value", verbs), pattern) from None
    for pattern, names in rules:
        for verb in names:
            if verb not in VERBS_BY_NAME:
                near = find_similar(verb, VERBS_BY_NAME)
                meant = f" (did you mean {near}?)" if near else ""
                raise _InnerError(f"names of verbs{meant}", verb, pattern)
    return tuple(rules)


def _parse_url(value: Any) -> str:
    if not isinstance(value, str) or not value.strip().startswith((*_SCHEMES, "${")):
        raise ValueError("a URL that begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")
    return value.strip()


def _parse_interval(value: Any) -> float:
    from rqtui.durations import parse_duration

    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise UsageError("no duration")
        seconds = parse_duration(value) / 1000
    except RqtuiError:
        seconds = 0.0
    if not MIN_INTERVAL_S <= seconds <= MAX_INTERVAL_S:
        raise ValueError(f'a time between {MIN_INTERVAL_S} s and {MAX_INTERVAL_S:.0f} s, as in "2s"')
    return seconds


_SECTIONS = ("profiles", "keymap", "columns", "redact", "thresholds")
_THRESHOLDS: dict[str, ParseValue] = {name: partial(thresholds.parse_limit, name) for name in thresholds.RULES}
_LOOK: dict[str, ParseValue] = {
    "theme": _parse_text,
    "interval": _parse_interval,
    "calm": _parse_flag,
    "ascii": _parse_flag,
}
_TOP: dict[str, ParseValue] = {"default_profile": _parse_text, **_LOOK, **dict.fromkeys(_SECTIONS, _check_table)}
_PROFILE: dict[str, ParseValue] = {
    "url": _parse_url,
    "password_file": _parse_text,
    "systems": _parse_texts,
    "badge": _parse_text,
    "read_only": _parse_read_only,
    "guarded": _parse_flag,
    "deny": _parse_deny,
    "thresholds": _check_table,
    **_LOOK,
}


def find_similar(word: str, known: Collection[str]) -> str:
    """Return the known word that is most similar to `word`, or an empty string."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word.replace("-", "_"), list(known), n=1, cutoff=0.6)), "")


def build_hint(word: str, known: Collection[str]) -> str:
    """Return a sentence that suggests a similar word, as `Did you mean "read_only"?`, or lists the known words."""
    if near := find_similar(word, known):
        return f'Did you mean "{near}"?'
    return f"There are: {', '.join(sorted(known))}." if known else "There are none."


def _is_similar_to_guard(key: str, known: Collection[str]) -> bool:
    """Return whether an unknown key is similar to one that forbids something (`readonly`)."""
    return bool(find_similar(key, _GUARDS & set(known)))


def _describe_value(value: Any) -> str:
    """Return a short form of a value for a sentence. A URL is never included, because it may have a password."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if "@" in text or len(text) > 40:
        return "another text"
    return f'"{text}"' if isinstance(value, str) else text
