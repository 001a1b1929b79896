"""Implement `events`: print the recorded events of queues and, with `--follow`, new events as they happen.

Where it is allowed, the command changes one setting: it turns the recording of events on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, open_engine
from rqtui.cli.session import DONE, NO_WAIT, Session
from rqtui.cli.signals import stop_on_signals
from rqtui.durations import compute_reconnect_delay_s
from rqtui.errors import ServerError, UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Ref
    from rqtui.reports.events import Event, Feed

POLL_S = 0.5  # seconds between two polls of --follow
DISCOVER_S = 2.0  # seconds between two searches for new queues
MAX_EVENTS = 1000  # events per call


def events(
    session: Session,
    queues: QUEUES = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on as things happen; records them meanwhile.")] = False,
    is_record: Annotated[bool, typer.Option("--record", help="Record what happens in the next minute.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="How many of the past, at most.")] = 100,
    expression: Annotated[
        str | None, typer.Option("--filter", metavar="EXPR", help="verb, id, worker; !word /re/")
    ] = None,
    no_wait: NO_WAIT = False,
) -> int:
    """Print the events of the queues, one per line, oldest first.

    Example: rqtui events mail --follow --filter reject
    """
    from rqtui.reports import events as report

    if not 0 <= limit <= MAX_EVENTS:
        raise UsageError(f"--limit is a whole number from 0 to {MAX_EVENTS}.")
    if is_record:
        session.refuse_if_read_only("events --record")
    fits = report.build_matcher(expression or "")
    begin = partial(open_engine, session, queues, runs_on=follow)
    engine, wanted = session.wait_for(begin, no_wait=no_wait or not follow)
    refs = [ref for ref in wanted if report.has_events(engine.systems[ref.system])]
    _report_silent_systems(ref.system for ref in wanted if ref not in refs)
    if queues and wanted and not refs:
        return DONE
    said: dict[Ref, str] = {}
    feeds = _read_feeds(engine, refs, {}, max(1, limit), said, newest=True)
    _write_events(session, _sort_events(feeds, fits)[-limit:] if limit else [])
    if (is_record or follow) and not session.settings.read_only:
        _turn_on_recording(engine, feeds, aloud=True)
    else:
        _report_missing_recording(feeds.values(), is_read_only=session.settings.read_only)
    if follow:
        return _follow(session, engine, feeds, fits, said, is_all=not queues)
    return DONE


def _report_silent_systems(systems: Iterable[str]) -> None:
    """Report which of the queues' systems record no events."""
    if names := ", ".join(sorted(set(systems))):
        output.print_message(f"no events are recorded by {names}, and rqtui cannot turn that on.")


def _sort_events(feeds: Mapping[Ref, Feed], fits: Callable[[Event], bool]) -> list[Event]:
    """Return the events of all queues that the filter accepts, oldest first."""
    accepted = (event for feed in feeds.values() for event in feed.events if fits(event))
    return sorted(accepted, key=lambda event: event.order)


def _report_missing_recording(feeds: Collection[Feed], *, is_read_only: bool) -> None:
    """Report that no queue records its events now, and how to turn it on."""
    if feeds and not any(feed.is_recording for feed in feeds):
        hint = " (read-only: it cannot be turned on here)" if is_read_only else "; --record does"
        output.print_message(f"nothing records what happens now{hint}.")


def _read_feeds(
    engine: Engine, refs: Sequence[Ref], after: dict[Ref, str], limit: int, said: dict[Ref, str], *, newest: bool
) -> dict[Ref, Feed]:
    """Read the new events of each queue. An error is printed once per queue and stored in `said`."""
    from rqtui.reports import events as report

    requests = [
        partial(
            report.feed_request, engine.systems[ref.system], ref.queue, after.get(ref, ""), limit=limit, newest=newest
        )
        for ref in refs
    ]
    feeds = {
        ref: reply if isinstance(reply, report.Feed) else report.Feed(ref, is_known=False, error=str(reply))
        for ref, reply in zip(refs, engine.send_requests_isolated(requests), strict=True)
    }
    for ref, feed in feeds.items():
        if feed.error and said.get(ref) != feed.error:
            output.print_message(f"{ref.queue}: {feed.error}")
        said[ref] = feed.error
    return feeds


def _turn_on_recording(engine: Engine, feeds: dict[Ref, Feed], *, aloud: bool) -> None:
    """Turn on the recording of events where it is due. With `aloud`, report each queue's result on stderr."""
    from rqtui.reports import events as report

    due = report.compute_renewals(feeds)
    refused = report.record_events(engine, tuple(due), due)
    for ref in (ref for ref, feed in feeds.items() if not feed.is_known and not feed.error and aloud):
        output.print_message(f"{ref.queue}: there is no such queue yet; it is followed as soon as it is there.")
    for ref, why in refused.items() if aloud else ():
        output.print_message(f"{ref.queue}: nothing is recorded: {why}")
    begun = [ref.queue for ref in due if ref not in refused and not feeds[ref].is_recording]
    if aloud and begun:
        output.print_message(
            f"recording begins in {', '.join(begun)}; it ends by itself a minute after the last word of this."
        )


