"""The sample of jobs that are keys of their own: what a step adds, what the end of a walk drops, and the estimates."""

from __future__ import annotations

from rqtui.model import Job, State
from rqtui.system_base.record_sample import (
    FIRST_KEYS,
    KEYS_PER_STEP,
    MAX_RECORDS,
    FoundRecord,
    RecordCount,
    RecordRequest,
    RecordSample,
)


def build_record(
    id: bytes, place: str = "failed", at_ms: int = 0, expires_ms: int | None = None, is_read: bool = True
) -> FoundRecord:
    state = State.DEAD if place == "failed" else State.DONE
    job = Job(id, "mail", "arq", place, state, id, ended_ms=at_ms)
    return FoundRecord(id, expires_ms, 10, job if is_read else None)


def take_step(
    sample: RecordSample, records: list[FoundRecord], cursor: str, passed: int, keys: int, now_ms: int = 0
) -> RecordRequest:
    request = sample.plan_step()
    sample.apply_step(request, records, cursor, passed, keys, now_ms)
    return request


def test_a_step_that_passes_all_keys_gives_exact_numbers_and_drops_what_it_did_not_meet() -> None:
    sample = RecordSample()
    take_step(sample, [build_record(b"a"), build_record(b"b", "complete")], "0", 3, 3)
    assert sample.count("mail", "failed") == RecordCount(1, True)
    assert sample.count("other", "failed") == RecordCount(0, True)
    request = take_step(sample, [build_record(b"b", "complete", is_read=False)], "0", 2, 2)
    assert (request.known_ids, request.wanted_ids) == ((b"a", b"b"), ())
    assert sample.count("mail", "failed") == RecordCount(0, True)
    assert sample.count("mail", "complete") == RecordCount(1, True), "its bytes were known"


def test_the_first_step_extrapolates_and_the_end_of_a_walk_does_not() -> None:
    sample = RecordSample()
    first = take_step(sample, [build_record(b"%d" % number) for number in range(5)], "17", 5_000, 50_000)
    assert (first.cursor, first.keys) == ("0", FIRST_KEYS)
    assert sample.count("mail", "failed") == RecordCount(50, False)
    assert sample.count("mail", "complete") == RecordCount(0, False), "a sampled zero is no exact one"
    second = take_step(sample, [build_record(b"x")], "0", 45_000, 50_000)
    assert (second.cursor, second.keys, second.read_bytes, second.known_ids) == ("17", KEYS_PER_STEP, 0, ())
    assert sample.count("mail", "failed") == RecordCount(6, False)
    take_step(sample, [build_record(b"x")], "9", 1_000, 50_000)
    assert sample.count("mail", "failed") == RecordCount(6, False), "the next walk has only begun"
    take_step(sample, [], "0", 49_000, 50_000)
    assert sample.count("mail", "failed") == RecordCount(1, False)


def test_a_record_without_bytes_is_requested_by_the_next_step() -> None:
    sample = RecordSample()
    take_step(sample, [build_record(b"a"), build_record(b"b", is_read=False)], "0", 2, 20_000)
    assert sample.count("mail", "failed") == RecordCount(2, False), "half of the records were read"
    assert sample.plan_step().wanted_ids == (b"b",)
    assert sample.plan_step([b"a"]).wanted_ids == (b"a", b"b")
    take_step(sample, [], "5", 1_000, 20_000)
    assert sample.plan_step().wanted_ids == (), "its key is missing"


def test_a_record_that_expires_or_is_replaced_is_read_again_or_dropped() -> None:
    sample = RecordSample()
    take_step(sample, [build_record(b"a", expires_ms=5_000), build_record(b"b", expires_ms=9_000)], "0", 2, 2, 1_000)
    take_step(sample, [build_record(b"b", expires_ms=9_400, is_read=False)], "0", 1, 1, 5_000)
    assert sample.count("mail", "failed") == RecordCount(1, True), "its expiry was measured again"
    take_step(sample, [build_record(b"b", expires_ms=60_000, is_read=False)], "0", 1, 1, 5_000)
    assert not sample.count("mail", "failed").is_exact
    assert sample.plan_step().wanted_ids == (b"b",)
    take_step(sample, [build_record(b"b", "complete", expires_ms=60_000)], "0", 1, 1, 6_000)
    assert sample.count("mail", "complete") == RecordCount(1, True)
    take_step(sample, [build_record(b"b", "complete", expires_ms=60_000, is_read=False)], "0", 1, 1, 60_000)
    assert sample.count("mail", "complete").number == 0


def test_a_step_that_another_request_took_too_counts_once() -> None:
    sample = RecordSample()
    take_step(sample, [build_record(b"a")], "17", 5_000, 20_000)
    requests = [sample.plan_step(), sample.plan_step()]
    for request in requests:
        sample.apply_step(request, [build_record(b"b")], "23", 1_000, 20_000, 0)
    assert (sample.cursor, sample.count("mail", "failed").number) == ("23", round(2 * 20_000 / 6_000))


def test_jobs_that_ended_last_come_first_and_a_bounded_number_is_kept() -> None:
    sample = RecordSample()
    records = [build_record(b"%d" % number, at_ms=number) for number in range(MAX_RECORDS + 2_000)]
    take_step(sample, records, "0", MAX_RECORDS + 2_000, MAX_RECORDS + 2_000)
    jobs = sample.list_jobs("mail", "failed")
    assert (len(jobs), jobs[0].ended_ms, jobs[-1].ended_ms) == (MAX_RECORDS, MAX_RECORDS - 1, 0)
    assert sample.count("mail", "failed") == RecordCount(MAX_RECORDS + 2_000, False)
