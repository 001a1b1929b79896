"""Findings and workers of foreign systems where one time or number is at a bound: see `findings_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/systems/test_findings_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import describe
from kept_text import assert_lines_match_file

from rqtui.model import Finding
from rqtui.scripts.script import Reply
from rqtui.systems import arq, native, registry
from rqtui.systems.bullmq import lock_holders, workers
from rqtui.systems.bullmq.workers import WorkerConnection, WorkerConnections
from rqtui.systems.celery import remote_control, worker_heartbeats
from rqtui.systems.celery.remote_control import WorkerReply
from rqtui.systems.sidekiq import processes
from rqtui.systems.sidekiq import system as sidekiq
from rqtui.systems.sidekiq.lost_jobs import LATE_MS, TTL_MS, LostJobs

KEPT = Path(__file__).with_name("findings_at_bounds.txt")
NOW_MS = 1_800_000_000_000


def build_reply(rows: Sequence[Mapping[str, object]], **values: object) -> Reply:
    columns = tuple(rows[0]) if rows else ()
    return Reply("", values={"now_ms": NOW_MS, **values}, rows=[tuple(row.values()) for row in rows], columns=columns)


def describe_findings(findings: Sequence[Finding]) -> str:
    return str([f"{one.kind}, {one.severity}, {one.jobs} jobs: {one.text}; {one.remedy}" for one in findings])


def waiting_jobs_of_arq() -> Iterator[str]:
    usual = {"kind": "no_live_worker", "id": b"a", "key": b"", "name": "mail", "number": 3, "other": 1, "seconds": 9}
    for seconds in (arq._LATE_S - 1, arq._LATE_S, arq._LATE_S + 1):
        for ended_ms in (1000 * arq._LATE_S - 1, 1000 * arq._LATE_S, 1000 * arq._LATE_S + 1):
            system: Any = registry.create_system("arq")
            system.record_sample = SimpleNamespace(find_last_end_ms=lambda _queue, ms=ended_ms: NOW_MS - ms)
            found = system._parse_findings("mail", build_reply([{**usual, "seconds": seconds}]))
            interval_s = system.probe_interval_s("mail")
            yield f"arq, due for {seconds} s, last end {ended_ms} ms ago: {[one.kind for one in found]}, {interval_s}"
    for watched_ms in (arq._IDLE_MS - 1, arq._IDLE_MS, arq._IDLE_MS + 1):
        for change in ({}, {"id": b"b"}, {"other": 2}):
            system = registry.create_system("arq")
            row = {**usual, "kind": "idle_workers"}
            kinds = []
            for now_ms, polled in ((NOW_MS, row), (NOW_MS + watched_ms, {**row, **change})):
                found = system._parse_findings("mail", build_reply([polled], now_ms=now_ms))
                kinds.append([one.kind for one in found])
            system._parse_findings("mail", build_reply([]))
            yield f"arq, watched for {watched_ms} ms, {change}: {kinds}, then {system.probe_interval_s('mail')}"


def build_holder(**changes: Any) -> lock_holders._Holder:
    usual = lock_holders._Holder("w1", (b"a", b"b"), 20_000, NOW_MS + 20_000, 30_000)
    return usual._replace(**changes)


def lock_holders_of_bullmq() -> Iterator[str]:
    half, late = workers.LOCK_MS // 2, lock_holders._LATE_RENEWAL_MS
    for name in ("w1", ""):
        for left_ms in (half - late - 1, half - late, half - late + 1):
            for longest_ms in (2 * half - 2, 2 * half, 2 * half + 2):
                for missing_ms, renewed_ms in ((0, 0), (1, 0), (5, 4), (5, 5), (5, 6)):
                    one = build_holder(
                        name=name, left_ms=left_ms, longest_ms=longest_ms, missing_ms=missing_ms, renewed_ms=renewed_ms
                    )
                    facts = [
                        word for word in ("renews_no_lock", "is_late", "was_killed", "is_missing", "may_be_late")
                        if getattr(one, word)
                    ]  # fmt: skip
                    yield f"{name!r}, {left_ms} of {longest_ms}, missing {missing_ms}, renewed {renewed_ms}: {facts}"
    for more_ms in (-1, 0, 999, 1_000, 1_001):
        runs = [{"id": b"a", "left_ms": 5, "pb": "w1"}, {"id": b"b", "left_ms": 20_000 + more_ms, "pb": "w1"}]
        yield f"left longer by {more_ms}: {lock_holders._Holder.update(build_holder(), runs, NOW_MS)}"
        yield f"first seen, {more_ms}: {lock_holders._Holder.update(None, runs, NOW_MS)}"
    for number in (1, 2, 3):
        for name in ("w", ""):
            holders = [build_holder(name=name and f"w{at}", left_ms=1_000 * at + 1) for at in range(number)]
            for living in (0, 1):
                found = [
                    *lock_holders._describe_silent_workers("mail", holders),
                    *lock_holders._describe_missing_workers("mail", holders, living),
                    *lock_holders._describe_late_locks("mail", holders),
                ]
                yield f"{number} of {name!r}, {living} connected: {describe_findings(found)}"


def polls_of_bullmq(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield what polls of the lock holders report about workers that lose their connections, or run a job twice."""
    clock = SimpleNamespace(now_s=1_000.0, monotonic=lambda: clock.now_s)
    for module in (lock_holders, workers):
        monkeypatch.setattr(module, "time", clock)
    run = {"id": b"a", "lock": "u1:1", "left_ms": 20_000, "pb": "w1", "name": "send", "processed_on": ""}
    polls: Mapping[str, tuple[Sequence[Mapping[str, object]], Sequence[str]]] = {
        "connected": ([run], ["w1"]), "missing": ([run], []), "missing and late": ([{**run, "left_ms": 13_000}], []),
        "another": ([run], ["w2"]), "unnamed": ([{**run, "pb": ""}], [""]),
        "unnamed missing": ([{**run, "pb": ""}], []),
        "no lock": ([{**run, "lock": ""}], []), "expired": ([{**run, "left_ms": -1}], []),
        "expires now": ([{**run, "left_ms": 0}], []),
        "taken over": ([{**run, "pb": "w2", "lock": "u2:1"}], ["w1", "w2"]),
        "two unnamed": ([{**run, "pb": ""}, {**run, "id": b"b", "lock": "u2:1", "pb": ""}], [""]),
    }  # fmt: skip
    for names in (
        ("connected", "missing", "missing and late"), ("missing", "missing"), ("another", "missing", "connected"),
        ("unnamed", "unnamed missing", "unnamed"), ("connected", "no lock"), ("connected", "expired"),
        ("connected", "expires now"), ("connected", "taken over", "taken over", "missing"), ("unnamed", "two unnamed"),
    ):  # fmt: skip
        for pause_s in (0.5, 1.0, lock_holders._RUNNERS_S - 0.5, lock_holders._RUNNERS_S):
            connections = WorkerConnections("bull")
            connections.has_seen_names = True
            connections._read_s = clock.now_s
            judge, said = lock_holders.LockHolders(connections), []
            for at, name in enumerate(names):
                runs, connected = polls[name]
                connections.by_queue = {"mail": [WorkerConnection("mail", each, "h:1", 5, True) for each in connected]}
                found = judge.update("mail", build_reply(runs, now_ms=NOW_MS + at))
                said.append(f"{name} {[f'{one.kind} {one.severity}' for one in found]} {judge.has_missing('mail')}")
                clock.now_s += pause_s
            yield f"every {pause_s} s: {', '.join(said)}"
    for is_long, ages in ((False, (0.999, 1.0)), (True, (2.999, 3.0))):
        for age_s in ages:
            connections = WorkerConnections("bull")
            connections._is_list_long, connections._read_s = is_long, clock.now_s - age_s
            calls = len(connections.build_calls(1.0, "k"))
            yield f"long {is_long}, {age_s} s old: {calls} commands, new {connections.is_new}"
    for size in (workers.LONG_LIST_BYTES - 1, workers.LONG_LIST_BYTES, workers.LONG_LIST_BYTES + 1):
        connections = WorkerConnections("bull")
        connections.store_replies([Reply("", values={"reply": b"db=0"}), Reply("", values={"reply": b"x" * size})])
        yield f"a list of {size} bytes is long: {connections._is_list_long}, {connections.by_queue}"


