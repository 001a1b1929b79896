"""Compute the effective settings: the command line wins over the environment, the config file and the defaults.

The order of precedence is defined only here. The source of every value is kept for `rqtui config`.
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
from rqtui.config.settings import DEFAULT_URL, INTERVAL_S, Settings
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
    """The settings given on the command line."""

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
    """The effective settings, the source of each by its name, and the config file."""

    settings: Settings
    sources: Mapping[str, str]
    config: Config


def resolve_settings(given: CommandLine, environ: Mapping[str, str] = os.environ) -> EffectiveSettings:
    """Compute the effective settings of this command line. An empty environment variable counts as not set.

    A problem in the file is no error here: it is part of the settings, and the screen shows it. If the file may have
    forbidden something that cannot be read, changes are off. Raises UsageError if the requested profile does not exist.
    """
    config = files.load_config(given.config, environ)
    url = _find_url(given, environ)
    name, who = _find_profile(given, environ)
    if not name and url is None and config.top.get("default_profile") in config.profiles:
        name, who = config.top["default_profile"], config.locate_key("default_profile")
    elif name and name not in config.profiles and not any(problem.is_guard for problem in config.problems):
        where = f"in {config.path}" if config.exists else f": there is no config file {config.path}"
        raise UsageError(f'{who}: there is no profile "{name}" {where}. {files.build_hint(name, config.profiles)}')
    return _build_settings(_Choice(config, name, {"profile": who or BUILT_IN}), given, environ, url)


def resolve_profile(
    config: Config, name: str, given: CommandLine | None = None, environ: Mapping[str, str] = os.environ
) -> EffectiveSettings:
    """Compute the effective settings after a person switched to a profile.

    Its URL is used, whatever the environment says.
    """
    return _build_settings(_Choice(config, name, {"profile": "chosen"}), given or CommandLine(), environ, None)


def _find_url(given: CommandLine, environ: Mapping[str, str]) -> tuple[str, str] | None:
    if given.url is not None:
        return given.url, COMMAND_LINE
    return next(((environ[name], name) for name in URL_VARIABLES if environ.get(name)), None)


def _find_profile(given: CommandLine, environ: Mapping[str, str]) -> tuple[str, str]:
    if given.profile:
        return given.profile, "--profile"
    return environ.get(PROFILE_VARIABLE, ""), PROFILE_VARIABLE if environ.get(PROFILE_VARIABLE) else ""


@dataclass(frozen=True, slots=True)
class _Choice:
    """Reads settings from the profile, else from the top of the file, and records the source of each."""

    config: Config
    name: str
    sources: dict[str, str]

    @property
    def profile(self) -> Mapping[str, Any]:
        return self.config.profiles.get(self.name, {})

    def choose_value(
        self, key: str, built_in: Any, before: Any = None, source: str = COMMAND_LINE, former: str = ""
    ) -> Any:
        """Return the value of `key`: `before` unless it is None, else the file's value, else `built_in`.

        The file may have the key under its `former` name.
        """
        if before is not None:
            self.sources[key] = source
            return before
        for table, path in ((self.profile, ("profiles", self.name)), (self.config.top, ())):
            for name in filter(None, (key, former)):
                if name in table:
                    self.sources[key] = self.config.locate_key(*path, name)
                    return table[name]
        self.sources[key] = BUILT_IN
        return built_in


def _build_settings(
    choice: _Choice, given: CommandLine, environ: Mapping[str, str], url: tuple[str, str] | None
) -> EffectiveSettings:
    config, first = choice.config, choice.choose_value
    problems, notes = list(config.format_problems()), []
    chosen = first("url", DEFAULT_URL, *(url or ()))
    if choice.sources["url"].startswith(str(config.path)):
        chosen, missing = expand_variables(chosen, environ)
        at = config.locate_key("profiles", choice.name, "url")
        problems += [f"{at}: the environment variable {name} is not set; the URL needs it." for name in missing]
        if "password_file" in choice.profile and not passwords.has_password(chosen):
            chosen = passwords.add_password(chosen, _read_password(choice, problems))
    elif not passwords.has_password(chosen):
        chosen = passwords.add_password(chosen, passwords.read_from_environment(environ))
    if url and "url" in choice.profile:
        notes.append(f"The URL comes from {url[1]}: it is not the one of profile {choice.name}.")
    read_only = first("read_only", False, given.read_only or None)
    is_always = choice.profile.get("read_only") == "always"
    if any(problem.is_guard for problem in config.problems):
        read_only = is_always = True
        choice.sources["read_only"] = "the error in the config file"
        problems.append("Changes are off until that is mended: what it would have forbidden is not known.")
    own_limits = first("thresholds", ()) if "thresholds" in choice.profile else ()
    if config.thresholds and not own_limits:
        choice.sources["thresholds"] = config.locate_key("thresholds")
    badge = first("badge", "")
    is_calm, who_calms = (
        (True, COMMAND_LINE) if given.is_calm else (_read_switch(environ, CALM_VARIABLE), CALM_VARIABLE)
    )
    settings = Settings(
        url=chosen,
        systems=first("systems", (), given.systems or None, former="layouts"),
        read_only=bool(read_only),
        walks_all=given.walks_all,
        is_debug=given.is_debug,
        log_format=given.log_format or "text",
        profile=choice.name if choice.profile else "",
        badge=badge,
        is_guarded=first("guarded", badge.upper() == PROD),
        theme=first("theme", ""),
        is_calm=first("calm", False, is_calm, who_calms),
        is_ascii=first("ascii", False, given.is_ascii or None),
        denied=first("deny", ()),
        limits=(*config.thresholds, *own_limits),
        columns=config.columns,
        redact=config.redact,
        keymap=config.keymap,
        is_asked_read_only=given.read_only,
        may_unlock=not is_always,
        interval_s=first("interval", INTERVAL_S),
        config=str(config.path),
        problems=tuple(problems),
        notes=tuple(notes),
    )
    return EffectiveSettings(settings, choice.sources, config)


def _read_password(choice: _Choice, problems: list[str]) -> str:
    """Return the password from the profile's password file. If it cannot be read, add a problem and return ""."""
    at = choice.config.locate_key("profiles", choice.name, "password_file")
    try:
        return passwords.read_from_file(choice.profile["password_file"], at)
    except UsageError as error:
        problems.append(str(error))
        return ""


def expand_variables(url: str, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return a URL with each `${VARIABLE}` replaced, and the variables that are not set.

    Values before the `@` are quoted for the URL, because a password may contain any character.
    """
    before, at, after = url.rpartition("@")
    missing = [name for name in _VARIABLE.findall(url) if not environ.get(name)]
    login = _VARIABLE.sub(lambda match: quote(environ.get(match[1], ""), safe=""), before)
    return login + at + _VARIABLE.sub(lambda match: environ.get(match[1], ""), after), missing


def _read_switch(environ: Mapping[str, str], name: str) -> bool | None:
    """Return an environment variable as a boolean, or None if it is not set."""
    value = environ.get(name, "")
    return value.lower() not in _NO if value else None
