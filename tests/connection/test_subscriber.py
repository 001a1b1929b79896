"""Test the subscriber: it receives all messages published from its start on, and reports the gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from proxy import Proxy
from redis import Redis
from waiting import wait_until

from rqtui.connection import subscriber as ears
from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer
from rqtui.connection.meter import Meter
from rqtui.connection.subscriber import Message, Subscriber


@pytest.fixture
def listening() -> Iterator[Callable[..., Subscriber]]:
    """Return a function that creates a subscriber of some patterns and waits until it is subscribed."""
    items: list[tuple[Redis, Subscriber]] = []

    def make(url: str, *patterns: str, meter: Meter | None = None) -> Subscriber:
        client = connect(url, meter=meter)
        ear = Subscriber(client)
        items.append((client, ear))
        ear.subscribe(patterns)
        wait_until(lambda: all(ear.read_status(pattern).since_s is not None for pattern in patterns), what="listening")
        return ear

    yield make
    for client, ear in items:
        ear.close()
        client.close()


def take_messages(ear: Subscriber, number: int) -> list[Message]:
    found: list[Message] = []

    def enough() -> bool:
        found.extend(ear.take_messages())
        return len(found) >= number

    wait_until(enough, what=f"{number} messages")
    return found


@pytest.mark.each_server
def test_messages_of_its_patterns_are_received_in_order(
    any_client: Redis, any_server: EmbeddedServer, listening: Callable[..., Subscriber]
) -> None:
    ear = listening(any_server.url, "news.*", "\udcff.*")
    for number in range(100):
        any_client.publish("news.mail", str(number))
        any_client.publish("other", "not for it")
    any_client.publish(b"\xff.x", b"\x00\xff")
    found = take_messages(ear, 101)
    assert [message.data for message in found[:-1]] == [b"%d" % number for number in range(100)]
    assert found[-1][:3] == (b"\xff.*", b"\xff.x", b"\x00\xff")
    assert found[0].at_s <= found[-1].at_s
    assert ear.dropped == 0
    assert ear.take_messages() == []


def test_another_pattern_is_listened_to_over_the_same_connection(
    client: Redis, url: str, listening: Callable[..., Subscriber]
) -> None:
    ear = listening(url, "a.*")
    ear.subscribe(["b.*"])
    wait_until(lambda: ear.read_status("b.*").since_s, what="the second pattern")
    client.publish("a.1", "1")
    client.publish("b.1", "2")
    assert [message.data for message in take_messages(ear, 2)] == [b"1", b"2"]
    assert int(client.execute_command("PUBSUB", "NUMPAT")) == 2
    assert len([each for each in client.client_list() if each["psub"] != "0"]) == 1


def test_it_sends_nothing_but_psubscribe_and_ping(
    client: Redis, url: str, listening: Callable[..., Subscriber], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ears, "PING_S", 0.0)
    monkeypatch.setattr(ears, "POLL_S", 0.05)
    client.config_resetstat()
    listening(url, "a.*", "b.*")

    def calls() -> dict[str, int]:
        actual = client.info("commandstats")
        return {name.removeprefix("cmdstat_"): each["calls"] for name, each in actual.items()}

    wait_until(lambda: calls().get("ping", 0) >= 3, what="PINGs")
    found = calls()
    assert found.pop("psubscribe") == 2
    assert set(found) <= {"ping", "info", "client|setname", "config|resetstat"}


def test_messages_do_not_count_as_commands(client: Redis, url: str, listening: Callable[..., Subscriber]) -> None:
    meter = Meter()
    ear = listening(url, "a.*", meter=meter)
    before = meter.compute_total_cost()
    for _ in range(50):
        client.publish("a.1", "x")
    assert len(take_messages(ear, 50)) == 50
    assert meter.compute_total_cost() == before


def test_a_lost_link_is_created_again_and_the_gap_is_reported(
    client: Redis, url: str, listening: Callable[..., Subscriber]
) -> None:
    with Proxy(url) as proxy:
        ear = listening(proxy.url, "a.*")
        since_s = ear.read_status("a.*").since_s
        client.publish("a.1", "before")
        assert [message.data for message in take_messages(ear, 1)] == [b"before"]
        proxy.refuse()
        lost = wait_until(lambda: ear.read_status("a.*") if ear.read_status("a.*").problem else None, what="the loss")
        assert "refused" in lost.problem or "closed" in lost.problem.lower()
        client.publish("a.1", "unheard")
        proxy.listen()
        found = wait_until(
            lambda: ear.read_status("a.*") if not ear.read_status("a.*").problem else None, what="the link"
        )
        assert found.since_s == since_s
        assert found.missed_s >= lost.missed_s > 0
        client.publish("a.1", "after")
        assert [message.data for message in take_messages(ear, 1)] == [b"after"]
        assert ear.read_status("a.*").missed_s == found.missed_s


def test_a_server_that_reports_nothing_is_taken_for_lost(
    url: str, listening: Callable[..., Subscriber], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ears, "PING_S", 0.0)
    monkeypatch.setattr(ears, "POLL_S", 0.05)
    with Proxy(url) as proxy:
        ear = listening(f"{proxy.url}?socket_timeout=0.2", "a.*")
        proxy.hold()
        found = wait_until(lambda: ear.read_status("a.*") if ear.read_status("a.*").problem else None, what="the loss")
        assert found.missed_s > 0


def test_a_pattern_that_an_acl_refuses_is_reported_and_the_others_are_received(
    client: Redis, url: str, listening: Callable[..., Subscriber], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ears, "RETRY_REFUSED_S", 0.0)
    monkeypatch.setattr(ears, "POLL_S", 0.05)
    client.execute_command("ACL", "SETUSER", "deaf", "reset", "on", ">x", "resetchannels", "&a.*", "+@all")
    try:
        ear = listening(url.replace("redis://", "redis://deaf:x@"), "a.*")
        ear.subscribe(["b.*"])
        found = wait_until(
            lambda: ear.read_status("b.*") if ear.read_status("b.*").problem else None, what="the refusal"
        )
        assert found.since_s is None
        assert found.problem == "the user may not listen to b.*: the right &b.* is missing"
        client.publish("a.1", "heard")
        assert [message.data for message in take_messages(ear, 1)] == [b"heard"]
        client.execute_command("ACL", "SETUSER", "deaf", "&b.*")
        wait_until(lambda: ear.read_status("b.*").since_s, what="the right that was given")
        assert ear.read_status("b.*").problem == ""
    finally:
        client.execute_command("ACL", "DELUSER", "deaf")


def test_what_is_not_taken_is_bounded_by_number_and_by_size(
    client: Redis, url: str, listening: Callable[..., Subscriber], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ears, "MAX_MESSAGES", 10)
    monkeypatch.setattr(ears, "MAX_BYTES", 5000)
    monkeypatch.setattr(ears, "MAX_MESSAGE_BYTES", 1000)
    ear = listening(url, "a.*")
    for number in range(30):
        client.publish("a.1", str(number))
    wait_until(lambda: ear.dropped == 20, what="drops")
    assert [message.data for message in ear.take_messages()] == [b"%d" % number for number in range(20, 30)]
    for _ in range(10):
        client.publish("a.1", "x" * 1_000_000)
    wait_until(lambda: ear.dropped == 25, what="drops")
    assert [len(message.data) for message in ear.take_messages()] == [1000] * 5


def test_closing_ends_thread_and_connection(client: Redis, url: str) -> None:
    with connect(url) as ours:
        ear = Subscriber(ours)
        ear.close()  # before it began
        ear.subscribe(["a.*"])
        assert ear.read_status("a.*").since_s is None
        ear = Subscriber(ours)
        ear.subscribe(["a.*"])
        wait_until(lambda: ear.read_status("a.*").since_s, what="listening")
        thread = ear._thread
        assert thread is not None
        ear.close()
        assert not thread.is_alive()
        wait_until(lambda: client.execute_command("PUBSUB", "NUMPAT") == 0, what="the end of the connection")


def test_a_server_that_was_never_there_is_described_in_a_sentence() -> None:
    with connect("redis://127.0.0.1:1") as away:
        ear = Subscriber(away)
        ear.subscribe(["a.*"])
        try:
            found = wait_until(
                lambda: ear.read_status("a.*") if ear.read_status("a.*").problem else None, what="the refusal"
            )
            assert found.since_s is None and found.missed_s == 0
            assert "refused" in found.problem
        finally:
            ear.close()
