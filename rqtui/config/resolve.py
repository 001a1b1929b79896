"""Effective settings: the command line wins over the environment, that over the config file, that over the defaults.

The order stands here and nowhere else. Every value keeps its source, for `rqtui config`.
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
PROD = "PROD"  # the badge that asks for a queue's name before what is dangerous
BUILT_IN, COMMAND_LINE = "built in", "command line"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NO = ("0", "no", "false", "off")


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says."""

    url: str | None = field(default=None, repr=False)  # it may hold a password
    layouts: tuple[str, ...] = ()
    read_only: bool = False
    walks_all: bool = False
    is_debug: bool = False
    log_format: str | None = None
    profile: str = ""
    config: str = ""
    is_calm: bool = False
    is_ascii: bool = False


class InForce(NamedTuple):
    """The settings, where each of them comes from by its name, and the file."""

    settings: Settings
    sources: Mapping[str, str]
    config: Config


def in_force(given: Given, environ: Mapping[str, str] = os.environ) -> InForce:
    """What holds for this command line. An environment variable that is empty counts as not set.

    A problem in the file is no error here: it stands in the settings, for whoever opens the screen. Where nobody knows
    what the file would have forbidden, changes are off. Raises UsageError for a profile that was asked for and is not
    there.
    """
    config = files.find(given.config, environ)
    url = _url_given(given, environ)
    name, who = _profile_asked(given, environ)
    if not name and url is None and config.top.get("default_profile") in config.profiles:
        name, who = config.top["default_profile"], config.at("default_profile")
    elif name and name not in config.profiles and not any(problem.is_guard for problem in config.problems):
        where = f"in {config.path}" if config.is_there else f": there is no config file {config.path}"
        raise UsageError(f'{who}: there is no profile "{name}" {where}. {files.hint(name, config.profiles)}')
    return _made(_Choice(config, name, {"profile": who or BUILT_IN}), given, environ, url)


def of_profile(
    config: Config, name: str, given: Given | None = None, environ: Mapping[str, str] = os.environ
) -> InForce:
    """What holds when a person goes over to a profile: its URL is meant, whatever the environment says."""
    return _made(_Choice(config, name, {"profile": "chosen"}), given or Given(), environ, None)


def _url_given(given: Given, environ: Mapping[str, str]) -> tuple[str, str] | None:
    if given.url is not None:
        return given.url, COMMAND_LINE
    return next(((environ[name], name) for name in URL_VARIABLES if environ.get(name)), None)


def _profile_asked(given: Given, environ: Mapping[str, str]) -> tuple[str, str]:
    if given.profile:
        return given.profile, "--profile"
    return environ.get(PROFILE_VARIABLE, ""), PROFILE_VARIABLE if environ.get(PROFILE_VARIABLE) else ""


@dataclass(frozen=True, slots=True)
class _Choice:
    """Takes values from the profile, else from the whole file, and remembers where each came from."""

    config: Config
    name: str
    sources: dict[str, str]

    @property
    def profile(self) -> Mapping[str, Any]:
        return self.config.profiles.get(self.name, {})

    def first(self, key: str, built_in: Any, before: Any = None, source: str = COMMAND_LINE) -> Any:
        """The value of a key: what comes `before` the file unless that is None, the file's, else what is built in."""
        if before is not None:
            self.sources[key] = source
            return before
        for table, path in ((self.profile, ("profiles", self.name, key)), (self.config.top, (key,))):
            if key in table:
                self.sources[key] = self.config.at(*path)
                return table[key]
        self.sources[key] = BUILT_IN
        return built_in


def _made(choice: _Choice, given: Given, environ: Mapping[str, str], url: tuple[str, str] | None) -> InForce:
    config, first = choice.config, choice.first
    problems, notes = list(config.sentences()), []
    chosen = first("url", DEFAULT_URL, *(url or ()))
    if choice.sources["url"].startswith(str(config.path)):
        chosen, missing = expand(chosen, environ)
        at = config.at("profiles", choice.name, "url")
        problems += [f"{at}: the environment variable {name} is not set; the URL needs it." for name in missing]
        if "password_file" in choice.profile and not passwords.is_named(chosen):
            chosen = passwords.filled(chosen, _password_of(choice, problems))
    elif not passwords.is_named(chosen):
        chosen = passwords.filled(chosen, passwords.of_environment(environ))
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
        choice.sources["thresholds"] = config.at("thresholds")
    badge = first("badge", "")
    is_calm, who_calms = (True, COMMAND_LINE) if given.is_calm else (_switch(environ, CALM_VARIABLE), CALM_VARIABLE)
    settings = Settings(
        url=chosen,
        layouts=first("layouts", (), given.layouts or None),
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
    return InForce(settings, choice.sources, config)


def _password_of(choice: _Choice, problems: list[str]) -> str:
    """What stands in the profile's password file; nothing, and a problem, where it cannot be read."""
    at = choice.config.at("profiles", choice.name, "password_file")
    try:
        return passwords.of_file(choice.profile["password_file"], at)
    except UsageError as error:
        problems.append(str(error))
        return ""


def expand(url: str, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    """A URL with each `${VARIABLE}` filled in, and the variables that are not set.

    What stands before the `@` is made fit for a URL: a password may hold any letters.
    """
    before, at, after = url.rpartition("@")
    missing = [name for name in _VARIABLE.findall(url) if not environ.get(name)]
    login = _VARIABLE.sub(lambda match: quote(environ.get(match[1], ""), safe=""), before)
    return login + at + _VARIABLE.sub(lambda match: environ.get(match[1], ""), after), missing


def _switch(environ: Mapping[str, str], name: str) -> bool | None:
    """A variable as a switch; None where it is not set."""
    value = environ.get(name, "")
    return value.lower() not in _NO if value else None
