"""Test which events are recorded, for how long, and how `rqtui events` prints them."""

from __future__ import annotations

import json
import signal
import time

import pytest
from native_jobs import NOW, build_key, enqueue_ids, run_script
from redis import Redis
from shell import shell, start_process
from waiting import wait_until

from rqtui.client.queue import Queue
from rqtui.engine.engine import build_engine
from rqtui.errors import UsageError
from rqtui.model import Ref
from rqtui.reports import events
from rqtui.reports.events import Event, Feed
from rqtui.systems import registry

MAIL = Ref("native", "mail")


def list_events(client: Redis, after: str = "", limit: int = 1000, newest: bool = False) -> list[tuple[str, bytes]]:
    answer = run_script(client, "events", after=after, limit=limit, newest=newest)
    return [(verb, id) for _event, verb, id, _worker in answer.rows]


def test_events_are_read_on_from_the_last_one(any_client: Redis) -> None:
    run_script(any_client, "configure", rows=[("events", "on")])
    enqueue_ids(any_client, b"a", b"b", b"c")
    first = run_script(any_client, "events", limit=2)
    assert [(row[1], row[2]) for row in first.rows] == [("enqueue", b"a"), ("enqueue", b"b")]
    assert (first.values["left"], first.values["total"], first.values["until_ms"]) == (True, 3, -1)
    rest = run_script(any_client, "events", after=first.rows[-1][0], limit=2)
    assert [row[2] for row in rest.rows] == [b"c"] and not rest.values["left"]
    assert list_events(any_client, after=rest.rows[-1][0]) == []


def test_the_newest_page_is_the_end_in_the_same_order(any_client: Redis) -> None:
    run_script(any_client, "configure", rows=[("events", "on")])
    enqueue_ids(any_client, *(b"%d" % n for n in range(5)))
    assert list_events(any_client, limit=2, newest=True) == [("enqueue", b"3"), ("enqueue", b"4")]


def test_it_shows_until_when_is_recorded(any_client: Redis) -> None:
    assert not run_script(any_client, "events", limit=1).values["known"], "nobody used this queue"
    enqueue_ids(any_client, b"a")
    states = []
    for value in ("off", str(NOW + 5000), str(NOW), "on"):
        run_script(any_client, "configure", rows=[("events", value)])
        states.append(run_script(any_client, "events", limit=1, now_ms=NOW).values["until_ms"])
    assert states == [0, NOW + 5000, 0, -1]


def test_a_recording_is_made_longer_when_a_third_of_it_is_over() -> None:
    def feed(until_ms: int, **more: bool) -> Feed:
        return Feed(MAIL, now_ms=NOW, until_ms=until_ms, **more)

    assert events.compute_renewals({MAIL: feed(0)}) == {MAIL: NOW + 60_000}
    assert events.compute_renewals({MAIL: feed(NOW + 39_000)}) == {MAIL: NOW + 60_000}
    assert events.compute_renewals({MAIL: feed(NOW + 41_000)}) == {}
    assert events.compute_renewals({MAIL: feed(events.FOR_EVER)}) == {}, "somebody wants it for good"
    assert events.compute_renewals({MAIL: feed(0, is_known=False)}) == {}, "a queue that is gone is not made again"


def test_recording_turns_itself_off(client: Redis) -> None:
    mail = Queue("mail", client)
    mail.put(1, id="before")
    engine = build_engine(client, [registry.create_system("native")])
    seconds, micros = client.time()
    now_ms = seconds * 1000 + micros // 1000
    assert events.record_events(engine, [MAIL], {MAIL: now_ms + 150}) == {}
    mail.put(2, id="during")
    deadline = time.monotonic() + 5
    while engine.send_request(events.feed_request(engine.systems["native"], "mail")).is_recording:
        assert time.monotonic() < deadline
    mail.put(3, id="after")
    feed = engine.send_request(events.feed_request(engine.systems["native"], "mail"))
    assert [event.id for event in feed.events] == [b"during"]


def test_a_filter_searches_verb_id_worker_and_queue() -> None:
    event = Event(MAIL, NOW, 0, "reject", b"invoice-42", "w7")
    for expression in ("", "reject", "INVOICE", "w7 mail", "!ack", "/invoice-\\d+/", "!/x{3}/ reject"):
        assert events.build_event_matcher(expression)(event), expression
    for expression in ("ack", "!reject", "reject w8", "/^w7$/"):
        assert not events.build_event_matcher(expression)(event), expression
    with pytest.raises(UsageError, match="cannot be read"):
        events.build_event_matcher("/(/")


