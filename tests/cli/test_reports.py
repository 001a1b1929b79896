"""`rqtui workers`, `errors` and `kinds`: the shape of their JSON, and what they say to people."""

from __future__ import annotations

from typing import Any

import pytest
from json_shapes import NONE, check_shape
from planted_jobs import add_failed_jobs, add_worker
from redis import Redis
from shell import shell

from rqtui.client.native_keys import build_queue_keys
from rqtui.client.queue import Queue
from rqtui.model import State

SIZE = {"taken_at_ms": int, "looked": int, "of": int, "exact": bool}


WORKERS = [
    {
        "worker": str,
        "queue": str,
        "layout": str,
        "state": str,
        "beat_at_ms": (int, NONE),
        "ttl_ms": (int, NONE),
        "late": bool,
        "order": (str, NONE),
        "started_at_ms": (int, NONE),
        "pid": (str, NONE),
        "host": (str, NONE),
        "job": (str, NONE),
        "held": [{"id": str, "name": (str, NONE), "reserved_at_ms": (int, NONE), "deadline_at_ms": (int, NONE)}],
        "exact": bool,
    }
]


ERRORS = {
    **SIZE,
    "by": str,
    "errors": [
        {
            "error": (str, NONE),
            "cause": (str, NONE),
            "frame": (str, NONE),
            "messages": int,
            "dead": int,
            "retrying": int,
            "exact": bool,
            "first_at_ms": (int, NONE),
            "last_at_ms": (int, NONE),
            "names": [str],
            "queues": [{"queue": str, "layout": str}],
            "example": {"id": str, "queue": str, "layout": str, "place": str, "error": (str, NONE)},
        }
    ],
}


KINDS = {
    **SIZE,
    "kinds": [
        {
            "name": (str, NONE),
            "queue": str,
            "layout": str,
            "counts": {state.value: int for state in State},
            "exact": bool,
            "failed": int,
            "wait_ms": (int, NONE),
            "run_ms": (int, NONE),
            "oldest_ready_ms": (int, NONE),
        }
    ],
}


LINES = [
    (words, shape)
    for name, shape in (("workers", WORKERS), ("errors", ERRORS), ("kinds", KINDS))
    for words in ((name,), (name, "mail"), (name, "native:mail", "images"))
]


@pytest.fixture
def troubled(client: Redis) -> Queue:
    """Plant a queue with data for each report."""
    mail = Queue("mail", client)
    add_failed_jobs(mail, "TimeoutError: 1 s", "\x1b[31mred\x07")
    add_failed_jobs(mail, "TimeoutError: 2 s", final=False)
    mail.put({}, name="send", id="held")
    mail.reserve(1, worker="w1", ttr="1h")
    add_worker(client, "w2", 70)
    return mail


@pytest.mark.parametrize(
    ("words", "shape"), LINES, ids=lambda given: " ".join(given) if isinstance(given, tuple) else ""
)
def test_a_documented_line_keeps_its_shape(troubled: Queue, url: str, words: tuple[str, ...], shape: Any) -> None:
    ran = shell(url, *words, "--json")
    assert ran.code == 0, ran.err
    check_shape(ran.json, shape)
    assert ran.out.isascii()
    found = ran.json if words[0] == "workers" else ran.json[words[0]]
    assert found


def test_a_held_job_has_its_id_its_name_and_its_times(troubled: Queue, url: str) -> None:
    troubled.put({}, id="bare", priority=-10)
    troubled.reserve(1, worker="w1", ttr="1h")
    [held] = [worker["held"] for worker in shell(url, "workers", "--json").json if worker["worker"] == "w1"]
    assert {job["id"]: job["name"] for job in held} == {"held": "send", "bare": None}
    assert all(job["deadline_at_ms"] - job["reserved_at_ms"] == 3_600_000 for job in held)


@pytest.mark.parametrize("words", [line[0] for line in LINES], ids=" ".join)
def test_without_json_it_is_a_table_for_people(troubled: Queue, url: str, words: tuple[str, ...]) -> None:
    ran = shell(url, *words)
    assert ran.code == 0, ran.err
    expected = {"workers": "w1", "errors": "TimeoutError: # s", "kinds": "send"}[words[0]]
    assert expected in ran.out
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("name", ["workers", "errors", "kinds"])
def test_an_empty_redis_is_reported_in_a_sentence(client: Redis, url: str, name: str) -> None:
    ran = shell(url, name)
    assert (ran.code, ran.out) == (0, "")
    assert "no " in ran.err


def test_systems_that_keep_no_names_report_it(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "a")
    for name, words in (("workers", "no names of workers"), ("errors", "no errors"), ("kinds", "no kinds of jobs")):
        ran = shell(url, "--system", "dispatcher", name, "readytasklist")
        assert ran.code == 0
        assert f"dispatcher keeps {words}" in ran.err


def test_a_key_of_another_type_is_reported_and_the_exit_code_reports_it(client: Redis, url: str) -> None:
    client.set(build_queue_keys("mail")["workers"], "x")
    client.hset(build_queue_keys("mail")["meta"], "version", 1)
    ran = shell(url, "workers", "mail", "--json")
    assert (ran.code, ran.json) == (1, [])
    assert "workers" in ran.err


@pytest.mark.parametrize("name", ["errors", "kinds"])
def test_a_queue_that_cannot_be_counted_is_reported_and_the_others_are_shown(
    troubled: Queue, client: Redis, url: str, name: str
) -> None:
    client.set(build_queue_keys("images")["dead"], "x")
    ran = shell(url, name, "mail", "images")
    assert ran.code == 1
    assert "send" in ran.out
    assert build_queue_keys("images")["dead"] in ran.err


def test_example_and_help_are_there(url: str) -> None:
    for name in ("workers", "errors", "kinds"):
        assert f"Example: rqtui {name}" in " ".join(shell(url, name, "--help").out.split())


def test_errors_are_grouped_as_wide_as_asked(client: Redis, url: str) -> None:
    statement = 'raise Declined(f"card declined: {why}")'
    raised = f'Traceback (most recent call last):\n  File "/app/charge.py", line 88, in charge\n    {statement}\n'
    whys = ["insufficient funds", "expired card"]
    add_failed_jobs(
        Queue("mail", client), *[f"{raised}charge.Declined: {why}" for why in whys], "charge.Declined: no trace"
    )
    by = {width: shell(url, "errors", "--by", width, "--json").json for width in ("class", "frame", "cause", "message")}
    assert {width: [group["dead"] for group in found["errors"]] for width, found in by.items()} == {
        "class": [3],
        "frame": [2, 1],
        "cause": [2, 1],
        "message": [1, 1, 1],
    }
    (group, _other) = by["cause"]["errors"]
    assert (group["cause"], group["frame"], group["messages"]) == ("Declined", "charge.py:88", 2)
    assert shell(url, "errors", "--by", "colour").code == 2
