"""Functions that read from Redis one after another, joined into one round trip per step."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from rqtui.connection.connect import connect
from rqtui.connection.meter import Meter
from rqtui.engine.engine import Engine
from rqtui.engine.joint_reads import read_jointly
from rqtui.errors import Unreachable
from rqtui.systems import registry


def test_readers_share_their_round_trips(client: Redis, url: str) -> None:
    client.set("a", 1)
    client.rpush("b", 1, 2)
    meter = Meter()
    metered = connect(url, meter=meter)
    metered.ping()
    before = meter.compute_total_cost().round_trips

    def read_two_steps(joined: Any) -> tuple[bytes, int]:
        kind = joined.type("b")
        return kind, joined.llen("b") if kind == b"list" else 0

    def read_by_pipeline(joined: Any) -> list[Any]:
        pipe = joined.pipeline(transaction=False)
        pipe.get("a")
        pipe.llen("a")
        return pipe.execute(raise_on_error=False)

    lengths, (number, error) = read_jointly(metered, [read_two_steps, read_by_pipeline])
    assert lengths == (b"list", 2)
    assert number == b"1" and isinstance(error, ResponseError)
    assert meter.compute_total_cost().round_trips - before == 2


def test_an_error_of_one_reader_is_its_result_alone(client: Redis) -> None:
    client.set("a", 1)

    def fail_in_pipeline(joined: Any) -> Any:
        pipe = joined.pipeline(transaction=False)
        pipe.llen("a")
        return pipe.execute()

    first, second, third = read_jointly(client, [lambda joined: joined.llen("a"), fail_in_pipeline, lambda _joined: 3])
    assert isinstance(first, ResponseError) and isinstance(second, ResponseError)
    assert third == 3


def test_an_unknown_name_takes_two_round_trips_for_all_systems(client: Redis, url: str) -> None:
    client.sadd("queues", "mail")
    client.rpush("queue:mail", "{}")
    client.set("stat:processed", 3)  # Sidekiq reads these keys in a second step.
    meter = Meter()
    engine = Engine(connect(url, meter=meter), registry.create_usable_systems()[0])
    engine.client.ping()
    before = meter.compute_total_cost().round_trips
    assert engine.resolve_or_discover("mail").queue == "mail"
    assert meter.compute_total_cost().round_trips - before == 2


def test_a_lost_connection_is_raised() -> None:
    engine = Engine(connect("redis://127.0.0.1:1"), registry.create_usable_systems()[0])
    with pytest.raises(Unreachable):
        engine.resolve_or_discover("mail")
