"""Caches of jobs after random operations, and at their bounds: `caches_at_bounds.txt` has every result.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/system_base/test_caches_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kept_text import assert_lines_match_file

from rqtui.model import Fact, Job, State, Worker
from rqtui.system_base import held_sample, record_sample
from rqtui.system_base.event_cache import EventCache
from rqtui.system_base.held_sample import Sample
from rqtui.system_base.lru_cache import LruCache
from rqtui.system_base.record_sample import FoundRecord, RecordSample

KEPT = Path(__file__).with_name("caches_at_bounds.txt")
PLACES = ("ready", "done", "dead")


def job(id: int, queue: str = "mail", place: str = "done", **more: Any) -> Job:
    return Job(b"%d" % id, queue, "any", place, State(place), b"%d" % id, **more)


def shorten(lines: list[str]) -> str:
    return f"{lines[-1]} #{sha256(''.join(lines).encode()).hexdigest()[:8]}"


def lru() -> Iterator[str]:
    for most in (1, 2, 3):
        cache: LruCache[str, int] = LruCache(most)
        for at, key in enumerate("abcabd"):
            cache.store(key, at)
            yield f"most {most} after {key}: {dict(cache)}"


def events() -> Iterator[str]:
    for seed in range(25):
        random, lines = Random(seed), list[str]()
        cache = EventCache(most=random.choice((1, 3, 8)), most_bytes=random.choice((1_000, 3_010, 99_999)))
        for _ in range(60):
            id, queue = random.randrange(12), random.choice(("mail", "sms", ""))
            action = random.randrange(8)
            if action < 4:
                cache.record_job(job(id, queue, random.choice(PLACES), body=b"x" * random.choice((0, 5)), error="e"))
            elif action == 4:
                cache.assign_queue(b"%d" % id, queue or "mail", Fact("queue", "by its worker"))
            elif action == 5:
                cache.clear_queue(b"%d" % id)
            else:
                cache.discard(b"%d" % id)
            page = cache.list_page(queue, "done", random.choice((-1, 0, 1)), random.choice((1, 2, 9)))
            numbers = [tuple(cache.count(name, place)) for name in ("mail", "sms") for place in PLACES]
            reassigned = [cache.count_reassigned(name, "done") for name in ("mail", "sms")]
            ids = [
                [each.id.decode() for each in jobs]
                for jobs in (cache.yield_jobs("dead"), cache.yield_unassigned_jobs())
            ]
            found = cache.find_in_queue("mail", b"%d" % id)
            lines.append(
                f"{len(cache)} jobs, {page[:2]} {[each.id.decode() for each in page[2]]} {numbers} {reassigned} {ids} "
                f"{found and found.queue} {cache.find(b'1') is None}"
            )
        yield f"events {seed}: {shorten(lines)}"
    cache = EventCache()
    for age_ms in (999, 1_000, 1_001):
        cache.record_heartbeat(Worker(f"w{age_ms}", "mail", 5_000 - age_ms, 1_000, started_ms=age_ms))
        yield f"worker of {age_ms}: {cache.count_live_workers(5_000)} {cache.find_newest_worker_start_ms()}"


def samples() -> Iterator[str]:
    """Yield what is requested of a set of given members, and which rows pages have, with small limits."""
    for seed in range(40):
        random, lines = Random(seed), list[str]()
        members, sample = [b"%d" % number for number in range(random.choice((0, 1, 5, 12, 30)))], Sample()
        for _ in range(30):
            if random.random() < 0.4:
                members = [id for id in members if random.random() < 0.8]
                members += [b"n%d" % random.randrange(99) for _ in range(random.choice((0, 1, 4)))]
                members = [*dict.fromkeys(members)]
            offset, limit = random.choice((-1, 0, 0, 2, 5, 20)), random.choice((1, 3, 5))
            request = sample.plan_request(offset, limit)
            rows = {id: {"id": id} for id in request.cached_ids if id in members}
            begin = min(int(request.cursor), len(members))
            end = begin + max(0, request.limit - len(rows))
            rows |= {id: {"id": id} for id in members[begin:end]}
            long_ids = {id for id in rows if id.endswith(b"3")}
            cursor = str(end) if end < len(members) else "0"
            sample.apply_reply(request, rows, long_ids, len(members), cursor)
            first, shown = sample.select_rows(offset, limit, rows)
            lines.append(
                f"{len(request.cached_ids)} of {request.limit} from {request.cursor}: {len(sample.members)} of "
                f"{sample.total}, walks {sample.complete_walks}, {first} {[row['id'].decode() for row in shown]}"
            )
        yield f"sample {seed}: {shorten(lines)}"


def records() -> Iterator[str]:
    """Yield what steps over all keys find of given records, with small limits."""
    for seed in range(40):
        random, lines, sample, now_ms = Random(seed), list[str](), RecordSample(), 1_000
        number = random.choice((0, 1, 4, 5, 6, 12))
        keys: dict[bytes, tuple[int | None, int, Job]] = {}
        for id in range(number):
            keys[b"%d" % id] = (
                random.choice((None, 5_000, 9_000)),
                5,
                job(id, since_ms=random.choice((1, 999, 1_000, 2_000))),
            )
        for _ in range(25):
            now_ms += random.choice((0, 1, 500, 1_000))
            if random.random() < 0.3 and keys:
                keys.pop(random.choice([*keys]))
            if random.random() < 0.3:
                id = random.randrange(20)
                expiry = random.choice((None, now_ms, now_ms + 1, now_ms + 999, now_ms + 1_000, now_ms + 1_001))
                keys[b"%d" % id] = (expiry, random.choice((5, 6)), job(id, since_ms=now_ms))
            wanted = [b"%d" % random.randrange(20)] if random.random() < 0.3 else []
            request = sample.plan_step(wanted)
            all_ids = sorted(keys)
            begin, end = int(request.cursor), int(request.cursor) + request.keys
            passed = all_ids[begin:end]
            returned = [*passed, *(id for id in request.wanted_ids if id in keys)]
            found = [
                FoundRecord(
                    id, *keys[id][:2], keys[id][2] if id in request.wanted_ids or random.random() < 0.8 else None
                )
                for id in returned
            ]
            cursor = str(end) if end < len(all_ids) else "0"
            sample.apply_step(request, found, cursor, len(passed), len(keys), now_ms)
            listed = [each.id.decode() for each in sample.list_jobs("mail", "done")]
            lines.append(
                f"{request.keys} keys from {request.cursor}, {request.read_bytes} bytes, "
                f"{len(request.wanted_ids)} wanted, {len(request.known_ids)} known: "
                f"{tuple(sample.count('mail', 'done'))} {listed} {sample.find_last_end_ms('mail')} "
                f"{sample.complete_walks} {sample.is_whole} {dict(sample.ends)}"
            )
        yield f"records {seed}: {shorten(lines)}"
    for one_ms in (None, 0, 1_000):
        for other_ms in (None, 0, 999, 1_000, 1_001, 2_000):
            yield f"expiry {one_ms} and {other_ms}: {record_sample._is_same_expiry(one_ms, other_ms)}"


def test_caches_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MAX_MEMBERS": 15, "FILL": 6, "SPARE": 2, "MAX_PER_REQUEST": 9}.items():
        monkeypatch.setattr(held_sample, name, value)
    for name, value in {"MAX_RECORDS": 8, "KEYS_PER_STEP": 4, "FIRST_KEYS": 5, "MAX_WANTED": 3}.items():
        monkeypatch.setattr(record_sample, name, value)
    lines = [f"{line}" for part in (lru, events, samples, records) for line in (f"== {part.__name__}", *part())]
    assert_lines_match_file(lines, KEPT)


def test_caches_are_as_large_as_a_server_bears() -> None:
    sample = Sample()
    request = sample.plan_request(0, 50)
    assert (request.limit, request.cursor) == (50, "0")
    rows = {b"%d" % number: {"id": b"%d" % number} for number in range(10_001)}
    sample.apply_reply(request, rows, set(), 20_000, "7")
    assert len(sample.members) == 10_000
    assert len(sample.plan_request(0, 5).cached_ids) == 10 and len(sample.plan_request(0, 300).cached_ids) == 400
    assert len(sample.plan_request(0, 5_000).cached_ids) == sample.plan_request(0, 5_000).limit == 4_000
    assert sample.plan_request(10_000, 50).limit == 50 and sample.plan_request(9_000, 3_500).limit == 3_500
    assert Sample(complete_walks=1).plan_request(0, 5).limit == 1_000
    step = RecordSample().plan_step()
    assert (step.keys, step.read_bytes) == (5_000, 1_048_576)
    for keys, read_bytes in ((1_000, 1_048_576), (1_001, 0)):
        records = RecordSample()
        found = [FoundRecord(b"%d" % number, None, 5, None) for number in range(10_001)]
        records.apply_step(step, found, "0", keys, keys, 5)
        following = records.plan_step()
        assert (following.keys, following.read_bytes, len(following.wanted_ids)) == (1_000, read_bytes, 200)
        assert len(records.records) == 10_000
    cache = EventCache()
    for number in range(10_001):
        cache.record_job(job(number))
    assert len(cache) == 10_000
