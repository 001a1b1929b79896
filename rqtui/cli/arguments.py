"""What a person names on a command line, queues and jobs: as typer takes them, and as the engine knows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import output

if TYPE_CHECKING:
    from rqtui.cli.session import Session
    from rqtui.engine.engine import Engine
    from rqtui.model import Job, Queue, Ref

QUEUES = Annotated[list[str] | None, typer.Argument(metavar="[QUEUE]...", help="Which queues; all when none is named.")]
QUEUE = Annotated[str, typer.Argument(metavar="QUEUE", help="A queue, as NAME or LAYOUT:NAME.")]


def engine_for(session: Session, queues: list[str] | None) -> tuple[Engine, list[Ref]]:
    """An engine, and the queues that are meant: those named (unknown ones are told), else all that there are."""
    from rqtui.model import Focus

    engine = session.engine(discover=not queues)
    refs = session.queues(engine, queues or ())
    if queues:
        for queue in engine.snapshot(Focus(queues=tuple(refs))).queues:
            note_if_unknown(queue)
    return engine, refs


def note_if_unknown(queue: Queue) -> None:
    """Says so when a queue that somebody named has never held a job: a slip of the pen looks like an empty queue."""
    if (
        not queue.error
        and not queue.findings
        and not any(count.count for count in queue.counts)
        and not any(queue.counters.get(n) for n in ("in", "out"))
    ):
        output.say(f'nothing is known of a queue "{queue.name}" ({queue.layout}); it counts as empty.')


def note_if_unheard(engine: Engine, refs: Iterable[Ref]) -> None:
    """Says of which places of these queues nothing can be told, since nobody listened to what fills them."""
    from rqtui.text.hearing import unheard

    for system in dict.fromkeys(ref.layout for ref in refs):
        layout = engine.layouts[system]
        places = [place.name for place in layout.places if place.is_heard]
        if places and layout.heard_since_ms is None and not engine.is_listening:
            output.say(unheard(system, places))


def stranger(ref: Ref, id: bytes) -> Job:
    """A job of which nothing is known but its id."""
    from rqtui.model import Job, State

    return Job(id, ref.queue, ref.layout, "", State.READY, id)
