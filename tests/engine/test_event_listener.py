"""What a system publishes and keeps nowhere: heard from the first look on, by whoever looks again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from crier_system import Crier, add_ready_jobs, publish_begin, publish_end, publish_heartbeat
from proxy import Proxy
from redis import Redis
from waiting import wait_until

from rqtui.connection.connect import connect
from rqtui.engine import event_listener
from rqtui.engine.engine import Engine
from rqtui.engine.ticker import SnapshotTaken, Ticker
from rqtui.model import EventCoverage, Focus, Job, Queue, Ref, State
from rqtui.reports import acl, errors, kinds, prometheus, workers
from rqtui.systems import registry

MAIL, POST = Ref("crier", "mail"), Ref("crier", "post")


@pytest.fixture
def listened(client: Redis, url: str) -> Iterator[Callable[..., Engine]]:
    """Create an engine that has counted the crier's queues and listens."""
    add_ready_jobs(client, "mail", "a", "b", "c", "d")
    add_ready_jobs(client, "post", "x")
    items: list[Engine] = []

    def make(at: str = url, *, is_listening: bool = True) -> Engine:
        engine = Engine(connect(at), [Crier(), registry.create_system("native")])
        items.append(engine)
        for _chunk in engine.discover():
            pass
        if is_listening:
            engine.start_listening()
            wait_until(lambda: engine.take_snapshot() and hearing(engine).since_ms, what="listening")
        return engine

    yield make
    for engine in items:
        engine.stop_listening()
        engine.client.close()


def hearing(engine: Engine) -> EventCoverage:
    return engine.systems["crier"].event_coverage


def count_queue(engine: Engine, ref: Ref = MAIL) -> Queue:
    [queue] = engine.take_snapshot(Focus(queues=(ref,))).queues
    return queue


def wait_for_jobs(engine: Engine, place: str, number: int, ref: Ref = MAIL) -> Queue:
    """Return the queue once so many jobs of a place are known from Pub/Sub events."""

    def find_queue() -> Queue | None:
        queue = count_queue(engine, ref)
        return queue if queue.count_in_place(place) == number else None

    return wait_until(find_queue, what=f"{number} in {place}")


def ids(jobs: tuple[Job, ...]) -> list[bytes]:
    return [job.id for job in jobs]


def test_outcomes_of_jobs_are_counted_and_listed_by_queue(client: Redis, listened: Callable[..., Engine]) -> None:
    engine = listened()
    publish_begin(client, "mail", "a", worker="w1")
    queue = wait_for_jobs(engine, "running", 1)
    assert queue.map_counts_by_place() == {"waiting": 3, "running": 1, "finished": 0, "failed": 0}
    publish_end(client, "mail", "a", "b", took_ms=40)
    publish_end(client, "mail", "c", error="ValueError: boom")
    publish_end(client, "post", "x")
    publish_end(client, "", "nobodys")
    wait_for_jobs(engine, "finished", 1, POST)
    wait_until(lambda: count_queue(engine).counts[2].shared_total == 4, what="nobody's")
    queue = count_queue(engine)
    assert queue.map_counts_by_place() == {"waiting": 1, "running": 0, "finished": 2, "failed": 1}
    assert {count.place: (count.shared_total, count.is_exact) for count in queue.counts[1:]} == {
        "running": (0, True),
        "finished": (4, True),
        "failed": (1, True),
    }
    page = engine.fetch_page(MAIL, "finished")
    assert (ids(page.jobs), page.total, page.next, page.place_total) == ([b"b", b"a"], 2, None, None)
    assert page.coverage == hearing(engine)
    assert ids(engine.fetch_page(MAIL, "finished", 1, 1).jobs) == [b"a"]
    assert engine.fetch_page(MAIL, "finished", 0, 1).next == 1
    assert [job.id for step in engine.scan_jobs(MAIL, "finished", lambda _job: True, chunk=1) for job in step] == [
        b"b",
        b"a",
    ]
    found = engine.fetch_job(MAIL, b"c")
    assert found is not None and (found.place, found.state, found.error) == ("failed", State.DEAD, "ValueError: boom")
    waiting = engine.fetch_job(MAIL, b"d")
    assert waiting is not None and waiting.place == "waiting"
    assert engine.fetch_job(MAIL, b"nobodys") is None is engine.fetch_job(MAIL, b"x")


