"""The meter: what a program asks of Redis is what Redis was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from proxy import Proxy
from redis import Redis

from rqtui.connection.cluster import create_following_client
from rqtui.connection.connect import connect, copy_client
from rqtui.connection.meter import Meter, find_client_meter
from rqtui.errors import Unreachable
from rqtui.scripts import script as scripts

INSIDE = "lua"  # what MONITOR has as the client of a command of a script


@contextmanager
def record_commands(client: Redis) -> Iterator[list[str]]:
    """Record the commands by name that the server gets from clients in the block, without connection handshakes."""
    words: list[str] = []
    with client.monitor() as monitor:

        def listen() -> None:
            for each in monitor.listen():
                if each["client_type"] != INSIDE:
                    words.append(str(each["command"]).split()[0].upper())
                if "the end" in str(each["command"]):
                    return

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        yield words
        client.echo("the end")
        listener.join(20)
        words[:] = [word for word in words if word not in ("CLIENT", "ECHO")]


def tally() -> scripts.Call:
    return scripts.load_scripts("shared")["tally"].build_call({}, {}, each_keys=[tuple("abcdefghi")])


def test_it_counts_scripts_commands_and_pipelines_as_the_server_does(client: Redis, url: str) -> None:
    meter = Meter()
    client.script_flush()
    with connect(url, client_name="", meter=meter) as metered, record_commands(client) as words:
        metered.ping()  # connects
        scripts.send_calls(metered, [tally(), tally()])  # not known to the server: sent again with their text
        scripts.send_calls(metered, [tally()])
        pipe: Any = metered.pipeline(transaction=False)
        pipe.sadd("names", "a").smembers("names").smembers("names")
        pipe.execute()
        with pytest.raises(redis.ResponseError):
            metered.incr("names")
    total = meter.compute_total_cost()
    assert (total.commands, total.round_trips) == (len(words), 6)
    assert words.count("SMEMBERS") == 2
    assert total.ms > 0


def test_the_name_of_a_connection_counts_as_well(client: Redis, url: str) -> None:
    meter = Meter()
    with connect(url, client_name="somebody", meter=meter) as metered:
        metered.ping()
    assert meter.compute_total_cost().commands == 2


def test_a_client_made_like_another_and_one_that_follows_count_on_the_same_meter(client: Redis, url: str) -> None:
    meter = Meter()
    with connect(url, client_name="", meter=meter) as metered, copy_client(metered) as alike:
        metered.ping()
        alike.ping()
        options = metered.connection_pool.connection_kwargs
        kind = metered.connection_pool.connection_class
        with create_following_client(
            lambda: (options["host"], options["port"]), {**options, "connection_class": kind}
        ) as third:
            third.ping()
            assert find_client_meter(third) is find_client_meter(alike) is meter
    assert meter.compute_total_cost().commands == 3


def test_a_client_of_a_cluster_counts_at_each_node(url: str) -> None:
    meter = Meter()
    cluster: Any = connect(url.replace("redis://", "redis+cluster://"), meter=meter)
    host, _colon, port = url.removeprefix("redis://").partition(":")
    cluster.find_or_create_node_client((host, int(port))).ping()
    assert find_client_meter(cluster) is meter
    assert meter.compute_total_cost().commands == 2, "its name, and the ping"


def test_a_wait_in_vain_counts_with_its_time(url: str) -> None:
    meter = Meter()
    with Proxy(url) as proxy, connect(f"{proxy.url}?socket_timeout=0.2", client_name="", meter=meter) as metered:
        metered.ping()
        proxy.is_blackhole = True
        before = meter.compute_total_cost()
        [answer] = scripts.send_calls(metered, [tally()])
        assert isinstance(answer, Unreachable)
        spent = meter.compute_total_cost() - before
        assert (spent.commands, spent.round_trips) == (1, 1) and spent.ms >= 190


def test_a_client_without_a_meter_counts_nowhere(url: str) -> None:
    with connect(url) as client:
        assert find_client_meter(client) is None
        client.ping()
