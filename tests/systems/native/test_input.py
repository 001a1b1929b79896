"""Test bad input to the native scripts: whatever a client in any language sends is refused before the first write.

`rqtui.scripts` refuses most of it before it is sent; so these calls use raw strings.
"""

from __future__ import annotations

import pytest
from families import run_in_one_test
from native_jobs import NOW, SCRIPTS, build_key, plant_job, run_script
from native_subject import NATIVE, USES
from redis import Redis
from redis.exceptions import ResponseError

from rqtui.errors import Refused, WrongType
from rqtui.testing.keyspace import dump
from rqtui.testing.subject import PreparedScript

NO_NUMBERS = ("nan", "inf", "-inf", "1e400", "1.5", "0x10", "abc", " 1", "1 ", "-9" * 9, "9" * 20, "\0")
CHANGING = [
    pytest.param(name, source, id=f"{name}-{source}".rstrip("-"))
    for name, script in SCRIPTS.items()
    if not script.read_only
    for source in (USES[name].sources or script.sources or ("",))[:1]
]


def raw(client: Redis, name: str, *argv: object) -> object:
    script = SCRIPTS[name]
    keys = [build_key(declared.name) for declared in script.keys]
    return client.eval(script.source, len(keys), *keys, *argv)  # type: ignore[arg-type]


@pytest.mark.slow
@run_in_one_test(("name", "source"), CHANGING)
def test_an_argument_that_is_no_number_is_refused(name: str, source: str, client: Redis) -> None:
    prepared = PreparedScript.build(NATIVE, client, name, source)
    script = prepared.script
    good = prepared.database.call(script, prepared.request).argv
    if script.has_column_count_argument:  # as wide as a row can be
        at = [arg.name for arg in script.args].index("columns")
        missing = len(script.args) + len(script.each) - len(good)
        good = [*good[:at], len(script.each), *good[at + 1 :], *[""] * missing]
    before = dump(client)
    integers = [at for at, arg in enumerate([*script.args, *script.each]) if arg.type == "int"]
    for at in integers:
        for bad in NO_NUMBERS:
            with pytest.raises(ResponseError, match="nothing was changed"):
                raw(client, name, *good[:at], bad, *good[at + 1 :])
            assert dump(client) == before


@run_in_one_test(("name", "source"), CHANGING)
def test_a_batch_of_a_wrong_size_is_refused(name: str, source: str, client: Redis) -> None:
    prepared = PreparedScript.build(NATIVE, client, name, source)
    script = prepared.script
    if not script.each:
        pytest.skip("it has no rows")
    good = prepared.database.call(script, prepared.request).argv
    scalars, width = len(script.args), len(script.each)
    before = dump(client)
    bad = [good[:scalars], good[:scalars] + good[scalars:] * 1001]
    if width > 1:
        bad += [good[:-1], [*good, "x"]]
    for argv in bad:
        with pytest.raises(ResponseError, match="nothing was changed"):
            raw(client, name, *argv)
    assert dump(client) == before


@run_in_one_test(
    "fields",
    [
        {"id": b""},
        {"id": b"x" * 513},
        {"id": b"x" * 2_000_000},
        {"name": "a\nb"},
        {"name": "a\x1b[2J"},
        {"name": "x" * 201},
        {"delay_ms": -1},
        {"delay_ms": 2**50},
        {"due_ms": -1},
        {"due_ms": 2**53},
        {"priority": -4097},
        {"priority": 4096},
        {"ttr_ms": 0},
        {"max_attempts": 0},
        {"backoff_ms": -1},
        {"backoff_cap_ms": -5},
        {"keep_ms": -1},
    ],
    ids=lambda fields: "-".join(f"{name}={value!r:.20}" for name, value in fields.items()),
)
def test_one_bad_job_refuses_its_whole_batch(any_client: Redis, fields: dict[str, object]) -> None:
    rows = [{"id": b"good", "body": b"{}"}, {"id": b"bad", "body": b"{}", **fields}]
    with pytest.raises(Refused, match="job 2 of the batch: .*nothing was changed"):
        run_script(any_client, "enqueue", rows)
    assert dump(any_client) == {}


@run_in_one_test("verb", ["reserve", "pull", "dispatch", "reap", "purge"])
@run_in_one_test("limit", [0, -1, 1001])
def test_a_limit_beyond_1000_is_refused(any_client: Redis, verb: str, limit: int) -> None:
    with pytest.raises(Refused, match="limit is 1 to 1000"):
        run_script(any_client, verb, limit=limit)


