"""`rqtui config`: where the config file is, the effective settings with their sources, and a file to begin with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import output, screen
from rqtui.cli.session import DONE, USAGE, Session

if TYPE_CHECKING:
    from rqtui.config.resolve import InForce
    from rqtui.config.thresholds import Limit

EXAMPLE = """\
# rqtui reads this file at its start; `rqtui config` says where it is and prints the effective settings.
# The command line and the environment (RQTUI_URL, REDIS_URL, RQTUI_PROFILE, RQTUI_CALM) come before it.
# To use a line, take the # before it away.

#default_profile = "dev"      # used where nothing else names a Redis
#theme = "rqtui"              # rqtui, rqtui-light, rqtui-ansi, or one of Textual's
#interval = "2s"              # between two pictures
#calm = false                 # no motion, the fewest bytes: for slow links
#ascii = false                # no letters beyond ASCII

#[profiles.dev]
#url = "redis://localhost:6379/0"

#[profiles.prod]
#url = "rediss://ops:${MAIL_PW}@jobs-1:6379/0"   # ${NAME} comes from the environment
#password_file = "/run/secrets/redis"             # instead of a password in the URL: its first line
#layouts = ["NAME", "NAME:key=value"]            # which systems to look for; none: whatever is there
#badge = "PROD"                                  # a word before the URL; PROD also guards
#guarded = true                                  # a queue's name is typed before what is dangerous
#read_only = true                                # "always": not even `unlock` turns changes on
#deny = { "billing*" = ["delete", "purge"] }     # verbs refused, by queue
#thresholds = { "mail*" = { waiting = "10m" } }  # as below, for this profile
#theme = "rqtui-light"
#interval = "5s"
#calm = true
#ascii = false

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
#dead_share = 50              # per cent of all jobs of the queue
#dying = [1, 50]              # jobs that died in the last five minutes
#waiting = ["2m", "10m"]      # the oldest ready job; not given: three times what is usual
#backlog = ["1m", "30m"]      # of work that is ready, while it grows
#silent = [1, 100]            # leases of workers that do not beat
#late = "5s"                  # that nobody dispatches, reaps or works

#[redact]                     # more keys whose values are masked wherever a body is shown
#keys = ["iban", "ssn"]
"""
SHOWN = (  # the effective settings, by the name in the file: the field of Settings
    ("profile", "profile"),
    ("url", "url"),
    ("layouts", "layouts"),
    ("badge", "badge"),
    ("read_only", "read_only"),
    ("guarded", "is_guarded"),
    ("deny", "denied"),
    ("thresholds", "limits"),
    ("theme", "theme"),
    ("interval", "interval_s"),
    ("calm", "is_calm"),
    ("ascii", "is_ascii"),
)


def config(
    session: Session,
    is_path: Annotated[bool, typer.Option("--path", help="Only where the file is, or would be.")] = False,
    is_example: Annotated[bool, typer.Option("--example", help="Print a file to begin with.")] = False,
) -> int:
    """Where the config file is, and the effective settings.

    Example: rqtui config --profile prod
    """
    holds = session.holds
    assert holds is not None
    if is_example:
        output.write_lines(EXAMPLE.splitlines())
        return DONE
    if is_path:
        output.write_lines([str(holds.config.path)])
        return DONE
    problems = [*holds.settings.problems, *screen.problems(holds.config)]
    if session.as_json:
        output.write_json(_document(holds, problems))
    else:
        _write(holds)
        for problem in problems:
            output.say(problem)
    return USAGE if problems else DONE


def _values(holds: InForce) -> Iterator[tuple[str, Any, str]]:
    """(name, value, source) of the effective settings, without passwords."""
    from rqtui.connection.connect import mask

    for name, field in SHOWN:
        value = getattr(holds.settings, field)
        if name == "thresholds":
            value = tuple((pattern, _limits(limits)) for pattern, limits in value)
        yield name, mask(value) if name == "url" else value, holds.sources.get(name, "built in")
    for section in ("keymap", "columns", "redact"):
        value = getattr(holds.settings, section)
        if value:
            yield section, value, holds.config.at(section)


def _limits(limits: Mapping[str, Limit]) -> tuple[str, ...]:
    """Thresholds in words: `failing 10..50`."""
    from rqtui.config.thresholds import written

    return tuple(f"{name} {written(name, limit)}" for name, limit in limits.items())


def _document(holds: InForce, problems: list[str]) -> dict[str, Any]:
    return {
        "path": str(holds.config.path),
        "exists": holds.config.is_there,
        "profiles": sorted(holds.config.profiles),
        "in_force": {name: {"value": _plain(value), "source": source} for name, value, source in _values(holds)},
        "problems": problems,
    }


def _plain(value: Any) -> Any:
    """Pairs as an object, tuples as lists."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return {pattern: list(verbs) for pattern, verbs in value}
    return dict(value) if hasattr(value, "keys") else list(value) if isinstance(value, tuple) else value


def _write(holds: InForce) -> None:
    there = "" if holds.config.is_there else "  (there is none; begin with: rqtui config --example)"
    output.write_lines([f"file      {holds.config.path}{there}"])
    names = ", ".join(sorted(holds.config.profiles))
    output.write_lines([f"profiles  {names}", ""] if names else [""])
    rows = [(name, _words(value), _near(source, holds)) for name, value, source in _values(holds)]
    output.write_table(("setting", "value", "from"), rows)


def _words(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    plain = _plain(value)
    if isinstance(plain, dict):
        each = ((k, v if isinstance(v, str) else " ".join(v)) for k, v in plain.items())
        return ", ".join(f"{name}: {words}" for name, words in each)
    if isinstance(value, float):
        return f"{value:g} s"
    return (", ".join(plain) if isinstance(plain, list) else str(plain)) or "·"


def _near(source: str, holds: InForce) -> str:
    """A line of the file without its folder, which stands above."""
    return source.replace(str(holds.config.path), holds.config.path.name)
