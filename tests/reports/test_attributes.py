"""The attributes of a job by which jobs are grouped and compared."""

from __future__ import annotations

import json
from dataclasses import replace

from rqtui.model import Job, State
from rqtui.reports import groups
from rqtui.reports.attributes import (
    compute_run_ms,
    find_end_ms,
    find_start_ms,
    is_group_field,
    list_group_values,
    name_age,
    read_attributes,
)
from rqtui.text.fields import Number
from rqtui.text.masking import MASK, reveal_secrets

NOW_MS = 1_795_779_340_000
BODY = json.dumps({"tenant": "acme", "customer": {"id": 7}, "password": "hunter2", "note": "token=abc", "tags": [1, 2]})
JOB = Job(
    b"a",
    "mail",
    "native",
    "dead",
    State.DEAD,
    b"a",
    name="send",
    body=BODY.encode(),
    body_bytes=len(BODY),
    worker="w1",
    attempts=3,
    enqueued_ms=NOW_MS - 7_200_000,
    since_ms=NOW_MS - 60_000,
    error="shop.CardDeclined: charge ch_1",
)


def test_the_fields_of_the_body_and_the_facts_of_the_job_are_attributes() -> None:
    attributes = read_attributes(JOB)
    assert attributes == {
        ".tenant": "acme",
        ".customer.id": "7",
        ".password": MASK,
        ".note": f"token={MASK}",
        ".tags.0": "1",
        ".tags.1": "2",
        "body_bytes": str(len(BODY)),
        "kind": "send",
        "worker": "w1",
        "attempts": "3",
        "priority": "0",
        "enqueued_hour": "2026-11-27 09:00",
        "ended_hour": "2026-11-27 11:00",
    }
    assert isinstance(attributes[".customer.id"], Number) and isinstance(attributes["attempts"], Number)


def test_a_field_that_a_job_lacks_is_no_attribute() -> None:
    job = Job(b"a", "mail", "native", "ready", State.READY, b"a")
    assert read_attributes(job) == {"body_bytes": "0", "attempts": "0", "priority": "0"}
    assert "enqueued_hour" in read_attributes(replace(job, enqueued_ms=10**17))


def test_the_values_of_a_path_are_those_that_a_filter_compares() -> None:
    assert list_group_values(JOB, ".customer.id", NOW_MS) == ["7"]
    assert list_group_values(JOB, ".tags", NOW_MS) == ["[1, 2]"] and list_group_values(JOB, ".tags.1", NOW_MS) == ["2"]
    assert list_group_values(JOB, ".nothing", NOW_MS) == []
    several = replace(JOB, body=b'{"items":[{"sku":"a"},{"sku":"b"},{"sku":"a"}]}', body_bytes=47)
    assert list_group_values(several, ".items.sku", NOW_MS) == ["a", "b"]


def test_a_body_that_was_not_read_whole_has_unknown_values() -> None:
    assert list_group_values(replace(JOB, body_bytes=9000), ".tenant", NOW_MS) is None


def test_masked_values_stay_masked_unless_they_are_revealed() -> None:
    assert list_group_values(JOB, ".password", NOW_MS) == [MASK]
    assert list_group_values(JOB, ".note", NOW_MS) == [f"token={MASK}"]
    with reveal_secrets():
        assert list_group_values(JOB, ".password", NOW_MS) == ["hunter2"]


def test_jobs_have_a_kind_a_worker_a_cause_and_an_age() -> None:
    for field, values in (("kind", ["send"]), ("worker", ["w1"]), ("error", ["CardDeclined"])):
        assert list_group_values(JOB, field, NOW_MS) == values
    assert list_group_values(JOB, "age", NOW_MS) == ["1 to 10 minutes"]
    bare = replace(JOB, name="", worker="", error="", since_ms=None, enqueued_ms=None)
    assert [list_group_values(bare, field, NOW_MS) for field in ("kind", "worker", "error", "age")] == [
        [],
        [],
        [],
        None,
    ]


def test_a_job_has_the_host_of_its_worker_and_a_worker_of_an_unknown_host_gives_an_unknown_value() -> None:
    hosts = {"w1": "box"}

    def find_host(worker: str) -> str:
        return hosts.get(worker, "")

    assert list_group_values(JOB, "host", NOW_MS, find_host) == ["box"]
    assert list_group_values(replace(JOB, worker=""), "host", NOW_MS, find_host) == []
    assert list_group_values(replace(JOB, worker="w2"), "host", NOW_MS, find_host) is None


def test_ages_are_named_by_their_range() -> None:
    names = [name_age(age_ms) for age_ms in (0, 59_999, 60_000, 3_600_000, 604_799_999, 604_800_000)]
    assert names == ["under 1 minute"] * 2 + ["1 to 10 minutes", "1 to 6 hours", "1 to 7 days", "7 days or more"]


def test_only_paths_and_five_facts_group_jobs() -> None:
    assert all(map(is_group_field, ("kind", "worker", "host", "error", "age", ".a", ".a.b")))
    assert not any(map(is_group_field, ("", ".", "tenant", "attempts")))


def test_the_times_of_a_job_depend_on_its_state() -> None:
    done = replace(JOB, state=State.DONE, since_ms=5_000, reserved_ms=2_000)
    assert (find_end_ms(done), compute_run_ms(done), find_start_ms(done)) == (5_000, 3_000, 5_000)
    assert find_end_ms(replace(done, reserved_ms=None)) is None, "it may be the time at which the job is deleted"
    assert compute_run_ms(replace(done, ran_ms=7)) == 7 and find_end_ms(replace(done, ended_ms=9)) == 9
    assert find_start_ms(replace(JOB, state=State.RESERVED, reserved_ms=8)) == 8
    assert find_start_ms(replace(JOB, state=State.SCHEDULED)) == JOB.enqueued_ms
    assert find_end_ms(replace(JOB, state=State.READY)) is None and compute_run_ms(JOB) is None


def test_a_run_that_ended_before_it_began_by_another_clock_took_no_time() -> None:
    run = Job(b"a", "mail", "native", "done", State.DONE, b"a", reserved_ms=1_000)
    times = [compute_run_ms(replace(run, ended_ms=ended_ms)) for ended_ms in (900, 999, 1_000, 1_001, 1_500)]
    assert times == [0, 0, 0, 1, 500]


def test_the_oldest_job_of_a_group_is_from_the_past() -> None:
    def count(*ages_ms: int) -> int | None:
        totals = groups._Totals()
        for age_ms in ages_ms:
            totals.add_job(Job(b"a", "mail", "native", "ready", State.READY, b"a", since_ms=9_000 - age_ms), 9_000)
        assert totals.jobs == totals.by_place.get("ready", 0) == len(ages_ms)
        return totals.oldest_ms

    ages = [count(*each) for each in ((), (-500,), (-1,), (0,), (1,), (5, 7, 3), (-5, 4))]
    assert ages == [None, 0, 0, 0, 1, 7, 4]