def workers_of_bullmq() -> Iterator[str]:
    client = WorkerConnection("mail", "w1", "10.0.0.1:5", 7, True)
    for number in (0, 1, 2):
        for left_ms in (-1, 0, 1):
            for one in (client, None, client._replace(is_waiting=False)):
                runs = [{"id": b"%d" % at, "left_ms": left_ms + at} for at in range(number)]
                worker = workers._build_worker("mail", "w1", one, runs, NOW_MS)
                yield f"{number} runs with {left_ms} ms, {one and one.is_waiting}: {describe(worker)}"
    unnamed = [client._replace(name="", address=f"h:{at}", is_waiting=at == 1) for at in range(3)]
    for locks in (0, 1, 3, 4):
        runs = [{"id": b"%d" % at, "lock": f"u{at}:1", "left_ms": 5, "pb": ""} for at in range(locks)]
        listed = workers.build_workers("mail", [client, client, *unnamed], runs, NOW_MS)
        yield f"3 connections, {locks} locks: {[f'{one.name} {one.state}' for one in listed]}"


def lost_jobs_of_sidekiq() -> Iterator[str]:
    held = {
        "worker": b"h:1:x",
        "thread": b"t1",
        "queue": "mail",
        "job": b"j",
        "run_at": "5",
        "beat_ms": 1_000,
        "left_ms": -1,
    }
    listed = {**held, "thread": b"", "job": b""}
    for beat_ms, left_ms in ((-1, -1), (-1, 0), (-1, 1), (0, 9), (1, 9)):
        for seen_ms in (TTL_MS - 1_001, TTL_MS - 1_000, TTL_MS - 999, TTL_MS, TTL_MS + 1):
            lost = LostJobs()
            lost.update_jobs(build_reply([{**held, "beat_ms": beat_ms, "left_ms": left_ms}]))
            lost.update_jobs(build_reply([], now_ms=NOW_MS + seen_ms))
            yield f"beat {beat_ms}, left {left_ms}, gone after {seen_ms}: {lost.count('mail')} lost"
    for age_ms in (-1, 0, LATE_MS - 1, LATE_MS, LATE_MS + 1):
        lost = LostJobs()
        lost.update_jobs(build_reply([{**held, "beat_ms": TTL_MS}]))
        lost.update_jobs(build_reply([{**listed, "beat_ms": age_ms}], now_ms=NOW_MS + 1))
        yield f"its process is listed, {age_ms} ms old: {lost.count('mail')} lost of {len(lost._held_jobs)} held"
    for more_ms in (-1, 0, 1):
        lost = LostJobs()
        lost.update_jobs(build_reply([{**held, "beat_ms": TTL_MS}]))
        for at_ms in (1, LostJobs.KEPT_MS + more_ms):
            lost.update_jobs(build_reply([], now_ms=NOW_MS + at_ms))
        yield f"kept for an hour and {more_ms}: {lost.count('mail')} {describe([*lost.list_workers('mail')])}"
        lost.remove_jobs("sms", [b"j"])
        lost.remove_jobs("mail", [b"k"])
        number = lost.count("mail")
        lost.remove_jobs("mail", [b"j"])
        yield f"removed: {number}, then {lost.count('mail')}, {lost.list_jobs('mail')}"
    for most, most_bytes in ((1, 9), (2, 9), (3, 9), (9, 1), (9, 2), (9, 3)):
        lost = LostJobs()
        lost.MOST, lost.MOST_BYTES = most, most_bytes  # type: ignore[misc]
        lost.update_jobs(build_reply([{**held, "job": b"%d" % at, "beat_ms": TTL_MS} for at in range(2)]))
        lost.update_jobs(build_reply([], now_ms=NOW_MS + 1))
        yield f"{most} jobs, {most_bytes} bytes: {[one.job for one in lost.list_jobs('mail')]}"


