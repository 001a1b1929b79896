"""`events`, `stats`, `redis`: what moves, what moved minute by minute, and the server under it all.

They print what the views of those names show. `events` alone may change a setting: it lets queues record what happens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.commands import documents, output
from rqtui.commands.looking import QUEUES
from rqtui.commands.session import DONE, Session, command
from rqtui.durations import backoff_s
from rqtui.errors import ServerError, UsageError

if TYPE_CHECKING:
    from rqtui.engine import Engine
    from rqtui.model import Queue, Ref
    from rqtui.reports.events import Event, Feed
    from rqtui.reports.redis import Report
    from rqtui.reports.stats import History

POLL_S = 0.5  # between two looks of --follow
LOOK_S = 2.0  # between two looks for new queues
MOST = 1000  # events per call


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    command(app, "events")(events)
    command(app, "stats")(stats)
    command(app, "redis")(redis)


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────


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
    """What moved in the queues, one event per line, oldest first.

    Example: rqtui events mail --follow --filter reject
    """
    from rqtui.reports import events as report

    if not 0 <= limit <= MOST:
        raise UsageError(f"--limit is a whole number from 0 to {MOST}.")
    if is_record:
        session.refuse_if_read_only("events --record")
    fits = report.matcher(expression or "")
    engine = session.engine(discover=not queues)
    refs = [ref for ref in session.queues(engine, queues or ()) if report.has_events(engine.layouts[ref.layout])]
    silent = [ref for ref in session.queues(engine, queues or ()) if ref not in refs]
    if silent:
        output.say(f"no events are recorded by {', '.join(sorted({ref.layout for ref in silent}))}.")
    feeds = _feeds(engine, refs, {}, max(1, limit), newest=True)
    past = sorted((event for feed in feeds.values() for event in feed.events), key=lambda event: event.order)
    _write_events(session, [event for event in past if fits(event)][-limit:] if limit else [])
    is_recording = (is_record or follow) and not session.settings.read_only
    if is_recording:
        _record(engine, feeds, aloud=True)
    elif not any(feed.is_recording for feed in feeds.values()):
        read_only = " (read-only: it cannot be turned on here)" if session.settings.read_only else "; --record does"
        output.say(f"nothing records what happens now{read_only}.")
    if follow:
        return _follow(session, engine, feeds, fits, is_all=not queues)
    return DONE


def _feeds(engine: Engine, refs: Sequence[Ref], after: dict[Ref, str], limit: int, *, newest: bool) -> dict[Ref, Feed]:
    from rqtui.reports import events as report

    asks = [
        report.feed_ask(engine.layouts[ref.layout], ref.queue, after.get(ref, ""), limit=limit, newest=newest)
        for ref in refs
    ]
    return dict(zip(refs, engine.ask_all(asks), strict=True))


def _record(engine: Engine, feeds: dict[Ref, Feed], *, aloud: bool) -> None:
    from rqtui.reports import events as report

    due = report.due(feeds)
    refused = report.record(engine, tuple(due), due)
    for ref in (ref for ref, feed in feeds.items() if not feed.is_known and aloud):
        output.say(f"{ref.queue}: there is no such queue yet; it is followed as soon as it is there.")
    for ref, why in refused.items() if aloud else ():
        output.say(f"{ref.queue}: nothing is recorded: {why}")
    begun = [ref.queue for ref in due if ref not in refused and not feeds[ref].is_recording]
    if aloud and begun:
        output.say(f"recording begins in {', '.join(begun)}; it ends by itself a minute after the last word of this.")


def _follow(
    session: Session, engine: Engine, feeds: dict[Ref, Feed], fits: Callable[[Event], bool], *, is_all: bool
) -> int:
    """Reads on until a signal ends it; while Redis is away it says so and tries again, and leaves nothing out.

    `is_all`: queues that come are followed, too. A queue that was not there could not be recorded: what stands in it
    when it is seen first is told as it was put.
    """
    from rqtui.commands.ending import stopped_by_signals

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
                feeds = _feeds(engine, list(after), after, MOST, newest=False)
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
    from rqtui.tui.display import clock, fit, safe

    for event in found:
        if session.as_json:
            output.write_json(_event(event), is_stream=True)
            continue
        at = f"{clock(event.at_ms)}.{event.at_ms % 1000:03}"
        sign = "×" if event.is_failure else " "
        cells = [
            at,
            fit(safe(event.ref.queue), 16),
            f"{sign} {fit(event.verb, 12)}",
            safe(event.id),
            safe(event.worker),
        ]
        output.write_lines(["  ".join(cells).rstrip()])


def _event(event: Event) -> dict[str, Any]:
    return {
        "happened_at_ms": event.at_ms,
        "queue": documents.text(event.ref.queue),
        "layout": event.ref.layout,
        "verb": event.verb,
        **documents.id_fields(event.id),
        "worker": documents.text(event.worker) or None,
        "event": f"{event.at_ms}-{event.number}",
    }


# ── stats ────────────────────────────────────────────────────────────────────────────────────────────────────────


def stats(
    session: Session,
    queues: QUEUES = None,
    minutes: Annotated[int, typer.Option("--minutes", metavar="N", help="How far back, 1 to 1440.")] = 60,
) -> int:
    """What went in and out of queues, minute by minute, with totals and rates.

    Example: rqtui stats mail --minutes 60 --json
    """
    from rqtui.model import Focus
    from rqtui.reports import stats as report

    if not 1 <= minutes <= report.DAY:
        raise UsageError(f"--minutes is a whole number from 1 to {report.DAY}.")
    engine = session.engine(discover=not queues)
    refs = session.queues(engine, queues or ())
    counted = engine.snapshot(Focus(queues=tuple(refs)))
    made = []
    for ref, queue in zip(refs, counted.queues, strict=True):  # a round trip each: a day of a queue is 0.5 MB
        layout = engine.layouts[ref.layout]
        history = engine.ask(report.history_ask(layout, ref.queue, minutes + 1)) if report.has_stats(layout) else None
        made.append(_stats(ref, queue, history, minutes, counted.taken_ms))
    if session.as_json:
        output.write_json(made)
        return DONE
    _write_stats(made)
    return DONE


def _stats(ref: Ref, queue: Queue, history: History | None, minutes: int, now_ms: int) -> dict[str, Any]:
    from rqtui.reports import stats as report

    begin_ms = now_ms - minutes * report.MINUTE_MS
    grown = report.per_minute([history], begin_ms, now_ms) if history else []
    depth = report.waiting([queue])
    depths = dict(report.depths(grown, depth))
    rows = [
        {
            "minute_at_ms": minute,
            **{name: report.flow(counted, name) for name in report.FLOWS},
            "depth": depths[minute],
        }
        for minute, counted in grown
    ]
    return {
        "queue": documents.text(ref.queue),
        "layout": ref.layout,
        "taken_at_ms": now_ms,
        "waiting": depth,
        "totals": {name: history.counters.get(name, 0) for name in sorted(report.COUNTERS)} if history else None,
        "rates": {f"{name}_s": sum(row[name] for row in rows) / (60 * minutes) for name in report.FLOWS}
        if rows
        else None,
        "minutes": rows if history else None,
    }


def _write_stats(made: Sequence[dict[str, Any]]) -> None:
    from rqtui.tui.display import count, rate, sparkline

    titles = ("queue", "layout", "in", "out", "failed", "waiting", "out by the minute")
    rows = []
    for one in made:
        rates = one["rates"] or {}
        shown = [rate(rates[f"{name}_s"]) if rates else "" for name in ("in", "out", "failed")]
        trend = sparkline([row["out"] for row in one["minutes"] or ()], 40) if one["minutes"] else "counts nothing"
        rows.append([one["queue"], one["layout"], *shown, count(one["waiting"]), trend])
    output.write_table(titles, rows, right=("in", "out", "failed", "waiting"))


# ── redis ────────────────────────────────────────────────────────────────────────────────────────────────────────


def redis(session: Session) -> int:
    """Redis itself: memory, clients, commands, slow commands, and what endangers jobs.

    Example: rqtui redis --json
    """
    from rqtui.reports import redis as report

    found = report.look(session.engine().client)
    if session.as_json:
        output.write_json(_redis(session, found))
        return DONE
    from rqtui.tui.panels import panels

    lines: list[str] = []
    for panel in panels(found):
        said = ["".join(piece.text for piece in line).rstrip() for line in panel.lines]
        if not said and not panel.lacks:
            continue
        lines += [panel.title, *(f"  {line}" for line in said), *([f"  {panel.lacks}"] if panel.lacks else []), ""]
    output.write_lines(lines[:-1])
    return DONE


def _redis(session: Session, found: Report) -> dict[str, Any]:
    from rqtui.server import mask

    server = found.server
    return {
        "taken_at_ms": found.now_ms,
        "server": {
            "url": mask(session.settings.url),
            "kind": server.kind,
            "version": server.version,
            "role": server.role or None,
            "mode": server.mode or None,
            "uptime_ms": None if server.uptime_s is None else server.uptime_s * 1000,
            "persistent": server.is_persistent,
        },
        "round_trip_ms": found.rtt_ms,
        "clock_skew_ms": found.skew_ms,
        "memory": {
            "used_bytes": server.used_bytes,
            "max_bytes": server.maxmemory_bytes,
            "peak_bytes": found.number("used_memory_peak"),
            "policy": server.policy or None,
            "evicted": found.number("evicted_keys"),
        },
        "clients": {
            "connected": server.clients,
            "blocked": found.number("blocked_clients"),
            "by_name": [{"name": documents.text(name), "count": number} for name, number in found.clients],
        },
        "commands_s": found.number("instantaneous_ops_per_sec"),
        "commands": [
            {"name": c.name, "calls": c.calls, "micros": c.micros, "failed": c.failed} for c in found.commands
        ],
        "slow": [
            {
                "began_at_ms": s.at_ms,
                "micros": s.micros,
                "script": s.script or None,
                "command": [documents.text(word) for word in s.words],
                "client": documents.text(s.client) or None,
            }
            for s in found.slow
        ],
        "keyspace": [{"db": db, "keys": keys, "expiring": ttl} for db, keys, ttl in found.keyspace],
        "findings": [documents.finding(each, "") for each in found.findings],
        "missing": dict(found.missing or {}),
    }


__all__ = ["register"]
