"""The demo and the bench: what the shell only opens the door to."""

from __future__ import annotations

from typing import Annotated

import typer

from rqtui.commands.session import Session, command
from rqtui.errors import UsageError

SERVERS = ("auto", "system", "wheel", "fake")


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    command(app, "demo")(demo)
    command(app, "bench")(bench)


def demo(
    session: Session,
    scenario: Annotated[str, typer.Argument(metavar="[SCENARIO]", help="delays, timeouts, …; see --list.")] = "",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed makes the same jobs.")] = 1,
    server: Annotated[
        str, typer.Option("--server", metavar="auto|system|wheel|fake", help="Which server to start.")
    ] = "auto",
    headless: Annotated[bool, typer.Option("--headless", help="Without a screen; says what happened.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="S", help="How long, without a screen: 20, but timeouts plays to its end."),
    ] = None,
    is_list: Annotated[bool, typer.Option("--list", help="Name the scenarios.")] = False,
) -> int:
    """Jobs that flow through a queue of their own; needs no Redis.

    Example: rqtui demo delays --headless --seconds 20 --json
    """
    if server not in SERVERS:
        raise UsageError(f"--server is one of {', '.join(SERVERS)}.")
    if seconds is not None and not 0.1 <= seconds <= 86_400:  # a day; NaN is refused too
        raise UsageError("--seconds is a number between 0.1 and 86400.")
    from rqtui.demo import demo as play
    from rqtui.demo import list_scenarios

    if is_list:
        return list_scenarios(session.as_json)
    return play(
        scenario,
        seed=seed,
        server=server,
        headless=headless,
        seconds=seconds,
        as_json=session.as_json,
        read_only=session.settings.read_only,
        look=session.settings,
    )


def bench(
    session: Session,
    what: Annotated[str, typer.Argument(metavar="[engine|screen|layouts]", help="Which part.")] = "engine",
) -> int:
    """Measure how fast and how small rqtui is on this machine.

    Example: rqtui bench engine --json
    """
    from rqtui.bench import bench as measure

    return measure(what, as_json=session.as_json)
