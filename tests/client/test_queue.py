"""The Python API: putting, taking, settling; bad input; and what a lost connection does not lose."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import ModuleType
from typing import Any
from uuid import RFC_4122, UUID

import pytest
from aging import move_queue_into_past
from families import run_in_one_test
from proxy import Proxy
from queue_check import find_misplaced_jobs
from redis import Redis
from versions import is_server_older
from waiting import wait_until

import rqtui.client
from rqtui.client.durability import send_call_durably
from rqtui.client.leased_job import format_error_text
from rqtui.client.queue import BYTES, JSON, MSGPACK, Queue
from rqtui.coroutines import run_without_event_loop
from rqtui.errors import CodecError, Refused, ServerError, Unreachable, UsageError, WrongType
from rqtui.ids import DIGITS, create_job_id, create_job_ids
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call, Reply
from rqtui.testing.keyspace import diff, dump


def counts(queue: Queue) -> dict[str, int]:
    """Return the number of jobs in each place that is not empty."""
    places = ("scheduled", "ready", "reserved", "done", "dead")
    return {place: count for place, count in queue.counts().items() if place in places and count}


@pytest.mark.parametrize("module", [rqtui, rqtui.client], ids=lambda module: module.__name__)
def test_a_module_that_imports_its_names_on_first_use_offers_no_others(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"^module '{module.__name__}' has no attribute 'json'$"):
        module.json  # noqa: B018


# Putting


def test_a_put_job_is_reserved_with_its_body_name_and_id(queue: Queue) -> None:
    put = queue.put({"to": "a@b.c"}, id="welcome:42", name="send invoice")
    assert (put.id, put.word) == ("welcome:42", "moved")
    [job] = queue.reserve(ttr=60, worker="me")
    assert (job.id, job.name, job.body, job.attempt) == ("welcome:42", "send invoice", {"to": "a@b.c"}, 1)
    assert job.raw == b'{"to":"a@b.c"}'
    assert job.ttr_ms == 60_000
    assert not job.lost


def test_an_id_is_put_once_in_whatever_state_it_is(queue: Queue) -> None:
    assert queue.put(1, id="a").word == "moved"
    assert queue.put(2, id="a").word == "exists"
    [job] = queue.reserve()
    assert queue.put(3, id="a").word == "exists"
    assert job.body == 1


def test_an_id_of_ours_has_22_letters_and_sorts_by_time() -> None:
    ids = [one for _ in range(3) for one in create_job_ids(5000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {len(one) for one in ids} == {22}
    for one in ids[::97]:  # a uuid7: RFC 9562, 5.7
        high, low = (
            sum(62**at * DIGITS.index(letter) for at, letter in enumerate(reversed(half)))
            for half in (one[:11], one[11:])
        )
        uuid = UUID(int=high << 64 | low)
        assert (uuid.version, uuid.variant) == (7, RFC_4122) and abs((high >> 16) / 1000 - time.time()) < 60


def test_ids_made_one_by_one_sort_by_time_and_share_nothing_with_those_of_a_forked_process() -> None:
    ids = [create_job_id() for _ in range(3000)]
    assert len({one[-8:] for one in ids}) == len(ids) and {len(one) for one in ids} == {22}
    assert [one[:11] for one in ids] == sorted(one[:11] for one in ids)
    with ThreadPoolExecutor(8) as threads:
        assert len({one[-8:] for one in threads.map(lambda _: create_job_id(), range(5000))}) == 5000
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        theirs.sendall("".join(create_job_id()[-8:] for _ in range(50)).encode())
        os._exit(0)
    theirs.close()
    drawn = b""
    while found := ours.recv(1000):
        drawn += found
    ours.close()
    os.waitpid(child, 0)
    assert len(drawn) == 400
    assert not {drawn[at : at + 8].decode() for at in range(0, 400, 8)} & {create_job_id()[-8:] for _ in range(1000)}


@pytest.mark.parametrize("size", [0, 4096, 4097, 300_000])
def test_a_body_of_any_size_comes_back_as_it_was(queue: Queue, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"\n" * (size % 256)
    queue.put(body)
    [job] = queue.reserve()
    assert job.raw == body


def test_options_become_columns_of_the_record(queue: Queue, client: Redis) -> None:
    due = datetime(2030, 1, 1, tzinfo=UTC)
    queue.put("x", id="a", name="n", due=due, priority=-5, ttr="2m", max_attempts=3, backoff="2s..1h", keep="1d")
    record = client.hget("rqtui:{mail}:jobs", "a")
    assert record is not None
    header = record.split(b"\n")[0].split(b" ", 1)[1]
    assert header == b"1893456000000 -5 120000 3 2000 3600000 86400000 - n"


def test_a_delayed_job_waits_in_scheduled(queue: Queue) -> None:
    queue.put("x", delay="1h")
    assert counts(queue) == {"scheduled": 1}
    assert queue.reserve() == []


def test_priorities_come_first_and_equals_in_the_order_of_arrival(queue: Queue) -> None:
    for id, priority in (("c", 5), ("a", -5), ("d", 5), ("b", 0)):
        queue.put(0, id=id, priority=priority)
    assert [job.id for job in queue.reserve(4)] == ["a", "b", "c", "d"]


def test_many_are_put_in_batches_and_answered_in_order(queue: Queue) -> None:
    queue.put(0, id="5")
    puts = queue.put_many(({"body": n, "id": str(n)} for n in range(2500)), name="n", priority=1)
    assert [put.id for put in puts] == [str(n) for n in range(2500)]
    assert [put.id for put in puts if put.word == "exists"] == ["5"]
    assert counts(queue) == {"ready": 2500}
    assert {job.name for job in queue.reserve(1000)} == {"n", ""}


def test_an_item_of_many_is_a_body_or_a_dict_that_describes_a_job(queue: Queue) -> None:
    puts = queue.put_many(["text", b"raw", 7, {"body": {"a": 1}, "name": "dict", "delay": 60}])
    assert len({put.id for put in puts}) == 4
    assert [job.raw for job in queue.reserve(10)] == [b'"text"', b"raw", b"7"]
    assert counts(queue) == {"reserved": 3, "scheduled": 1}


def test_large_bodies_make_small_batches(queue: Queue, client: Redis) -> None:
    before = client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
    queue.put_many([b"x" * 1_500_000] * 6)
    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] - before >= 2
    assert counts(queue) == {"ready": 6}


def test_the_name_of_a_queue_is_on_the_list_after_the_first_put(queue: Queue, client: Redis) -> None:
    assert client.smembers("rqtui:queues") == set()
    queue.put(1)
    assert client.smembers("rqtui:queues") == {b"mail"}


@run_in_one_test(
    "name",
    ["", "a b", "a{b", "a}b", "a\tb", "a\nb", "a\x00b", "a\x7fb", "x" * 201, "ü" * 101, "a\u00a0b", "a\ud800", 7],
)
def test_a_name_that_is_none_is_refused_with_a_sentence(kind: Any, name: Any) -> None:
    with pytest.raises(UsageError, match="name"):
        kind(name)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delay": -1}, "negative"),
        ({"delay": float("nan")}, "nan"),
        ({"delay": 1e30}, "100 years"),
        ({"delay": "soon"}, "500ms"),
        ({"delay": 1, "due": 1}, "exclude"),
        ({"due": datetime(2030, 1, 1)}, "time zone"),
        ({"due": -1}, "1970"),
        ({"priority": 1.5}, "whole number"),
        ({"priority": float("nan")}, "whole number"),
        ({"priority": 5000}, "4095"),
        ({"priority": True}, "whole number"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": "3"}, "max_attempts"),
        ({"ttr": 0}, "ttr_ms"),
        ({"ttr": "2000d"}, "ttr_ms"),
        ({"backoff": "1h..1s"}, "shorter"),
        ({"keep": "-1s"}, "keep"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 300}, "name"),
        ({"name": 7}, "name"),
        ({"id": ""}, "1 to 512"),
        ({"id": "x" * 2_000_000}, "1 to 512"),
        ({"id": 7}, "text or bytes"),
        ({"id": "\ud800"}, "UTF-8"),
    ],
)
def test_a_bad_option_is_refused_and_nothing_is_written(
    queue: Queue, client: Redis, options: dict[str, Any], says: str
) -> None:
    before = dump(client)
    with pytest.raises((UsageError, Refused), match=says):
        queue.put("x", **options)
    with pytest.raises((UsageError, Refused), match=says):
        queue.put_many([1, {"body": "x", **options}])
    assert diff(before, dump(client)) == []


def test_a_dict_without_a_body_or_with_an_unknown_option_is_refused_and_numbered(queue: Queue, client: Redis) -> None:
    with pytest.raises(UsageError, match="Job 2"):
        queue.put_many([1, {"to": "a@b.c"}])
    with pytest.raises(UsageError, match="'colour'"):
        queue.put_many([{"body": 1, "colour": "red"}])
    assert client.dbsize() == 0


def test_a_key_of_another_program_is_named_and_left_alone(queue: Queue, client: Redis) -> None:
    client.set("rqtui:{mail}:ready", "mine")
    with pytest.raises(WrongType, match=r"rqtui:\{mail\}:ready holds a string, not a zset"):
        queue.put(1)
    assert client.get("rqtui:{mail}:ready") == b"mine"
    assert client.keys() == [b"rqtui:{mail}:ready"]


# Codecs


@run_in_one_test("codec", [JSON, MSGPACK])
@run_in_one_test("body", [None, True, 7, "grüße", [1, [2]], {"a": {"b": 1.5}}])
def test_a_body_survives_its_codec(codec: Any, body: Any) -> None:
    assert codec.decode(codec.encode(body)) == body


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@run_in_one_test(
    "body",
    [{}, [], {"a": [1, -2.5, 1e300, 'ü\u2028"\\', None, True], "b": {}}, (1, 2), {7: 2, None: 3, True: 4, 2.5: 5}],
)
def test_json_is_what_the_library_makes_of_it(body: Any) -> None:
    assert JSON.encode(body) == json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("codec", [JSON, MSGPACK, BYTES])
def test_bytes_pass_any_codec_as_they_are(codec: Any) -> None:
    assert codec.encode(b"\x00\xff") == b"\x00\xff"


@pytest.mark.parametrize(
    ("codec", "body"),
    [(JSON, {1, 2}), (JSON, float("nan")), (JSON, "\ud800"), (JSON, CIRCLE), (MSGPACK, {1}), (BYTES, "x")],
)
def test_a_body_that_a_codec_cannot_hold_gets_a_sentence(codec: Any, body: Any) -> None:
    with pytest.raises(CodecError, match=f"{codec.name} cannot encode"):
        codec.encode(body)


def test_a_body_that_is_no_json_is_found_where_a_search_requests_it(queue: Queue) -> None:
    queue.put(b"\xff")
    [job] = queue.reserve()
    assert job.raw == b"\xff"
    with pytest.raises(CodecError, match="is not JSON"):
        _ = job.body


def test_a_client_of_the_callers_own_lends_its_server_not_its_options(kind: Any, client: Redis, url: str) -> None:
    with Redis.from_url(url, decode_responses=True, protocol=3) as theirs, kind("mail", theirs) as queue:
        queue.put({"a": 1}, id="a")
        assert [job.body for job in queue.reserve()] == [{"a": 1}]
        assert theirs.ping()


def test_a_value_that_is_no_client_is_refused_with_a_sentence(kind: Any) -> None:
    with pytest.raises(UsageError, match=r"redis\.Redis"):
        kind("mail", object())  # type: ignore[arg-type]


# Settling


def test_an_ack_ends_a_job_and_a_second_one_gets_the_reply_gone(queue: Queue, client: Redis) -> None:
    queue.put(1)
    [job] = queue.reserve()
    assert job.ack() == "moved"
    assert job.outcome == "moved"
    assert counts(queue) == {}
    assert job.ack() == "gone"


def test_a_kept_job_answers_done_to_its_own_late_second_ack(queue: Queue) -> None:
    queue.put(1, keep="1h")
    [job] = queue.reserve()
    assert (job.ack(), job.ack()) == ("moved", "done")


def test_a_late_worker_changes_nothing(queue: Queue, client: Redis) -> None:
    queue.put(1, ttr=1)
    [late] = queue.reserve()
    move_queue_into_past(client, "mail", 2000)
    queue._run_verb("reap", {"limit": 10})
    [owner] = queue.reserve()
    before = dump(client)
    assert [late.ack(), late.reject("x"), late.release(), late.extend()] == ["stale"] * 4
    assert diff(before, dump(client)) == []
    assert owner.attempt == 2
    assert owner.ack() == "moved"


def test_a_rejected_job_waits_for_its_backoff_and_keeps_its_error(queue: Queue, client: Redis) -> None:
    queue.put(1, id="a", backoff="10s")
    [job] = queue.reserve(worker="me")
    assert job.reject("no such mailbox") == "moved"
    assert counts(queue) == {"scheduled": 1}
    [(_start, _end, worker, error)] = json.loads(client.hget("rqtui:{mail}:errors", "a") or b"")
    assert (worker, error) == ("me", "no such mailbox")


def test_a_final_rejection_and_a_used_up_job_are_dead(queue: Queue) -> None:
    queue.put_many([{"body": 1}, {"body": 2, "max_attempts": 1}])
    first, second = queue.reserve(2)
    first.reject(ValueError("bad"), final=True)
    second.reject("worse")
    assert counts(queue) == {"dead": 2}


def test_a_released_job_gives_its_attempt_back(queue: Queue) -> None:
    queue.put(1)
    [job] = queue.reserve()
    assert job.release() == "moved"
    [job] = queue.reserve()
    assert job.attempt == 1
    assert job.release(delay="1h") == "moved"
    assert counts(queue) == {"scheduled": 1}


def test_extend_moves_the_deadline_and_learns_of_a_cancellation(queue: Queue, client: Redis) -> None:
    queue.put(1, id="a")
    [job] = queue.reserve(ttr=10)
    assert job.extend(ttr="1h") == "extended"
    score = client.zscore("rqtui:{mail}:reserved", "a")
    assert score is not None
    assert score > time.time() * 1000 + 3_000_000
    assert queue.cancel("a") == "asked"
    assert not job.cancelled
    assert job.extend() == "cancelled"
    assert job.cancelled


def test_a_lease_that_is_over_by_the_clock_is_lost(queue: Queue) -> None:
    queue.put(1)
    [job] = queue.reserve(ttr="50ms")
    assert not job.lost
    wait_until(lambda: job.lost, 1)


@pytest.mark.parametrize(
    ("word", "settling", "outcome", "lost", "cancelled"),
    [
        ("stale", False, "", True, False), ("gone", False, "", True, False), ("cancelled", False, "", False, True),
        ("stale", True, "", False, False), ("stale", False, "sent", False, False),
        ("cancelled", True, "", False, False),
        ("cancelled", False, "moved", False, False),
    ],
)  # fmt: skip
def test_the_reply_to_an_extend_counts_while_the_job_is_open(
    queue: Queue, word: str, settling: bool, outcome: str, lost: bool, cancelled: bool
) -> None:
    queue.put(1, id="a")
    (job,) = queue.reserve(ttr="1h")
    job.settling, job.outcome = settling, outcome
    job.apply_extend_reply(word, 0.0, 1)
    job.outcome = ""  # for what is settled nothing is lost
    assert (job.lost, job.cancelled) == (lost, cancelled)


def test_push_moves_a_job_to_another_queue_under_the_same_id(kind: Any, queue: Queue, url: str) -> None:
    with kind("later", url) as later:
        queue.put({"n": 1}, id="a", name="kind")
        [job] = queue.reserve()
        assert job.push(later, delay="1h") == "moved"
        assert counts(queue) == {}
        assert counts(later) == {"scheduled": 1}
        later.promote("a")
        [pushed] = later.reserve()
        assert (pushed.id, pushed.name, pushed.body) == ("a", "kind", {"n": 1})


def test_a_pulled_job_has_left_and_cannot_be_settled(queue: Queue) -> None:
    queue.put_many(["a", "b", "c"])
    pulled = queue.pull(2)
    assert [job.body for job in pulled] == ["a", "b"]
    assert {(job.token, job.attempt, job.max_attempts, job.ttr_ms) for job in pulled} == {("", 0, 0, 0)}
    assert counts(queue) == {"ready": 1}
    with pytest.raises(UsageError, match="pulled"):
        pulled[0].ack()
    with pulled[1]:
        pass


SETTLED: dict[str, Callable[[Any, Any], object]] = {  # each way to end or extend a lease, of both kinds of jobs
    "ack": lambda job, _other: job.ack(),
    "reject": lambda job, _other: job.reject("boom"),
    "release": lambda job, _other: job.release(),
    "extend": lambda job, _other: job.extend(),
    "push": lambda job, other: job.push(other),
    "settle later": lambda job, _other: job.settle_later("ack"),
}


@pytest.mark.parametrize("way", SETTLED)
def test_a_job_without_a_lease_is_refused_and_nothing_is_written(
    kind: Any, queue: Queue, client: Redis, url: str, way: str
) -> None:
    queue.put("a", id="a")
    [pulled] = queue.pull()
    before = dump(client)
    with kind("later", url) as other, pytest.raises(UsageError, match="was pulled, so it left the queue"):
        SETTLED[way](pulled, other)
    assert dump(client) == before


def test_many_are_acked_in_one_call_and_answer_a_word_each(queue: Queue) -> None:
    queue.put_many(range(1500))
    jobs = queue.reserve(1000) + queue.reserve(500)
    jobs[3].ack()
    words = queue.ack_many(jobs)
    assert words.count("moved") == 1499
    assert words[3] == "gone"
    assert queue.ack_many([]) == []


def test_verbs_by_id_answer_their_words(queue: Queue) -> None:
    queue.put(1, id="a", delay="1h")
    assert queue.promote("a") == "moved"
    assert queue.promote("a") == "wrong_place"
    assert queue.reprioritise("a", -3) == "changed"
    assert queue.reschedule("a", delay="2h") == "moved"
    assert queue.kill("a", "because") == "moved"
    assert queue.requeue("a") == "moved"
    [job] = queue.reserve()
    assert queue.delete("a") == "reserved"
    assert queue.delete("a", force=True) == "moved"
    assert queue.delete("a") == "gone"
    assert job.ack() == "gone"


def test_pause_resume_and_configure(queue: Queue) -> None:
    queue.put(1)
    assert (queue.pause(), queue.pause()) == ("paused", "already")
    assert queue.reserve() == []
    assert queue.resume() == "resumed"
    queue.configure(ttr_ms=5000)
    assert queue.reserve()[0].ttr_ms == 5000
    queue.configure(ttr_ms=None)
    with pytest.raises(Refused, match="colour"):
        queue.configure(colour=1)


# The `with` block


def test_leaving_the_block_acks(queue: Queue) -> None:
    queue.put(1)
    [job] = queue.reserve()
    with job as same:
        assert same is job
    assert job.outcome == "moved"
    assert counts(queue) == {}


def test_an_exception_in_the_block_rejects_with_its_traceback_and_the_loop_continues(
    queue: Queue, client: Redis
) -> None:
    queue.put_many([{"body": 1, "id": "a"}, {"body": 2, "id": "b"}])
    seen = []
    for job in queue.consume(burst=True):
        with job:
            seen.append(job.id)
            if job.id == "a":
                raise ValueError("the mailbox is full")
    assert seen == ["a", "b"]
    assert counts(queue) == {"scheduled": 1}
    [(*_, error)] = json.loads(client.hget("rqtui:{mail}:errors", "a") or b"")
    assert error.startswith("Traceback")
    assert error.endswith("ValueError: the mailbox is full")
    assert __file__ in error


def test_an_interrupt_in_the_block_releases_and_passes(queue: Queue) -> None:
    queue.put(1)
    with pytest.raises(KeyboardInterrupt):
        for job in queue.consume():
            with job:
                raise KeyboardInterrupt
    assert counts(queue) == {"ready": 1}
    assert queue.reserve()[0].attempt == 1


def test_a_job_settled_inside_the_block_is_left_alone(queue: Queue) -> None:
    queue.put(1)
    for job in queue.consume(burst=True):
        with job:
            assert job.release(delay="1h") == "moved"
    assert counts(queue) == {"scheduled": 1}


def test_a_long_traceback_keeps_its_end() -> None:
    text = format_error_text("ä" * 3000 + " the reason")
    assert len(text) <= 2000
    assert text.decode().endswith(" the reason")


# Consuming


def test_a_burst_drains_what_is_ready_and_what_is_due(queue: Queue, client: Redis) -> None:
    queue.put_many(range(500))
    queue.put_many([{"body": 1, "delay": "1h"}, {"body": 2, "delay": "9h"}])
    move_queue_into_past(client, "mail", 2 * 3_600_000)
    seen = []
    for job in queue.consume(burst=True):
        with job:
            seen.append(job.body)
    assert sorted(seen) == sorted([*range(500), 1])
    assert counts(queue) == {"scheduled": 1}
    assert find_misplaced_jobs(client, "mail") == []


def test_breaking_the_loop_acks_the_last_and_gives_back_what_was_not_begun(queue: Queue, client: Redis) -> None:
    queue.put_many(range(200))
    done = 0
    for job in queue.consume():
        with job:
            done += 1
            if done == 50:
                break
    assert counts(queue) == {"ready": 150}
    assert client.hlen("rqtui:{mail}:workers") == 0
    assert {job.attempt for job in queue.reserve(150)} == {1}


def test_stopping_ends_the_loop_and_gives_back_what_was_not_begun(queue: Queue) -> None:
    queue.put_many(range(100))
    stop = threading.Event()
    done = 0
    for job in queue.consume(stop=stop):
        with job:
            done += 1
            if done == 20:
                stop.set()
    assert done == 20
    assert counts(queue) == {"ready": 80}


def test_a_job_that_is_not_settled_and_dropped_is_not_kept_alive(queue: Queue, client: Redis) -> None:
    queue.put(1, id="a")
    seen = []
    jobs = queue.consume(ttr="300ms")
    seen.append(next(jobs).attempt)  # no worker holds the job from here on
    for job in jobs:
        with job:
            seen.append(job.attempt)
        break
    jobs.close()
    assert seen == [1, 2]


def test_a_lease_is_extended_while_its_job_runs(queue: Queue, client: Redis) -> None:
    queue.put(1, id="a")
    for job in queue.consume(ttr="3s", burst=True):
        with job:
            for _ in range(2):
                until_ms = client.zscore("rqtui:{mail}:reserved", "a")
                wait_until(lambda before=until_ms: client.zscore("rqtui:{mail}:reserved", "a") > before)
                queue._run_verb("reap", {"limit": 10})
                assert counts(queue) == {"reserved": 1}
            assert not job.lost
    assert counts(queue) == {}
    assert client.hget("rqtui:{mail}:meta", "expired") is None


def test_a_handler_learns_that_its_job_was_cancelled(queue: Queue) -> None:
    queue.put(1, id="a")
    for job in queue.consume(ttr="300ms", burst=True):
        with job:
            assert queue.cancel("a") == "asked"
            wait_until(lambda job=job: job.cancelled, 2)
            raise RuntimeError("stopped as asked")
    assert counts(queue) == {"dead": 1}


def test_a_handler_learns_that_its_lease_is_lost_and_its_late_ack_counts_nothing(queue: Queue) -> None:
    queue.put(1, id="a")
    for job in queue.consume(ttr="300ms", burst=True):
        with job:
            assert queue.kill("a", force=True) == "moved"
            wait_until(lambda job=job: job.lost, 2)
    assert counts(queue) == {"dead": 1}
    assert job.outcome == "stale"


def test_jobs_that_wait_behind_a_slow_job_are_given_back(queue: Queue) -> None:
    queue.put_many(range(200))
    began = time.monotonic()
    for number, job in enumerate(queue.consume()):
        with job:
            if number == 100:  # by now it claims many at once
                wait_until(lambda: queue.counts()["reserved"] == 1, 5, "the rest was given back")
                break
    assert time.monotonic() - began > 0.9
    assert counts(queue) == {"ready": 99}


def test_slow_jobs_are_claimed_one_by_one(queue: Queue) -> None:
    queue.put_many(range(6))
    held = []
    for job in queue.consume(burst=True):
        with job:
            time.sleep(0.12)
            held.append(queue.counts()["reserved"])
    assert max(held) <= 2


def test_an_ack_is_not_deferred_for_long(queue: Queue) -> None:
    queue.put_many(range(2))
    for number, job in enumerate(queue.consume(burst=True)):
        with job:
            if number == 1:
                wait_until(lambda: queue.counts()["acked"] == 1, 1, "the first ack")


def test_a_worker_is_listed_while_it_consumes(queue: Queue, client: Redis) -> None:
    queue.put(1, id="a")
    for job in queue.consume(worker="w1", burst=True):
        with job:
            line = wait_until(lambda: client.hget("rqtui:{mail}:workers", "w1"), 2)
            assert b" run " in line
    assert client.hlen("rqtui:{mail}:workers") == 0


@pytest.mark.parametrize(
    "options", [{"batch": 0}, {"batch": 1001}, {"batch": "x"}, {"worker": "a\nb"}, {"worker": "x" * 300}, {"ttr": -1}]
)
def test_a_bad_option_of_a_consumer_is_refused_at_once(queue: Queue, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        queue.consume(**options)


def test_a_batch_is_as_large_as_the_scripts_take_it(queue: Queue) -> None:
    queue.put(1)
    assert [job.body for job in queue.consume(batch=1000, burst=True)] == [1]


def test_a_name_that_is_none_is_shown_up_to_60_letters(kind: Any, url: str) -> None:
    for name, shown in (("a b" + "x" * 57, "a b" + "x" * 57), ("a b" + "x" * 58, "a b" + "x" * 54 + "…")):
        with pytest.raises(UsageError) as error:
            kind(name, url)
        assert str(error.value).startswith(f"{ascii(shown)} is no queue name")


@pytest.mark.slow
def test_several_threads_share_a_queue_and_each_job_runs_once(queue: Queue, client: Redis) -> None:
    queue.put_many(range(3000))
    seen: list[int] = []

    def consume() -> None:
        for job in queue.consume(burst=True):
            with job:
                seen.append(job.body)

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(3000))
    assert find_misplaced_jobs(client, "mail") == []


# Redis going away


def test_an_unreachable_server_is_a_sentence(kind: Any) -> None:
    with pytest.raises(Unreachable, match="Nothing was sent"):
        kind("mail", "redis://127.0.0.1:1").put(1)


def test_a_put_whose_answer_was_lost_is_in_once(kind: Any, client: Redis, url: str) -> None:
    with Proxy(url) as proxy, kind("mail", proxy.url) as queue:
        queue.put(0)
        proxy.fail("lose reply", "EVAL")
        assert queue.put(1, id="a").word == "exists"
        proxy.fail("lose reply", "EVAL")
        assert queue.put(2).word == "moved"
        proxy.fail("lose reply", "EVAL")
        assert [put.word for put in queue.put_many([3, 4])] == ["moved", "moved"]
        proxy.fail("lose reply", "EVAL")
        assert [put.word for put in queue.put_many([{"body": 5}, {"body": 6, "id": "b"}])] == ["exists", "exists"]
        assert counts(queue) == {"ready": 7}


def test_an_ack_whose_answer_was_lost_is_sent_again(kind: Any, client: Redis, url: str) -> None:
    with Proxy(url) as proxy, kind("mail", proxy.url) as queue:
        queue.put(1)
        seen = []
        for job in queue.consume(burst=True):
            with job:
                seen.append(job.body)
                proxy.fail("cut before", "EVAL")
        assert seen == [1]
        assert job.outcome == "moved"
        assert counts(queue) == {}


def test_a_consumer_survives_an_outage(kind: Any, client: Redis, url: str) -> None:
    with Proxy(url) as proxy, kind("mail", proxy.url) as queue, kind("mail", url) as direct:
        direct.put("before")
        seen: list[str] = []
        stop = threading.Event()

        def consume() -> None:
            for job in queue.consume(stop=stop):
                with job:
                    seen.append(job.body)

        thread = threading.Thread(target=consume)
        thread.start()
        wait_until(lambda: seen == ["before"], 5)
        proxy.refuse()
        direct.put("meanwhile")
        time.sleep(0.3)
        proxy.listen()
        wait_until(lambda: seen == ["before", "meanwhile"], 10)
        wait_until(lambda: direct.counts()["acked"] == 2, 5)
        stop.set()
        thread.join(10)
        assert not thread.is_alive()


def test_a_consumer_on_a_key_of_another_program_ends_with_a_sentence(queue: Queue, client: Redis) -> None:
    client.set("rqtui:{mail}:meta", "mine")
    with pytest.raises(WrongType, match="meta"):
        next(queue.consume())


def test_a_consumer_without_a_server_tries_again_after_a_second(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "rqtui")
    stop = threading.Event()

    def list_messages() -> list[str]:
        return [words for words in caplog.messages if words.startswith("queue lonely:")]

    with kind("lonely", "redis://127.0.0.1:1") as queue:
        thread = threading.Thread(target=lambda: list(queue.consume(stop=stop)))
        thread.start()
        wait_until(list_messages)
        stop.set()
        thread.join(30)
    assert "Trying again in 1 s." in list_messages()[0] and not thread.is_alive()


def test_jobs_that_came_with_an_error_of_a_sweep_are_run(queue: Queue, client: Redis) -> None:
    """The dispatcher and the reaper ride along with a claim: what it took is ours, whatever they met."""
    queue.put("due soon", delay="10ms")
    queue.put("first")
    jobs = queue.consume()
    next(jobs).ack()
    time.sleep(0.05)  # until it is due
    queue.put("second")
    client.set("rqtui:{mail}:done", "mine")  # which they look at, and a claim does not
    assert next(jobs).body == "second"
    jobs.close()


# Durability


def test_a_durable_put_reports_when_nothing_but_memory_holds_the_job(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqtui.client.durability.TIMEOUT_MS", 50)
    with pytest.raises(ServerError, match="only in this server's memory"):
        queue.put(1, id="a", durable=True)
    assert counts(queue) == {"ready": 1}


@run_in_one_test(
    "has_failover, on_disk, replicas, is_safe, commands",
    [
        (False, [1, 0], 0, True, ["HSET", "WAITAOF 1 0 3000"]),
        (False, [0, 0], 1, True, ["HSET", "WAITAOF 1 0 3000", "WAIT 1 3000"]),
        (False, [0, 3], 0, False, ["HSET", "WAITAOF 1 0 3000", "WAIT 1 3000"]),
        (True, [1, 0], 0, False, ["HSET", "WAIT 1 3000"]),
        (True, [1, 0], 1, True, ["HSET", "WAIT 1 3000"]),
    ],
)
def test_a_durable_put_waits_for_one_confirmation(
    has_failover: bool, on_disk: list[int], replicas: int, is_safe: bool, commands: list[str]
) -> None:
    sent: list[str] = []

    async def execute(*words: Any) -> Any:
        sent.append("HSET" if words[0] == "HSET" else " ".join(map(str, words)))
        return {"WAITAOF": on_disk, "WAIT": replicas}.get(words[0])

    async def send(call: Call) -> Reply:
        return Reply("moved")

    keys = {key.name: key.name for key in scripts.load_scripts("native")["enqueue"].keys}
    call = scripts.load_scripts("native")["enqueue"].build_call(keys, {}, [{"id": b"a", "body": b"1"}])
    if is_safe:
        assert run_without_event_loop(send_call_durably(send, execute, call, has_failover)).word == "moved"
    else:
        with pytest.raises(
            ServerError, match="failover would lose it" if has_failover else "only in this server's memory"
        ):
            run_without_event_loop(send_call_durably(send, execute, call, has_failover))
    assert sent == commands


@pytest.mark.each_server
def test_a_durable_put_waits_for_the_append_only_file(kind: Any, server_client: Redis, tmp_path: Any) -> None:
    if is_server_older(server_client, 7, 2):
        pytest.skip("WAITAOF needs Redis 7.2")
    server_client.config_set("appendonly", "yes")
    try:
        with kind("mail", server_client) as queue:
            assert queue.put(1, id="a", durable=True).word == "moved"
            assert queue.put(1, id="a", durable=True).word == "exists"
    finally:
        server_client.config_set("appendonly", "no")
