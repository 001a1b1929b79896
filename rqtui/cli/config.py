"""Implement `config`: print the config file's path, the effective settings with their sources, or an example file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import output, screen
from rqtui.cli.session import DONE, USAGE, Session
from rqtui.text.masking import reveal_secrets

if TYPE_CHECKING:
    from rqtui.config.resolve import EffectiveSettings
    from rqtui.config.thresholds import Limit

EXAMPLE = """\
# rqtui reads this file at its start; `rqtui config` says where it is and prints the effective settings.
# The command line and the environment (RQTUI_URL, REDIS_URL, RQTUI_PROFILE, RQTUI_CALM) come before it.
# To use a line, take the # before it away.

#default_profile = "dev"      # used where nothing else names a Redis
#theme = "rqtui"              # rqtui, rqtui-light, rqtui-ansi, or one of Textual's
#interval = "2s"              # between two refreshes
#calm = false                 # no motion, the fewest bytes: for slow links
#ascii = false                # no letters beyond ASCII
#record = true                # the screen records what it reads, as `rqtui record` does
#record_mb = 200              # the largest size of a recording
#record_days = 30             # the age at which its records are deleted
#record_jobs = 0              # the first jobs of each place that are recorded once a minute; at most 100

#[profiles.dev]
#url = "redis://localhost:6379/0"

#[profiles.prod]
#url = "rediss://ops:${MAIL_PW}@jobs-1:6379/0"   # ${NAME} comes from the environment
#password_file = "/run/secrets/redis"             # instead of a password in the URL: its first line
#systems = ["NAME", "NAME:key=value"]            # which systems to look for; none: whatever is there
#badge = "PROD"                                  # a word before the URL; PROD also guards
#guarded = true                                  # a queue's name is typed before what is dangerous
#read_only = true                                # "always": not even `unlock` turns changes on
#deny = { "billing*" = ["delete", "purge"] }     # verbs refused, by queue
#thresholds = { "mail*" = { waiting = "10m" } }  # as below, for this profile
#theme = "rqtui-light"
#interval = "5s"
#calm = true
#ascii = false
#record = false
#record_mb = 1000
#record_days = 90
#record_jobs = 20

#[keymap]                     # binding = "key" or "key,key"; the help page (?) names the bindings
#delete = "ctrl+d"
#workers = "W"

#[columns]                    # of a board, or by state; body.… is a path into a JSON body
#board = ["id", "job", "age", "tried", "error"]
#dead = ["id", "body.user.id", "tried", "error"]

#[thresholds."*"]             # from when on it is a finding: a warning, or [warning, critical]; false: never
#failing = [10, 50]           # per cent of the attempts of the last five minutes

#[thresholds."billing*"]      # the names of queues; of several that fit the one further down wins, key by key
#failing = [1, 10]
#dead = [10, 100]             # dead jobs
#dying = [1, 50]              # jobs that died in the last five minutes
#waiting = ["2m", "10m"]      # the oldest ready job; not given: three times what is usual
#backlog = ["1m", "30m"]      # of work that is ready, while it grows
#silent = [1, 100]            # leases of workers that send no heartbeats
#late = "5s"                  # work that is due and not done

