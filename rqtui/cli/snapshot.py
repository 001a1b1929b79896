"""`snapshot`: counts, workers and the verdict of queues, once or again and again. Nothing here changes anything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, note_if_unheard, note_if_unknown
from rqtui.cli.session import DONE, Session
from rqtui.durations import backoff_s
from rqtui.errors import ServerError, UsageError

HAND_ON_S = 1.0  # between two looks at what was heard

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Count, Queue, Snapshot, State
    from rqtui.reports.shared_places import SharedPlace
    from rqtui.systems.by_sight import Unspoken


def snapshot(
    session: Session,
    queues: QUEUES = None,
    watch_s: Annotated[float | None, typer.Option("--watch", metavar="SECONDS", help="Again and again.")] = None,
) -> int:
    """Counts, workers and the verdict of queues.

    Example: rqtui snapshot mail --json
    """
    if watch_s is not None and not 0.05 <= watch_s <= 86_400:  # a day; NaN is refused too
        raise UsageError("--watch is a number of seconds between 0.05 and 86400.")
    if watch_s is None:
        engine = session.engine(discover=not queues)
        _write_snapshot(session, engine, _counted(session, engine, queues), is_stream=False, is_all=not queues)
        return DONE
    return _watch(session, queues, watch_s)


def _watch(session: Session, queues: list[str] | None, watch_s: float) -> int:
    """A snapshot each `watch_s`; while Redis is away it says so and tries again."""
    engine, failures = session.engine(), 0
    engine.listen()
    while True:
        try:
            if not queues:
                for _chunk in engine.discover():
                    pass
            found = _counted(session, engine, queues)
        except ServerError as error:
            wait_s = backoff_s(failures)
            failures += 1
            output.say(f"{error} Next try in {wait_s} s.")
            _rest(engine, wait_s)
            continue
        failures = 0
        if not session.as_json:
            output.clear()
        _write_snapshot(session, engine, found, is_stream=True, is_all=not queues)
        _rest(engine, watch_s)


def _rest(engine: Engine, seconds: float) -> None:
    """Waits; what is heard meanwhile goes to its layout."""
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0:
        time.sleep(min(left_s, HAND_ON_S) if engine.is_listening else left_s)
        engine.overhear()


def _counted(session: Session, engine: Engine, queues: list[str] | None) -> Snapshot:
    from rqtui.engine.urgency import step
    from rqtui.model import Focus

    refs = session.queues(engine, queues or ())
    found = engine.snapshot(Focus(queues=tuple(refs), is_thorough=True))
    for queue in found.queues if queues else ():
        note_if_unknown(queue)
    return found if queues else replace(found, queues=tuple(sorted(found.queues, key=lambda queue: -step(queue))))


def _write_snapshot(session: Session, engine: Engine, found: Snapshot, *, is_stream: bool, is_all: bool) -> None:
    """`is_all`: of each system all queues that are known."""
    from rqtui.connection.connect import mask, probe
    from rqtui.model import Ref
    from rqtui.reports.shared_places import sentence as unassigned
    from rqtui.reports.shared_places import shared_places
    from rqtui.systems.by_sight import sentence

    info = probe(engine.client, session.settings.url)
    shared = shared_places(found.queues, {queue.layout for queue in found.queues if is_all})
    if session.as_json:
        document = {
            "taken_at_ms": found.taken_ms,
            "server": {"url": mask(session.settings.url), "kind": info.kind, "version": info.version},
            "queues": [queue_document(queue) for queue in found.queues],
            "shared": [_shared(place) for place in shared],
            "unspoken": [_unspoken(other) for other in engine.unspoken],
        }
        output.write_json(document, is_stream=is_stream)
        return
    if engine.unspoken and not is_stream:
        output.say(sentence(engine.unspoken))
    if not found.queues:
        output.write_lines([f"no queues at {mask(session.settings.url)} ({info.title})"])
        return
    _write_queues(found.queues, found.taken_ms)
    if words := unassigned(shared):
        output.say(words)
    note_if_unheard(engine, [Ref(queue.layout, queue.name) for queue in found.queues])


def queue_document(found: Queue) -> dict[str, Any]:
    """A queue, counted."""
    return {
        **documents.queue_fields(found.name),
        "layout": found.layout,
        "paused": found.paused,
        "workers": found.workers,
        "oldest_ready_ms": found.oldest_ready_ms,
        "overdue": found.overdue,
        "expired": found.expired,
        "places": [_place(count) for count in found.counts],
        "verdict": {"severity": found.verdict.severity, "text": documents.sentence(found.verdict.text)},
        "unknown": list(found.unknown),
        **({"error": documents.sentence(found.error)} if found.error else {}),
    }


def _place(found: Count) -> dict[str, Any]:
    """A place, counted; one without a key tells since when somebody listens, and null for what nobody can know."""
    return {
        "place": found.place,
        "state": found.state.value,
        "count": found.count if found.is_known else None,
        "exact": found.exact,
        **documents.heard_fields(found.heard),
    }


def _unspoken(found: Unspoken) -> dict[str, Any]:
    """Another system in the same Redis."""
    return {"system": found.system, "keys": found.keys, "queues": found.queues}


def _shared(found: SharedPlace) -> dict[str, Any]:
    """A place that all queues of a system share, counted once; `unassigned`: of no queue, null where nobody knows."""
    return {
        "layout": found.layout,
        "place": found.place,
        "state": found.state.value,
        "count": found.jobs,
        "unassigned": found.unassigned,
    }


def _write_queues(queues: Sequence[Queue], now_ms: int) -> None:
    from rqtui.model import State
    from rqtui.text.formats import UNKNOWN, age, left
    from rqtui.text.sanitise import safe

    known = {count.state for queue in queues for count in queue.counts if count.is_known}
    states = [state for state in State if state in known]
    titles: list[str] = ["queue", "layout", *states, "workers", "oldest", "verdict"]
    rows: list[list[str]] = []
    for queue in queues:
        counts = [_count_in(queue, state) for state in states]
        more = len(queue.findings) - 1
        verdict = f"{queue.findings[0].text}{f' · {more} more' if more else ''}" if more >= 0 else queue.verdict.text
        verdict = "  ".join(filter(None, [left(queue.verdict.until_ms, now_ms), verdict]))
        workers = UNKNOWN if queue.workers is None else str(queue.workers)
        rows.append([safe(queue.name), queue.layout, *counts, workers, age(queue.oldest_ready_ms), safe(verdict)])
    width = output.width()
    if width is not None:
        titles, rows = in_width(titles, rows, width)
    output.write_table(titles, rows, right=(*states, *_RIGHT))


def _count_in(queue: Queue, state: State) -> str:
    """How many jobs stand in all places of a state; `~` where one of them was sampled."""
    from rqtui.text.formats import UNKNOWN, count

    counts = [number for number in queue.counts if number.state is state and number.is_known]
    is_exact = all(number.exact for number in counts)
    return count(sum(number.count for number in counts), is_exact, 11) if counts else UNKNOWN


def in_width(titles: list[str], rows: list[list[str]], width: int) -> tuple[list[str], list[list[str]]]:
    """The table in a terminal so wide: columns that say nothing go, of a name stays what tells it apart, of a verdict
    its beginning; numbers stay whole."""
    from rqtui.text.elision import elided
    from rqtui.text.formats import ZERO, cell_len, fit

    widths = [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
    room = width - sum(widths[1:-1]) - 2 * (len(titles) - 1)
    if room < _LEAST_NAME + _LEAST_VERDICT:
        values = {title: {row[at] for row in rows} for at, title in enumerate(titles)}
        idle = next((t for t in titles[2:-1] if values[t] <= {ZERO, "0"}), "")
        idle = idle or ("layout" if "layout" in titles and len(values["layout"]) == 1 else "")
        if idle:
            at = titles.index(idle)
            return in_width(titles[:at] + titles[at + 1 :], [row[:at] + row[at + 1 :] for row in rows], width)
    verdict = min(widths[-1], max(_LEAST_VERDICT, room - widths[0]))
    names = elided(frozenset(row[0] for row in rows), max(_LEAST_NAME, room - verdict))
    return titles, [[names[row[0]], *row[1:-1], fit(row[-1], min(verdict, cell_len(row[-1])))] for row in rows]


_RIGHT = ("workers", "oldest")
_LEAST_NAME, _LEAST_VERDICT = 24, 16  # cells
