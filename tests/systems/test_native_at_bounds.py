"""Native queues that are found, counted and read, with values at bounds: see `native_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/systems/test_native_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bare_objects import describe
from kept_text import assert_lines_match_file

from rqtui.errors import Denied, RqtuiError, ServerError
from rqtui.model import Count, Job, Queue, State
from rqtui.scripts.script import Reply
from rqtui.systems import native
from rqtui.systems.native import Native

KEPT = Path(__file__).with_name("native_at_bounds.txt")
NOW_MS = 1_800_000_000_000
RECORD = b"1700000000000 - 3 30000 5 - - - - mail it\nbody"
PLACES = tuple(state.value for state in State)


def show(job: Job | None) -> str:
    """Return the attributes of a job that differ from those of an empty job."""
    if job is None:
        return "None"
    empty = Job(b"", "mail", "native", "", State.READY, b"")
    names = [field.name for field in fields(job) if getattr(job, field.name) != getattr(empty, field.name)]
    return ", ".join(f"{name} {describe(getattr(job, name))}" for name in names)


def try_call(call: Any, *args: Any) -> Any:
    try:
        return call(*args)
    except RqtuiError as error:
        return f"{type(error).__name__}: {error}"


def names() -> Iterator[str]:
    system = Native()
    for item in (b"rqtui:{mail}:meta", b"rqtui:{mail}", b"mail", b"{mail}:meta", b"rqtui:{}:meta", b"", b"a b",
                 b"a" * 200, b"a" * 201, "é".encode(), b"\xff", b"rqtui:{a}:b}:meta"):  # fmt: skip
        yield f"name {item[-20:]!r}: {[name[-20:] for name in system.find_queues_of_keys(None, [item, item])]}"
    log: list[str] = []

    def scan(key: str, cursor: int, count: int) -> tuple[int, list[bytes]]:
        log.append(f"{key} from {cursor}, {count} at once")
        return {0: (7, [b"a"]), 7: (0, [b"b", b"a b"])}[cursor]

    client = SimpleNamespace(
        sscan=scan, exists=lambda key: int(key == b"rqtui:{mail}:meta"),
        sadd=lambda *args: log.append(f"add {args}"), srem=lambda *args: log.append(f"remove {args}"),
    )  # fmt: skip
    yield f"discovered: {[*system.discover(client)]}, {[system.has_queue(client, name) for name in ('mail', 'sms')]}"
    system.register_queue(client, "mail")
    system.unregister_queue(client, "mail")
    yield f"sent: {log}"
    for expired in (None, 0, 1):
        for place in PLACES:
            for number in (0, 1):
                queue = Queue("mail", "native", (Count(place, State(place), number),),
                              counters={} if expired is None else {"expired": expired})  # fmt: skip
                if system.needs_probe(queue):
                    yield f"a probe is needed: expired {expired}, {number} {place}"


def build_tally_row(**changes: object) -> tuple[Any, ...]:
    columns = dict.fromkeys(native._list_queue_columns(), 0)
    columns |= {"paused_ms": -1, "since_ms": -1, "due_ms": -1, "deadline_ms": -1}
    return (*{**columns, **changes}.values(), b"")


def counts() -> Iterator[str]:
    columns = native._list_queue_columns()
    yield f"columns: {columns}"
    filled = build_tally_row(**{name: at + 1 for at, name in enumerate(columns)})
    changes: Mapping[str, Sequence[int]] = {
        "paused_ms": (-1, 0), "since_ms": (-1, 0, NOW_MS - 1, NOW_MS, NOW_MS + 1), "due_ms": (-1, 0, NOW_MS + 1),
        "deadline_ms": (-1, 0, NOW_MS + 1),
    }  # fmt: skip
    rows = {"filled": filled} | {
        f"{name} {value}": build_tally_row(**{name: value}) for name, each in changes.items() for value in each
    }
    for title, row in rows.items():
        queue = native._build_queue("mail", NOW_MS, native._store_tally_row(native._CountedQueue(), row))
        if title == "filled":
            yield f"{title}: {describe(queue.counts)} {dict(queue.counters)}"
        shown = ("is_paused", "workers", "oldest_ready_ms", "next_due_ms", "next_expiry_ms", "overdue", "expired")
        yield f"{title}: {', '.join(f'{name} {getattr(queue, name)}' for name in (*shown, 'paused_ms'))}"
    for oldest_ms in (-1, 0, 5):
        values = {**dict(zip(columns, build_tally_row(), strict=False)), "now_ms": NOW_MS, "oldest_ms": oldest_ms}
        parsed = native._parse_queue("mail", Reply("counts", values=values))
        yield f"oldest {oldest_ms}: {parsed.oldest_ready_ms}"
    yield f"refused: {native._parse_queue('mail', ServerError('no')).error!r}"
    yield f"lost: {try_call(native._parse_queue, 'mail', RqtuiError('lost'))}"


def polls() -> Iterator[str]:
    stamp = b"2 5 1 7 first"
    idle, busy = build_tally_row(ready=2)[:-1] + (stamp,), build_tally_row(reserved=1)
    request: Any = Native().queues_request(["a", "b"])
    clock = [b"1800000001", b"1999"]
    same = [0, 2, [b"first"], [b"5", b"1", b"7"]]
    checks = {
        "the same": same, "another token": [0, 2, [b"first"], [b"6", b"1", b"7"]], "a key": [1, *same[1:]],
        "another number": [0, 3, *same[2:]], "another first": [0, 2, [b"x"], same[3]], "empty": [0, 2, [], [None] * 3],
        "no list": [0, 2, ServerError("x"), same[3]], "no hash": [0, 2, same[2], ServerError("x")],
    }  # fmt: skip
    for title, check in checks.items():
        counted = native._CountedQueue(row=idle)
        yield f"checked, {title}: {counted.is_unchanged(check)}, again {counted.is_unchanged(check)}, {counted.is_idle}"
    yield f"not counted yet: {native._CountedQueue().is_idle}"
    for poll in range(native.FULL_COUNT_POLLS + 2):
        calls = [*request.calls]
        checked = next((call for call in calls if not call.keys), None)
        replies = [Reply("", values={"replies": [clock, *same]})] if checked else []
        tallied = [call for call in calls if call.keys]
        if tallied:
            both = len(tallied[0].keys) == 2 * len(tallied[0].script.keys_each)
            replies.append(Reply("", values={"now_ms": NOW_MS + poll}, rows=[idle, busy] if both else [busy]))
        queues = request.parse(replies)
        shown = [f"{queue.name} {queue.counted_ms} {queue.count_in_place('ready')}" for queue in queues]
        yield f"poll {poll}: {len(calls)} calls, {sum(len(call.keys) for call in tallied)} keys: {shown}"
    request = Native().queues_request(["a", "b"])
    request.parse([Reply("", values={"now_ms": NOW_MS}, rows=[idle, busy])])
    changed = [1, *same[1:]]
    further: Any = request.parse([Reply("", values={"replies": [clock, *changed]}),
                                  Reply("", values={"now_ms": NOW_MS}, rows=[busy])])  # fmt: skip
    queues = further.parse([Reply("", values={"now_ms": NOW_MS + 9}, rows=[build_tally_row(ready=3)])])
    shown = [f"{queue.name} {queue.counted_ms} {queue.map_counts_by_place()}" for queue in queues]
    yield f"changed: {sum(len(call.keys) for call in further.calls)} keys more: {shown}"


def jobs() -> Iterator[str]:
    for place in PLACES:
        for record in (
            RECORD,
            b"1700000000000 1700000000005 0 - - - - - - n\n",
            b"1700000000000:short\nx",
            b"x\n",
            b"",
        ):
            for score in (0.0, 5.7, float("inf")):
                job = native.decode_job("mail", place, b"a", score, record, b"")
                yield f"{place} {record[:30]!r} {score}: {show(job)}"
                if record != RECORD:
                    break
    shown = {"place": "reserved", "score": "5", "record": RECORD, "bytes": 4, "body": b"body", "errors": b"[]",
             "line": b"2 7000 - 5 - - w1", "max_attempts": 3}  # fmt: skip
    errors = b'[[1,2,"w","e"],[3,4,"w","last"]]'
    for change in ({}, {"place": ""}, {"score": ""}, {"bytes": 0, "body": b""}, {"body": b""}, {"errors": errors},
                   {"record": b"x"}, {"record": RECORD.replace(b" 5 ", b" - ")}):  # fmt: skip
        found = native._parse_job("mail", b"a", [Reply("shown", values={**shown, **change})])
        yield f"shown, {change}: {show(found)}"
    yield f"gone: {native._parse_job('mail', b'a', [Reply('gone')])}"
    yield f"lost: {try_call(native._parse_job, 'mail', b'a', [Denied('no')])}"
    for row in ((b"a", "7000", 2, 5, 3_000, RECORD, b""), (b"a", "7000", 2, 5, 3_000, RECORD, b"long"),
                (b"a", RECORD, b""), (b"a", b"5:n\n", b"")):  # fmt: skip
        yield f"taken {row[:-1]}: {show(native._parse_taken_job('mail', row))}"
    row = (b"a", 5.0, RECORD, 4, b"", b"", b"error")
    for change, most in (((), 3), ((4, b"body"), 3), ((2, RECORD.replace(b" 5 ", b" - ")), 3)):
        cells = [change[1] if change and at == change[0] else cell for at, cell in enumerate(row)]
        reply = Reply("page", values={"total": 1, "max_attempts": most}, rows=[tuple(cells)])
        yield f"listed {change}: {[show(job) for job in native._parse_page('mail', 'dead', 0, 9, reply).jobs]}"
    for error in (ServerError("no"), Denied("no"), RqtuiError("lost")):
        found = try_call(native._parse_page, "mail", "dead", 0, 9, error)
        yield f"page, {error!r}: {found if isinstance(found, str) else found.error!r}"
        for read in (native._read_probe_rows, lambda error: native._parse_workers("mail", [error])):
            yield f"rows, {error!r}: {try_call(read, error)}"


def test_native_queues_match_the_stored_text() -> None:
    parts = (names(), counts(), polls(), jobs())
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__}", *part)), KEPT)
