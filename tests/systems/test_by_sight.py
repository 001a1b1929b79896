"""Systems that rqtui does not speak: seen by their keys, named, and never taken for its own."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from families import run_in_one_test
from redis import Redis
from screens import NARROW, WIDE, Seeded, run_on_event_loop, screen
from shell import shell

from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.engine.engine import Engine
from rqtui.errors import UsageError
from rqtui.systems import by_sight, registry
from rqtui.systems.by_sight import UnsupportedSystem
from rqtui.systems.registry import SystemEntry

# As the systems' own clients leave them; the value is what kind of key it is.
KEYS: dict[str, tuple[str, ...]] = {
    "bull": ("bull:mail:id", "bull:mail:wait", "bull:mail:1"),
    "bee-queue": ("bq:mail:id", "bq:mail:jobs", "bq:mail:waiting"),
    "resque": ("resque:queues", "resque:queue:mail", "resque:workers"),
    "asynq": ("asynq:queues", "asynq:{default}:pending", "asynq:{default}:t:8a1f", "asynq:servers"),
    "dramatiq": ("dramatiq:default", "dramatiq:default.msgs", "dramatiq:__heartbeats__"),
    "huey": ("huey.redis.app", "huey.results.app", "huey.schedule.app"),
}
QUEUES = {"bull": 1, "bee-queue": 1, "resque": 1, "asynq": 1, "dramatiq": 1}
QUEUES |= {"huey": 1}


BULLMQ = ("bull:mail:meta", "bull:mail:id", "bull:mail:wait", "bull:mail:1", "bull:mail:events")  # it is spoken


def list_unsupported_systems(client: Redis) -> tuple[UnsupportedSystem, ...]:
    engine = Engine(client, registry.create_systems())
    list(engine.discover(fully=True))
    return engine.unsupported_systems


@run_in_one_test("system", KEYS)
def test_each_system_is_known_by_its_keys(client: Redis, system: str) -> None:
    client.mset(dict.fromkeys(KEYS[system], "x"))
    [found] = list_unsupported_systems(client)
    assert (found.system, found.keys, found.queues) == (system, len(KEYS[system]), QUEUES.get(system, 0))


def test_every_system_of_the_table_is_tried() -> None:
    assert {system.name for system in by_sight.list_unsupported_systems()} == set(KEYS)


def as_if_spoken(*names: str) -> list[SystemEntry]:
    return [replace(row, module="a.module") if row.name in names else row for row in registry.SYSTEMS]


def list_found_systems(systems: list[SystemEntry], *keys: str) -> list[str]:
    """Return the systems that the patterns of the table find by these keys."""
    patterns = by_sight.list_counted_patterns(systems)
    fits = {pattern: sum(bool(re.search(pattern.replace("%", "\\"), key)) for key in keys) for pattern in patterns}
    return [one.system for one in by_sight.find_present_unsupported_systems(fits, systems)]


@pytest.mark.parametrize("system", KEYS)
def test_a_system_that_is_spoken_is_not_called_unspoken(system: str) -> None:
    assert list_found_systems(list(registry.SYSTEMS), *KEYS[system]) == [system]
    assert list_found_systems(as_if_spoken(system), *KEYS[system]) == []


def test_a_requested_system_is_still_distinguished_from_the_one_that_has_its_keys() -> None:
    assert list_found_systems(list(registry.SYSTEMS), *KEYS["bull"]) == ["bull"]
    assert (
        list_found_systems(list(registry.SYSTEMS), *BULLMQ)
        == list_found_systems(list(registry.SYSTEMS), *BULLMQ, *KEYS["bull"])
        == []
    )


def test_a_row_of_the_table_is_a_name_and_a_module_that_has_it() -> None:
    rows = [row.name for row in registry.SYSTEMS]
    assert len(rows) == len(set(rows)) and DEFAULT_SYSTEM in rows
    assert [registry.create_system(name).name for name in registry.list_system_names()] == registry.list_system_names()
    assert {row.but for row in registry.SYSTEMS} - {""} <= set(rows)


def test_a_system_that_is_only_known_by_sight_is_no_system() -> None:
    with pytest.raises(UsageError, match="there are: arq, bullmq, celery, dispatcher, native"):
        registry.create_system("resque")


def test_native_queues_belong_to_no_other_system(client: Redis) -> None:
    for name in ("mail", "celery", "queue:default", "arq:queue"):
        Seeded(client, name).put("a")
    assert list_unsupported_systems(client) == ()


def test_names_that_merely_look_alike_are_no_system(client: Redis) -> None:
    client.mset(dict.fromkeys(("celery", "queue:1", "unacked", "bullet:mail", "harq:queue", "my:arq:queue"), "x"))
    assert list_unsupported_systems(client) == ()


def test_a_finding_that_ended_is_not_reported_any_more(client: Redis) -> None:
    client.rpush("resque:queue:default", "x")
    engine = Engine(client, registry.create_systems())
    list(engine.discover(fully=True))
    assert [found.system for found in engine.unsupported_systems] == ["resque"]
    client.flushall()
    list(engine.discover(fully=True))
    assert engine.unsupported_systems == ()


@run_on_event_loop
async def test_an_overview_without_queues_reports_what_is_there_instead(url: str, client: Redis) -> None:
    client.mset(dict.fromkeys((*KEYS["resque"], *KEYS["asynq"]), "x"))
    async with screen(url, NARROW) as ui:
        await ui.until_shown("Resque (1 queue, 3 keys)", "asynq (1 queue, 4 keys)", "does not speak them yet")
        assert "no queues yet" not in ui.text()


@run_on_event_loop
async def test_beside_queues_it_is_one_quiet_line_at_the_foot(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    client.mset(dict.fromkeys(KEYS["resque"], "x"))
    async with screen(url, WIDE) as ui:
        await ui.until_shown("mail", "also in this Redis: Resque (1 queue, 3 keys). rqtui does not speak it yet.")


def test_the_shell_reports_it_too(client: Redis, url: str) -> None:
    client.mset(dict.fromkeys(KEYS["resque"], "x"))
    assert "Resque (1 queue, 3 keys)" in shell(url, "snapshot").err
    document = shell(url, "snapshot", "--json").json
    assert document["unspoken"] == [{"system": "resque", "keys": 3, "queues": 1}]
    assert "recognised by their keys, but not supported: Bull" in shell(url, "layouts").out
