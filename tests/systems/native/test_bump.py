"""`bump`: a ready job becomes the next one to run."""

from __future__ import annotations

from native_jobs import (
    HOUR,
    NOW,
    PRIORITY,
    build_key,
    enqueue_ids,
    list_ids,
    read_facts,
    read_meta,
    read_outcomes,
    reserve_one,
    run_script,
)
from redis import Redis
from shell import shell

from rqtui.client import Queue


def test_a_bumped_job_is_the_next_one_to_run_whatever_the_priorities(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b", b"c")
    enqueue_ids(any_client, b"urgent", priority=-4096)
    assert read_outcomes(run_script(any_client, "bump", [(b"c",)])) == ["changed"]
    assert list_ids(any_client, "ready") == [b"c", b"urgent", b"a", b"b"]
    assert reserve_one(any_client)[0] == b"c"
    assert read_meta(any_client, "bumped") == 1


def test_bumped_jobs_run_in_the_order_in_which_they_were_named(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b", b"c", b"d")
    assert read_outcomes(run_script(any_client, "bump", [(b"d",), (b"b",), (b"d",)])) == ["changed"] * 3
    assert list_ids(any_client, "ready") == [b"d", b"b", b"a", b"c"]
    run_script(any_client, "bump", [(b"c",)])
    assert list_ids(any_client, "ready") == [b"c", b"d", b"b", b"a"]


def test_a_released_job_comes_back_to_the_front_and_a_retried_one_has_its_own_priority_again(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b")
    enqueue_ids(any_client, b"c", priority=7)
    run_script(any_client, "bump", [(b"c",)])
    id, token = reserve_one(any_client)
    run_script(any_client, "release", [(id, token)])
    assert list_ids(any_client, "ready") == [b"c", b"a", b"b"]
    run_script(any_client, "reject", [(*reserve_one(any_client), b"")], delay_ms=0)
    run_script(any_client, "dispatch", limit=1)
    assert list_ids(any_client, "ready") == [b"a", b"b", b"c"]
    assert int(any_client.zscore(build_key("ready"), b"c")) // PRIORITY == 7


def test_bump_takes_nothing_but_ready_jobs(any_client: Redis) -> None:
    enqueue_ids(any_client, b"held")
    reserve_one(any_client)
    enqueue_ids(any_client, b"later", delay_ms=HOUR)
    before = [read_facts(any_client, id) for id in (b"held", b"later")]
    answer = run_script(any_client, "bump", [(b"held",), (b"later",), (b"nobody",)])
    assert read_outcomes(answer) == ["wrong_place", "wrong_place", "gone"]
    assert [each.values.get("place") for each in answer.each] == ["reserved", "scheduled", None]
    assert [read_facts(any_client, id) for id in (b"held", b"later")] == before


def test_scores_that_another_program_wrote_do_not_stop_a_bump(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b")
    any_client.zadd(build_key("ready"), {b"lost": "-inf", b"never": "+inf"})
    run_script(any_client, "bump", [(b"b",)])
    assert list_ids(any_client, "ready") == [b"lost", b"b", b"a", b"never"]
    any_client.zrem(build_key("ready"), b"a", b"b", b"lost")
    enqueue_ids(any_client, b"c", now_ms=NOW)
    run_script(any_client, "bump", [(b"never",)])
    assert list_ids(any_client, "ready") == [b"never", b"c"]


def test_a_worker_takes_the_job_first_that_the_shell_bumped(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    for id in ("first", "second", "this customer"):
        queue.put(id, id=id)
    assert shell(url, "act", "bump", "mail", "this customer", "--json").json["moved"] == 1
    assert [job.id for job in queue.reserve()] == ["this customer"]
