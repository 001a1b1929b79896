"""`events`: the events of the queues, as recorded and, with `--follow`, as they happen.

It changes one setting where it may: it lets the queues record what happens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, engine_for
from rqtui.cli.session import DONE, Session
from rqtui.cli.signals import stopped_by_signals
from rqtui.durations import backoff_s
from rqtui.errors import ServerError, UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Ref
    from rqtui.reports.events import Event, Feed

POLL_S = 0.5  # between two looks of --follow
LOOK_S = 2.0  # between two looks for new queues
MOST = 1000  # events per call


def events(
    session: Session,
    queues: QUEUES = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on as things happen; records them meanwhile.")] = False,
    is_record: Annotated[bool, typer.Option("--record", help="Record what happens in the next minute.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="How many of the past, at most.")] = 100,
    expression: Annotated[
        str | None, typer.Option("--filter", metavar="EXPR", help="verb, id, worker; !word /re/")
    ] = None,
) -> int:
    """The events of the queues, one per line, oldest first.

    Example: rqtui events mail --follow --filter reject
    """
    from rqtui.reports import events as report

    if not 0 <= limit <= MOST:
        raise UsageError(f"--limit is a whole number from 0 to {MOST}.")
    if is_record:
        session.refuse_if_read_only("events --record")
    fits = report.matcher(expression or "")
    engine, asked = engine_for(session, queues)
    refs = [ref for ref in asked if report.has_events(engine.layouts[ref.layout])]
    silent = [ref for ref in asked if ref not in refs]
    if silent:
        systems = ", ".join(sorted({ref.layout for ref in silent}))
        output.say(f"no events are recorded by {systems}, and rqtui cannot turn that on.")
        if queues and not refs:
            return DONE
    said: dict[Ref, str] = {}
    feeds = _feeds(engine, refs, {}, max(1, limit), said, newest=True)
    past = sorted((event for feed in feeds.values() for event in feed.events), key=lambda event: event.order)
    _write_events(session, [event for event in past if fits(event)][-limit:] if limit else [])
    is_recording = (is_record or follow) and not session.settings.read_only
    if is_recording:
        _record(engine, feeds, aloud=True)
    elif feeds and not any(feed.is_recording for feed in feeds.values()):
        read_only = " (read-only: it cannot be turned on here)" if session.settings.read_only else "; --record does"
        output.say(f"nothing records what happens now{read_only}.")
    if follow:
        return _follow(session, engine, feeds, fits, said, is_all=not queues)
    return DONE


def _feeds(
    engine: Engine, refs: Sequence[Ref], after: dict[Ref, str], limit: int, said: dict[Ref, str], *, newest: bool
) -> dict[Ref, Feed]:
    """What is new in each queue; why one cannot be read is said once, and stands in `said`."""
    from rqtui.reports import events as report

    asks = [
        partial(report.feed_ask, engine.layouts[ref.layout], ref.queue, after.get(ref, ""), limit=limit, newest=newest)
        for ref in refs
    ]
    feeds = {
        ref: found if isinstance(found, report.Feed) else report.Feed(ref, is_known=False, error=str(found))
        for ref, found in zip(refs, engine.ask_each(asks), strict=True)
    }
    for ref, feed in feeds.items():
        if feed.error and said.get(ref) != feed.error:
            output.say(f"{ref.queue}: {feed.error}")
        said[ref] = feed.error
    return feeds


def _record(engine: Engine, feeds: dict[Ref, Feed], *, aloud: bool) -> None:
    from rqtui.reports import events as report

    due = report.due(feeds)
    refused = report.record(engine, tuple(due), due)
    for ref in (ref for ref, feed in feeds.items() if not feed.is_known and not feed.error and aloud):
        output.say(f"{ref.queue}: there is no such queue yet; it is followed as soon as it is there.")
    for ref, why in refused.items() if aloud else ():
        output.say(f"{ref.queue}: nothing is recorded: {why}")
    begun = [ref.queue for ref in due if ref not in refused and not feeds[ref].is_recording]
    if aloud and begun:
        output.say(f"recording begins in {', '.join(begun)}; it ends by itself a minute after the last word of this.")


def _follow(
    session: Session,
    engine: Engine,
    feeds: dict[Ref, Feed],
    fits: Callable[[Event], bool],
    said: dict[Ref, str],
    *,
    is_all: bool,
) -> int:
    """Reads on until a signal ends it; while Redis is away it says so and tries again, and leaves nothing out.

    `is_all`: queues that come are followed, too. A queue that was not there could not be recorded: what stands in it
    when it is seen first is told as it was put.
    """
    after = {ref: feed.last for ref, feed in feeds.items()}
    missing = {ref for ref, feed in feeds.items() if not feed.is_known}
    put: dict[Ref, set[bytes]] = {}  # told as they stood, so that what was recorded meanwhile is not told again
    failures, looked_s = 0, time.monotonic()
    with stopped_by_signals(engine.client) as stop:
        while not stop.wait(POLL_S):
            first: list[Event] = []
            try:
                if is_all and time.monotonic() - looked_s > LOOK_S:
                    new = _new_queues(engine, after)
                    after, missing, looked_s = {**after, **dict.fromkeys(new, "")}, missing | new, time.monotonic()
                feeds = _feeds(engine, list(after), after, MOST, said, newest=False)
                if not session.settings.read_only:
                    _record(engine, feeds, aloud=False)
                for ref in [ref for ref in missing if feeds[ref].is_known]:
                    stands = _as_put(engine, ref)
                    first += stands
                    put[ref] = {event.id for event in stands}
                    missing.discard(ref)
            except ServerError as error:
                wait_s = backoff_s(failures)
                failures += 1
                output.say(f"{error} Next try in {wait_s} s.")
                stop.wait(wait_s)
                continue
            failures = 0
            after.update({ref: feed.last for ref, feed in feeds.items() if feed.last})
            told = [event for feed in feeds.values() for event in feed.events if not _was_told(event, put)]
            fresh = [event for event in (*first, *told) if fits(event)]
            _write_events(session, sorted(fresh, key=lambda event: event.order))
    return stop.code


def _was_told(event: Event, put: dict[Ref, set[bytes]]) -> bool:
    return event.verb == "enqueue" and event.id in put.get(event.ref, ())


def _new_queues(engine: Engine, known: Collection[Ref]) -> set[Ref]:
    from rqtui.reports import events as report

    for _step in engine.discover():
        pass
    return {ref for ref in engine.refs if ref not in known and report.has_events(engine.layouts[ref.layout])}


def _as_put(engine: Engine, ref: Ref) -> list[Event]:
    """The jobs that stand in a queue, as if their `enqueue` had been recorded."""
    from rqtui.reports.events import Event

    pages = [engine.page(ref, place.name, 0, MOST) for place in engine.layouts[ref.layout].places]
    return [Event(ref, job.enqueued_ms or 0, 0, "enqueue", job.id) for page in pages for job in page.jobs]


def _write_events(session: Session, found: Sequence[Event]) -> None:
    from rqtui.text.formats import clock, fit
    from rqtui.text.sanitise import safe

    for event in found:
        if session.as_json:
            output.write_json(_event(event), is_stream=True)
            continue
        at = f"{clock(event.at_ms)}.{event.at_ms % 1000:03}"
        sign = "×" if event.is_failure else " "
        cells = [
            at,
            fit(safe(event.ref.queue), 16),
            f"{sign} {fit(safe(event.verb), 12)}",
            safe(event.id),
            safe(event.worker),
        ]
        output.write_lines(["  ".join(cells).rstrip()])


def _event(event: Event) -> dict[str, Any]:
    return {
        "happened_at_ms": event.at_ms,
        **documents.queue_fields(event.ref.queue),
        "layout": event.ref.layout,
        "verb": event.verb,
        **documents.id_fields(event.id),
        "worker": documents.text(event.worker) or None,
        "event": f"{event.at_ms}-{event.number}",
    }
