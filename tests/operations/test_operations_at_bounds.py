"""Rate limits, the watch, migrations and the journal where one number is at a bound: see `operations_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/operations/test_operations_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kept_text import assert_lines_match_file

from rqtui.errors import UsageError
from rqtui.model import Attempt, Count, Finding, Job, MigrationTerms, Queue, Ref, Snapshot, State
from rqtui.operations import journal, migration, rate_limit
from rqtui.operations.drain import Copy
from rqtui.operations.journal import Circumstances, Operation, Sighting
from rqtui.operations.migration import Migration, Skipped
from rqtui.operations.rate_limit import Limits
from rqtui.operations.watch import SnapshotWatch

KEPT = Path(__file__).with_name("operations_at_bounds.txt")
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
MAIL = Ref("rq", "mail")
JOB = Job(b"a", "mail", "rq", "queued", State.READY, b"a", body=b"x", body_bytes=1)


def rates() -> Iterator[str]:
    for text in ("0", "0/s", "0.0001/h", "0.5", "1/m", "90/h", "10000", "10000.5", "36000000/h", "36000001/h", "", "x"):
        try:
            yield f"rate {text}: {rate_limit.parse_rate(text):.6g}"
        except UsageError as error:
            yield f"rate {text}: {error}"
    for limit in (None, 0, 1, 2):
        for number in (0, 1, 2, 3):
            limits = Limits(5.0, max_failures=limit), Limits(5.0, max_depth=limit)
            reasons = [
                rate_limit._explain_stop(limits[0], number, 0, 3, 9),
                rate_limit._explain_stop(limits[1], 0, number, 3, 9),
            ]
            yield f"limit {limit}, {number}: {reasons}"
    for is_estimate in (False, True):
        for total in (0, 1, 4, 5, 6):
            supply = rate_limit._JobSupply(iter([(MAIL, JOB)] * 5), total, is_estimate)
            steps = []
            for most in (2, 0, -1, 2, 2):
                taken = len(supply.take_jobs(most))
                steps.append((taken, supply.taken, supply.total, supply.is_over))
            yield f"5 jobs counted as {total}, estimate {is_estimate}: {steps}"
    for jobs_per_s in (0.5, 1.0, 4.0):
        clock = SimpleNamespace(now_s=1_000.0)
        allowance = rate_limit._JobAllowance(jobs_per_s, partial(getattr, clock, "now_s"))
        allowed = []
        for after_s, sent in ((0, 1), (0.25, 0), (0.75, 1), (0, 0), (1, 1), (9, 0), (0, 4), (0.5, 1), (0.25, 0)):
            clock.now_s += after_s
            allowed.append(allowance.add_jobs_for_elapsed_time())
            allowance.subtract_sent_jobs(sent)
        yield f"{jobs_per_s} jobs per second: {allowed}"
    for counters in ({}, {"failed": 5}):
        for after in ({}, {"failed": 5}, {"failed": 4}, {"failed": 7}):
            for dead, moved in ((3, 0), (4, 0), (2, 0), (2, 1), (2, 2)):
                before = Queue("mail", "rq", (Count("dead", State.DEAD, 3),), counters=counters)
                now = Queue("mail", "rq", (Count("dead", State.DEAD, dead),), counters=after)
                new = rate_limit._count_new_failures(before, now, moved)
                yield f"failed {counters} {after}, 3 and {dead} dead, {moved} moved: {new}"


def sightings() -> Iterator[str]:
    for pause_ms in (9_999, 10_000, 10_001):
        reported: list[Sighting] = []
        watch = SnapshotWatch(reported.append)
        for at_ms in (0, pause_ms, 2 * pause_ms, 3 * pause_ms):
            findings = (Finding("paused", "warning", "mail", "paused", since_ms=5),) if at_ms <= pause_ms else ()
            queue = Queue("mail", "rq", (Count("dead", State.DEAD, at_ms),), findings=findings)
            watch.record_snapshot(Snapshot(1_000 + at_ms, (queue,)))
        yield f"every {pause_ms}: {[(one.at_ms, one.is_over) for one in reported]}"
        yield f"every {pause_ms}: {[(one.at_ms, one.counts[State.DEAD]) for one in watch.samples[MAIL]]}"
    for since_ms in (None, 999, 1_000, 1_001):
        reported = []
        finding = Finding("paused", "warning", "mail", "paused", since_ms=since_ms)
        SnapshotWatch(reported.append).record_snapshot(Snapshot(1_000, (Queue("mail", "rq", findings=(finding,)),)))
        yield f"since {since_ms}: {reported[0].at_ms}"
    watch = SnapshotWatch(lambda _sighting: None)
    for number in range(22):
        finding = Finding("paused", "warning", "", "paused")
        watch.record_snapshot(Snapshot(1_000, (Queue(f"q{number}", "rq", findings=(finding,)),)))
    yield f"of 22 queues {len(watch.samples)} are sampled"


def build_migration(began_ms: int = NOW_MS, *, is_shared: bool = True, is_lossy: bool = False) -> Any:
    """Build the part of a migration that decides about single jobs."""
    state: Any = object.__new__(Migration)
    state.target, state.is_lossy, state._began_ms, state._dead_ttl_ms = Ref("native", "new"), is_lossy, began_ms, DAY_MS
    state.source = MAIL
    return state


def terms(**values: Any) -> MigrationTerms:
    return MigrationTerms(**values)


def obstacles() -> Iterator[str]:
    state = build_migration()
    jobs: Mapping[str, Job] = {
        **{f"id of {size}": replace(JOB, id=b"i" * size) for size in (0, 1, 511, 512, 513)},
        **{
            f"due {due_ms}": replace(JOB, due_ms=due_ms)
            for due_ms in (0, 9_007_199_254_739, 9_007_199_254_740, 9_007_199_254_741)
        },
        "no body": replace(JOB, body=None),
        "an empty body": replace(JOB, body=b""),
        "a problem": replace(JOB, problem="it cannot be read"),
    }
    for title, job in jobs.items():
        drain: Any = SimpleNamespace(needs_batch_ids=False)
        yield f"{title}: {state._find_migration_obstacle(drain, job, terms())!r}"
    drain = SimpleNamespace(needs_batch_ids=True)
    yield f"no id needed: {state._find_migration_obstacle(drain, replace(JOB, id=b''), terms())!r}"
    for priority in (-4097, -4096, 0, 4095, 4096):
        job = replace(JOB, priority=priority)
        record = migration._build_copy_record(job, terms(), NOW_MS)
        yield f"priority {priority}: {state._find_migration_losses(job, terms())} {record!r}"
    for age_ms in (None, DAY_MS - 1, DAY_MS, DAY_MS + 1):
        for job_state in (State.DEAD, State.READY):
            job = replace(JOB, state=job_state, since_ms=None if age_ms is None else NOW_MS - age_ms)
            yield f"{job_state} since {age_ms}: {state._find_migration_losses(job, terms(losses=('its group',)))}"


def mismatches() -> Iterator[str]:
    state = build_migration()
    copy = Copy(b"a", JOB)
    held = replace(JOB, system="native", state=State.SCHEDULED, worker=migration.WORKER_NAME, since_ms=NOW_MS - 1)
    yield f"nothing there: {state._explain_copy_mismatch(copy, None)}"
    for since_ms in (None, 0, NOW_MS - 1, NOW_MS, NOW_MS + 1):
        for target in (held, replace(held, worker="w"), replace(held, body=b"y")):
            text = state._explain_copy_mismatch(copy, replace(target, since_ms=since_ms))
            yield f"held by {target.worker} with {target.body!r} since {since_ms}: {text}"
        done = replace(held, state=State.DONE, body=None, since_ms=since_ms)
        yield f"done since {since_ms}: {state._explain_copy_mismatch(copy, done)}"
        dead = replace(held, state=State.DEAD, worker="w", since_ms=since_ms)
        died = Copy(b"a", replace(JOB, state=State.DEAD, since_ms=NOW_MS))
        yield f"dead since {since_ms}: {state._explain_copy_mismatch(died, dead)}"
    for seen in (set(), {b"a"}):
        for target in (None, replace(held, body=b"y")):
            yield f"clash of {seen} and {target and target.body!r}: {state._explain_id_clash(JOB, target, seen)}"


def copies() -> Iterator[str]:
    state = build_migration()
    state._compute_migration_terms = lambda job: terms(attempts=job.attempts, max_attempts=job.max_attempts)
    attempt = Attempt(1, 2, "w", "E" * 2_001)
    jobs = {
        "ready": JOB,
        "enqueued": replace(JOB, enqueued_ms=NOW_MS - 7),
        "enqueued later than now": replace(JOB, enqueued_ms=NOW_MS + 7),
        "enqueued, due and waiting": replace(JOB, enqueued_ms=5, due_ms=6, since_ms=7),
        "enqueued and due": replace(JOB, enqueued_ms=5, due_ms=6),
        "enqueued after its due time": replace(JOB, enqueued_ms=6, due_ms=5),
        "reserved": replace(JOB, state=State.RESERVED, due_ms=5, since_ms=9, attempts=2),
        "reserved without a due time": replace(JOB, state=State.RESERVED, since_ms=9, attempts=1),
        **{
            f"due {after_ms} after": replace(JOB, state=State.SCHEDULED, due_ms=NOW_MS + after_ms, attempts=1)
            for after_ms in (-1, 0, 1, 599_999, 600_000, 600_001)
        },
        "due later, never tried": replace(JOB, state=State.SCHEDULED, due_ms=NOW_MS + 1),
        "dead": replace(JOB, state=State.DEAD, since_ms=NOW_MS - 5, attempts=3, error="E", worker="w"),
        "dead without a time": replace(JOB, state=State.DEAD, error="E"),
        "ready with an error": replace(JOB, since_ms=NOW_MS - 5, error="E"),
        **{f"name of {size}": replace(JOB, name="n" * size) for size in (199, 200, 201)},
        **{f"name with {byte}": replace(JOB, name=f"n{chr(byte)}") for byte in (31, 32, 126, 127)},
        **{f"body of {size}": replace(JOB, body=b"x" * size) for size in (0, 4_095, 4_096, 4_097)},
        **{f"{number} attempts allowed": replace(JOB, max_attempts=number) for number in (-1, 0, 1, 2)},
        **{
            f"{number} attempts": replace(JOB, history=(*[Attempt(3, 4, "v", "F")] * (number - 1), attempt))
            for number in (1, 9, 10, 11)
        },
    }
    for title, job in jobs.items():
        row = state._build_restore_row(b"new", job, NOW_MS)
        row["record"] = shorten(row["record"])
        if "body" in row:
            row["body"] = len(row["body"])
        if "errors" in row:
            row["errors"] = [(*each[:3], len(each[3])) for each in json.loads(row["errors"])]
        yield f"{title}: {row}"
        sent = build_release(state, job)
        yield f"{title}, released: {sent}"
    for bytes_there, body_bytes, is_partial in (
        (0, 0, False),
        (4, 5, False),
        (5, 5, False),
        (6, 5, False),
        (5, 5, True),
    ):
        job = replace(JOB, body=b"x" * bytes_there, body_bytes=body_bytes, is_partial=is_partial)
        state.engine = SimpleNamespace(fetch_job=lambda *_args: None)
        yield f"{bytes_there} of {body_bytes} bytes, partial {is_partial}: {state._load_complete_body(job) is job}"
    for backoff_ms in (None, 0, 1, migration.MAX_BACKOFF_MS, migration.MAX_BACKOFF_MS + 1):
        record = migration._build_copy_record(JOB, terms(backoff_ms=backoff_ms, backoff_cap_ms=backoff_ms), NOW_MS)
        yield f"backoff {backoff_ms}: {record!r}"
    for times in (b"0 ", b"5 7", b"5"):
        copy = migration._restore_copy_times(JOB, times)
        yield f"held times {times!r}: {copy.due_ms} {copy.since_ms}"


def shorten(record: bytes) -> str:
    return repr(record) if len(record) < 80 else f"{record[:50]!r} and {len(record) - 50} bytes"


def build_release(state: Any, job: Job) -> list[object]:
    """Return what a migration stores about the held copy of a job, and sends to release it."""
    sent: list[object] = []

    def count(_key: bytes, name: str, number: int) -> int:
        sent.append(f"{name} +{number}")
        return 100 + number

    client = SimpleNamespace(hincrby=count, hset=lambda _key, mapping: sent.append(dict(mapping)))
    state.engine = SimpleNamespace(client=client, send_request=lambda _request: ["moved"])
    state._target_keys, state._held_copies_key = {"meta": b"meta"}, b"held"
    state._target_system = SimpleNamespace(build_call=lambda _verb, _queue, _args, rows: sent.extend(rows))
    copy = Copy(b"new", job)
    state._store_held_copy_entries([copy], NOW_MS)
    for is_copy in (False, True):
        sent.append(state._release_held_copies([(copy, b"line")], NOW_MS, is_copy=is_copy))
    return [
        {**each, "errors": len(each["errors"])} if isinstance(each, dict) and "errors" in each else each
        for each in sent
    ]


def reports() -> Iterator[str]:
    for skipped in ([], [Skipped(b"a", "")]):
        for remaining in ({}, {"ready": 0}, {"ready": 1}):
            report = migration.Report(skipped=[*skipped], remaining=remaining)
            yield f"{len(skipped)} skipped, {remaining} remain: {report.is_complete}"


def operations() -> Iterator[str]:
    bare = Operation(NOW_MS, "me@here", "requeue", "mail", "rq")
    for title, operation in {
        "bare": bare,
        "of no queue": replace(bare, queue=""),
        "of three queues": replace(bare, others=("sms", "push")),
        "of one system, named": replace(bare, others=("sms",), other_systems=("rq",)),
        "of two systems": replace(bare, others=("sms", "push"), other_systems=("native", "rq")),
        **{f"{count} outcomes": replace(bare, answers={"ready again": count, "gone": 1}) for count in (0, 1, 2)},
        "an error": replace(bare, answers={"gone": 1}, error="denied"),
        "cut short": replace(bare, error="cut short: 4 of 5"),
        "undone": replace(bare, undone_at_ms=1, undo=("x",)),
        "undoable": replace(bare, undo=("x",)),
    }.items():
        yield (
            f"{title}: {operation.refs} {operation.queue_label!r} {operation.full_queue_label!r} {operation.systems} "
            f"{operation.describe_outcomes()!r} {operation.describe_interruption()!r} "
            f"{operation.is_of_several_systems} {journal.describe_undo(operation)[:6]}"
        )
    for undo in ((), ("a",), ("a", "b")):
        for undone in ({}, {"a": 3}, {"a": 3, "b": 4}, {"b": 9, "c": 1}):
            operation = replace(bare, undo=undo)
            yield f"{undo} of {undone}: {journal._find_undone_ms(operation, undone) if undo else 0}"
    for done in (0, 4, 5, 6):
        fields = {
            "who": "me@there",
            "verb": "kill",
            "queue": "mail",
            "url": "",
            "layout": "rq",
            "profile": "",
            "total": 5,
        }
        change = journal._BegunChange({**fields, "at_ms": 7}, 5 + done, done, {"x": done}, "record" if done else "")
        found = change.to_operation()
        yield f"{done} of 5: {found.at_ms} {found.began_ms} {found.count} {found.error} {found.undo}"
    for first in (Circumstances(), Circumstances(1, "why", "all", "5/s", "stopped", {"mail": {"dead": 1}})):
        both = [first, Circumstances(2, "other", before={"sms": {"dead": 2}})]
        yield f"merged: {journal._merge_circumstances(both, 'default')}"
    yield f"masked: {journal._mask_outcomes({'token=abc1': 2, 'token=abc2': 3, 'ok': 1})}"


def text() -> Iterator[str]:
    for part in (rates, sightings, obstacles, mismatches, copies, reports, operations):
        yield f"== {part.__name__}"
        yield from part()


def test_operations_match_the_stored_text() -> None:
    assert_lines_match_file(text(), KEPT)


def test_a_change_of_another_machine_is_alive_for_ten_minutes_after_its_last_progress(monkeypatch: Any) -> None:
    monkeypatch.setattr(journal, "time", SimpleNamespace(time=lambda: NOW_MS / 1000))
    for silent_ms, is_alive in ((599_999, True), (600_000, False), (600_001, False)):
        change = journal._BegunChange({"who": "me@another machine", "process": ""}, NOW_MS - silent_ms)
        assert change.is_alive is is_alive
