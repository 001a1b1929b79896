"""Parts of the base classes of systems where one number is at a bound."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import Bare

from rqtui.errors import ScriptError
from rqtui.model import Job, MigrationTerms, Place, State
from rqtui.scripts.script import Reply
from rqtui.system_base import guarded_system
from rqtui.system_base.entries import HEAD_BYTES
from rqtui.system_base.option_values import accept_whole_number
from rqtui.system_base.record_sample import RecordSample
from rqtui.system_base.system import find_late_place
from rqtui.systems import registry

JOB = Job(b"a", "mail", "arq", "complete", State.DONE, b"a", body=b"12345")


@pytest.mark.parametrize(("body_bytes", "is_shown"), [(-1, True), (0, False), (4, False), (5, True), (6, True)])
def test_a_page_of_records_has_bodies_up_to_the_requested_length(body_bytes: int, *, is_shown: bool) -> None:
    system: Any = registry.create_system("arq")
    jobs = [JOB, replace(JOB, id=b"b", body=None), replace(JOB, id=b"c", body=b"")]
    counted = SimpleNamespace(number=3, is_exact=True)
    system.record_sample = SimpleNamespace(list_jobs=lambda *_: jobs, count=lambda *_: counted)
    page = system._build_record_page("mail", "complete", 0, 9, body_bytes)
    assert [job.body for job in page.jobs] == [b"12345" if is_shown else None, None, b""]


@pytest.mark.parametrize(("left_ms", "expires_ms"), [(-2, None), (-1, None), (0, 1_000), (1, 1_001)])
def test_a_record_without_expiry_has_no_time_of_deletion(left_ms: int, expires_ms: int | None) -> None:
    system: Any = registry.create_system("arq")
    steps: list[Any] = []
    system.record_sample = SimpleNamespace(apply_step=lambda _request, found, *_: steps.extend(found))
    values = {"now_ms": 1_000, "cursor": "0", "passed": 1, "keys": 1}
    columns = ("id", "left_ms", "size", "record")
    system._apply_step(None, Reply("", values=values, rows=[(b"a", left_ms, 5, b"")], columns=columns))
    assert [found.expires_ms for found in steps] == [expires_ms]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_member_of_a_set_that_is_longer_than_its_head_has_a_digest_as_id(more: int) -> None:
    system: Any = registry.create_system("timeout_sets")
    size = HEAD_BYTES + more
    columns = ("head", "size", "tail", "lock_ms", "lock", "late_ms")
    row = (b"x" * min(size, HEAD_BYTES), size, b"x" * 64, -2, b"", -1)
    request = system.page_request("todos", "todos", 0, 5, 0)
    reply = Reply("", values={"now_ms": 1, "of": 1, "cursor": "0"}, rows=[row], columns=columns)
    [job] = request.parse([reply]).jobs
    assert len(job.id) == (12 if more > 0 else size)
    assert [each is not None for each in system._samples["todos", "todos"].members.values()] == [more > 0]


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [("1", False), ("2", True), ("3", True), ("4", False), ("-2", False), ("", False), ("2.0", False)],
)
def test_a_whole_number_of_an_option_is_within_both_limits(text: str, *, is_valid: bool) -> None:
    assert bool(accept_whole_number(2, 3, "seconds").accepts(text)) is is_valid


@pytest.mark.parametrize(("number", "is_found"), [(0, False), (1, False), (2, True), (3, True)])
def test_only_the_last_of_several_places_of_leased_jobs_is_the_late_one(number: int, *, is_found: bool) -> None:
    places = [Place(f"p{at}", State.RESERVED, "<queue>", "list", where="time") for at in range(number)]
    others = [Place("p9", State.READY, "<queue>", "list", where="time"), Place("p8", State.RESERVED, "<queue>", "list")]
    assert find_late_place([*places, *others]) == (places[-1] if is_found else None)


@pytest.mark.parametrize(("size", "is_typed"), [(199, True), (200, True), (201, False)])
def test_the_remedy_of_a_finding_has_an_id_unless_it_is_too_long(size: int, *, is_typed: bool) -> None:
    system: Any = registry.create_system("safe_pop:queue=mail")
    kind = next(kind for kind, texts in system.finding_texts.items() if "{id}" in texts.remedy)
    columns = ("kind", "key", "id", "number", "other", "seconds", "since_ms", "name")
    row = (kind, b"", b"x" * size, 1, 1, 1, 1, "mail")
    [finding] = system._parse_findings("mail", Reply("", values={"now_ms": 1}, rows=[row], columns=columns))
    assert ("x" * size in finding.remedy) is is_typed and (" ID" in finding.remedy) is not is_typed


@pytest.mark.parametrize(("state", "attempts", "failed"), [
    (State.READY, 0, 0), (State.READY, 2, 2), (State.RESERVED, 0, 0), (State.RESERVED, 1, 0), (State.RESERVED, 2, 1),
])  # fmt: skip
def test_the_present_run_of_a_migrated_job_is_not_one_that_failed(state: State, attempts: int, failed: int) -> None:
    job = replace(JOB, state=state, attempts=attempts, max_attempts=5)
    assert registry.create_system("native").migration_terms(job) == MigrationTerms(failed, 5)


def test_the_events_of_a_system_whose_requests_fail_are_not_requested(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> list[Any]:
        raise ScriptError("a mistake")

    caplog.set_level(logging.INFO, "rqtui")
    guarded: Any = Bare(guarded_system._Guard, build_requests=lambda _name, function: function())
    assert guarded.build_event_requests(fail) == [] and caplog.messages == ["a mistake"]
    assert guarded.build_event_requests(lambda: ["asked"]) == ["asked"]


def test_the_record_of_a_deleted_job_leaves_the_sample() -> None:
    sample = RecordSample(records={b"a": Any, b"b": Any})  # type: ignore[dict-item]
    for _ in range(2):
        sample.drop_record(b"a")
        assert [*sample.records] == [b"b"]
