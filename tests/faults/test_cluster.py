"""The native queue on a Cluster of three nodes: queues on each of them, slots that move, a node that dies."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from fleet import Fleet, Server
from queue_check import find_misplaced_jobs
from redis import Redis
from redis.exceptions import BusyLoadingError, RedisError
from screens import run_on_event_loop, screen
from shell import shell
from waiting import wait_until

from rqtui.client import native_keys
from rqtui.client.queue import Queue
from rqtui.connection.cluster import compute_key_slot
from rqtui.connection.connect import connect, open_and_authenticate
from rqtui.engine.engine import Engine, build_engine
from rqtui.engine.loops import Loop, build_round
from rqtui.errors import ServerError, Unreachable, UsageError
from rqtui.model import Ref, State
from rqtui.systems import registry

ENOUGH = 60.0
NAMES = ("red", "green", "blue", "mail", "sms", "pdf")


class Trio:
    """Three Cluster nodes that share the slots, and their replicas; a dead node does not stop the others."""

    def __init__(self, fleet: Fleet, replicas: int = 0) -> None:
        everyone = fleet.cluster(
            replicas=replicas,
            appendonly="yes",
            cluster_require_full_coverage="no",
            cluster_allow_reads_when_down="no",
        )
        self.nodes, self.replicas = everyone[:3], everyone[3:]
        self.url = "redis+cluster://127.0.0.1:1," + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def owner(self, queue: str) -> Server:
        """Return the node that owns a queue, according to the nodes themselves."""
        slot = compute_key_slot(native_keys.build_queue_keys(queue)["meta"])
        shares = self.nodes[-1].client.execute_command("CLUSTER", "SLOTS")
        (port,) = [int(node[1]) for first, last, node, *_ in shares if first <= slot <= last]
        return next(node for node in (*self.nodes, *self.replicas) if node.port == port)

    def queues(self, node: Server) -> list[str]:
        """Return the queues of NAMES that a node owns."""
        return [name for name in NAMES if self.owner(name) is node]


@pytest.fixture(scope="module")
def running() -> Iterator[Trio]:
    with Fleet() as fleet:
        yield Trio(fleet)


@pytest.fixture
def trio(running: Trio) -> Trio:
    """Return the empty nodes, which all tests share but those that kill one."""
    for node in running.nodes:
        node.client.flushall()
    return running


@pytest.fixture
def mortal() -> Iterator[Trio]:
    """Start nodes that a test may kill."""
    with Fleet() as fleet:
        yield Trio(fleet)


def engine(trio: Trio) -> Engine:
    return build_engine(connect(trio.url), registry.create_systems())


# All nodes -----------------------------------------------------------------------------------------------------------


def test_the_names_of_these_tests_lie_on_all_nodes(trio: Trio) -> None:
    assert all(trio.queues(node) for node in trio.nodes)


def test_rq_is_read_here_where_its_prefix_has_a_tag_and_refused_elsewhere(trio: Trio) -> None:
    shares = trio.nodes[0].client.execute_command("CLUSTER", "SLOTS")
    [port] = [int(node[1]) for first, last, node, *_ in shares if first <= compute_key_slot("{rq}:queues") <= last]
    node = next(node for node in trio.nodes if node.port == port)
    node.client.sadd("{rq}:queues", "{rq}:queue:a", "{rq}:queue:b")
    node.client.rpush("{rq}:queue:a", "job-1")
    node.client.hset("{rq}:job:job-1", mapping={"origin": "a", "status": "queued", "description": "tasks.add(1)"})
    looking = build_engine(connect(trio.url), [registry.create_system("rq:prefix={rq}")])
    assert {ref for found in looking.discover() for ref in found} == {Ref("rq", "a"), Ref("rq", "b")}
    assert {queue.name: (queue.count_in_place("queued"), queue.error) for queue in looking.take_snapshot().queues} == {
        "a": (1, ""),
        "b": (0, ""),
    }
    assert [(ref, job.id) for ref, job in looking.find_jobs_by_id([b"job-1"]).jobs] == [(Ref("rq", "a"), b"job-1")]
    with pytest.raises(UsageError, match="cannot run on a Cluster"):
        build_engine(connect(trio.url), [registry.create_system("rq")])


def test_queues_on_all_nodes_are_put_to_consumed_and_settled(kind: Any, trio: Trio) -> None:
    for name in NAMES:
        with kind(name, trio.url) as queue:
            queue.put_many({"body": n, "id": str(n)} for n in range(5))
            queue.put("later", id="later", delay="100ms")
            assert queue.put(0, id="0").word == "exists"
            [job] = queue.reserve()
            assert job.ack() == "moved"
            stop, ran = threading.Event(), []
            for job in queue.consume(stop=stop):
                with job:
                    ran.append(job.id)
                    if len(ran) == 5:
                        stop.set()
            assert sorted(ran) == ["1", "2", "3", "4", "later"]
            counts = queue.counts()
            assert (counts["acked"], counts["ready"], counts["reserved"]) == (6, 0, 0)
        node = trio.owner(name)
        assert find_misplaced_jobs(node.client, name) == []
        assert node.client.exists(native_keys.build_queue_keys(name)["meta"])


def test_every_queue_is_found_also_one_that_a_crash_left_off_the_list(trio: Trio) -> None:
    for name in NAMES:
        with Queue(name, trio.url) as queue:
            queue.put(1)
    keeper = next(node for node in trio.nodes if _has(node.client, native_keys.QUEUES))
    keeper.client.srem(native_keys.QUEUES, "red", "blue", "green")
    found = engine(trio)
    assert {ref.queue for ref in found.refs} == set(NAMES)
    assert {queue.name: queue.count_in_state(State.READY) for queue in found.take_snapshot().queues} == dict.fromkeys(
        NAMES, 1
    )


def _has(client: Redis, key: str) -> bool:
    try:
        return bool(client.exists(key))
    except Exception:
        return False


def test_one_loop_serves_queues_on_all_nodes(trio: Trio) -> None:
    refs = [Ref("native", name) for name in NAMES]
    for name in NAMES:
        with Queue(name, trio.url) as queue:
            queue.put(1, delay="50ms")
    with connect(trio.url) as client:
        loop = Loop(
            "dispatcher", build_round("dispatch", client, {"native": registry.create_system("native")}, lambda: refs)
        )
        wait_until(lambda: loop.step() and sum(done.moved for done in loop.rounds) == len(NAMES), ENOUGH)
    for name in NAMES:
        assert trio.owner(name).client.zcard(native_keys.build_queue_keys(name)["ready"]) == 1


@pytest.mark.slow
def test_commands_work_on_all_nodes(trio: Trio) -> None:
    for name in NAMES:
        assert shell(trio.url, "put", name, '{"n": 1}', "--id", "a").code == 0
        assert shell(trio.url, "put", name, "2", "--id", "b", "--delay", "1h").code == 0
    found = shell(trio.url, "snapshot", "--json").json
    assert {queue["queue"]: queue["places"][1]["count"] for queue in found["queues"]} == dict.fromkeys(NAMES, 1)
    for name in (trio.queues(node)[0] for node in trio.nodes):
        assert shell(trio.url, "act", "promote", name, "b", "--json").json["moved"] == 1
        assert shell(trio.url, "act", "reserve", name, "--json").json["moved"] == 1
        assert shell(trio.url, "act", "delete", name, "--place", "ready", "--all", "--yes", "--json").json["moved"] == 1
        assert shell(trio.url, "check", name).code == 0
        assert shell(trio.url, "show", name, "a", "--json").json["place"] == "reserved"
    for words in (
        ["health"],
        ["workers"],
        ["redis"],
        ["stats"],
        ["dispatch", "--once"],
        ["reap", "--once"],
        ["metrics"],
    ):
        ran = shell(trio.url, *words)
        assert ran.code in (0, 1, 3) and "Traceback" not in ran.err, (words, ran)


def test_jobs_move_between_queues_on_different_nodes(trio: Trio) -> None:
    one, other = trio.queues(trio.nodes[0])[0], trio.queues(trio.nodes[1])[0]
    with Queue(one, trio.url) as source, Queue(other, trio.url) as target:
        source.put("x", id="x")
        [job] = source.reserve()
        job.push(target)
        assert source.counts()["acked"] == 1 and [job.id for job in target.reserve()] == ["x"]


@pytest.mark.slow
@run_on_event_loop
async def test_the_screen_shows_queues_of_all_nodes_and_changes_them(trio: Trio) -> None:
    for name in NAMES:
        with Queue(name, trio.url) as queue:
            queue.put(1, id="a", delay="1h")
    async with screen(trio.url, (160, 45), open_queue="pdf") as ui:
        await ui.until_shown("pdf", "scheduled")
        await ui.press("1", "R")
        await ui.until(
            lambda: trio.owner("pdf").client.zcard(native_keys.build_queue_keys("pdf")["ready"]) == 1, "the promotion"
        )
        await ui.press("escape")
        await ui.until_shown(*NAMES)


# What cannot be there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in registry.list_system_names() if name != "native"])
def test_a_system_whose_keys_differ_in_slot_is_refused_in_a_sentence(trio: Trio, name: str) -> None:
    ran = shell(trio.url, "--system", name, "snapshot")
    assert ran.code == 2 and f"{name} cannot run on a Cluster" in ran.err
    with pytest.raises(UsageError, match="different slots"):
        Engine(connect(trio.url), [registry.create_system(name)])


def test_the_url_of_one_node_alone_names_the_url_of_all(trio: Trio) -> None:
    for node in trio.nodes:
        rest = [name for name in NAMES if trio.owner(name) is not node]
        with Queue(rest[0], node.url) as queue, pytest.raises(ServerError, match=r"redis\+cluster://HOST:PORT"):
            queue.put(1)
    ran = shell(trio.nodes[0].url, "put", trio.queues(trio.nodes[1])[0], "1")
    assert ran.code == 3 and "redis+cluster://" in ran.err


def test_a_server_that_is_no_cluster_is_informed(client: Redis, url: str) -> None:
    ran = shell(url.replace("redis://", "redis+cluster://"), "snapshot")
    assert ran.code == 3 and "No node of the Cluster" in ran.err and "is no node of a Cluster" in ran.err


def test_an_unreachable_redis_is_described_in_a_sentence() -> None:
    ran = shell("redis+cluster://127.0.0.1:1,127.0.0.1:2", "snapshot")
    assert ran.code == 3 and "No node of the Cluster at 127.0.0.1:1, 127.0.0.1:2 answers" in ran.err
    with connect("redis+cluster://127.0.0.1:1") as client, pytest.raises(Unreachable):
        open_and_authenticate(client)


# A slot moves --------------------------------------------------------------------------------------------------------


def test_while_a_slot_moves_a_put_reports_it_and_afterwards_everything_follows(kind: Any, trio: Trio) -> None:
    source = trio.owner("mail")
    target = next(node for node in trio.nodes if node is not source)
    slot = compute_key_slot(native_keys.build_queue_keys("mail")["meta"])
    ids = {node.port: node.client.execute_command("CLUSTER", "MYID").decode() for node in trio.nodes}
    stop, ran = threading.Event(), []
    loop = Loop(
        "reaper",
        build_round(
            "reap", connect(trio.url), {"native": registry.create_system("native")}, lambda: [Ref("native", "mail")]
        ),
    )

    def work() -> None:
        with kind("mail", trio.url) as queue:
            for job in queue.consume(stop=stop, ttr=5):
                with job:
                    ran.append(job.id)

    with kind("mail", trio.url) as queue:
        queue.put_many({"body": n, "id": str(n), "delay": "1h"} for n in range(20))
        queue.put("first", id="first")
        watching = engine(trio)
        assert loop.step().error == ""
        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        wait_until(lambda: ran == ["first"], ENOUGH)
        wait_until(lambda: queue.counts()["acked"] == 1, ENOUGH)
        try:
            target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
            source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.port])
            moving = source.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100)
            for number, key in enumerate(moving):
                words = ["MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", key]
                source.client.execute_command(*words)
                if number == 0:
                    with pytest.raises(ServerError, match="on its way to another node") as caught:
                        queue.put("during", id="during")
                    assert "nothing was done" in str(caught.value)
                    assert shell(trio.url, "put", "mail", "1").code == 3
        finally:
            for node in (target, source, *trio.nodes):
                node.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[target.port])
        assert queue.put("during", id="during").word == "moved"
        assert trio.owner("mail") is target
        wait_until(lambda: ran == ["first", "during"], ENOUGH)
        assert queue.promote("7") == "moved"
        wait_until(lambda: ran == ["first", "during", "7"], ENOUGH)
        wait_until(lambda: queue.counts()["acked"] == 3, ENOUGH)
        assert [found.count_in_state(State.SCHEDULED) for found in watching.take_snapshot().queues] == [19]
        assert all(not step.error for step in loop.step().steps)
        stop.set()
        worker.join(ENOUGH)
    assert find_misplaced_jobs(target.client, "mail") == []
    assert not source.client.execute_command("CLUSTER", "COUNTKEYSINSLOT", slot)


# A node dies ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@run_on_event_loop
async def test_a_dead_node_takes_its_queues_along_and_no_others_until_it_is_back(mortal: Trio) -> None:
    trio = mortal
    for name in NAMES:
        with Queue(name, trio.url) as queue:
            queue.put(1, id="a")
    victim = trio.owner("mail")
    gone = trio.queues(victim)
    left = [name for name in NAMES if name not in gone]
    held = {name: Queue(name, trio.url) for name in NAMES}
    async with screen(trio.url, (160, 45)) as ui:
        await ui.until_shown(*NAMES)
        victim.kill()
        for name in left:
            assert held[name].put(2, id="b").word == "moved"
        for name in gone:
            with pytest.raises(ServerError):
                held[name].put(2, id="b")
        ran = shell(trio.url, "snapshot", "--json")
        assert ran.code == 0
        errors = {queue["queue"]: "error" in queue and bool(queue["error"]) for queue in ran.json["queues"]}
        assert [name for name in left if errors[name]] == []
        assert [name for name in gone if name in errors and not errors[name]] == []
        await ui.until(lambda: _errors(ui.app) == set(gone), "the lost queues by name", ENOUGH)
        assert ui.app.session.connection_loss is None
        victim.start()
        wait_until(lambda: _is_back(victim), ENOUGH)
        wait_until(lambda: _is_put(held[gone[0]]), ENOUGH)
        for name in gone[1:]:
            assert held[name].put(2, id="b").word in ("moved", "exists")
        await ui.until(lambda: _errors(ui.app) == set(), "all queues", ENOUGH)
    for name, queue in held.items():
        assert sorted(job.id for job in queue.reserve(5)) == ["a", "b"], name
        queue.close()


@pytest.mark.matrix
@run_on_event_loop
async def test_a_replica_takes_over_a_dead_nodes_queues_and_gives_them_back_and_all_continue(fleet: Fleet) -> None:
    trio = Trio(fleet, replicas=1)
    victim = trio.nodes[0]
    name, *_ = trio.queues(victim)
    heir = trio.replicas[0]
    stop, ran = threading.Event(), []

    def work() -> None:
        with Queue(name, trio.url) as queue:
            for job in queue.consume(stop=stop, ttr=30):
                with job:
                    ran.append(job.id)

    worker = threading.Thread(target=work, daemon=True)
    with Queue(name, trio.url) as queue, connect(trio.url) as client:
        worker.start()
        loop = Loop(
            "dispatcher",
            build_round(
                "dispatch", client, {"native": registry.create_system("native")}, lambda: [Ref("native", name)]
            ),
        )
        queue.put(1, id="before", durable=True)
        queue.put(1, id="later", delay="1h", durable=True)
        async with screen(trio.url, (120, 35)) as ui:
            await ui.until(lambda: ran == ["before"], "the job")
            await ui.until_shown(name)
            await ui.until(
                lambda: queue.counts()["acked"] == 1 and has_replicated_all(heir, victim), "the replica's copy"
            )
            victim.kill()
            await ui.until(lambda: trio.owner(name) is heir, "the failover", ENOUGH)
            await ui.until(lambda: _is_done(lambda: queue.put(2, id="after")), "the way to the replica", ENOUGH)
            await ui.until(lambda: ran == ["before", "after"], "the worker's return", ENOUGH)
            await ui.until(
                lambda: not loop.step().error and not loop.step().steps[0].error, "the loop's return", ENOUGH
            )
            await ui.until(lambda: _errors(ui.app) == set(), "the queue on the screen", ENOUGH)
            victim.start()
            await ui.until(lambda: _follows(victim, heir), "the return as a replica", ENOUGH)
            order = Order(victim)  # an upgrade ends like this: no server dies
            await ui.until(lambda: order.is_given() and trio.owner(name) is victim, "the second failover", ENOUGH)
            await ui.until(lambda: _is_done(lambda: queue.put(3, id="home", durable=True)), "the way back", ENOUGH)
            await ui.until(lambda: "home" in ran, "the worker's second return", ENOUGH)
            await ui.until(lambda: not loop.step().error and not loop.step().steps[0].error, "the loop", ENOUGH)
            await ui.until(
                lambda: ui.app.session.connection_loss is None and _errors(ui.app) == set(), "the screen", ENOUGH
            )
            assert queue.promote("later") == "moved"
            await ui.until(lambda: ran == ["before", "after", "home", "later"], "the last job", ENOUGH)
        stop.set()
        worker.join(ENOUGH)
    assert find_misplaced_jobs(victim.client, name) == []


class Order:
    """To a replica, to take over from a live primary; it is given again, for on a busy machine it runs out."""

    AGAIN_S = 7.0  # Redis itself gives up after five

    def __init__(self, replica: Server) -> None:
        self._replica, self._given_s = replica, 0.0

    def is_given(self) -> bool:
        if time.monotonic() > self._given_s + self.AGAIN_S:
            self._given_s = time.monotonic()
            with suppress(RedisError):  # it leads by now
                self._replica.client.execute_command("CLUSTER", "FAILOVER")
        return True


def _is_done(act) -> bool:
    try:
        act()
    except ServerError:
        return False
    return True


def has_replicated_all(replica: Server, primary: Server) -> bool:
    return replica.info("replication")["slave_repl_offset"] == primary.info("replication")["master_repl_offset"]


def _follows(node: Server, primary: Server) -> bool:
    try:
        found = node.info("replication")
    except RedisError:  # it is loading
        return False
    return found["role"] == "slave" and found["master_port"] == primary.port and found["master_link_status"] == "up"


@pytest.mark.slow
def test_the_roles_of_acl_are_enough_on_every_node_and_what_is_missing_is_named(trio: Trio) -> None:
    def become(*options: str) -> str:
        line = shell(trio.url, "acl", "operator", *NAMES, "--user", "probe", *options).out.strip()
        for node in trio.nodes:
            node.client.execute_command(*line.replace(">PASSWORD", ">sesame").split(" "))
        return trio.url.replace("//", "//probe:sesame@")

    try:
        refused = shell(become(), "put", "mail", "1")
        assert refused.code == 3 and "+cluster|slots" in refused.err, refused
        url = become("--cluster")
        for words in (
            ("put", "mail", "1"),
            ("put", "red", "1"),
            ("snapshot",),
            ("act", "purge", "mail", "--all", "--yes"),
        ):
            ran = shell(url, *words)
            assert ran.code == 0, (words, ran)
        assert shell(url, "jobs", "red", "ready", "--json").json["jobs"] and not _ready(trio, "mail")
    finally:
        for node in trio.nodes:
            node.client.execute_command("ACL", "DELUSER", "probe")


def _is_back(node: Server) -> bool:
    try:
        return b"cluster_state:ok" in node.client.execute_command("CLUSTER", "INFO")
    except BusyLoadingError:
        return False


def _is_put(queue: Queue) -> bool:
    try:
        return queue.put(2, id="b").word in ("moved", "exists")
    except ServerError:
        return False


def _errors(app) -> set[str]:
    return {queue.name for queue in app.session.snapshot.queues if queue.error}


@pytest.mark.slow
def test_the_calls_of_a_dead_node_alone_fail_and_report_that_nothing_was_done(mortal: Trio) -> None:
    trio = mortal
    native, client = registry.create_system("native"), connect(trio.url)
    loop = Loop(
        "dispatcher", build_round("dispatch", client, {"native": native}, lambda: [Ref("native", n) for n in NAMES])
    )
    for name in NAMES:
        with Queue(name, trio.url) as queue:
            queue.put(1, delay="50ms")
    victim = trio.owner("mail")
    gone = trio.queues(victim)
    assert loop.step().error == ""
    victim.kill()
    for _ in range(2):  # the first finds the connections broken
        loop.step()
    done = loop.step()
    assert {step.ref.queue for step in done.steps if step.error} == set(gone)
    assert all("was" in step.error for step in done.steps if step.error)
    wait_until(lambda: loop.step() and all(_ready(trio, n) for n in NAMES if n not in gone), ENOUGH)
    found = build_engine(client, [native])
    answers = found.take_snapshot().queues
    assert {queue.name for queue in answers if not queue.error} >= set(NAMES) - set(gone)
    client.close()


def _ready(trio: Trio, name: str) -> int:
    return trio.owner(name).client.zcard(native_keys.build_queue_keys(name)["ready"])
