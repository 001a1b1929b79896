"""How far scripts of Celery and Sidekiq search the list of a queue for the entries of a change."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.systems import registry

pytestmark = pytest.mark.parametrize(
    ("system", "queue", "key"), [("celery", "celery", "celery"), ("sidekiq", "default", "queue:default")]
)


def delete(client: Redis, system: str, queue: str, members: Sequence[object]) -> list[str]:
    """Delete entries of a queue, and return the word of the reply to each."""
    foreign = registry.create_system(system)
    rows = [{"member": str(member)} for member in members]
    call = foreign.build_call("delete", queue, foreign.select_arguments("delete", {}), rows)
    return [reply.word for reply in scripts.run_call(client, call).each]


def test_one_call_searches_up_to_200_000_entries(client: Redis, system: str, queue: str, key: str) -> None:
    for first, found in ((6_000, 49), (4_000, 22)):  # a row costs its distance from an end, and 5000 if it is not there
        client.delete(key)
        client.rpush(key, *range(10_000))
        words = delete(client, system, queue, [first - 2 * number for number in range(60)])
        assert words == ["moved"] * found + ["later"] * (60 - found), first


def test_each_of_several_entries_is_searched_among_5000_at_each_end(
    client: Redis, system: str, queue: str, key: str
) -> None:
    for length, members, expected in (
        (10_000, ("4999", "none"), ["moved", "gone"]),
        (10_000, ("5000", "1"), ["moved", "moved"]),
        (10_001, ("4999", "none"), ["moved", "later"]),
        (10_001, ("5000", "1"), ["later", "moved"]),
        (10_001, ("5001", "1"), ["moved", "moved"]),
    ):
        client.delete(key)
        client.rpush(key, *range(length))
        assert delete(client, system, queue, members) == expected, (length, members)
