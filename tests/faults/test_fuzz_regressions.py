"""Test what the fuzzers found: calls without arguments, scores and records that another program wrote."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import fuzz_databases
import pytest
from families import run_in_one_test
from native_jobs import NOW, build_key, enqueue_ids, run_script
from redis import Redis
from redis.exceptions import ResponseError

from rqtui.config import toml_lines
from rqtui.connection.connect import connect, hide_url_passwords
from rqtui.engine import filters
from rqtui.engine import history as stats
from rqtui.engine.engine import build_engine
from rqtui.errors import Refused, UsageError
from rqtui.model import Job, State
from rqtui.operations import undo_files
from rqtui.reports import events
from rqtui.system_base.system import System
from rqtui.systems import native, registry
from rqtui.testing import keyspace

NATIVE: System = registry.create_system("native")


@pytest.mark.slow
@run_in_one_test("system", fuzz_databases.SUBJECTS)
def test_a_script_without_its_arguments_is_refused_with_its_own_message(system: str, client: Redis) -> None:
    for seed in {seed.script.name: seed for seed in fuzz_databases.build_seeds(system, client)}.values():
        if not seed.argv:
            continue
        fuzz_databases.replace_database(client, {name: entry.value for name, entry in seed.database.items()})
        before = keyspace.dump(client)
        try:
            client.eval(seed.script.source, len(seed.keys), *seed.keys)
        except ResponseError as error:
            assert not re.search("user_script|attempt to|bad argument", str(error)), (seed.script.path, str(error))
            assert keyspace.dump(client) == before, seed.script.path


def test_an_infinite_score_that_another_program_wrote_does_not_stop_a_reprioritise_half_way(client: Redis) -> None:
    enqueue_ids(client, b"a", b"b")
    client.zadd(build_key("ready"), {b"a": float("inf")})
    answer = run_script(client, "reprioritise", [(b"a",), (b"b",)], priority=-5)
    assert [each.word for each in answer.each] == ["changed", "changed"]
    assert dict(client.zrange(build_key("ready"), 0, -1, withscores=True))[b"a"] == -5 * 2.0**40


@pytest.mark.parametrize("score", ["0x10", " 1", "1 ", "nan", "-inf"])
def test_restore_refuses_a_score_that_redis_would_refuse_after_the_first_write(score: str, client: Redis) -> None:
    record = b"%d - 0 - - - - - - \n{}" % NOW
    with pytest.raises(Refused, match="the score is a number"):
        run_script(client, "restore", [(b"a", "ready", score, record, b"{}" * 9, b"", b"[]")])
    assert keyspace.dump(client) == {}


def test_a_default_that_is_no_number_does_not_stop_a_page(client: Redis) -> None:
    enqueue_ids(client, b"a")
    client.hset(build_key("meta"), "max_attempts", "many")
    page = build_engine(client, [NATIVE]).send_request(NATIVE.page_request("mail", "ready", 0, 10, 10))
    assert [(job.id, job.max_attempts) for job in page.jobs] == [(b"a", 5)]


def test_an_order_that_cannot_be_given_is_none(client: Redis) -> None:
    client.hset(build_key("workers"), "w1", f"{NOW} 60000 dance {NOW} 1 host ")
    assert run_script(client, "beat", worker="w1", ttl_ms=60_000, started_ms=NOW, pid="1", host="here").word == "run"


@pytest.mark.parametrize(
    "raw", [b"[[1e999,1,1,1]]", b"[[Infinity,1,1,1]]", b"[" * 90_000, b"[[1,%s,1,1]]" % (b"9" * 50)]
)
def test_errors_of_a_job_that_cannot_be_read_are_one_that_reports_it(raw: bytes) -> None:
    assert [attempt.error for attempt in native.parse_history(raw)] == ["the errors of this job cannot be read"]


def test_numbers_beyond_all_time_are_a_problem_of_the_job_and_no_crash() -> None:
    long = b"9" * 5000
    done = native.decode_job("mail", "done", b"a", 1.0, b"1 - 0 - - - - - - job\n", b"1 %s 5 1 - - w" % long)
    assert (done.state, done.worker, done.reserved_ms) == (State.DONE, "w", None)
    ready = native.decode_job("mail", "ready", b"a", 1.0, b"%s - 0 - - - - - - job\n" % long[:40], b"")
    assert ready.problem == "its record cannot be read"


def test_digits_of_other_scripts_are_no_counters_and_no_workers(client: Redis) -> None:
    client.xadd(build_key("minutes"), {"enqueued": "²"}, id="1799999940000-0")
    client.hset(
        build_key("workers"), mapping={"w1": f"{NOW} 60000 run ² 1 host ", "w2": f"{'9' * 4400} 60000 run 1 1 host "}
    )
    engine = build_engine(client, [NATIVE])
    assert list(engine.send_request(stats.build_history_request(NATIVE, "mail")).minutes.values()) == [{}]
    assert [(worker.name, worker.started_ms) for worker in engine.send_request(NATIVE.workers_request("mail"))] == [
        ("w1", None)
    ]


def test_an_expression_that_python_warns_of_reports_nothing_on_the_terminal() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert filters.parse_filter("/[[a]/")(Job(b"[", "mail", "native", "ready", State.READY, b""))
        events.build_event_matcher("/[[a]/")


@pytest.mark.parametrize(
    "url", ["redis://:?hunter2=@h", "redis://:?hunter2@h", "redis://:&#hunter2=@h", "redis://u:?hunter2#@h"]
)
def test_a_password_that_looks_like_an_option_is_not_shown(url: str) -> None:
    assert "hunter2" not in hide_url_passwords(url)
    with pytest.raises(UsageError) as refused:
        connect(url)
    assert "hunter2" not in str(refused.value)


def test_a_file_with_a_strange_name_among_the_undo_records_harms_none(tmp_path: Path) -> None:
    for name in ("²-delete-a.jsonl", "5-delete-b.jsonl"):
        (tmp_path / name).write_bytes(b"{")
    assert undo_files.list_records(tmp_path) == ["5-delete-b", "²-delete-a"]


def test_half_a_letter_in_an_error_is_kept_as_its_bytes() -> None:
    [attempt] = native.parse_history(rb'[[1, 2, "\ud83d\ude00", "\ud800"]]')
    assert attempt.worker == "\N{GRINNING FACE}"
    assert attempt.error.encode("utf-8", "surrogateescape") == b"\xed\xa0\x80"


def test_a_number_that_is_too_long_for_python_is_a_problem_of_its_line() -> None:
    with pytest.raises(toml_lines.BrokenToml, match="too long") as raised:
        toml_lines.parse_toml_text("calm = true\ninterval = " + "9" * 5000)
    assert raised.value.line == 2
