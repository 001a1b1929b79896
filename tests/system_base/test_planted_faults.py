"""The conformance suite catches what it is there to catch: faults planted in copies of the scripts.

The first half plants one fault in the text of a script and expects the assertion that is about it to fail. The second
half plants faults *around* the real scripts (denied commands, broken counters, streams at their end, corrupt records):
no job is lost, the verb answers as always, and what could not be noted is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from families import run_in_one_test
from native_jobs import (
    NOW,
    SCRIPTS,
    build_attempts_line,
    build_key,
    find_places,
    list_ids,
    read_meta,
    read_outcomes,
    run_script,
)
from native_subject import NATIVE, USES, plant_jobs
from redis import Redis

from rqtui.errors import RqtuiError
from rqtui.scripts import script as scripts
from rqtui.testing import conformance
from rqtui.testing.conformance import Planted
from rqtui.testing.keyspace import Entry, diff
from rqtui.testing.script_lint import find_header_differences
from rqtui.testing.subject import PreparedScript, list_words

PUT, TAKE = "redis.call('ZADD', ready, unpack(arrivals))\n", "redis.call('ZREM', scheduled, unpack(moved_ids))\n"
FREE = "redis.call('ZREM', scheduled, '') -- removes nothing, but lets the drain continue over maxmemory\n"
FAULTS = (
    Planted("takes before it puts", "promote", PUT + TAKE, TAKE + PUT, 2),
    Planted("forgets to take", "promote", TAKE, "", 2),
    Planted("forgets to put", "promote", PUT, "", 2),
    Planted("puts into a wrong target", "promote", PUT, PUT.replace("ready,", "dead,"), 2),
    Planted(
        "writes a key its header does not say", "promote", TAKE, TAKE + "redis.call('ZADD', dead, 1, moved_ids[1])\n", 3
    ),
    Planted("touches an undeclared key", "promote", TAKE, TAKE + "redis.call('SET', 'stray', 1)\n", 3),
    Planted("reads an undeclared key", "promote", TAKE, TAKE + "redis.call('GET', 'stray')\n", 10),
    Planted("takes a neighbour along", "promote", TAKE, TAKE + "redis.call('ZPOPMIN', ready)\n", 4),
    Planted(
        "touches the body", "reject", "redis.call('HSET', errors", "redis.call('HSET', jobs, moved_ids[1], 'x')\n%s", 5
    ),
    Planted("does not ask where the job is", "promote", "place ~= 'scheduled'", "false", 6),
    Planted("moves jobs that nobody knows", "promote", "place ~= 'scheduled'", "false", 7),
    Planted("has no guard", "promote", " redis.call('XLEN', events) redis.call('XLEN', minutes)", "", 8),
    Planted("answers a wrong word", "promote", "= 'moved', id, 'ready'", "= 'gone', id, 'ready'", 9),
    Planted("answers an undeclared word", "promote", "= 'moved', id, 'ready'", "= 'promoted', id, 'ready'", 9),
    Planted("declares what it does not use", "promote", "-- ARGV     now_ms?", "--          spare      hash\n%s", 10),
    Planted("ignores its limit", "dispatch", "now_ms, 'LIMIT', 0, limit)", "now_ms, 'LIMIT', 0, 1000)", 11),
    Planted("takes the newest first", "reserve", "redis.call('ZRANGE', ready", "redis.call('ZREVRANGE', ready", 11),
    Planted("takes what is not due", "dispatch", "scheduled, '-inf', now_ms", "scheduled, '-inf', '+inf'", 11),
    Planted("writes though it only reads", "roster", "return {", "redis.call('HSET', workers, 'x', 1)\n%s", 12),
    Planted("drains without freeing first", "promote", FREE, "", 13),
    Planted(
        "fills after freeing", "enqueue", "local moved, soonest, next_seq =", "redis.call('ZREM', ready, '')\n%s", 13
    ),
)


@run_in_one_test("fault", FAULTS, ids=str)
def test_the_suite_catches_a_script_that(fault: Planted, client: Redis) -> None:
    assert fault.is_caught(NATIVE, client)


@pytest.mark.parametrize("text", ["return {'undeclared'}", "return KEYS[3]", "return ARGV[3]"])
def test_the_lint_catches_a_script_that_breaks_its_header(text: str) -> None:
    path, source = SCRIPTS["stats"].path, SCRIPTS["stats"].source + text
    [found] = find_header_differences(scripts.parse_script(source, path), source, path)
    assert re.fullmatch(rf"{path}:\d+: .* the header declares.*", found)


# --- faults around the real scripts ---------------------------------------------------------------------------------

CHANGING = [
    pytest.param(name, source, id=f"{name}-{source}".rstrip("-"))
    for name, script in SCRIPTS.items()
    if "events" in script.writes
    for source in USES[name].sources or script.sources or ("",)
]


NOTES = tuple(f":{prefix}{name}" for prefix in ("", "to_") for name in ("events", "minutes", "meta"))


def normal_and_faulty(
    client: Redis, name: str, source: str, plant_fault: Callable[[PreparedScript], Redis | None]
) -> tuple[list[str], list[str]]:
    """Return the replies without and with a fault while events are recorded; only notes may differ afterwards."""
    ends = []
    for fault in (lambda prepared: None, plant_fault):
        prepared = PreparedScript.build(NATIVE, client, name, source)
        client.hset(build_key("meta"), mapping={"events": "on", "version": 1})
        user = fault(prepared)
        before = meta_of(prepared) if prepared else {}
        answer = prepared.run(user)
        end = {k: v for k, v in prepared.database.dump().items() if not k.endswith(NOTES)}
        ends.append((list_words(answer), end, before))
    assert not diff(ends[0][1], ends[1][1])
    return ends[0][0], ends[1][0]


def meta_of(prepared: PreparedScript) -> dict[bytes, bytes]:
    return prepared.database.client.hgetall(build_key("meta"))


@run_in_one_test(("name", "source"), CHANGING)
def test_a_denied_xadd_is_counted_and_nothing_else_changes(name: str, source: str, server_client: Redis) -> None:
    normal, faulty = normal_and_faulty(
        server_client, name, source, lambda prepared: prepared.database.create_restricted_client("~*", "+@all", "-xadd")
    )
    assert faulty == normal
    assert read_meta(server_client, "unnoted") >= 1


def end_the_streams(prepared: PreparedScript) -> None:
    for stream in ("events", "minutes"):
        prepared.database.client.xadd(build_key(stream), {"x": 1}, id="18446744073709551615-18446744073709551615")


@run_in_one_test(("name", "source"), CHANGING)
def test_streams_that_take_no_further_entry_are_counted(name: str, source: str, server_client: Redis) -> None:
    normal, faulty = normal_and_faulty(server_client, name, source, end_the_streams)
    assert faulty == normal
    assert read_meta(server_client, "unnoted") >= 1


@run_in_one_test(("name", "source"), CHANGING)
def test_a_minute_from_the_future_is_skipped_over(name: str, source: str, client: Redis) -> None:
    def plant_future(prepared: PreparedScript) -> None:
        client.xadd(build_key("minutes"), {"x": 1}, id=f"{NOW + 10**9}-0")
        client.hset(build_key("meta"), "minute", NOW + 10**9)

    normal, faulty = normal_and_faulty(client, name, source, plant_future)
    assert faulty == normal
    assert read_meta(client, "unnoted") == 0
    assert client.xlen(build_key("minutes")) == 1


LUA = "".join(script.source for script in SCRIPTS.values())
COUNTERS = sorted(set(re.findall(r"note\('HINCRBY', meta, '(\w+)'", LUA)))
FIELDS = sorted(
    {name for line in re.findall(r"'HMGET', meta, ([^)]*)\)", LUA) for name in re.findall(r"'(\w+)'", line)}
)


@run_in_one_test(("name", "source"), CHANGING)
def test_a_counter_that_is_no_number_is_counted(name: str, source: str, server_client: Redis) -> None:
    def break_counters(prepared: PreparedScript) -> None:
        server_client.hset(build_key("meta"), mapping=dict.fromkeys(COUNTERS, "many"))

    normal, faulty = normal_and_faulty(server_client, name, source, break_counters)
    assert faulty == normal
    if name not in ("pause", "resume"):
        assert read_meta(server_client, "unnoted") >= 1


@pytest.mark.parametrize("value", ["abc", "1.5"])
@run_in_one_test(("name", "source"), CHANGING)
def test_a_broken_setting_is_refused_before_the_first_write_or_does_no_harm(
    name: str, source: str, value: str, client: Redis
) -> None:
    prepared = None
    for field in FIELDS:
        if f"'{field}'" not in SCRIPTS[name].source:  # it does not know of this one
            continue
        if prepared is None:
            prepared = PreparedScript.build(NATIVE, client, name, source)
            before = prepared.database.dump()
            settings = before[build_key("meta")].value
        usual = client.hget(build_key("meta"), field)
        client.hset(build_key("meta"), field, value)
        try:
            prepared.run()
        except RqtuiError:
            broken = Entry("hash", {**settings, field.encode(): value.encode()})
            conformance.assert_database_unchanged(prepared.database, {**before, build_key("meta"): broken})
            client.hdel(build_key("meta"), field) if usual is None else client.hset(build_key("meta"), field, usual)
        else:
            prepared = None


DAMAGES: dict[str, Callable[[Redis, bytes], object]] = {
    "no record": lambda client, id: client.hdel(build_key("jobs"), id),
    "garbage": lambda client, id: client.hset(build_key("jobs"), id, "garbage"),
    "empty record": lambda client, id: client.hset(build_key("jobs"), id, ""),
    "half a header": lambda client, id: client.hset(build_key("jobs"), id, "1 2 3"),
    "words for numbers": lambda client, id: client.hset(build_key("jobs"), id, "a b c d e f g h i j\nbody"),
    "no long body": lambda client, id: client.hset(build_key("jobs"), id, f"{NOW} - 0 - - - - - 5000 \n"),
    "garbled attempts": lambda client, id: client.hset(build_key("attempts"), id, "one two"),
    "no attempts": lambda client, id: client.hdel(build_key("attempts"), id),
    "garbled history": lambda client, id: client.hset(build_key("errors"), id, "{nonsense"),
    "a history that is no list": lambda client, id: client.hset(build_key("errors"), id, '{"a": 1}'),
    "a deep history": lambda client, id: client.hset(build_key("errors"), id, "[" * 5000),
}
BATCHES = [
    param
    for param in CHANGING
    if param.values[1] and (SCRIPTS[param.values[0]].per_row or USES[param.values[0]].chooses)
]


@run_in_one_test("damage", DAMAGES)
@pytest.mark.parametrize(("name", "source"), BATCHES)
def test_one_corrupt_record_stops_no_batch(name: str, source: str, damage: str, server_client: Redis) -> None:
    client = server_client
    prepared = PreparedScript.build(NATIVE, client, name, source, 3)
    first, broken, last = prepared.targets
    DAMAGES[damage](client, broken.id)
    before = prepared.database.dump()
    answer = prepared.run()
    after = prepared.database.dump()
    sound = [entry for at, entry in enumerate(list_words(answer)) if not SCRIPTS[name].per_row or at != 1]
    assert set(sound) == {prepared.script.done_word}
    moved = {job.id for job in (first, last)}
    if SCRIPTS[name].moves and not (name == "reschedule" and source == "scheduled"):
        assert not moved & set(list_ids(client, source)) or source in prepared.target_places
    homes = find_places(client, broken.id)
    record = after[build_key("jobs")].value.get(broken.id)
    assert len(homes) == 1 or (prepared.can_leave and not homes and (record is None or name == "repair")), homes
    assert before[build_key("jobs")].value.get(broken.id) == record or not homes


@pytest.mark.parametrize("verb", ["reserve", "pull", "dispatch", "reap"])
def test_a_record_that_cannot_be_read_goes_to_dead_with_that_reason(verb: str, server_client: Redis) -> None:
    client = server_client
    place = {"dispatch": "scheduled", "reap": "reserved"}.get(verb, "ready")
    (job,) = plant_jobs(client, place, [b"bad"], True)
    client.hset(build_key("jobs"), b"bad", "garbage")
    run_script(client, verb, limit=10)
    assert find_places(client, b"bad") == ["dead"]
    assert b"cannot be read" in client.hget(build_key("errors"), b"bad")
    assert read_meta(client, "dead") == 1


def test_a_garbled_token_in_attempts_stops_no_reject(client: Redis) -> None:
    sound, broken = plant_jobs(client, "reserved", [b"a", b"b"], False)
    client.hset(build_key("attempts"), b"b", build_attempts_line(1, "no-number", "x", NOW))
    answer = run_script(client, "reject", [(b"a", sound.token, b"x"), (b"b", "no-number", b"x")])
    assert read_outcomes(answer)[0] == "moved"
    assert find_places(client, b"a") == ["scheduled"]
    assert len(find_places(client, b"b")) == 1