#[redact]                     # patterns of more names whose values are masked in every output
#keys = ["iban", "ssn"]
"""
SHOWN_SETTINGS = (  # (name in the config file, field of Settings) of each printed setting
    ("profile", "profile"),
    ("url", "url"),
    ("systems", "systems"),
    ("badge", "badge"),
    ("read_only", "read_only"),
    ("guarded", "is_guarded"),
    ("deny", "denied"),
    ("thresholds", "limits"),
    ("theme", "theme"),
    ("interval", "interval_s"),
    ("calm", "is_calm"),
    ("ascii", "is_ascii"),
    ("record", "is_recording"),
    ("record_mb", "record_mb"),
    ("record_days", "record_days"),
    ("record_jobs", "record_jobs"),
)


def config(
    session: Session,
    is_path: Annotated[bool, typer.Option("--path", help="Print only the path of the file.")] = False,
    is_example: Annotated[bool, typer.Option("--example", help="Print an example file.")] = False,
) -> int:
    """Print the path of the config file, and the effective settings with the source of each.

    Example: rqtui config --profile prod
    """
    effective = session.in_force
    assert effective is not None
    if is_example:
        with reveal_secrets():  # the example's `password_file = …` and `${MAIL_PW}` are no secrets
            output.write_lines(EXAMPLE.splitlines())
        return DONE
    if is_path:
        output.write_lines([str(effective.config.path)])
        return DONE
    problems = [*effective.settings.problems, *screen.find_screen_config_errors(effective.config)]
    if session.as_json:
        output.write_json(_build_settings_document(effective, problems))
    else:
        _write_settings(effective)
        for problem in problems:
            output.print_message(problem)
    return USAGE if problems else DONE


def _iterate_effective_settings(effective: EffectiveSettings) -> Iterator[tuple[str, Any, str]]:
    """Yield (name, value, source) of each effective setting, with passwords masked."""
    from rqtui.connection.connect import hide_url_passwords

    for name, field in SHOWN_SETTINGS:
        value = getattr(effective.settings, field)
        if name == "thresholds":
            value = tuple((pattern, _format_thresholds(limits)) for pattern, limits in value)
        yield name, hide_url_passwords(value) if name == "url" else value, effective.sources.get(name, "built in")
    for section in ("keymap", "columns", "redact"):
        value = getattr(effective.settings, section)
        if value:
            yield section, value, effective.config.format_key_position(section)


def _format_thresholds(limits: Mapping[str, Limit]) -> tuple[str, ...]:
    """Format health thresholds as text, for example `failing 10..50`."""
    from rqtui.config.thresholds import format_threshold

    return tuple(f"{name} {format_threshold(name, limit)}" for name, limit in limits.items())


def _build_settings_document(effective: EffectiveSettings, problems: list[str]) -> dict[str, Any]:
    """Return the settings as a JSON document."""
    return {
        "path": str(effective.config.path),
        "exists": effective.config.exists,
        "profiles": sorted(effective.config.profiles),
        "in_force": {
            {"systems": "layouts"}.get(name, name): {"value": _convert_setting_to_json(value), "source": source}
            for name, value, source in _iterate_effective_settings(effective)
        },
        "problems": problems,
    }


def _convert_setting_to_json(value: Any) -> Any:
    """Convert a setting's value to JSON types: pairs become an object, other tuples lists."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return {pattern: list(verbs) for pattern, verbs in value}
    return dict(value) if hasattr(value, "keys") else list(value) if isinstance(value, tuple) else value


def _write_settings(effective: EffectiveSettings) -> None:
    """Print the config file's path, its profiles, and a table of the effective settings."""
    hint = "" if effective.config.exists else "  (there is none; begin with: rqtui config --example)"
    output.write_lines([f"file      {effective.config.path}{hint}"])
    names = ", ".join(sorted(effective.config.profiles))
    output.write_lines([f"profiles  {names}", ""] if names else [""])
    rows = [
        (name, _format_setting(value), _shorten_source(source, effective))
        for name, value, source in _iterate_effective_settings(effective)
    ]
    output.write_table(("setting", "value", "from"), rows)


def _format_setting(value: Any) -> str:
    """Return a setting's value as text on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    plain = _convert_setting_to_json(value)
    if isinstance(plain, dict):
        pairs = ((name, item if isinstance(item, str) else " ".join(item)) for name, item in plain.items())
        return ", ".join(f"{name}: {value_text}" for name, value_text in pairs)
    if isinstance(value, float):
        return f"{value:g} s"
    return (", ".join(plain) if isinstance(plain, list) else str(plain)) or "·"


def _shorten_source(source: str, effective: EffectiveSettings) -> str:
    """Return where a setting comes from, with the config file's name instead of its full path."""
    return source.replace(str(effective.config.path), effective.config.path.name)
