"""Define the queue arguments of the commands, and convert the typed names to queues of the engine."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import output

if TYPE_CHECKING:
    from rqtui.cli.session import Session
    from rqtui.engine.engine import Engine
    from rqtui.model import Job, Queue, Ref

QUEUES = Annotated[
    list[str] | None, typer.Argument(metavar="[QUEUE]...", help="The queues; all queues if none is named.")
]
QUEUE = Annotated[str, typer.Argument(metavar="QUEUE", help="A queue, as NAME or SYSTEM:NAME.")]


def open_engine(session: Session, queues: list[str] | None, *, runs_on: bool = False) -> tuple[Engine, list[Ref]]:
    """Connect an engine and return it with the named queues, or with all queues if none is named.

    Names of queues that do not exist are reported on stderr.
    """
    from rqtui.model import Focus

    engine = session.create_engine(discover=not queues, runs_on=runs_on)
    refs = session.find_queues(engine, queues or ())
    if queues:
        for queue in engine.take_snapshot(Focus(queues=tuple(refs))).queues:
            report_unknown_queue(engine, queue)
    return engine, refs


def report_unknown_queue(engine: Engine, queue: Queue) -> None:
    """Print a message if Redis has no key of a named queue: a typing error would otherwise look like an empty queue."""
    from rqtui.model import Ref

    is_empty = not queue.error and not queue.findings and not any(count.count for count in queue.counts)
    if not is_empty or any(queue.counters.get(name) for name in ("in", "out")):
        return
    if not engine.has_queue(Ref(queue.system, queue.name)):
        output.print_message(f'nothing is known of a queue "{queue.name}" ({queue.system}); it counts as empty.')


def report_places_without_events(engine: Engine, refs: Iterable[Ref]) -> tuple[str, ...]:
    """Print in which places the number of jobs is unknown, because no process listens to their Pub/Sub events.

    Returns the names of the systems of these places.
    """
    from rqtui.text.event_coverage import explain_missing_event_coverage

    unknown = []
    for name in dict.fromkeys(ref.system for ref in refs):
        system = engine.systems[name]
        places = [place.name for place in system.places if place.is_from_events]
        if places and system.events_since_ms is None and not engine.is_listening:
            output.print_message(explain_missing_event_coverage(name, places))
            unknown.append(name)
    return tuple(unknown)


def listen_for_heartbeats(engine: Engine, refs: Iterable[Ref]) -> float:
    """Listen to Pub/Sub until every worker that is known only from events had time for a heartbeat.

    Returns the seconds for which events were received: 0 if the systems of these queues store their workers.
    """
    from rqtui.model import Focus

    listed = tuple(refs)
    intervals = [engine.systems[ref.system].heartbeat_event_interval_ms for ref in listed]
    seconds = max((ms for ms in intervals if ms), default=0) * 1.25 / 1000  # a heartbeat may be late
    if seconds:
        engine.start_listening()
        engine.take_snapshot(Focus(queues=listed))  # subscribes
        until_s = time.monotonic() + seconds
        with output.show_progress("listening"):
            while (remaining_s := until_s - time.monotonic()) > 0:
                time.sleep(min(remaining_s, 0.1))
                engine.deliver_events()
    return seconds


def build_job_of_id(ref: Ref, id: bytes) -> Job:
    """Build a `Job` of which only the id and the queue are known, for verbs that need nothing else."""
    from rqtui.model import Job, State

    return Job(id, ref.queue, ref.system, "", State.READY, id)