def test_recorded_events_are_listed_oldest_first(client: Redis, url: str) -> None:
    client.hset(build_key("meta"), mapping={"version": 1, "events": "on"})
    mail = Queue("mail", client)
    mail.put(1, id="a")
    mail.reserve(1, worker="w1")[0].reject("boom")
    ran = shell(url, "events", "mail", "--json")
    assert ran.code == 0 and ran.err == ""
    assert [(line["verb"], line["id"], line["worker"]) for line in ran.lines] == [
        ("enqueue", "a", None),
        ("reserve", "a", "w1"),
        ("reject", "a", None),
    ]
    assert all(line["queue"] == "mail" and line["happened_at_ms"] > 1.5e12 for line in ran.lines)
    assert "× reject" in shell(url, "events").out
    assert [line["verb"] for line in shell(url, "events", "--limit", "1", "--json").lines] == ["reject"]
    assert [line["verb"] for line in shell(url, "events", "--filter", "w1", "--json").lines] == ["reserve"]
    filtered = shell(url, "events", "--filter", "enqueue", "--limit", "1", "--json").lines
    assert [line["verb"] for line in filtered] == ["enqueue"], (
        "the newest one that matches, not the newest one if it matches"
    )


def test_reading_records_nothing_and_reports_that(client: Redis, url: str) -> None:
    Queue("mail", client).put(1, id="a")
    ran = shell(url, "events", "mail")
    assert (ran.code, ran.out) == (0, "") and "nothing records" in ran.err
    assert client.hget(build_key("meta"), "events") is None


def test_record_records_for_a_minute(client: Redis, url: str) -> None:
    Queue("mail", client).put(1, id="a")
    ran = shell(url, "events", "mail", "--record")
    assert ran.code == 0 and "recording begins in mail" in ran.err
    left_ms = int(client.hget(build_key("meta"), "events")) - client.time()[0] * 1000  # type: ignore[arg-type]
    assert 55_000 < left_ms <= 61_000


def test_a_read_only_session_turns_nothing_on(client: Redis, url: str) -> None:
    Queue("mail", client).put(1, id="a")
    assert shell(url, "events", "mail", "--record", "--read-only").code == 1
    assert "read-only" in shell(url, "events", "mail", "--read-only").err
    assert client.hget(build_key("meta"), "events") is None


def test_a_queue_that_was_never_used_is_not_created_by_watching_it(client: Redis, url: str) -> None:
    assert shell(url, "events", "nosuch", "--record").code == 0
    assert client.keys("*") == []


def test_a_system_without_events_reports_it(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "a")
    ran = shell(url, "events", "dispatcher:readytasklist")
    assert ran.code == 0 and "no events are recorded by dispatcher" in ran.err
    for more in ((), ("--record",), ("--follow",)):  # which would wait for ever
        ran = shell(url, "events", "dispatcher:readytasklist", *more)
        assert ran.code == 0 and "--record" not in ran.err and "rqtui cannot turn that on" in ran.err, ran


@pytest.mark.slow
def test_following_shows_each_event_once_until_it_is_stopped(client: Redis, url: str) -> None:
    mail = Queue("mail", client)
    mail.put(0, id="before")
    running = start_process(url, "events", "mail", "--follow", "--json")
    assert running.stdout and running.stderr
    try:
        assert b"recording begins" in running.stderr.readline()
        for n in range(3):
            mail.put(n, id=f"job-{n}")
        seen = [json.loads(running.stdout.readline())["id"] for _ in range(3)]
        mail.put(3, id="job-3")
        seen.append(json.loads(running.stdout.readline())["id"])
        assert seen == ["job-0", "job-1", "job-2", "job-3"]
    finally:
        running.send_signal(signal.SIGTERM)
        rest = running.communicate(timeout=10)[0]
    assert (rest, running.returncode) == (b"", 0)


@pytest.mark.slow
@pytest.mark.parametrize("names", [("mail",), ()], ids=["that queue", "all queues"])
def test_following_misses_no_job_of_a_queue_that_was_not_there(client: Redis, url: str, names: tuple[str, ...]) -> None:
    Queue("other", client).put(0, id="other")
    running = start_process(url, "events", *names, "--follow", "--json", "--limit", "0")
    assert running.stdout and running.stderr
    try:
        if names:
            assert b"nothing is known of a queue" in running.stderr.readline()
        assert (
            b"this queue does not exist yet" if names else b"recording begins in other"
        ) in running.stderr.readline()
        assert client.keys("rqtui:{mail}:*") == [], "to look on makes no queue"
        mail = Queue("mail", client)
        mail.put_many([{"body": n, "id": f"job-{n}"} for n in range(3)])
        seen = [json.loads(running.stdout.readline())["id"] for _ in range(3)]
        wait_until(lambda: client.hget("rqtui:{mail}:meta", "events"), 20, "it is recorded now")
        mail.put(3, id="job-3")
        seen.append(json.loads(running.stdout.readline())["id"])
        assert seen == ["job-0", "job-1", "job-2", "job-3"]
    finally:
        running.send_signal(signal.SIGTERM)
        rest = running.communicate(timeout=10)[0]
    assert rest == b"", "nothing is told twice"


@pytest.mark.parametrize("words", [("--limit", "-1"), ("--limit", "1001"), ("--filter", "/(/")])
def test_bad_words_are_refused(client: Redis, url: str, words: tuple[str, ...]) -> None:
    assert shell(url, "events", *words).code == 2