def _follow(
    session: Session,
    engine: Engine,
    feeds: dict[Ref, Feed],
    fits: Callable[[Event], bool],
    said: dict[Ref, str],
    *,
    is_all: bool,
) -> int:
    """Print new events until a signal ends the command; while Redis is away, report it and retry without losing events.

    With `is_all`, new queues are followed too. A queue that did not exist before could not be recorded: its jobs are
    printed as if they had just been put.
    """
    after = {ref: feed.last for ref, feed in feeds.items()}
    missing = {ref for ref, feed in feeds.items() if not feed.is_known}
    put: dict[Ref, set[bytes]] = {}  # jobs already printed when their queue appeared
    failures, looked_s = 0, time.monotonic()
    with stop_on_signals(engine.client) as stop:
        while not stop.wait(POLL_S):
            first: list[Event] = []
            try:
                if is_all and time.monotonic() - looked_s > DISCOVER_S:
                    new = _find_new_queues(engine, after)
                    after, missing, looked_s = {**after, **dict.fromkeys(new, "")}, missing | new, time.monotonic()
                feeds = _read_feeds(engine, list(after), after, MAX_EVENTS, said, newest=False)
                if not session.settings.read_only:
                    _turn_on_recording(engine, feeds, aloud=False)
                for ref in [ref for ref in missing if feeds[ref].is_known]:
                    enqueued = _build_enqueue_events(engine, ref)
                    first += enqueued
                    put[ref] = {event.id for event in enqueued}
                    missing.discard(ref)
            except ServerError as error:
                wait_s = compute_reconnect_delay_s(failures)
                failures += 1
                output.print_message(session.format_retry(str(error), wait_s))
                stop.wait(wait_s)
                continue
            failures = 0
            after.update({ref: feed.last for ref, feed in feeds.items() if feed.last})
            recorded = [event for feed in feeds.values() for event in feed.events if not _was_printed(event, put)]
            fresh = [event for event in (*first, *recorded) if fits(event)]
            _write_events(session, sorted(fresh, key=lambda event: event.order))
    return stop.code


def _was_printed(event: Event, put: dict[Ref, set[bytes]]) -> bool:
    """Return whether the `enqueue` event of a job was already printed when its queue appeared."""
    return event.verb == "enqueue" and event.id in put.get(event.ref, ())


def _find_new_queues(engine: Engine, known_refs: Collection[Ref]) -> set[Ref]:
    """Find queues that are not in `known_refs` and whose system records events."""
    from rqtui.reports import events as report

    for _step in engine.discover():
        pass
    return {ref for ref in engine.refs if ref not in known_refs and report.has_events(engine.systems[ref.system])}


def _build_enqueue_events(engine: Engine, ref: Ref) -> list[Event]:
    """Return an `enqueue` event for each job that is in the queue now."""
    from rqtui.reports.events import Event

    pages = [engine.fetch_page(ref, place.name, 0, MAX_EVENTS) for place in engine.systems[ref.system].places]
    return [Event(ref, job.enqueued_ms or 0, 0, "enqueue", job.id) for page in pages for job in page.jobs]


def _write_events(session: Session, events_: Sequence[Event]) -> None:
    """Print events as JSON lines or as text lines."""
    from rqtui.text.formats import fit_to_width, format_clock
    from rqtui.text.masking import mask_text
    from rqtui.text.sanitise import safe

    for event in events_:
        if session.as_json:
            output.write_json(_build_event(event), is_stream=True)
            continue
        at = f"{format_clock(event.at_ms)}.{event.at_ms % 1000:03}"
        sign = "×" if event.is_failure else " "
        cells = [
            at,
            fit_to_width(safe(event.ref.queue), 16),
            f"{sign} {fit_to_width(safe(event.verb), 12)}",
            safe(event.id),
            *(safe(mask_text(text)) for text in (event.worker, event.detail) if text),
        ]
        output.write_lines(["  ".join(cells).rstrip()])


def _build_event(event: Event) -> dict[str, Any]:
    return {
        "happened_at_ms": event.at_ms,
        **documents.build_queue_fields(event.ref.queue),
        "layout": event.ref.system,
        "verb": event.verb,
        **documents.build_id_fields(event.id),
        "worker": documents.mask_data(event.worker),
        "detail": documents.mask_data(event.detail),
        "event": f"{event.at_ms}-{event.number}",
    }