def processes_of_sidekiq() -> Iterator[str]:
    info = {"pid": 7, "hostname": "h", "started_at": 5, "queues": ["mail"], "concurrency": 5, "version": "7.3"}
    usual = {"worker": b"h:7:x", "beat_ms": 5, "info": json.dumps(info).encode(), "busy": "2", "quiet": "false",
             "rss": "10", "rtt_us": "1500", "concurrency": "", "held": 0, "order": ""}  # fmt: skip
    capsule = {"concurrency": 2, "weights": {"sms": 1}}
    infos = [{**info, **change} for change in (
        {"concurrency": None}, {"capsules": {"a": capsule}}, {"capsules": {"a": capsule, "b": {}}}, {"queues": [3]},
        {"version": 7}, {"embedded": True}, {"embedded": 1}, {"labels": ["x", 3]}, {"tag": "app"}, {"started_at": -1},
    )]  # fmt: skip
    values: Mapping[str, Sequence[object]] = {
        "beat_ms": (-1, 0, LATE_MS, LATE_MS + 1), "info": (b"", *(json.dumps(each).encode() for each in infos)),
        "busy": ("", "0"), "quiet": ("true",), "rss": ("", "0"), "rtt_us": ("", "0"), "concurrency": ("0", "9"),
        "order": ("TSTP", "USR1", "TERM", "x"),
    }  # fmt: skip
    yield f"usual: {describe(processes.build_worker('mail', usual, NOW_MS))}"
    for name, each in values.items():
        for value in each:
            worker = processes.build_worker("mail", {**usual, name: value}, NOW_MS)
            yield f"{name} {value!r}: {describe(worker)}"