@run_in_one_test(
    ("name", "value"),
    [("nonsense", "1"), ("ttr_ms", "0"), ("ttr_ms", "-1"), ("ttr_ms", "nan"), ("ttr_ms", "1.5"), ("max_attempts", "0"),
     ("events", "maybe"), ("seq", "1"), ("token", "1"), ("paused", "1"), ("keep_ms", "9" * 20), ("\x1b\n", "1")],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_refused(server_client: Redis, name: str, value: str) -> None:
    with pytest.raises(Refused, match="nothing was changed"):
        run_script(server_client, "configure", [("keep_ms", "5"), (name, value)])
    assert dump(server_client) == {}


MOST_MS, MOST_KEPT_MS = 31_622_400_000, 3_162_240_000_000  # 366 days, and a hundred times that


@run_in_one_test(
    ("name", "least", "most"),
    [
        ("ttr_ms", 1, MOST_MS), ("max_attempts", 1, 1_000_000), ("backoff_ms", 0, MOST_MS),
        ("backoff_cap_ms", 0, MOST_MS), ("keep_ms", 0, MOST_KEPT_MS), ("unique_ms", 0, MOST_KEPT_MS),
        ("dead_max", 0, 100_000_000), ("dead_ttl_ms", 0, MOST_KEPT_MS), ("done_max", 0, 100_000_000),
        ("events", 0, 9_007_199_254_740),
    ],
)  # fmt: skip
def test_a_setting_takes_its_least_and_its_most_and_nothing_beyond(
    client: Redis, name: str, least: int, most: int
) -> None:
    for value in (least, most):
        run_script(client, "configure", [(name, str(value))])
        assert client.hget(build_key("meta"), name) == str(value).encode()
    before = dump(client)
    for value in (least - 1, most + 1):
        with pytest.raises(Refused, match=f"{name} is a whole number from {least} to {most}; nothing was changed"):
            run_script(client, "configure", [(name, str(value))])
    assert dump(client) == before


def test_a_batch_whose_long_or_delayed_job_exists_enqueues_the_others(client: Redis) -> None:
    run_script(client, "enqueue", [{"id": b"old", "body": b"{}"}])
    for number, fields in enumerate([{"due_ms": NOW + 5000}, {"body": b"x" * 5000}]):
        rows = [{"id": b"old", "body": b"{}", **fields}, {"id": b"new-%d" % number, "body": b"{}"}]
        assert [reply.word for reply in run_script(client, "enqueue", rows).each] == ["exists", "moved"]
    assert client.zcard(build_key("ready")) == 3


def test_up_to_50_settings_are_given_at_once(client: Redis) -> None:
    run_script(client, "configure", [("keep_ms", "5")] * 50)
    with pytest.raises(Refused, match="settings come as pairs"):
        run_script(client, "configure", [("keep_ms", "5")] * 51)


@pytest.mark.parametrize("worker", ["", "x" * 201, "a\nb", "\x00"])
def test_a_worker_without_a_proper_name_is_refused(any_client: Redis, worker: str) -> None:
    with pytest.raises(Refused, match="a worker name"):
        run_script(any_client, "beat", worker=worker, ttl_ms=1000)
    assert dump(any_client) == {}


@run_in_one_test(
    "row",
    [
        (b"", "ready", "1", b"1 - 0 - - - - - - \n{}", b"", b"", b""),
        (b"a", "nowhere", "1", b"1 - 0 - - - - - - \n{}", b"", b"", b""),
        (b"a", "ready", "nan", b"1 - 0 - - - - - - \n{}", b"", b"", b""),
        (b"a", "ready", "1e300", b"1 - 0 - - - - - - \n{}", b"", b"", b""),
        (b"a", "ready", "", b"1 - 0 - - - - - - \n{}", b"", b"", b""),
        (b"a", "ready", "1", b"garbage", b"", b"", b""),
        (b"a", "ready", "1", b"", b"", b"", b""),
        (b"a", "ready", "1", b"1 - 0 - - - - - - \n{}", b"", b"garbage", b""),
        (b"a", "reserved", "1", b"1 - 0 - - - - - - \n{}", b"", b"", b""),
    ],
)
def test_restore_takes_only_what_delete_could_have_returned(any_client: Redis, row: tuple[object, ...]) -> None:
    good = (b"good", "ready", "1", b"1 - 0 - - - - - - \n{}", b"", b"", b"")
    with pytest.raises(Refused, match="row 2: .*nothing was changed"):
        run_script(any_client, "restore", [good, row])
    assert dump(any_client) == {}


@run_in_one_test(
    "row",
    [
        (b"a", "done", b"", "ready", "1", b"", b""),
        (b"a", "", b"", "ready", "1", b"", b""),
        (b"a", "ready", b"", "nowhere", "1", b"", b""),
        (b"a", "ready", b"", "dead", "nan", b"", b""),
        (b"a", "ready", b"", "dead", "1e300", b"", b""),
        (b"a", "ready", b"", "dead", "1", b"garbage", b""),
        (b"a", "ready", b"", "reserved", "1", b"", b""),
    ],
)
def test_revert_takes_only_what_a_verb_could_have_left(any_client: Redis, row: tuple[object, ...]) -> None:
    plant_job(any_client, "ready", b"good", 1)
    before = dump(any_client)
    with pytest.raises(Refused, match="row 2: .*nothing was changed"):
        run_script(any_client, "revert", [(b"good", "ready", b"", "dead", "1", b"", b""), row])
    assert dump(any_client) == before


def test_a_queue_of_a_later_schema_is_left_alone(any_client: Redis) -> None:
    for name, script in SCRIPTS.items():
        if script.read_only or "meta" not in {declared.name for declared in script.keys}:
            continue
        prepared = PreparedScript.build(NATIVE, any_client, name, (USES[name].sources or script.sources or ("",))[0])
        any_client.hset(build_key("meta"), "version", 3)
        before = dump(any_client)
        with pytest.raises(Refused, match="schema version 3"):
            prepared.run()
        assert dump(any_client) == before, name


def test_rows_that_are_cut_are_rows_whose_last_columns_are_empty(client: Redis) -> None:
    """The same jobs, sent with as few columns as they fill, with one more, and with all: the same answers and keys."""
    columns = [column.name for column in SCRIPTS["enqueue"].each]
    filled = {
        "id": b"a", "body": b"{}", "name": "n", "delay_ms": 5, "due_ms": NOW + 9, "priority": 7, "ttr_ms": 8,
        "max_attempts": 9, "backoff_ms": 10, "backoff_cap_ms": 11, "keep_ms": 12,
    }  # fmt: skip
    for last in columns:
        for body in (b"{}", b"x" * 5000):
            row = ["a", body, *(str(filled[name]) if name == last else "" for name in columns[2:])]
            rows = [row, ["b", *row[1:]], row]
            least = max(2, columns.index(last) + 1)
            ends = []
            for width in (least, min(least + 1, len(columns)), len(columns), ""):
                client.flushall()
                sent = [value for each in rows for value in each[: width or len(columns)]]
                ends.append((raw(client, "enqueue", NOW, width, *sent), dump(client)))
            assert all(end == ends[0] for end in ends), last
            assert ends[0][0] == [b"moved", b"moved", b"exists"]
    for width in ("1", "12", "-2", "2.5", "x"):
        with pytest.raises(ResponseError, match="columns is a whole number from 2 to 11; nothing was changed"):
            raw(client, "enqueue", NOW, width, "c", "{}")


@run_in_one_test("name", [pytest.param(name, id=name) for name in ("enqueue", "reserve", "ack")])
def test_a_stream_of_another_program_stops_a_call_that_would_write_there(name: str, client: Redis) -> None:
    for stream, watch in (("events", "on"), ("minutes", "")):
        prepared = PreparedScript.build(NATIVE, client, name, (USES[name].sources or SCRIPTS[name].sources or ("",))[0])
        client.hset(build_key("meta"), mapping={"events": watch, "minute": NOW if watch else 0})
        client.delete(build_key(stream))
        client.set(build_key(stream), "another program's")
        before = dump(client)
        with pytest.raises(WrongType, match=f"{stream} holds a string, not a stream"):
            prepared.run()
        assert dump(client) == before


def test_a_key_of_another_program_is_named(client: Redis) -> None:
    client.set(build_key("ready"), "another program's")
    with pytest.raises(WrongType, match=r"rqtui:\{mail\}:ready holds a string, not a zset"):
        run_script(client, "enqueue", [{"id": b"a", "body": b"{}"}], now_ms=NOW)
