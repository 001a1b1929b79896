"""Compute the effective settings: the command line wins over the environment, the config file and the defaults.

Only this module defines that order. `rqtui config` shows the source of every value, which is recorded here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from rqtui.config import file as files
from rqtui.config.file import Config
from rqtui.config.settings import DEFAULT_URL, INTERVAL_S, RECORD_DAYS, RECORD_JOBS, RECORD_MB, Settings
from rqtui.connection import passwords
from rqtui.errors import UsageError

URL_VARIABLES = ("RQTUI_URL", "REDIS_URL")
PROFILE_VARIABLE, CALM_VARIABLE = "RQTUI_PROFILE", "RQTUI_CALM"
PROD = "PROD"  # with this badge, a dangerous verb asks for the name of the queue
BUILT_IN, COMMAND_LINE = "built in", "command line"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NO = ("0", "no", "false", "off")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The settings that a person gave as options on the command line."""

    url: str | None = field(default=None, repr=False)  # not in repr(), since it may have a password
    systems: tuple[str, ...] = ()
    read_only: bool = False
    walks_all: bool = False
    is_debug: bool = False
    log_format: str | None = None
    profile: str = ""
    config: str = ""
    is_calm: bool = False
    is_ascii: bool = False


class EffectiveSettings(NamedTuple):
    """The effective settings of this run, where each came from (by its name), and the config file."""

    settings: Settings
    sources: Mapping[str, str]
    config: Config


def resolve_settings(command_line: CommandLine, environ: Mapping[str, str] = os.environ) -> EffectiveSettings:
    """Compute the effective settings of this run. An empty environment variable counts as not set.

    A problem in the config file raises no error here: problems are part of the settings, and the screen shows them.
    Changes are off if the file may have forbidden something that cannot be read. Raises UsageError if the requested
    profile does not exist.
    """
    config = files.load_config(command_line.config, environ)
    url = _find_requested_url(command_line, environ)
    profile, profile_source = _find_requested_profile(command_line, environ)
    if not profile and url is None and config.top.get("default_profile") in config.profiles:
        profile, profile_source = config.top["default_profile"], config.format_key_position("default_profile")
    elif profile and profile not in config.profiles and not any(problem.is_guard for problem in config.problems):
        file_hint = f"in {config.path}" if config.exists else f": there is no config file {config.path}"
        similar_profile_hint = files.build_similar_word_hint(profile, config.profiles)
        raise UsageError(f'{profile_source}: there is no profile "{profile}" {file_hint}. {similar_profile_hint}')
    return _build_settings(
        _SettingsReader(config, profile, {"profile": profile_source or BUILT_IN}), command_line, environ, url
    )


def resolve_profile_settings(
    config: Config, name: str, command_line: CommandLine | None = None, environ: Mapping[str, str] = os.environ
) -> EffectiveSettings:
    """Compute the effective settings after a person switched to another profile on the screen.

    The URL of the profile is used, even if the environment names another one.
    """
    return _build_settings(
        _SettingsReader(config, name, {"profile": "chosen"}), command_line or CommandLine(), environ, None
    )


def _find_requested_url(command_line: CommandLine, environ: Mapping[str, str]) -> tuple[str, str] | None:
    if command_line.url is not None:
        return command_line.url, COMMAND_LINE
    return next(((environ[name], name) for name in URL_VARIABLES if environ.get(name)), None)


def _find_requested_profile(command_line: CommandLine, environ: Mapping[str, str]) -> tuple[str, str]:
    if command_line.profile:
        return command_line.profile, "--profile"
    return environ.get(PROFILE_VARIABLE, ""), PROFILE_VARIABLE if environ.get(PROFILE_VARIABLE) else ""


@dataclass(frozen=True, slots=True)
class _SettingsReader:
    """Reads settings from a profile of the config file, else from its top level, and records the source of each."""

    config: Config
    name: str
    sources: dict[str, str]

    @property
    def profile(self) -> Mapping[str, Any]:
        return self.config.profiles.get(self.name, {})

    def read_setting(
        self, key: str, built_in: Any, override: Any = None, override_source: str = COMMAND_LINE, former_key: str = ""
    ) -> Any:
        """Return the value of a setting, and record its source.

        An `override` that is not None wins; then come the profile, the top level of the config file, and the `built_in`
        value. The file may still use the `former_key` of the setting.
        """
        if override is not None:
            self.sources[key] = override_source
            return override
        for table, path in ((self.profile, ("profiles", self.name)), (self.config.top, ())):
            for name in filter(None, (key, former_key)):
                if name in table:
                    self.sources[key] = self.config.format_key_position(*path, name)
                    return table[name]
        self.sources[key] = BUILT_IN
        return built_in