def workers_of_celery() -> Iterator[str]:
    for silent_ms in (9_999, 10_000, 10_001):
        for freq in (None, 4, 5, 5.1, "x"):
            system: Any = registry.create_system("celery")
            heartbeats = system._heartbeats
            event = {"type": "worker-heartbeat", "hostname": "w1@h", "active": 0, "processed": 3, "freq": freq}
            heartbeats.record_event(event, NOW_MS)
            later_ms = NOW_MS + silent_ms
            silent = [heartbeats.is_silent("w1@h", later_ms, after_ms) for after_ms in (None, 9_999, 10_000)]
            worker = system.event_cache.find_worker("w1@h")
            living = heartbeats.count_consumers("mail", later_ms)
            yield f"silent for {silent_ms}, freq {freq}: {silent}, {living} living, {worker.ttl_ms}"
    changes: Sequence[Mapping[str, object]] = (
        {}, {"type": "worker-online"}, {"active": 2}, {"active": None}, {"processed": -1}, {"pid": 7}, {"pid": 0},
        {"loadavg": [0.5, 1, 2.456, 3]}, {"loadavg": ["x"]}, {"sw_ver": "5.7"}, {"sw_ver": "1", "sw_ident": "go"},
        {"hostname": "w1"}, {"hostname": ""},
    )  # fmt: skip
    for change in changes:
        system = registry.create_system("celery")
        event = {"type": "worker-heartbeat", "hostname": "w1@h", "active": 0, "processed": 3, "sw_ident": "py-celery"}
        system._heartbeats.record_event({**event, **change}, NOW_MS)
        yield f"event {dict(change)}: {describe(system.event_cache.list_workers())}"
    for pause_ms in (worker_heartbeats.IDLE_MS - 1, worker_heartbeats.IDLE_MS, worker_heartbeats.IDLE_MS + 1):
        for began_ms in (-1, 0, 1):
            for active in (0, 1, None):
                system = registry.create_system("celery")
                started = {"type": "task-started", "uuid": "a1", "name": "add", "hostname": "w1@h", "queue": "mail"}
                system._runs.record_event({**started, "type": "task-received"}, NOW_MS + began_ms)
                system._runs.record_event(started, NOW_MS + began_ms)
                for at_ms in (NOW_MS, NOW_MS + pause_ms):
                    event = {"type": "worker-heartbeat", "hostname": "w1@h", "active": active, "processed": 3}
                    system._heartbeats.record_event(event, at_ms)
                running = [job.id.decode() for job in system.event_cache.yield_jobs("running")]
                yield f"began {began_ms} after, {active} active for {pause_ms}: {running}"
    idle = worker_heartbeats.WorkerIdleness()
    for at, (active, processed) in enumerate(((0, 3), (0, 3), (2, 5), (1, 5), (0, 5), (0, 2), (0, 4))):
        idle.record_heartbeat("w1", active, processed, 10 + at)
        since_ms = idle.compute_idle_since_ms("mail", 1, 5)
        yield f"{active} active of {processed}: {idle.ended} ended, idle since {since_ms}"