def test_no_client_listens_unless_it_was_requested(client: Redis, listened: Callable[..., Engine]) -> None:
    engine = listened(is_listening=False)
    queue = count_queue(engine)
    assert [(count.place, count.is_count_known, count.shared_total) for count in queue.counts] == [
        ("waiting", True, None),
        ("running", False, None),
        ("finished", False, None),
        ("failed", False, None),
    ]
    assert "failures" in queue.unknown and "leases" in queue.unknown
    assert client.execute_command("PUBSUB", "NUMPAT") == 0
    assert not engine.is_listening
    page = engine.fetch_page(MAIL, "failed")
    assert (page.jobs, page.is_list_known) == ((), False)
    engine.deliver_events()


def test_the_event_listener_connects_with_the_first_visible_queue_and_not_before(client: Redis, url: str) -> None:
    add_ready_jobs(client, "mail", "a")
    client.sadd("rqtui:queues", "own")
    engine = Engine(connect(url), [Crier(), registry.create_system("native")])
    engine.start_listening()
    try:
        engine.take_snapshot(Focus(queues=(Ref("native", "own"),)))
        assert not engine.is_listening and client.execute_command("PUBSUB", "NUMPAT") == 0
        engine.take_snapshot(Focus(queues=(MAIL,)))
        assert engine.is_listening
        wait_until(lambda: client.execute_command("PUBSUB", "NUMPAT") == 3, what="its patterns")
        engine.take_snapshot(Focus(queues=(Ref("native", "own"),)))
        assert client.execute_command("PUBSUB", "NUMPAT") == 3, "it goes on while another queue is in sight"
    finally:
        engine.stop_listening()
        engine.client.close()
    wait_until(lambda: client.execute_command("PUBSUB", "NUMPAT") == 0, what="the end")


def test_a_gap_is_reported_and_earlier_events_stay(client: Redis, url: str, listened: Callable[..., Engine]) -> None:
    with Proxy(url) as proxy:
        engine = listened(proxy.url)
        publish_end(client, "mail", "a")
        wait_for_jobs(engine, "finished", 1)
        before = hearing(engine)
        assert before.is_complete
        proxy.refuse()
        wait_until(lambda: engine.deliver_events() or hearing(engine).problem, what="the loss")
        publish_end(client, "mail", "b")
        proxy.listen()
        wait_until(lambda: engine.deliver_events() or not hearing(engine).problem, what="the link")
        after = hearing(engine)
        assert after.since_ms == before.since_ms and after.missed_ms > 0 and not after.is_complete
        publish_end(client, "mail", "c")
        queue = wait_for_jobs(engine, "finished", 2)
        assert [count.is_exact for count in queue.counts] == [True, False, False, False]
        assert ids(engine.fetch_page(MAIL, "finished").jobs) == [b"c", b"a"]


def test_a_right_that_is_missing_is_reported_and_breaks_nothing(
    client: Redis, url: str, listened: Callable[..., Engine]
) -> None:
    client.execute_command("ACL", "SETUSER", "deaf", "reset", "on", ">x", "~*", "resetchannels", "+@all")
    try:
        engine = listened(url.replace("redis://", "redis://deaf:x@"), is_listening=False)
        engine.start_listening()
        wait_until(lambda: engine.take_snapshot() and hearing(engine).problem, what="the refusal")
        assert hearing(engine).since_ms is None
        assert "the right &crier." in hearing(engine).problem
        assert count_queue(engine).count_in_place("waiting") == 4
    finally:
        client.execute_command("ACL", "DELUSER", "deaf")


def test_the_rights_of_a_viewer_are_enough_to_listen(client: Redis, url: str, listened: Callable[..., Engine]) -> None:
    rights = acl.compute_rights("viewer", [(Crier(), "mail"), (Crier(), "post")])
    assert not set(rights.channels) & set(acl.compute_rights("worker", [(Crier(), "mail")]).channels)
    more = ("+smembers", "+sismember", "%R~crier:queues", "%R~rqtui:queues")  # what its system sends beside its scripts
    line = acl.format_acl_command("viewer", rights, user="probe").replace("%R~crier:mail", "%R~crier:*").split(" ")
    client.execute_command(*line, *more)
    try:
        client.execute_command("ACL", "LOG", "RESET")
        engine = listened(url.replace("redis://", "redis://probe:PASSWORD@"))
        publish_end(client, "mail", "a")
        assert wait_for_jobs(engine, "finished", 1).error == ""
        denied = {entry["object"] for entry in client.acl_log()}
        assert not denied & {"psubscribe", "ping", *rights.channels}
    finally:
        client.execute_command("ACL", "DELUSER", "probe")


def test_a_system_that_cannot_read_a_message_stops_no_other(client: Redis, listened: Callable[..., Engine]) -> None:
    engine = listened()
    for poison in (b"", b"no json", b"[]", b"7", b'{"id": 7}', b"\xff\xfe", b"{" * 100_000):
        client.publish("crier.ended", poison)
        client.publish("crier.beats", poison)
        client.publish("crier.beat", poison)
    publish_end(client, "mail", "a")
    assert wait_for_jobs(engine, "finished", 1).error == ""


