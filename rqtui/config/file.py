"""Find and read rqtui's config file, and collect the errors in it with their line numbers.

`parse_config_text` uses every value that it understands and lists the others as problems. This module imports neither
Textual nor redis: the screen checks names of themes, keys and columns. `config/resolve.py` decides between the file,
the command line and the environment.
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
from rqtui.config.settings import MAX_INTERVAL_S, MAX_RECORD_JOBS, MIN_INTERVAL_S
from rqtui.errors import RqtuiError, UsageError

CONFIG_VARIABLE = "RQTUI_CONFIG"
FILE_BYTES = 1 << 20
NAME = "config.toml"
COLUMNS_OF = ("board", "scheduled", "ready", "reserved", "done", "dead")
_SCHEMES = ("redis://", "rediss://", "unix://", "redis+", "rediss+")  # the last two: sentinels and Cluster
_GUARDS = frozenset({"read_only", "deny", "guarded"})  # if these are invalid, rqtui must not allow everything


class Problem(NamedTuple):
    """An error in the config file: its line, and a sentence."""

    line: int
    text: str
    is_guard: bool = False  # the invalid value may have forbidden something


@dataclass(frozen=True, slots=True)
class Config:
    """The valid values of a config file, and the problems found in it."""

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

    def format_key_position(self, *path: str) -> str:
        """Return the file and line of a key of the config file, as `…/config.toml:12`."""
        return f"{self.path}:{toml_lines.find_key_line(self.lines, path)}"

    def format_problem_lines(self) -> tuple[str, ...]:
        """Return the errors in the config file as texts of the form `path:line: sentence`."""
        return tuple(f"{self.path}:{problem.line}: {problem.text}" for problem in self.problems)


def find_config_path(requested_path: str = "", environ: Mapping[str, str] = os.environ) -> tuple[Path, str]:
    """Return the path of the config file, and the setting that named it: `--config`, RQTUI_CONFIG, or an empty text.

    Without such a setting the path is in the platform's folder for config files.
    """
    if requested_path:
        return Path(requested_path), "--config"
    if environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE]), CONFIG_VARIABLE
    from platformdirs import user_config_dir

    return Path(user_config_dir("rqtui", appauthor=False)) / NAME, ""


def load_config(requested_path: str = "", environ: Mapping[str, str] = os.environ) -> Config:
    """Read and parse rqtui's config file; without a file the config is empty.

    Raises UsageError if a person named a file that cannot be read. Other errors become problems of the config.
    """
    path, source = find_config_path(requested_path, environ)
    if not source and not path.exists():
        return Config(path)
    try:
        return read_config_file(path)
    except UnicodeDecodeError:
        return Config(path, True, problems=(Problem(1, "this is no text in UTF-8.", is_guard=True),))
    except OSError as error:
        if source:
            raise UsageError(f"{source}: the config file {path} cannot be read: {error.strerror}.") from None
        return Config(path, True, problems=(Problem(1, f"it cannot be read: {error.strerror}.", is_guard=True),))


# -- reading ----------------------------------------------------------------------------------------------------------


def read_config_file(file: Path) -> Config:
    """Read and parse the config file at `file`. Raises OSError or UnicodeDecodeError if it cannot be read as text."""
    text = files.read_small_file(file, FILE_BYTES, is_pipe_allowed=True).decode()
    return parse_config_text(file, text.replace("\r\n", "\n").replace("\r", "\n"))  # as read_text does


def parse_config_text(file: Path, text: str) -> Config:
    """Parse the TOML text of a config file. Each value that is not valid becomes a problem and is left out."""
    try:
        document = toml_lines.parse_toml_text(text)
    except toml_lines.BrokenToml as error:
        return Config(file, True, problems=(Problem(error.line, f"this is no TOML: {error}.", is_guard=True),))
    parser = _ConfigParser(toml_lines.map_keys_to_lines(text))
    top_values = parser.parse_known_keys(document, _TOP, ())
    config = Config(
        file,
        True,
        {key: value for key, value in top_values.items() if key not in _SECTIONS},
        parser.parse_profiles(top_values.get("profiles", {})),
        parser.parse_free_table(top_values.get("keymap", {}), _parse_keyboard_keys, ("keymap",)),
        parser.parse_column_lists(top_values.get("columns", {})),
        tuple(
            parser.parse_known_keys(top_values.get("redact", {}), {"keys": _parse_text_list}, ("redact",)).get(
                "keys", ()
            )
        ),
        parser.parse_thresholds(top_values.get("thresholds", {}), ("thresholds",)),
        parser.lines,
    )
    parser.check_default_profile(config)
    return replace(config, problems=tuple(sorted(parser.problems, key=lambda problem: problem.line)))


class _ConfigParser:
    """Parses the sections of one config file. A value that is not valid becomes a problem and is left out."""

    def __init__(self, lines: Mapping[toml_lines.Path, int]) -> None:
        self.lines = lines
        self.problems: list[Problem] = []

    def record_problem(self, path: toml_lines.Path, text: str, is_guard: bool = False) -> None:
        """Record an error in the config file, with the line of the key at `path`."""
        self.problems.append(Problem(toml_lines.find_key_line(self.lines, path), text, is_guard))

    def parse_known_keys(
        self, table: Mapping[str, Any], value_parsers: Mapping[str, ParseValue], path: toml_lines.Path
    ) -> dict[str, Any]:
        """Parse a table of the config file that may have only certain keys, and return its valid values.

        An unknown key becomes a problem that names the most similar known key.
        """
        for key in table.keys() - value_parsers.keys():
            table_name = ".".join(path) or "the file"
            key_path = (*path, key)
            self.record_problem(
                key_path,
                f'{table_name} has no key "{key}". {build_similar_word_hint(key, value_parsers)}',
                is_guard=_is_similar_to_protective_key(key, value_parsers),
            )
        return {
            key: value
            for key in value_parsers
            if key in table
            for value in self.parse_key_value(table[key], value_parsers[key], path, key)
        }

    def parse_free_table(
        self, table: Mapping[str, Any], value_parser: ParseValue, path: toml_lines.Path
    ) -> dict[str, Any]:
        """Parse a table of the config file whose keys a person chooses, such as names of profiles."""
        return {key: value for key in table for value in self.parse_key_value(table[key], value_parser, path, key)}

    def parse_key_value(self, value: Any, value_parser: ParseValue, path: toml_lines.Path, key: str) -> list[Any]:
        """Parse the value of one key. Returns a list with the value, or an empty list after recording a problem."""
        try:
            return [value_parser(value)]
        except _InnerError as error:
            inner_path = (*path, key, *error.keys)
            self.record_problem(
                inner_path, _explain_invalid_value(inner_path, error, error.value), is_guard=key in _GUARDS
            )
        except ValueError as error:
            self.record_problem(
                (*path, key), _explain_invalid_value((*path, key), error, value), is_guard=key in _GUARDS
            )
        return []

    def parse_profiles(self, tables: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Parse the profiles of the config file.

        A profile without a URL is a problem, but its other values are kept.
        """
        profiles: dict[str, dict[str, Any]] = {}
        for name, table in self.parse_free_table(tables, _require_toml_table, ("profiles",)).items():
            former_keys = {"layouts": _parse_text_list} if "layouts" in table else {}  # the former name of `systems`
            profiles[name] = self.parse_known_keys(table, {**_PROFILE, **former_keys}, ("profiles", name))
            if "thresholds" in profiles[name]:
                path = ("profiles", name, "thresholds")
                profiles[name]["thresholds"] = self.parse_thresholds(profiles[name]["thresholds"], path)
            if "url" not in table:
                self.record_problem(
                    ("profiles", name), f'profile "{name}" has no url; expected url = "redis://host:6379/0".'
                )
        return profiles

    def parse_thresholds(self, table: Mapping[str, Any], path: toml_lines.Path) -> thresholds.Rules:
        """Parse the thresholds of findings into pairs (pattern of queue names, thresholds), in the file's order."""
        tables = self.parse_free_table(table, _require_toml_table, path)
        return tuple(
            (pattern, self.parse_known_keys(tables[pattern], _THRESHOLDS, (*path, pattern))) for pattern in tables
        )

    def parse_column_lists(self, table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """Parse which columns the screen shows. Returns the columns by state of the jobs, and those of the `board`."""
        return self.parse_known_keys(table, dict.fromkeys(COLUMNS_OF, _parse_text_list), ("columns",))

    def check_default_profile(self, config: Config) -> None:
        """Record a problem if `default_profile` names a profile that the config file does not have."""
        name = config.top.get("default_profile")
        if name and name not in config.profiles:
            self.record_problem(
                ("default_profile",), f'there is no profile "{name}". {build_similar_word_hint(name, config.profiles)}'
            )


ParseValue = Callable[[Any], Any]


def _parse_nonempty_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def _parse_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _parse_read_only_setting(value: Any) -> bool | str:
    if not isinstance(value, bool) and value != "always":
        raise ValueError('true, false or "always"')
    return bool(value) if isinstance(value, bool) else "always"


class _InnerError(ValueError):
    """Raised for an invalid value inside a list or table of the config file.

    `keys` is the path to the value from the key that was parsed.
    """

    def __init__(self, expected: str, value: Any, *keys: str) -> None:
        super().__init__(expected)
        self.value, self.keys = value, keys


def _explain_invalid_value(path: Sequence[str], expected: object, value: Any) -> str:
    """Return the sentence for a value of a wrong type or range: the key, what was expected, and what was found."""
    return f"{'.'.join(path)}: expected {expected}, found {_describe_invalid_value(value)}."


def _parse_text_list(value: Any) -> tuple[str, ...]:
    expected = 'a list of texts, as in ["id", "job"]'
    if not isinstance(value, list):
        raise ValueError(expected)
    for number, word in enumerate(value, 1):
        if not isinstance(word, str) or not word.strip():
            raise _InnerError(f"a text that is not empty as entry {number} of {expected}", word)
    return tuple(word.strip() for word in value)


def _parse_keyboard_keys(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError('keys, as in "d" or "d,ctrl+d"')
    return value.strip()


def _require_toml_table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a table")
    return value


def _parse_denied_verbs(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    from rqtui.verbs import VERBS_BY_NAME

    if not isinstance(value, dict):
        raise ValueError('a table from queues to verbs, as in { "billing*" = ["delete", "purge"] }')
    rules = []
    for pattern, verbs in value.items():
        try:
            rules.append((pattern, _parse_text_list(verbs)))
        except ValueError as error:
            raise _InnerError(str(error), getattr(error, "value", verbs), pattern) from None
    for pattern, names in rules:
        for verb in names:
            if verb not in VERBS_BY_NAME:
                similar_verb = find_similar_word(verb, VERBS_BY_NAME)
                hint = f" (did you mean {similar_verb}?)" if similar_verb else ""
                raise _InnerError(f"names of verbs{hint}", verb, pattern)
    return tuple(rules)


def _parse_redis_url(value: Any) -> str:
    if not isinstance(value, str) or not value.strip().startswith((*_SCHEMES, "${")):
        raise ValueError("a URL that begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")
    return value.strip()


def _parse_refresh_interval(value: Any) -> float:
    from rqtui.durations import parse_duration

    try:
        seconds = parse_duration(value) / 1000
    except RqtuiError:
        seconds = 0.0
    if not MIN_INTERVAL_S <= seconds <= MAX_INTERVAL_S:
        raise ValueError(f'a time between {MIN_INTERVAL_S} s and {MAX_INTERVAL_S:.0f} s, as in "2s"')
    return seconds


def _parse_whole_number(lowest: int, highest: int, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise ValueError(f"a whole number from {lowest} to {highest}")
    return value


_SECTIONS = ("profiles", "keymap", "columns", "redact", "thresholds")
_THRESHOLDS: dict[str, ParseValue] = {name: partial(thresholds.parse_threshold, name) for name in thresholds.RULES}
_LOOK: dict[str, ParseValue] = {
    "theme": _parse_nonempty_text,
    "interval": _parse_refresh_interval,
    "calm": _parse_boolean,
    "ascii": _parse_boolean,
}
_RECORDING: dict[str, ParseValue] = {
    "record": _parse_boolean,
    "record_mb": partial(_parse_whole_number, 10, 100_000),
    "record_days": partial(_parse_whole_number, 1, 366),
    "record_jobs": partial(_parse_whole_number, 0, MAX_RECORD_JOBS),
}
_TOP: dict[str, ParseValue] = {
    "default_profile": _parse_nonempty_text,
    **_LOOK,
    **_RECORDING,
    **dict.fromkeys(_SECTIONS, _require_toml_table),
}
_PROFILE: dict[str, ParseValue] = {
    "url": _parse_redis_url,
    "password_file": _parse_nonempty_text,
    "systems": _parse_text_list,
    "badge": _parse_nonempty_text,
    "read_only": _parse_read_only_setting,
    "guarded": _parse_boolean,
    "deny": _parse_denied_verbs,
    "thresholds": _require_toml_table,
    **_LOOK,
    **_RECORDING,
}


def find_similar_word(word: str, known_words: Collection[str]) -> str:
    """Return the word of `known_words` that is most similar to a misspelled `word`, or an empty text."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word.replace("-", "_"), list(known_words), n=1, cutoff=0.6)), "")


def build_similar_word_hint(word: str, known_words: Collection[str]) -> str:
    """Return a hint for a misspelled word: `Did you mean "read_only"?`, or a list of the known words."""
    if similar_word := find_similar_word(word, known_words):
        return f'Did you mean "{similar_word}"?'
    return f"There are: {', '.join(sorted(known_words))}." if known_words else "There are none."


def _is_similar_to_protective_key(key: str, known_keys: Collection[str]) -> bool:
    """Return whether an unknown key resembles one that forbids changes, as `readonly` does.

    Then the person may have wanted to forbid something, and rqtui must not allow everything.
    """
    return bool(find_similar_word(key, _GUARDS & set(known_keys)))


def _describe_invalid_value(value: Any) -> str:
    """Return a short form of an invalid value for an error message.

    A text that may be a URL with a password is left out.
    """
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if "@" in text or len(text) > 40:
        return "another text"
    return f'"{text}"' if isinstance(value, str) else text