def replies_of_celery() -> Iterator[str]:
    done, no = {"ok": "done"}, {"error": "no"}
    for verb in ("time_limit", "cancel"):
        for expected in (0, 1, 2, 3):
            for values in ([], [done], [no], [done, no], [done, done], ["x"]):
                replies = [WorkerReply(f"w{at}", "", value) for at, value in enumerate(values)]
                outcome = remote_control.summarise_replies(verb, b"a", replies, expected, 1.96)
                yield f"{verb}, {values} of {expected}: {outcome.word}, {outcome.moved}, {outcome.text}"
    year_ms = 400 * 86_400_000
    for age_ms in (year_ms - 1, year_ms, -year_ms, 1 - year_ms):
        task = {"id": "a1", "name": "add", "time_start": (NOW_MS - age_ms) / 1000, "args": [1], "kwargs": {"b": 2}}
        yield f"started {age_ms} ago: {describe([*remote_control._build_active_facts([task], NOW_MS)])}"
    for number in (0, 1, 49, 50, 51, 52):
        facts = [*remote_control._build_active_facts([{"id": "a", "name": "add"}] * number, NOW_MS)]
        yield f"{number} tasks: {len(facts)} facts, {facts[0].value}, {facts[-1].value}"
    for args, kwargs in ((None, None), ([], {}), ("x", {"a": 1}), ([1], "x")):
        yield f"arguments {args} {kwargs}: {remote_control._format_arguments({'args': args, 'kwargs': kwargs})}"
    statistics: Mapping[str, Mapping[str, object]] = {
        "none": {}, "pool": {"pool": {"implementation": "celery.concurrency.prefork:TaskPool", "max-concurrency": 0}},
        "processes": {"pool": {"processes": [7, 8]}}, "no processes": {"pool": {"processes": []}},
        "totals": {"total": {"b": 1, "a": 0, "c": -1}}, "up": {"uptime": 0, "pid": 0, "prefetch_count": 0},
        "memory": {"rusage": {"maxrss": 1536}}, "no memory": {"rusage": {"maxrss": -1}, "uptime": -1},
    }  # fmt: skip
    for title, value in statistics.items():
        yield f"statistics, {title}: {describe([*remote_control._build_statistics_facts(value, NOW_MS)])}"
    for names in ((), ("active",), remote_control.INSPECTED):
        replies = [WorkerReply("w1", name, []) for name in names] + [WorkerReply("w2", "stats", {})]
        yield f"inspected {list(names)}: {describe(remote_control.build_inspection('w1', replies, NOW_MS, 1.5))}"
        yield f"queues of {list(names)}: {remote_control.find_consumed_queues('w1', replies)}"


def findings_of_native() -> Iterator[str]:
    for number in (1, 2, 3):
        for died, leases in ((0, 2), (1, 3), (2, 3), (3, 4)):
            for place in ("ready", "dead"):
                rows = [(b"%d" % at, place, leases + at, died, 7 - at, b"") for at in range(number)]
                [found] = native._build_interrupted_jobs_finding("mail", rows)
                yield (
                    f"{number} jobs, {died} died, {leases} leases, {place}: {found.ids} {found.jobs} {found.text}; "
                    f"{found.remedy}; {found.detail!r} {found.since_ms}"
                )
        for beat in (-1, 0, 5):
            silent = [
                (b"w%d" % at if at else b"", at + 1, beat + at if beat >= 0 else beat, 9 + at) for at in range(number)
            ]
            [found] = native._build_silent_leases_finding("mail", silent)
            yield f"{number} workers, beat {beat}: {found.text} {found.detail!r} {found.since_ms} {found.jobs}"