def test_rates_are_computed_from_received_events(client: Redis, listened: Callable[..., Engine]) -> None:
    engine = listened()
    client.lpop("crier:mail")
    lately = engine.take_snapshot().rates[MAIL].recent
    assert (lately.enqueued, lately.completed) == (0, 1), "nothing was heard so far: what is gone was done"
    engine = listened()
    publish_end(client, "mail", "b")
    publish_end(client, "mail", "c", error="boom")
    wait_for_jobs(engine, "failed", 1)
    lately = engine.take_snapshot().rates[MAIL].recent
    assert (lately.enqueued, lately.failed, lately.dead) == (0, 1, 1)
    assert 1 <= lately.completed <= 3, "a look in between took what was gone and not yet heard for done"
    done = lately.completed
    client.lrem("crier:mail", 1, "d")  # one takes it, and does not cry
    for _ in range(3):
        lately = engine.take_snapshot().rates[MAIL].recent
        assert (lately.enqueued, lately.completed) == (0, done)
    publish_end(client, "mail", "d")  # it had left before: it did not come now
    add_ready_jobs(client, "mail", "new")
    wait_for_jobs(engine, "finished", 2)
    lately = engine.take_snapshot().rates[MAIL].recent
    assert (lately.enqueued, lately.completed) == (1, done + 1)


def test_reports_read_received_events(client: Redis, listened: Callable[..., Engine]) -> None:
    engine = listened()
    publish_heartbeat(client, "w1", "mail", "post")
    publish_begin(client, "mail", "d", worker="w1")
    publish_end(client, "mail", "a", took_ms=40)
    publish_end(client, "mail", "b", "c", error="ValueError: boom")
    wait_for_jobs(engine, "failed", 2)
    seats, _now_ms, problems = workers.load_workers(engine, [MAIL])
    assert problems == ()
    assert [(seat.name, [job.id for job in seat.jobs]) for seat in seats] == [("w1", [b"d"])]
    *_steps, actual = errors.yield_error_reports(engine, [MAIL, POST])
    assert actual is not None and [(group.count, group.refs) for group in actual.groups] == [(2, (MAIL,))]
    *_steps, found = kinds.yield_kind_reports(engine, [MAIL])
    assert found is not None
    [kind] = [kind for kind in found.kinds if kind.name == "cry"]
    assert kind.figures is not None and (kind.figures.processed, kind.figures.failed, kind.figures.mean_ms) == (
        3,
        2,
        40,
    )
    text = prometheus.format_exposition(engine.take_snapshot(), 0.1)
    assert 'rqtui_jobs{layout="crier",queue="mail",place="failed",state="dead"} 2' in text


def test_metrics_leave_out_what_no_event_reported(client: Redis, listened: Callable[..., Engine]) -> None:
    text = prometheus.format_exposition(listened(is_listening=False).take_snapshot(), 0.1)
    assert 'place="waiting"' in text
    assert 'place="failed"' not in text and "rqtui_shared_jobs" not in text


def test_verbs_take_nothing_from_a_place_from_events(client: Redis, listened: Callable[..., Engine]) -> None:
    crier = listened().systems["crier"]
    assert crier.can("delete", "waiting")
    assert not any(crier.can("delete", place) for place in ("running", "finished", "failed"))
    assert not crier.is_shared("finished") and crier.is_from_events("finished") and not crier.is_from_events("waiting")


def test_the_ticker_listens_between_refreshes_and_stops_with_it(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_ready_jobs(client, "mail", "a")
    taken: list[int] = []
    hand_on = event_listener.EventListener.deliver
    monkeypatch.setattr(event_listener.EventListener, "deliver", lambda self: (taken.append(1), hand_on(self)))
    engine = Engine(connect(url), [Crier()])
    messages: list[Any] = []
    ticker = Ticker(lambda: engine, messages.append, 3600.0)
    ticker.start()
    wait_until(lambda: client.execute_command("PUBSUB", "NUMPAT") == 3, what="its patterns")
    ticker.request_call(lambda engine: engine.take_snapshot())
    publish_end(client, "mail", "a")
    crier = engine.systems["crier"]
    assert isinstance(crier, Crier)
    wait_until(lambda: crier.event_cache.find(b"a"), what="what was heard, though no picture is due for an hour")
    pictures = sum(isinstance(each, SnapshotTaken) for each in messages)
    assert len(taken) > pictures
    ticker.stop()
    wait_until(lambda: client.execute_command("PUBSUB", "NUMPAT") == 0, what="the end")
