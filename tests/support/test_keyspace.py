"""The tests' own tools are correct: a dump can be planted again, and every difference is reported."""

from __future__ import annotations

from aging import move_queue_into_past
from redis import Redis

from rqtui.testing.keyspace import Stream, Zset, diff, dump, plant

SPEC = {
    "string": "text",
    "bytes\udcff": b"\x00\xff",
    "list": ["b", "a", "b"],
    "set": {"a", "b"},
    "hash": {"f": "1", "g": b"\xff"},
    "zset": Zset({"a": 1.5, "b": -2, "c": 2**52}),
    "stream": Stream([("1-0", {"k": "v"}), ("2-1", {"k": "w"})]),
}


def test_a_dumped_keyspace_can_be_planted_again(any_client: Redis) -> None:
    plant(any_client, SPEC)
    any_client.pexpire("list", 100_000)
    before = dump(any_client)
    assert before["zset"].value == {b"a": 1.5, b"b": -2, b"c": 2**52} and list(before["zset"].value)[0] == b"b"
    assert [key for key, entry in before.items() if entry.expires] == ["list"]
    any_client.flushall()
    plant(any_client, before)
    assert dump(any_client) == before and diff(before, dump(any_client)) == []


def test_each_change_is_a_line(client: Redis) -> None:
    plant(client, SPEC)
    before = dump(client)
    client.delete("string")
    client.zadd("zset", {"a": 3})
    client.srem("set", "a")
    client.hset("hash", "f", "2")
    client.xadd("stream", {"k": "x"}, id="3-0")
    client.expire("list", 100)
    client.set("new", 1)
    assert diff(before, dump(client)) == [
        "hash: b'f' b'1' → b'2'",
        "list: expires False → True",
        "new: nothing → string b'1'",
        "set: - b'a'",
        "stream: + b'3-0' {b'k': b'x'}",
        "string: string b'text' → nothing",
        "zset: b'a' 1.5 → 3.0",
    ]


def test_age_moves_the_instants_of_a_queue_back_and_nothing_else(client: Redis) -> None:
    name = "rqtui:{q}:".__add__
    spec = {
        name("scheduled"): Zset({"a": 5000}),
        name("ready"): Zset({"b": 7}),
        name("reserved"): Zset({"c": 6000}),
        name("jobs"): {
            "a": "4000 5000 - - - - - - - mail\n4000 body",
            "b": "4000 - 0 - - - - - - ",
            "s": "4000:4 mail\n4000:",
            "x": "corrupt",
        },
        name("attempts"): {"c": "1 123456 7 4500 - - w1"},
        name("workers"): {"w1": "4100 60000 run 4000 1 host "},
    }
    plant(client, spec)
    move_queue_into_past(client, "q", 1000)
    assert client.zrange(name("scheduled"), 0, -1, withscores=True) == [(b"a", 4000)]
    assert client.zrange(name("ready"), 0, -1, withscores=True) == [(b"b", 7)]
    assert client.zrange(name("reserved"), 0, -1, withscores=True) == [(b"c", 5000)]
    assert client.hgetall(name("jobs")) == {
        b"a": b"3000 4000 - - - - - - - mail\n4000 body",
        b"b": b"3000 - 0 - - - - - - ",
        b"s": b"3000:4 mail\n4000:",
        b"x": b"corrupt",
    }
    assert client.hgetall(name("attempts")) == {b"c": b"1 123456 7 3500 - - w1"}
    assert client.hgetall(name("workers")) == {b"w1": b"3100 60000 run 3000 1 host "}