def lost_pages_of_sidekiq() -> Iterator[str]:
    held = {"worker": b"h:1:x", "queue": "mail", "run_at": "5", "beat_ms": TTL_MS, "left_ms": -1}

    def build_system(number: int) -> Any:
        system: Any = registry.create_system("sidekiq")
        system.now_ms = lambda: NOW_MS
        bodies = [json.dumps({"class": "Hard", "args": [], "jid": f"j{at}"}).encode() for at in range(number)]
        rows = [{**held, "thread": b"t%d" % at, "job": body} for at, body in enumerate(bodies)]
        system.lost.update_jobs(build_reply(rows))
        system.lost.update_jobs(build_reply([], now_ms=NOW_MS + 1))
        return system

    for number in (0, 1, 2, 3):
        yield f"{number} lost: {describe_findings(build_system(number)._find_lost_jobs('mail'))}"
        for offset in (-1, 0, 1, 2, 3):
            for returned in ((), ("j1",)):
                system = build_system(number)
                request = system.page_request("mail", "lost", offset, 2, 0)
                if returned and not request.calls:
                    continue
                page = request.parse([build_reply([{"id": jid.encode()} for jid in returned])])
                ids = [job.id.decode() for job in page.jobs]
                yield f"2 of {number} from {offset}, {returned} again: {ids} from {page.offset}, next {page.next}"
    for words in (("moved", "gone"), ("queued", "moved"), ("gone", "gone")):
        system = build_system(2)
        jobs = system.page_request("mail", "lost", 0, 2, 0).parse([build_reply([])]).jobs
        for request in system.verb_requests("release", "mail", jobs, {}):
            found = request.parse([Reply("", each=[Reply(word) for word in words])])
            yield f"released {[f'{one.word} {one.moved}' for one in found]}: {system.lost.count('mail')} are left"
    for processed, failed, is_exact in (("", "", 1), ("0", "0", 1), ("5", "2", 1), ("5", "9", 1), ("5", "", 0)):
        values = {place.name: 1 for place in registry.create_system("sidekiq").places}
        reply = Reply(
            "", values={**values, "now_ms": NOW_MS, "processed": processed, "failed": failed, "exact": is_exact}
        )
        counted = build_system(0)._parse_queue("mail", reply)
        yield f"{processed!r} processed, {failed!r} failed, exact {is_exact}: {counted.counters}"
    for recorded in (0, 1):
        for only in (0, 1):
            for runs in (0, 1):
                rows = [{"at_ms": 60_000, "processed": runs, "failed": 0}]
                request = registry.create_system("sidekiq").ends_request("mail")
                minutes = request.parse([build_reply(rows, recorded=recorded, only=only)])
                yield f"{runs} runs, recorded {recorded}, the only queue {only}: {list(minutes)}"
    for failed, took_ms in ((0, 0), (0, 9), (2, 9), (3, 9)):
        row = {"kind": b"Hard", "processed": 3, "failed": failed, "ms": took_ms}
        yield f"{failed} of 3 failed in {took_ms} ms: {sidekiq._build_class_statistics(row, 5)}"
    for retry in (True, False, 0, 1, -1, "x"):
        yield f"retry {retry}: {sidekiq._compute_max_attempts(retry)} runs"
    for beat_ms in ("", "-1", str(LATE_MS), str(LATE_MS + 1)):
        yield f"silent for {beat_ms!r}: {sidekiq._compute_silence_ms({'beat_ms': beat_ms})}"


def test_findings_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (
        waiting_jobs_of_arq(), lock_holders_of_bullmq(), polls_of_bullmq(monkeypatch), workers_of_bullmq(),
        lost_jobs_of_sidekiq(), processes_of_sidekiq(), workers_of_celery(), replies_of_celery(), findings_of_native(),
        lost_pages_of_sidekiq(),
    )  # fmt: skip
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__}", *part)), KEPT)