def _build_settings(
    reader: _SettingsReader,
    command_line: CommandLine,
    environ: Mapping[str, str],
    requested_url: tuple[str, str] | None,
) -> EffectiveSettings:
    config, read_setting = reader.config, reader.read_setting
    problems, notes = list(config.format_problem_lines()), []
    effective_url = read_setting("url", DEFAULT_URL, *(requested_url or ()))
    if reader.sources["url"].startswith(str(config.path)):
        effective_url, unset_variables = expand_url_variables(effective_url, environ)
        url_position = config.format_key_position("profiles", reader.name, "url")
        problems += [
            f"{url_position}: the environment variable {name} is not set; the URL needs it." for name in unset_variables
        ]
        if "password_file" in reader.profile and not passwords.has_url_password(effective_url):
            effective_url = passwords.add_url_password(effective_url, _read_profile_password(reader, problems))
    elif not passwords.has_url_password(effective_url):
        effective_url = passwords.add_url_password(effective_url, passwords.read_password_from_environment(environ))
    if requested_url and "url" in reader.profile:
        notes.append(f"The URL comes from {requested_url[1]}: it is not the one of profile {reader.name}.")
    read_only = read_setting("read_only", False, command_line.read_only or None)
    is_always = reader.profile.get("read_only") == "always"
    if any(problem.is_guard for problem in config.problems):
        read_only = is_always = True
        reader.sources["read_only"] = "the error in the config file"
        problems.append("Changes are off until that is fixed: it is unknown what the file would have forbidden.")
    own_limits = read_setting("thresholds", ()) if "thresholds" in reader.profile else ()
    if config.thresholds and not own_limits:
        reader.sources["thresholds"] = config.format_key_position("thresholds")
    badge = read_setting("badge", "")
    is_calm, calm_source = (
        (True, COMMAND_LINE)
        if command_line.is_calm
        else (_read_boolean_variable(environ, CALM_VARIABLE), CALM_VARIABLE)
    )
    settings = Settings(
        url=effective_url,
        systems=read_setting("systems", (), command_line.systems or None, former_key="layouts"),
        read_only=bool(read_only),
        walks_all=command_line.walks_all,
        is_debug=command_line.is_debug,
        log_format=command_line.log_format or "text",
        profile=reader.name if reader.profile else "",
        badge=badge,
        is_guarded=read_setting("guarded", badge.upper() == PROD),
        theme=read_setting("theme", ""),
        is_calm=read_setting("calm", False, is_calm, calm_source),
        is_ascii=read_setting("ascii", False, command_line.is_ascii or None),
        denied=read_setting("deny", ()),
        limits=(*config.thresholds, *own_limits),
        columns=config.columns,
        redact=config.redact,
        keymap=config.keymap,
        is_asked_read_only=command_line.read_only,
        may_unlock=not is_always,
        interval_s=read_setting("interval", INTERVAL_S),
        is_recording=read_setting("record", True),
        record_mb=read_setting("record_mb", RECORD_MB),
        record_days=read_setting("record_days", RECORD_DAYS),
        record_jobs=read_setting("record_jobs", RECORD_JOBS),
        config=str(config.path),
        problems=tuple(problems),
        notes=tuple(notes),
    )
    return EffectiveSettings(settings, reader.sources, config)


def _read_profile_password(reader: _SettingsReader, problems: list[str]) -> str:
    """Return the password in the file that the profile names.

    If the file cannot be read, add a problem and return "".
    """
    position = reader.config.format_key_position("profiles", reader.name, "password_file")
    try:
        return passwords.read_password_from_file(reader.profile["password_file"], position)
    except UsageError as error:
        problems.append(str(error))
        return ""


def expand_url_variables(url: str, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    """Replace each `${VARIABLE}` in a Redis URL. Returns the URL, and the environment variables that are not set.

    Values before the `@` are quoted for the URL, because a password may contain any character.
    """
    login_part, at_sign, host_part = url.rpartition("@")
    unset_variables = [name for name in _VARIABLE.findall(url) if not environ.get(name)]
    login = _VARIABLE.sub(lambda match: quote(environ.get(match[1], ""), safe=""), login_part)
    return login + at_sign + _VARIABLE.sub(lambda match: environ.get(match[1], ""), host_part), unset_variables


def _read_boolean_variable(environ: Mapping[str, str], name: str) -> bool | None:
    """Return whether an environment variable is on (not `0`, `no`, `false` or `off`), or None if it is not set."""
    value = environ.get(name, "")
    return value.lower() not in _NO if value else None
