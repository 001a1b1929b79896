"""Test the command line as a contract: each documented line runs, with its exit code and the exact shape of its JSON.

The shapes are in `json_shapes.py`.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from json_shapes import (
    ACT,
    ATTEMPT,
    CHECK,
    CONFIG,
    DIFF,
    DISPATCH,
    ERRORS,
    GROUPS,
    HEALTH,
    JOB,
    KINDS,
    LOOPS,
    OPERATIONS,
    PAGE,
    PUT,
    REAP,
    REDIS,
    SNAPSHOT,
    STATS,
    SYSTEM,
    TAKE,
    UNDO,
    VERB,
    WORKER,
    check_shape,
)
from redis import Redis
from shell import Ran, shell, start_process

from rqtui.client.queue import Queue

STATE = ("scheduled", "ready", "reserved", "done", "dead")


@pytest.fixture
def mail(client: Redis) -> Queue:
    """Plant a queue with jobs in each place, whose ids are named after the place."""
    queue = Queue("mail", client)
    queue.put({"n": 1}, id="in-scheduled", delay="1h")
    for n, id in enumerate(("in-reserved", "in-dead", "in-done")):
        queue.put({"n": n}, id=id, name="send", keep="1h")
    _held, dead, done = queue.reserve(3, worker="w1")
    dead.reject("TimeoutError: smtp", final=True)
    done.ack()
    queue.put({"n": 2}, id="in-ready")
    return queue


LINES: list[tuple[tuple[str, ...], int, Any]] = [
    # Looking
    (("snapshot", "--json"), 0, SNAPSHOT),
    (("snapshot", "mail", "--json"), 0, SNAPSHOT),
    (("snapshot", "native:mail", "--json"), 0, SNAPSHOT),
    *((("jobs", "mail", place, "--json"), 0, PAGE) for place in STATE),
    (("jobs", "mail", "ready", "--limit", "1", "--cursor", "0", "--filter", "job:send", "--json"), 0, PAGE),
    (("show", "mail", "in-dead", "--json"), 0, {**JOB, "history": [ATTEMPT]}),
    (("show", "mail", "in-reserved", "--body", "--json"), 0, {**JOB, "call": None, "history": [], "facts": []}),
    (("check", "mail", "--json"), 0, CHECK),
    (("check", "mail", "--repair", "--json"), 0, CHECK),
    (("layouts", "--json"), 0, [SYSTEM]),
    (("config", "--json"), 0, CONFIG),
    *(((*words, "--json"), 0, [WORKER]) for words in (("workers",), ("workers", "mail"))),
    *(((*words, "--json"), 0, ERRORS) for words in (("errors",), ("errors", "mail"))),
    (("group", "mail", "ready", "--by", "kind", "--json"), 0, GROUPS),
    (("group", "mail", "dead", "--by", ".n", "--filter", "err:smtp", "--limit", "1", "--json"), 0, GROUPS),
    (("diff", "mail", "dead", "done,ready", "--filter", "err:smtp", "--against", "job:send", "--json"), 0, DIFF),
    *(((*words, "--json"), 0, KINDS) for words in (("kinds",), ("kinds", "mail"))),
    *(((*words, "--json"), 0, [STATS]) for words in (("stats",), ("stats", "mail", "--minutes", "5"))),
    *(((*words, "--json"), 0, LOOPS) for words in (("loops",), ("loops", "mail", "--limit", "1"))),
    (("redis", "--json"), 0, REDIS),
    (("operations", "--json"), 0, OPERATIONS),
    (("schedules", "--json"), 0, []),
    (("undo", "--list", "--json"), 0, UNDO),
    (("undo",), 2, None),
    (("events", "mail"), 0, None),
    (("metrics",), 0, None),
    (("acl", "viewer", "mail"), 0, None),
    (("acl", "worker", "mail", "images"), 0, None),
    (("acl", "operator", "mail"), 0, None),
    (("script", "native/promote"), 0, None),
    (("script", "native/nosuch"), 2, None),
    (("snapshot", "--profile", "nosuch", "--json"), 2, None),
    (("snapshot", "--config", "nosuch.toml", "--json"), 2, None),
    # Changing
    (("put", "mail", '{"to": 1}', "--json"), 0, PUT),
    (("put", "mail", "1", "--id", "in-ready", "--json"), 0, PUT),
    (
        (
            "put",
            "mail",
            "1",
            "--id",
            "x",
            "--name",
            "k",
            "--delay",
            "90s",
            "--priority",
            "1",
            "--ttr",
            "30s",
            "--max-attempts",
            "3",
            "--backoff",
            "1s..1h",
            "--keep",
            "1h",
            "--json",
        ),
        0,
        PUT,
    ),
    (("put", "mail", "1", "--due", "2035-12-01T08:00Z", "--json"), 0, PUT),
    (("put", "native:other", "1", "--json"), 0, PUT),
    (("act", "promote", "mail", "in-scheduled", "--json"), 0, ACT),
    (("act", "ack", "mail", "in-reserved", "--yes", "--json"), 0, ACT),
    (("act", "release", "mail", "in-reserved", "--json"), 0, ACT),
    (("act", "release", "mail", "in-reserved", "--set", "delay=5", "--json"), 0, ACT),
    (("act", "reject", "mail", "in-reserved", "--set", "error=no", "--set", "final=yes", "--yes", "--json"), 0, ACT),
    (("act", "extend", "mail", "in-reserved", "--set", "ttr=1m", "--json"), 0, ACT),
    (("act", "cancel", "mail", "in-reserved", "--json"), 0, ACT),
    (("act", "requeue", "mail", "in-dead", "--json"), 0, ACT),
    (("act", "requeue", "mail", "--place", "dead", "--filter", "err:timeout", "--limit", "5", "--json"), 0, ACT),
    (("act", "requeue", "mail", "--place", "dead", "--all", "--dry-run", "--json"), 0, ACT),
    (("act", "requeue", "mail", "--place", "dead", "--all", "--rate", "100/s", "--json"), 0, ACT),
    (("act", "drip-requeue", "mail", "--place", "dead", "--all", "--json"), 0, ACT),
    (("act", "duplicate", "mail", "in-dead", "--json"), 0, ACT),
    (("act", "edit-and-retry", "mail", "in-dead", "--set", "body={}", "--json"), 0, ACT),
    (("act", "kill", "mail", "in-ready", "--set", "reason=why", "--yes", "--json"), 0, ACT),
    (("act", "kill", "mail", "in-reserved", "--force", "--yes", "--json"), 0, ACT),
    (("act", "kill", "mail", "in-reserved", "--yes", "--json"), 1, ACT),
    (("act", "delete", "mail", "in-dead", "in-ready", "--yes", "--json"), 0, ACT),
    (("act", "delete", "mail", "in-dead"), 1, None),
    (("act", "reschedule", "mail", "in-scheduled", "--set", "delay=2h", "--json"), 0, ACT),
    (("act", "reprioritise", "mail", "in-ready", "--set", "priority=-3", "--json"), 0, ACT),
    (("act", "promote", "mail", "nosuch", "--json"), 1, ACT),
    (("act", "ack", "mail", "in-reserved", "--token", "1", "--yes", "--json"), 1, ACT),
    (("act", "pause", "mail", "--json"), 0, ACT),
    (("act", "resume", "mail", "--json"), 0, ACT),
    (("act", "configure", "mail", "--set", "ttr_ms=1m", "--json"), 0, ACT),
    (("act", "dispatch", "mail", "--json"), 0, ACT),
    (("act", "reap", "mail", "--json"), 0, ACT),
    (("act", "purge", "mail", "--place", "dead", "--yes", "--json"), 0, ACT),
    (("act", "purge", "mail", "--all", "--yes", "--json"), 1, ACT),
    (("act", "purge", "mail", "--all", "--force", "--yes", "--json"), 0, ACT),
    (("act", "reserve", "mail", "--json"), 0, TAKE),
    (("act", "reserve", "nosuch", "--limit", "3", "--json"), 0, TAKE),
    (("act", "pull", "mail", "--yes", "--json"), 0, TAKE),
    (("act", "quiet", "mail", "nosuch", "--json"), 1, ACT),
    (("dispatch", "mail", "-n", "10", "--once", "--json"), 0, DISPATCH),
    (("dispatch", "--batch-size", "10", "-v", "--once", "--json"), 0, DISPATCH),
    (("reap", "mail", "--every", "1", "--limit", "10", "--once", "--json"), 0, REAP),
    (("work", "mail", "--concurrency", "2", "--ttr", "30s", "--burst", "--max-jobs", "5", "--", "true"), 0, None),
]


@pytest.mark.parametrize(
    ("words", "code", "shape"), LINES, ids=lambda given: " ".join(given) if isinstance(given, tuple) else ""
)
def test_a_documented_line_keeps_its_shape_and_exit_code(
    mail: Queue, url: str, words: tuple[str, ...], code: int, shape: Any
) -> None:
    ran = shell(url, *words)
    assert ran.code == code, ran.err
    if shape is None:
        return
    check_shape(ran.json, shape)
    assert shape is not ACT or ran.json["moved"] >= 0
    assert ran.out.isascii()
    assert ran.out.count("\n") == 1


@pytest.mark.parametrize("words", [line[0] for line in LINES if "--json" in line[0]], ids=" ".join)
def test_without_json_the_same_line_speaks_to_people(mail: Queue, url: str, words: tuple[str, ...]) -> None:
    code = next(line[1] for line in LINES if line[0] == words)
    ran = shell(url, *(word for word in words if word != "--json"))
    assert ran.code == code
    assert ran.out or ran.err
    assert not ran.out.startswith("{")


def test_the_places_of_a_snapshot_are_in_their_order(mail: Queue, url: str) -> None:
    [queue] = shell(url, "snapshot", "--json").json["queues"]
    assert [(count["place"], count["count"]) for count in queue["places"]][:3] == [
        ("scheduled", 1),
        ("ready", 1),
        ("reserved", 1),
    ]
    assert [count["state"] for count in queue["places"]] == list(STATE)


def test_a_page_shows_the_total_and_where_to_continue(mail: Queue, url: str) -> None:
    mail.put_many([{"body": n} for n in range(3)])
    page = shell(url, "jobs", "mail", "ready", "--limit", "2", "--json").json
    assert (page["total"], page["exact"], page["next"], len(page["jobs"])) == (4, True, "2", 2)


def test_every_verb_of_every_system_names_its_sources_and_targets(url: str) -> None:
    verbs = {each["layout"]: each["verbs"] for each in shell(url, "layouts", "--json").json}
    assert {"native", "dispatcher", "redisched", "timeout_sets", "orizuru", "safe_pop"} <= set(verbs)
    for each in verbs.values():
        for verb in each.values():
            check_shape(verb, VERB)
    assert verbs["native"]["ack"] == {"from": ["reserved"], "to": ["done"], "text": verbs["native"]["ack"]["text"]}
    assert "ack" not in verbs["dispatcher"]


def test_the_systems_are_printed_with_their_places_and_verbs_as_text_too(url: str) -> None:
    documents, lines = shell(url, "layouts", "--json").json, shell(url, "layouts").out.splitlines()
    for each in documents:
        at = lines.index(f"{each['layout']}: {', '.join(place['place'] for place in each['places'])}")
        table = lines[at + 2 : at + 2 + len(each["verbs"])]
        assert [line.split()[0] for line in table] == list(each["verbs"])
    assert lines[-1].startswith("recognised by their keys, but not supported: ")


def test_a_job_that_is_not_there_is_exit_1_with_nothing_on_stdout(mail: Queue, url: str) -> None:
    ran = shell(url, "show", "mail", "nosuch", "--json")
    assert (ran.code, ran.out) == (1, "")


def test_put_of_a_known_id_is_a_success(mail: Queue, url: str) -> None:
    ran = shell(url, "put", "mail", "1", "--id", "in-dead", "--json")
    assert (ran.code, ran.json["results"]) == (0, [{"id": "in-dead", "word": "exists"}])


def test_lines_are_one_job_each(client: Redis, url: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs"
    path.write_text('{"body": {"a": 1}, "id": "a", "delay": "1h", "ttr": 5}\n{"body": "text", "id": "b"}\n')
    document = shell(url, "put", "mail", "--lines", str(path), "--json").json
    check_shape(document, PUT)
    assert [result["id"] for result in document["results"]] == ["a", "b"]


@pytest.mark.parametrize("words", [("health", "--json"), ("health", "mail", "--json")])
def test_health_has_the_exit_codes_of_monitoring_plugins(
    mail: Queue, url: str, settings: Callable[[str, str], None], words: tuple[str, ...]
) -> None:
    settings("save", "3600 1")
    ran = shell(url, *words)
    check_shape(ran.json, HEALTH)
    assert ran.code == {"ok": 0, "warning": 1, "critical": 2}[ran.json["severity"]]
    shell(url, "act", "pause", "mail")
    paused = shell(url, *words)
    check_shape(paused.json, HEALTH)
    assert (paused.code, paused.json["severity"]) == (0, "ok"), "a person paused it: this is information"
    assert [one["severity"] for one in paused.json["findings"] if one["kind"] == "paused"] == ["info"]
    settings("save", "")
    warned = shell(url, *words)
    check_shape(warned.json, HEALTH)
    assert (warned.code, warned.json["severity"]) == (1, "warning")


def test_health_sees_failure_names_the_cause_and_puts_the_worst_first(
    client: Redis, url: str, settings: Callable[[str, str], None]
) -> None:
    settings("save", "3600 1")
    for name, fails, puts in (("fine", 0, 20), ("broken", 20, 40), ("stale", 0, 1)):
        queue = Queue(name, client)
        queue.put_many([{"body": n} for n in range(puts)])
        for number, job in enumerate(queue.reserve(puts, worker="w") if puts > 1 else ()):
            if number < fails:
                job.reject(f"HTTPStatusError: 410 Gone, request {number}")
            else:
                job.ack()
    shell(url, "act", "pause", "stale")
    ran = shell(url, "health", "--json")
    check_shape(ran.json, HEALTH)
    assert (ran.code, ran.json["severity"]) == (2, "critical")
    first, second = ran.json["findings"]
    assert (first["queue"], first["kind"], first["text"]) == ("broken", "failing", "50 % of attempts fail")
    assert (first["jobs"], first["causes"]) == (20, [{"text": "HTTPStatusError 410", "jobs": 20}])
    assert first["since_at_ms"] is not None
    assert (second["queue"], second["kind"]) == ("stale", "paused")
    actual = shell(url, "health").out.splitlines()
    assert actual[0] == "critical"
    assert re.fullmatch(
        r"critical  broken: 50 % of attempts fail since \d\d:\d\d \(\d+ \w+\), "
        r"mostly HTTPStatusError 410 · rqtui errors broken",
        actual[1],
    )
    rows = shell(url, "snapshot").out.splitlines()
    assert [row.split()[0] for row in rows] == ["queue", "broken", "stale", "fine"]
    assert [queue["queue"] for queue in shell(url, "snapshot", "fine", "broken", "--json").json["queues"]] == [
        "fine", "broken",
    ]  # fmt: skip


def test_health_reports_what_cannot_be_known(client: Redis, url: str, settings: Callable[[str, str], None]) -> None:
    settings("save", "3600 1")
    client.zadd("delayedtaskset", {"task": time.time() + 3600})
    client.rpush("readytasklist", "a")
    ran = shell(url, "--system", "dispatcher", "health", "--json")
    assert (ran.code, ran.json["severity"], ran.json["findings"]) == (0, "ok", [])
    [unknown] = ran.json["unknown"]
    assert unknown["what"] == ["failures", "workers", "leases", "waiting times"]
    actual = shell(url, "--system", "dispatcher", "health").out.splitlines()
    assert actual[0] == "ok"
    assert actual[1].startswith("–") and actual[1].endswith(": failures, workers, leases, waiting times")
    assert "ok · failures unknown" in shell(url, "--system", "dispatcher", "snapshot").out


def test_thresholds_of_the_config_file_hold_for_health(mail: Queue, url: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[thresholds."mai*"]\ndead = [1, 2]\n')
    kinds = [one["kind"] for one in shell(url, "--config", str(config), "health", "mail", "--json").json["findings"]]
    assert "dead-many" in kinds
    assert "dead-many" not in [one["kind"] for one in shell(url, "health", "mail", "--json").json["findings"]]


@pytest.mark.slow
def test_a_watch_is_one_document_per_line(mail: Queue, url: str) -> None:
    program = start_process(url, "snapshot", "mail", "--watch", "0.05", "--json")
    assert program.stdout is not None
    try:
        for _ in range(3):
            check_shape(json.loads(program.stdout.readline()), SNAPSHOT)
    finally:
        program.kill()
        program.communicate()


@pytest.mark.slow
def test_a_command_reads_its_job_from_stdin_and_the_environment(mail: Queue, url: str) -> None:
    script = (
        "import os, sys; print(*(os.environ['RQTUI_' + name] for name in ('QUEUE', 'ID', 'ATTEMPT')), sys.stdin.read())"
    )
    program = start_process(url, "work", "mail", "--burst", "--", sys.executable, "-c", script)
    out, _err = program.communicate(timeout=60)
    assert out.splitlines()[0] == b'mail in-ready 1 {"n":2}'


def test_exit_75_gives_the_job_back(mail: Queue, url: str) -> None:
    ran: Ran = shell(url, "work", "mail", "--max-jobs", "1", "--json", "--", "sh", "-c", "exit 75")
    [line] = ran.lines
    assert (line["id"], line["outcome"], line["exit_code"]) == ("in-ready", "released", 75)
    job = shell(url, "show", "mail", "in-ready", "--json").json
    assert (job["place"], job["attempts"]) == ("ready", 0)


def test_the_demo_and_the_bench_have_their_doors(url: str) -> None:
    assert shell(url, "demo", "nosuch", "--headless", "--seconds", "1").code == 2
    assert shell(url, "bench", "nosuch").code == 2
    assert {"delays", "poison", "rush"} <= {each["scenario"] for each in shell(url, "demo", "--list", "--json").json}


@pytest.mark.slow
def test_output_of_a_command_does_not_disturb_the_lines_of_json(mail: Queue, url: str) -> None:
    program = start_process(url, "work", "mail", "--burst", "--json", "--", "echo", "noise")
    out, err = program.communicate(timeout=60)
    assert [json.loads(line)["outcome"] for line in out.splitlines()] == ["acked"]
    assert b"noise" in err


EVENT = {
    "happened_at_ms": int,
    "queue": str,
    "layout": str,
    "verb": str,
    "id": str,
    "worker": (str, type(None)),
    "detail": (str, type(None)),
}


def test_events_are_one_document_per_line(mail: Queue, url: str) -> None:
    assert shell(url, "events", "mail", "--record", "--json").lines == []
    shell(url, "act", "kill", "mail", "in-ready", "--yes")
    [event] = shell(url, "events", "mail", "--json").lines
    check_shape(event, EVENT)
    assert (event["verb"], event["id"]) == ("kill", "in-ready")


def test_undo_reverts_a_change_and_operations_lists_it(mail: Queue, url: str) -> None:
    shell(url, "act", "delete", "mail", "in-dead", "in-ready", "--yes")
    listed = shell(url, "undo", "--list", "--json").json
    check_shape(listed, UNDO)
    assert [(one["n"], one["verb"], one["jobs"]) for one in listed["undo"]] == [(1, "delete", 2)]
    undone = shell(url, "undo", "--json")
    check_shape(undone.json, ACT)
    assert (undone.code, undone.json["moved"]) == (0, 2)
    document = shell(url, "operations", "--json").json
    check_shape(document, OPERATIONS)
    assert [one["verb"] for one in document["operations"]] == ["undo", "delete"]
    assert shell(url, "show", "mail", "in-dead", "--json").json["place"] == "dead"


def test_bytes_that_are_no_text_are_base64_everywhere(mail: Queue, url: str) -> None:
    shell(url, "put", "mail", "-", "--raw", "--id", "raw", stdin=b"\xff\xfe\x00")
    assert shell(url, "show", "mail", "raw", "--json").json["body"] == {
        "bytes": 3,
        "encoding": "base64",
        "value": "//4A",
    }
    id = b"\xff\xfe".decode("utf-8", "surrogateescape")
    put = shell(url, "put", "mail", "1", "--id", id, "--json").json["results"]
    assert put == [{"id": "//4=", "id_encoding": "base64", "word": "moved"}]
    killed = shell(url, "act", "kill", "mail", "base64://4=", "--yes", "--json").json["results"]
    assert (killed[0]["id"], killed[0]["id_encoding"], killed[0]["word"]) == ("//4=", "base64", "moved")
    document = shell(url, "operations", "--json").json["operations"][0]["ids"]
    assert document == ["base64://4="]


def test_every_command_reports_what_it_does_in_a_line_and_one_example(url: str) -> None:
    listed = shell(url, "--help").out.partition("Look:")[2]
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2:3].isalpha()]
    assert {
        "workers",
        "errors",
        "events",
        "stats",
        "kinds",
        "loops",
        "redis",
        "operations",
        "schedules",
        "undo",
    } <= set(names)
    for name in names:
        text = shell(url, name, "--help").out
        assert text.count("Example: rqtui ") == 1, name
        [summary, *_rest] = [part for part in text.split("\n\n") if "Usage" not in part]
        assert summary.strip().endswith("."), (name, summary)


def test_a_missing_job_is_reported_at_a_rate_as_without_one(client: Redis, url: str) -> None:
    for rate in ((), ("--rate", "1000/s")):
        ran = shell(url, "act", "requeue", "mail", "nothing", *rate, "--json")
        assert (ran.code, [(one["id"], one["word"]) for one in ran.json["results"]]) == (1, [("nothing", "gone")]), rate
