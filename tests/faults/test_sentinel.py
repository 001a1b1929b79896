"""Redis behind sentinels: everything follows the primary, and what was put durably survives its death."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import aio_facade
import pytest
from families import run_in_one_test
from fleet import Fleet, Server
from queue_check import find_misplaced_jobs
from redis import asyncio
from redis.sentinel import Sentinel
from screens import run_on_event_loop, screen
from shell import shell
from waiting import wait_until
from workers import Worker

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect, hide_url_passwords
from rqtui.connection.urls import parse_multi_host_url
from rqtui.engine.loops import Loop, build_round
from rqtui.errors import Denied, ReplicaOnly, ServerError, Unreachable, UsageError
from rqtui.model import Ref
from rqtui.systems import registry

ENOUGH = 60.0


class Watched:
    """A primary, its replicas, and the sentinels that watch it; most of them have to agree that it is down."""

    def __init__(self, fleet: Fleet, replicas: int = 1, sentinels: int = 1) -> None:
        self.primary = fleet.start()
        self.replicas = [fleet.start(replicaof=self.primary) for _ in range(replicas)]
        self.replica = self.replicas[0]
        self.sentinels = [fleet.sentinel(self.primary, quorum=sentinels // 2 + 1) for _ in range(sentinels)]
        self.sentinel = self.sentinels[-1]
        hosts = ",".join(f"127.0.0.1:{port}" for port in (1, *(each.port for each in self.sentinels)))
        self.url = f"redis+sentinel://{hosts}/jobs"  # the first one is dead
        for each in self.sentinels:
            wait_until(lambda each=each: self._sees_all(each), ENOUGH, "the sentinel's view of the others")

    def _sees_all(self, sentinel: Server) -> bool:
        primary = self.read_primary_info(sentinel)
        theirs = (int(primary["num-slaves"]), int(primary["num-other-sentinels"]))
        return theirs == (len(self.replicas), len(self.sentinels) - 1)

    def read_primary_info(self, sentinel: Server | None = None) -> dict[str, str]:
        """Return what a sentinel (by default the last one) knows about the primary."""
        found = (sentinel or self.sentinel).client.execute_command("SENTINEL", "MASTERS")[0]
        words = [word.decode() if isinstance(word, bytes) else word for word in found]
        return dict(zip(words[::2], words[1::2], strict=True))

    def leader(self) -> int:
        """Return the port of the primary that the last sentinel names."""
        return int(self.read_primary_info()["port"])

    def wait_for_failover(self) -> None:
        """Until the replica is the primary that the sentinel names."""
        wait_until(lambda: self.leader() == self.replica.port, ENOUGH, "the failover")
        wait_until(lambda: self.replica.info("replication")["role"] == "master", ENOUGH, "the promotion")


@pytest.fixture
def watched(fleet: Fleet) -> Watched:
    return Watched(fleet)


class Life:
    """A worker, a producer of durable jobs, and a dispatcher, each on a thread of its own, until they are stopped."""

    def __init__(self, url: str) -> None:
        self.put: list[str] = []
        self.ran: list[str] = []
        self.broken: list[BaseException] = []
        self._url, self._stop = url, threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(run,), daemon=True) for run in (self._produce, self._work)
        ]
        self._client = connect(url)
        work = build_round(
            "dispatch", self._client, {"native": registry.create_system("native")}, lambda: [Ref("native", "mail")]
        )
        self.loop = Loop("dispatcher", work)

    def _guarded(self, run) -> None:
        try:
            run()
        except BaseException as error:
            self.broken.append(error)

    def _produce(self) -> None:
        number = 0
        with Queue("mail", self._url) as queue:
            while not self._stop.is_set():
                try:
                    queue.put(number, id=str(number), durable=True)
                except ServerError:
                    self._stop.wait(0.05)
                    continue  # the same id again: safe
                self.put.append(str(number))
                number += 1
                self._stop.wait(0.002)

    def _work(self) -> None:
        with Queue("mail", self._url) as queue:
            for job in queue.consume(ttr="2s", stop=self._stop):
                with job:
                    self.ran.append(job.id)

    def __enter__(self) -> Life:
        for thread in self._threads:
            thread.start()
        self.loop.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(ENOUGH)
        self.loop.stop()

    def __exit__(self, *_exc: object) -> None:
        self.stop()
        self._client.close()


@pytest.mark.parametrize("sentinels", [1, pytest.param(3, marks=pytest.mark.matrix)])
def test_a_failover_loses_nothing_that_was_put_durably_and_all_clients_continue(fleet: Fleet, sentinels: int) -> None:
    watched = Watched(fleet, replicas=2, sentinels=sentinels)  # one replica is left to confirm afterwards
    with Life(watched.url) as life:
        wait_until(lambda: len(life.put) >= 20 and life.ran, ENOUGH)
        watched.primary.kill()
        if sentinels > 1:
            watched.sentinels[0].kill()  # the others are still most of them
        wait_until(lambda: watched.leader() != watched.primary.port, ENOUGH, "the failover")
        before, done = len(life.put), len(life.ran)
        wait_until(lambda: len(life.put) > before + 20, ENOUGH, "the producer's return")
        wait_until(lambda: len(life.ran) > done + 20, ENOUGH, "the worker's return")
        wait_until(lambda: life.loop.rounds and not life.loop.rounds[-1].error, ENOUGH, "the dispatcher's return")
        [*_old, last] = life.put
        wait_until(lambda: last in life.ran, ENOUGH, "the end of the queue")
        life.stop()
        assert life.broken == []
    leader = next(one for one in watched.replicas if one.port == watched.leader())
    left = leader.client.hkeys("rqtui:{mail}:jobs")
    assert set(life.put) - set(life.ran) - {id.decode() for id in left} == set()
    assert find_misplaced_jobs(leader.client, "mail") == []
    assert leader.client.sismember("rqtui:queues", "mail")


@pytest.mark.matrix
@run_on_event_loop
async def test_a_sentinel_alone_names_no_other_primary_until_most_are_back(fleet: Fleet) -> None:
    watched = Watched(fleet, sentinels=3)
    with Queue("mail", watched.url) as queue:
        queue.put(1, id="a")
        wait_until(lambda: watched.replica.client.zcard("rqtui:{mail}:ready") == 1, ENOUGH)
        async with screen(watched.url, (120, 35)) as ui:
            await ui.until_shown("mail")
            for lost in (*watched.sentinels[:2], watched.primary):
                lost.kill()
            await ui.until(lambda: "s_down" in watched.read_primary_info()["flags"], "the sentinel's verdict")
            with pytest.raises(Unreachable, match=f"127.0.0.1:{watched.sentinel.port} holds it for down"):
                queue.put(2, id="b")
            await ui.until(lambda: ui.app.session.connection_loss is not None, "the loss")
            for back in watched.sentinels[:2]:
                back.start()
            await ui.until(lambda: watched.leader() == watched.replica.port, "the failover", ENOUGH)
            await ui.until(lambda: _stepped_calls(lambda: queue.put(2, id="b")), "the way to the new primary", ENOUGH)
            await ui.until(lambda: ui.app.session.connection_loss is None, "a new picture", ENOUGH)
    assert watched.replica.client.zcard("rqtui:{mail}:ready") == 2


@pytest.mark.long
def test_without_a_second_replica_a_durable_put_after_the_failover_reports_what_is_missing(watched: Watched) -> None:
    watched.primary.kill()
    watched.wait_for_failover()
    with Queue("mail", watched.url) as queue:
        wait_until(lambda: _stepped_calls(queue.counts), ENOUGH)
        with pytest.raises(ServerError, match="only on its primary") as caught:
            queue.put("dear", id="dear", durable=True)
    assert "failover would lose it" in str(caught.value)
    assert watched.replica.client.zcard("rqtui:{mail}:ready") == 1


@pytest.mark.long
def test_commands_follow_the_primary(watched: Watched) -> None:
    assert shell(watched.url, "put", "mail", "{}", "--id", "a").code == 0
    wait_until(lambda: watched.replica.client.zcard("rqtui:{mail}:ready") == 1, ENOUGH)
    watched.primary.kill()
    watched.wait_for_failover()
    for words in (
        ["put", "mail", "{}", "--id", "b"],
        ["act", "promote", "mail", "b"],
        ["dispatch", "--once"],
        ["redis"],
        ["snapshot"],
    ):  # on a busy machine a sentinel holds the new primary for down at times, and then they end with 3, as they should
        wait_until(lambda words=words: shell(watched.url, *words).code in (0, 1), ENOUGH, str(words))
    (queue,) = shell(watched.replica.url, "snapshot", "--json").json["queues"]
    assert [place["count"] for place in queue["places"] if place["place"] == "ready"] == [2]


def test_a_primary_that_was_demoted_is_left_at_the_first_refusal(kind: Any, watched: Watched) -> None:
    with kind("mail", watched.url) as queue:
        queue.put(1, id="a")
        watched.replica.replicate(None)
        watched.primary.replicate(watched.replica)  # by hand, so that its connections stay, as behind a proxy
        with pytest.raises(ReplicaOnly, match="replica"):
            queue.put(2, id="b")
        with pytest.raises(Unreachable, match="is no primary yet"):  # that is whom the sentinel still names
            queue.put(2, id="b")
        watched.sentinel.client.execute_command("SENTINEL", "REMOVE", "jobs")
        watched.sentinel.client.execute_command("SENTINEL", "MONITOR", "jobs", "127.0.0.1", watched.replica.port, 1)

        def put_again() -> str:  # until the sentinel has heard from its new primary, it holds it for down
            with contextlib.suppress(Unreachable):
                return str(queue.put(2, id="b").word)
            return ""

        assert wait_until(put_again, ENOUGH) == "moved"
        assert watched.replica.client.hexists("rqtui:{mail}:jobs", "b")


@pytest.mark.slow
def test_a_client_of_redis_py_for_sentinels_may_be_given(kind: Any, watched: Watched) -> None:
    theirs = Sentinel([("127.0.0.1", watched.sentinel.port)]).master_for("jobs")
    with kind("mail", theirs) as queue:
        queue.put(1, id="a")
        wait_until(lambda: watched.replica.client.zcard("rqtui:{mail}:ready") == 1, ENOUGH)
        watched.primary.kill()
        watched.wait_for_failover()
        wait_until(lambda: _stepped_calls(queue.counts), ENOUGH)
        assert queue.put(2, id="b").word == "moved"
        assert queue.counts()["ready"] == 2


def test_a_client_of_redis_py_for_sentinels_and_loops_may_be_given(watched: Watched) -> None:
    theirs = asyncio.sentinel.Sentinel([("127.0.0.1", watched.sentinel.port)]).master_for("jobs")
    with aio_facade.Queue("mail", theirs) as queue:
        queue.put(1, id="a")
        assert watched.primary.client.hexists("rqtui:{mail}:jobs", "a")
    replica = asyncio.sentinel.Sentinel([("127.0.0.1", watched.sentinel.port)]).slave_for("jobs")
    with aio_facade.Queue(
        "mail", replica
    ) as queue:  # which replica that names does not matter: a queue needs the primary
        assert queue.put(1, id="a").word == "exists"


@pytest.mark.slow
@run_on_event_loop
async def test_the_screen_follows_the_primary(watched: Watched) -> None:
    with Queue("mail", watched.url) as queue:
        queue.put(1, id="a")
    wait_until(lambda: watched.replica.client.zcard("rqtui:{mail}:ready") == 1, ENOUGH)
    async with screen(watched.url, (120, 35)) as ui:
        await ui.until_shown("mail")
        watched.primary.kill()
        await ui.until(lambda: ui.app.session.connection_loss is not None, "the loss", 30)
        await ui.until(lambda: watched.leader() == watched.replica.port, "the failover", 30)
        watched.replica.client.zadd("rqtui:{mail}:dead", {"b": 1})
        await ui.press("r")
        await ui.until(lambda: ui.app.session.connection_loss is None, "a new picture", 30)


def test_sentinels_with_a_password_of_their_own_are_asked_with_it(kind: Any, fleet: Fleet) -> None:
    primary = fleet.start(requirepass="of-redis")
    connected = connect(primary.url.replace("://", "://:of-redis@"))
    assert connected.ping()
    sentinel = fleet.sentinel(primary, lines=["sentinel auth-pass jobs of-redis", "requirepass of-sentinel"])
    at = f"127.0.0.1:{sentinel.port}/jobs/2"
    url = f"redis+sentinel://:of-redis@{at}?sentinel_password=of-sentinel"
    with kind("mail", url) as queue:
        wait_until(lambda: _stepped_calls(lambda: queue.put(1, id="a")), ENOUGH)
    with connect(primary.url.replace("://", "://:of-redis@") + "/2") as second:
        assert second.exists("rqtui:{mail}:meta")
    assert "of-" not in hide_url_passwords(url)
    for wrong in (url.replace("of-sentinel", "wrong"), url.replace("?sentinel_password=of-sentinel", "")):
        with kind("mail", wrong) as queue, pytest.raises(Unreachable, match="sentinel_password=PASSWORD") as caught:
            queue.put(1)
        assert "of-redis" not in str(caught.value)
    with kind("mail", url.replace("of-redis", "wrong")) as queue, pytest.raises(Denied, match="password"):
        queue.put(1)
    connected.close()


def _stepped_calls(act) -> bool:
    try:
        act()
    except ServerError:
        return False
    return True


def test_problems_of_sentinels_are_reported_in_a_sentence(watched: Watched) -> None:
    ran = shell(watched.url.replace("/jobs", "/mail"), "snapshot")
    assert ran.code == 3 and 'name no primary of "mail"' in ran.err
    assert f"127.0.0.1:{watched.sentinel.port} does not know it" in ran.err and "connection refused" in ran.err
    ran = shell("redis+sentinel://127.0.0.1:1,127.0.0.1:2/jobs", "snapshot")
    assert ran.code == 3 and "The sentinels at 127.0.0.1:1, 127.0.0.1:2" in ran.err
    ran = shell(f"redis+sentinel://127.0.0.1:{watched.primary.port}/jobs", "snapshot")
    assert ran.code == 3 and f"127.0.0.1:{watched.primary.port} is a Redis, but no sentinel." in ran.err


@run_on_event_loop
async def test_the_screen_reports_what_is_wrong_with_sentinels(client, url) -> None:
    async with screen("redis+sentinel://:secret@127.0.0.1:1,127.0.0.1:2/jobs/3", (120, 35)) as ui:
        await ui.until_shown("The sentinels at 127.0.0.1:1, 127.0.0.1:2", "service", "jobs")
        assert "secret" not in ui.text()


@pytest.mark.parametrize(
    ("url", "hosts", "service", "single"),
    [
        ("redis+sentinel://a/jobs", (("a", 26379),), "jobs", "redis://a:26379"),
        ("rediss+sentinel://u:p@a:1,[::1]:2/jobs/3", (("a", 1), ("::1", 2)), "jobs", "rediss://u:p@a:1/3"),
        ("redis+sentinel://a,b/my%20jobs?client_name=x", (("a", 26379), ("b", 26379)), "my jobs", "redis://a:26379?client_name=x"),
        ("redis+cluster://:p%40@a,b:7000/0", (("a", 6379), ("b", 7000)), "", "redis://:p%40@a:6379"),
    ],
)  # fmt: skip
def test_urls_of_several_hosts_are_understood(url: str, hosts: tuple, service: str, single: str) -> None:
    found = parse_multi_host_url(url, "shown")
    assert found is not None and (found.hosts, found.service, found.single) == (hosts, service, single)
    connect(url).close()


@run_in_one_test(
    ("url", "text"),
    [
        ("redis+sentinel://a:26379", "names no service"),
        ("redis+sentinel:///jobs", "no valid host and port"),
        ("redis+sentinel://a,,b/jobs", "no valid host and port"),
        ("redis+sentinel://a:port/jobs", "no valid host and port"),
        ("redis+sentinel://:se/cret@a/jobs", "no valid host and port"),
        ("redis+sentinel://a/jobs/x", "no database number"),
        ("redis+sentinel://a/jobs?retry=1", "'retry'"),
        ("redis+sentinel://a/jobs?db=1", "after the service"),
        ("redis+sentinel://a/jobs#x", "after #"),
        ("redis+cluster://a/3", "only 0"),
        ("redis+cluster://a?sentinel_password=x", "sentinel_password"),
        ("redis+other://a", "starts with redis://"),
        ("redis+cluster://a b", "space"),
    ],
)
def test_a_url_of_several_hosts_that_cannot_be_is_refused_in_a_sentence(url: str, text: str) -> None:
    with pytest.raises(UsageError, match="URL") as caught:
        connect(url)
    assert text in str(caught.value) and "se/cret" not in str(caught.value)
    assert str(caught.value).isprintable()


# An old primary that continues---------------------------------------------------------------------------------------


def pause_primary_until_failover(watched: Watched) -> None:
    """Suspend the primary until another one was chosen, and continue it: it believes to be the primary."""
    watched.primary.pause()
    watched.wait_for_failover()
    watched.primary.resume()


def believes(server: Server) -> bool:
    """Return whether a server believes to be a primary."""
    return bool(server.info("replication")["role"] == "master")


def follow(watched: Watched, queue: Any) -> None:
    """Wait until puts reach the new primary: the announcement may still be on its way when the old one continues."""

    def put() -> bool:
        return _stepped_calls(lambda: queue.put(0)) and watched.replica.client.hlen("rqtui:{mail}:jobs") > before

    before = watched.replica.client.hlen("rqtui:{mail}:jobs")
    wait_until(put, ENOUGH, "a put at the new primary", every_s=0.05)


def waiting(server: Server) -> int:
    """Return how many consumers block at a server."""
    return sum(each["cmd"] == "bzpopmin" for each in server.client.client_list())


@pytest.mark.slow
def test_puts_leave_an_old_primary_that_still_believes_to_be_one(kind: Any, watched: Watched) -> None:
    with kind("mail", watched.url) as queue:
        queue.put(0, id="first")
        wait_until(lambda: watched.replica.client.zcard("rqtui:{mail}:ready") == 1, ENOUGH)
        pause_primary_until_failover(watched)
        follow(watched, queue)
        items = []
        for number in range(20):
            wait_until(lambda n=number: _stepped_calls(lambda: queue.put(n, id=f"{n}")), ENOUGH, "a put")
            items.append(str(number))
        assert believes(watched.primary), "the old primary was demoted before this test could show anything"
        lost = set(items) - {id.decode() for id in watched.replica.client.hkeys("rqtui:{mail}:jobs")}
        assert lost == set(), "these were put into a server that is about to forget them"


def test_a_waiting_worker_leaves_an_old_primary_and_runs_no_job_twice(kind: Any, watched: Watched) -> None:
    ids = [str(number) for number in range(200)]
    with kind("mail", watched.url) as queue, Worker(watched.url, kind=kind) as stayed:
        queue.put(0, id="first")
        wait_until(lambda: stayed.ran == ["first"], ENOUGH, "a worker that waits at the primary")
        queue.pause()
        queue.put_many([{"body": n, "id": n} for n in ids])
        wait_until(lambda: watched.replica.client.zcard("rqtui:{mail}:ready") == len(ids), ENOUGH, "the copy")
        pause_primary_until_failover(watched)
        wait_until(lambda: not waiting(watched.primary), ENOUGH, "the worker's leave")
        assert believes(watched.primary), "the old primary was demoted before the worker could leave it"
        with Worker(watched.replica.url) as other:
            for server in (watched.primary, watched.replica):  # what two producers at two primaries would do
                with Queue("mail", server.url) as direct:
                    direct.resume()
            wait_until(lambda: {*stayed.ran, *other.ran} >= {*ids}, ENOUGH, "every job")
            wait_until(lambda: not watched.replica.client.exists("rqtui:{mail}:reserved"), ENOUGH, "every ack")
        ran = [*stayed.ran, *other.ran]
        twice = {id for id in ran if ran.count(id) > 1}
        assert twice == set() and stayed.error is None


def test_the_primary_with_the_newer_epoch_is_used_if_sentinels_name_two(kind: Any, fleet: Fleet) -> None:
    old, new = fleet.start(), fleet.start()
    behind = fleet.sentinel(old)  # as one that was cut off from the others while these failed over
    ahead = fleet.sentinel(new, lines=["sentinel config-epoch jobs 1"])
    with kind("mail", f"redis+sentinel://127.0.0.1:{behind.port},127.0.0.1:{ahead.port}/jobs") as queue:
        wait_until(
            lambda: _stepped_calls(lambda: queue.put(0)) and new.client.exists("rqtui:{mail}:jobs"), ENOUGH, "the way"
        )
        before = old.client.hlen("rqtui:{mail}:jobs")
        for number in range(20):
            queue.put(number)
        assert old.client.hlen("rqtui:{mail}:jobs") == before


@pytest.mark.slow
@pytest.mark.parametrize("kind_of_client", ["waits", "awaited"])
def test_a_client_of_redis_py_for_sentinels_leaves_an_old_primary(watched: Watched, kind_of_client: str) -> None:
    at = [("127.0.0.1", watched.sentinel.port)]
    sentinels, kind = (Sentinel(at), Queue) if kind_of_client == "waits" else (asyncio.Sentinel(at), aio_facade.Queue)
    with kind("mail", sentinels.master_for("jobs")) as queue:
        queue.put(0, id="first")
        wait_until(lambda: watched.replica.client.zcard("rqtui:{mail}:ready") == 1, ENOUGH)
        pause_primary_until_failover(watched)
        follow(watched, queue)
        assert believes(watched.primary), "the old primary was demoted before this test could show anything"


@pytest.mark.slow
@run_on_event_loop
async def test_the_screen_and_its_loops_leave_an_old_primary(watched: Watched) -> None:
    with Queue("mail", watched.url) as queue:
        queue.put(1, id="a")
    wait_until(lambda: watched.replica.client.zcard("rqtui:{mail}:ready") == 1, ENOUGH)
    client = connect(watched.url)
    loop = Loop(
        "dispatcher",
        build_round("dispatch", client, {"native": registry.create_system("native")}, lambda: [Ref("native", "mail")]),
    )
    loop.start()
    async with screen(watched.url, (120, 35)) as ui:
        await ui.until_shown("mail")
        wait_until(lambda: loop.rounds and not loop.rounds[-1].error, ENOUGH, "the dispatcher")
        pause_primary_until_failover(watched)
        with Queue("only-there", watched.replica.url) as there, Queue("mail", watched.replica.url) as mail:
            there.put(1)
            mail.put(2, delay=0.05)
        await ui.press("r")
        await ui.until_shown("only-there")
        await ui.until(lambda: watched.replica.client.zcard("rqtui:{mail}:ready") == 2, "the dispatcher", ENOUGH)
        assert believes(watched.primary), "the old primary was demoted before this test could show anything"
    loop.stop()
    client.close()
