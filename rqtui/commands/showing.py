"""The screen, the demo and the bench: what the shell only opens the door to."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rqtui.commands.session import Session, command
from rqtui.errors import UsageError
from rqtui.settings import Settings

SERVERS = ("auto", "system", "wheel", "fake")


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    command(app, "demo")(demo)
    command(app, "bench")(bench)


def screen(settings: Settings) -> int:
    """Opens the screen until the person leaves."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the screen needs a terminal. Without one: rqtui snapshot, rqtui jobs, rqtui --help.")
    from rqtui.server import connect
    from rqtui.tui.app import run

    connect(settings.url).close()  # a URL that nobody can understand is refused before the screen opens
    return run(settings)


def demo(
    session: Session,
    scenario: Annotated[str, typer.Argument(metavar="[SCENARIO]", help="delays, poison, rush; see --list.")] = "",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed makes the same jobs.")] = 1,
    server: Annotated[
        str, typer.Option("--server", metavar="auto|system|wheel|fake", help="Which server to start.")
    ] = "auto",
    headless: Annotated[bool, typer.Option("--headless", help="Without a screen; says what happened.")] = False,
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", help="How long, without a screen.")] = 20.0,
    is_list: Annotated[bool, typer.Option("--list", help="Name the scenarios.")] = False,
) -> int:
    """Jobs that flow through a queue of their own; needs no Redis.

    Example: rqtui demo delays --headless --seconds 20 --json
    """
    if server not in SERVERS:
        raise UsageError(f"--server is one of {', '.join(SERVERS)}.")
    if not 0.1 <= seconds <= 86_400:  # a day; NaN is refused too
        raise UsageError("--seconds is a number between 0.1 and 86400.")
    from rqtui import demo as demonstration

    if is_list:
        from rqtui.commands.output import write_json, write_table
        from rqtui.scenarios import SCENARIOS

        listed = list(SCENARIOS.values()) if isinstance(SCENARIOS, dict) else list(SCENARIOS)
        if session.as_json:
            write_json([{"scenario": each.name, "text": each.summary} for each in listed])
        else:
            write_table(("scenario", "shows"), [[each.name, each.summary] for each in listed])
        return 0
    if not headless and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the demo's screen needs a terminal; without one: rqtui demo --headless --seconds 20 --json")
    return demonstration.demo(
        scenario, seed=seed, server=server, headless=headless, seconds=seconds, as_json=session.as_json
    )


def bench(
    session: Session,
    what: Annotated[str, typer.Argument(metavar="[engine|screen]", help="A part of it; everything without.")] = "",
) -> int:
    """Measure how fast and how small rqtui is on this machine.

    Example: rqtui bench engine --json
    """
    if what not in ("", "engine", "screen"):
        raise UsageError(f'bench measures engine or screen, not "{what}".')
    from rqtui import bench as measurements

    return measurements.bench(what, as_json=session.as_json)
