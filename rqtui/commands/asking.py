"""Asking: what somebody wants `act` to do, and the question before something dangerous."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqtui.errors import Refused

if TYPE_CHECKING:
    from rqtui.commands.session import Session
    from rqtui.drip import Brake
    from rqtui.engine import Engine
    from rqtui.model import Ref
    from rqtui.scripts import Script


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked `act` to do, as given."""

    ref: Ref
    ids: tuple[bytes, ...] = ()
    place: str = ""
    expression: str | None = None
    everything: bool = False
    limit: int | None = None
    is_dry_run: bool = False
    is_sure: bool = False
    brake: Brake | None = None  # so many per second


def be_sure(session: Session, engine: Engine, request: Request, script: Script, number: int | None) -> None:
    """Asks before a dangerous verb on a terminal; elsewhere refuses it without --yes.

    A profile that is guarded wants the queue's name for an answer.
    """
    from rqtui import undo, verbs

    row = verbs.verb(script.name, script.summary)
    if not row.danger or request.is_sure:
        return
    what = (
        f"{number} job{'' if number == 1 else 's'} of {request.ref.queue}" if number is not None else request.ref.queue
    )
    problem = engine.keeper.problem if engine.keeper else ""
    back = undo.words(
        engine.layouts[request.ref.layout], script.name, number or 0, request.place, problem, undo.COMMAND
    )
    back = back if back.startswith(undo.COMMAND) else f"{back[:1].upper()}{back[1:]}"
    lost = (f" What is lost: {row.lost}." if row.lost else "") + f" {back}."
    if not sys.stdin.isatty():
        raise Refused(f"{script.name} on {what} is dangerous and was not done; --yes does it without asking.{lost}")
    from rqtui.tui.safe import safe

    wanted = request.ref.queue if session.settings.is_guarded else ""
    how = f"type {safe(wanted)} to go on:" if wanted else "[y/N]"
    print(f"{safe(row.question)} {safe(what)}?{safe(lost)} {how} ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip()
    if answer != wanted if wanted else answer.lower() not in ("y", "yes"):
        raise Refused("nothing was changed.")
