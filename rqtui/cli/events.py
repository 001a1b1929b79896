"""Implement `events`: print the recorded events of queues and, with `--follow`, new events as they happen.

The command changes one setting, where that is allowed: it turns the recording of events on.
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
    follow: Annotated[bool, typer.Option("--follow", help="Record events and print them as they happen.")] = False,
    is_record: Annotated[bool, typer.Option("--record", help="Record the events of the next minute.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Print at most N recorded events.")] = 100,
    expression: Annotated[
        str | None,
        typer.Option("--filter", metavar="EXPR", help="Print events that match: verb, id, worker; !word /re/."),
    ] = None,
    no_wait: NO_WAIT = False,
) -> int:
    """Print the recorded events of queues, one per line, oldest first.

    Example: rqtui events mail --follow --filter reject
    """
    from rqtui.reports import events as report

    if not 0 <= limit <= MAX_EVENTS:
        raise UsageError(f"--limit is a whole number from 0 to {MAX_EVENTS}.")
    if is_record:
        session.refuse_if_read_only("events --record")
    fits = report.build_event_matcher(expression or "")
    begin = partial(open_engine, session, queues, runs_on=follow)
    engine, selected_refs = session.retry_until_redis_answers(begin, no_wait=no_wait or not follow)
    refs = [ref for ref in selected_refs if report.has_events(engine.systems[ref.system])]
    _report_silent_systems(ref.system for ref in selected_refs if ref not in refs)
    if queues and selected_refs and not refs:
        return DONE
    printed_errors: dict[Ref, str] = {}
    number_read = MAX_EVENTS if expression else max(1, limit)  # the newest events may all be others
    feeds = _read_new_events(engine, refs, {}, number_read, printed_errors, newest=True)
    _write_events(session, _merge_events(feeds, fits)[-limit:] if limit else [])
    if (is_record or follow) and not session.settings.read_only:
        _turn_on_event_recording(engine, feeds, aloud=True)
    else:
        _report_missing_recording(feeds.values(), is_read_only=session.settings.read_only)
    if follow:
        return _follow_events(session, engine, feeds, fits, printed_errors, is_all=not queues)
    return DONE


def _report_silent_systems(systems: Iterable[str]) -> None:
    """Print which of the systems record no events."""
    if names := ", ".join(sorted(set(systems))):
        output.print_message(f"no events are recorded by {names}, and rqtui cannot turn that on.")


def _merge_events(feeds: Mapping[Ref, Feed], fits: Callable[[Event], bool]) -> list[Event]:
    """Return the events of all queues that pass `--filter`, oldest first."""
    accepted = (event for feed in feeds.values() for event in feed.events if fits(event))
    return sorted(accepted, key=lambda event: event.order)


def _report_missing_recording(feeds: Collection[Feed], *, is_read_only: bool) -> None:
    """Print that none of the queues records its events, and how to turn recording on."""
    if feeds and not any(feed.is_recording for feed in feeds):
        hint = " (read-only: it cannot be turned on here)" if is_read_only else "; --record does"
        output.print_message(f"nothing records what happens now{hint}.")


def _read_new_events(
    engine: Engine,
    refs: Sequence[Ref],
    last_event_ids: dict[Ref, str],
    limit: int,
    printed_errors: dict[Ref, str],
    *,
    newest: bool,
) -> dict[Ref, Feed]:
    """Read the new events of each queue. An error is printed once per queue and stored in `printed_errors`."""
    from rqtui.reports import events as report

    requests = [
        partial(
            report.feed_request,
            engine.systems[ref.system],
            ref.queue,
            last_event_ids.get(ref, ""),
            limit=limit,
            newest=newest,
        )
        for ref in refs
    ]
    feeds = {
        ref: reply if isinstance(reply, report.Feed) else report.Feed(ref, is_known=False, error=str(reply))
        for ref, reply in zip(refs, engine.send_requests_isolated(requests), strict=True)
    }
    for ref, feed in feeds.items():
        if feed.error and printed_errors.get(ref) != feed.error:
            output.print_message(f"{ref.queue}: {feed.error}")
        printed_errors[ref] = feed.error
    return feeds


def _turn_on_event_recording(engine: Engine, feeds: dict[Ref, Feed], *, aloud: bool) -> None:
    """Turn on the recording of events for queues that do not record. With `aloud`, report each result on stderr."""
    from rqtui.reports import events as report

    due = report.compute_renewals(feeds)
    refused = report.record_events(engine, tuple(due), due)
    for ref in (ref for ref, feed in feeds.items() if not feed.is_known and not feed.error and aloud):
        output.print_message(f"{ref.queue}: this queue does not exist yet; its events are printed as soon as it does.")
    for ref, reason in refused.items() if aloud else ():
        output.print_message(f"{ref.queue}: nothing is recorded: {reason}")
    started_names = [ref.queue for ref in due if ref not in refused and not feeds[ref].is_recording]
    if aloud and started_names:
        output.print_message(
            f"recording begins in {', '.join(started_names)}; it ends by itself a minute after the last word of this."
        )


def _follow_events(
    session: Session,
    engine: Engine,
    feeds: dict[Ref, Feed],
    fits: Callable[[Event], bool],
    printed_errors: dict[Ref, str],
    *,
    is_all: bool,
) -> int:
    """Print new events of queues until a signal ends the command, and reconnect without losing events.

    With `is_all`, new queues are followed too. A queue that did not exist before could not be recorded: its jobs are
    printed as if they had just been put.
    """
    last_event_ids = {ref: feed.last for ref, feed in feeds.items()}
    missing = {ref for ref, feed in feeds.items() if not feed.is_known}
    put: dict[Ref, set[bytes]] = {}  # jobs already printed when their queue appeared
    failures, discovered_s = 0, time.monotonic()
    with stop_on_signals(engine.client) as stop:
        while not stop.wait(POLL_S):
            first: list[Event] = []
            try:
                if is_all and time.monotonic() - discovered_s > DISCOVER_S:
                    new_refs = _find_new_queues(engine, last_event_ids)
                    last_event_ids, missing, discovered_s = (
                        {**last_event_ids, **dict.fromkeys(new_refs, "")},
                        missing | new_refs,
                        time.monotonic(),
                    )
                feeds = _read_new_events(
                    engine, list(last_event_ids), last_event_ids, MAX_EVENTS, printed_errors, newest=False
                )
                if not session.settings.read_only:
                    _turn_on_event_recording(engine, feeds, aloud=False)
                for ref in [ref for ref in missing if feeds[ref].is_known]:
                    enqueued = _build_enqueue_events(engine, ref)
                    first += enqueued
                    put[ref] = {event.id for event in enqueued}
                    missing.discard(ref)
            except ServerError as error:
                wait_s = compute_reconnect_delay_s(failures)
                failures += 1
                output.print_message(session.format_retry_message(str(error), wait_s))
                stop.wait(wait_s)
                continue
            failures = 0
            last_event_ids.update({ref: feed.last for ref, feed in feeds.items() if feed.last})
            recorded = [
                event for feed in feeds.values() for event in feed.events if not _was_enqueue_printed(event, put)
            ]
            fresh = [event for event in (*first, *recorded) if fits(event)]
            _write_events(session, sorted(fresh, key=lambda event: event.order))
    return stop.code


def _was_enqueue_printed(event: Event, put: dict[Ref, set[bytes]]) -> bool:
    """Return whether the `enqueue` event of a job was already printed, because the job was found with its new queue."""
    return event.verb == "enqueue" and event.id in put.get(event.ref, ())


def _find_new_queues(engine: Engine, known_refs: Collection[Ref]) -> set[Ref]:
    """Search for queues that are not in `known_refs` and whose system records events."""
    from rqtui.reports import events as report

    for _step in engine.discover():
        pass
    return {ref for ref in engine.refs if ref not in known_refs and report.has_events(engine.systems[ref.system])}


def _build_enqueue_events(engine: Engine, ref: Ref) -> list[Event]:
    """Build an `enqueue` event for each job that is in a queue now."""
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
            output.write_json(_build_event_document(event), is_stream=True)
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


def _build_event_document(event: Event) -> dict[str, Any]:
    """Build the JSON document of a recorded event."""
    return {
        "happened_at_ms": event.at_ms,
        **documents.build_queue_fields(event.ref.queue),
        "layout": event.ref.system,
        "verb": event.verb,
        **documents.build_id_fields(event.id),
        "worker": documents.mask_job_text(event.worker),
        "detail": documents.mask_job_text(event.detail),
        "event": f"{event.at_ms}-{event.number}",
    }
