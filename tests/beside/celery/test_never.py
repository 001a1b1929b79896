"""What must never be done to Celery's keys is refused in words, or cannot come about; and looking writes nothing."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from beside.celery.stock import STEPS, Stock
from beside.monitored import check_reads_only, filter_writes, record_commands
from beside.stock import SLOW_S
from redis import Redis
from screens import WIDE, run_on_event_loop, screen
from shell import shell
from waiting import wait_until

from rqtui.testing.keyspace import dump

pytestmark = pytest.mark.beside
HOUR_S = 3600
PLACES = ("eta", "queue", "unacked", "late", "running", "succeeded", "failed", "revoked")
LOOKS = (
    *((word,) for word in ("snapshot", "health", "workers", "errors", "kinds", "stats", "loops", "schedules")),
    *(("jobs", "celery:default", place) for place in PLACES),
    *(("show", "celery:default", id) for id in ("bad", "held", "later", "next")),
)


def _add_job_in_every_place(stock: Stock) -> None:
    stock.configure(task_acks_late=True, worker_prefetch_multiplier=1)
    stock.enqueue("bad", "shop.confirm", (7,))
    with stock.worker():
        stock.until("bad", "FAILURE")
        stock.until_acked()
    stock.enqueue("later", countdown=HOUR_S)
    stock.run_holding("held", worker="w1")
    wait_until(lambda: {*stock.read_unacked()} == {"held", "later"}, SLOW_S, "both are taken")
    stock.enqueue("next", priority=6)


def test_reading_writes_nothing(stock: Stock, client: Redis) -> None:
    _add_job_in_every_place(stock)
    stock.kill_all()
    stock.age(HOUR_S + 200, "held")
    seen = check_reads_only(stock, client, LOOKS, lambda: stock.inspect_workers("inspect", visibility_s=HOUR_S))
    assert not [words for words in seen if words[0].lower() == "publish"]
    assert stock.read_waiting()[0] == "held", "a look of the original gave it out again"


@run_on_event_loop
async def test_the_screen_only_listens(stock: Stock, client: Redis, url: str) -> None:
    _add_job_in_every_place(stock)
    stock.kill_all()
    before = dump(client)
    with record_commands(client) as seen:
        async with screen(url, WIDE) as ui:
            await ui.until_shown("default", "celery")
            await ui.press("enter")
            for key in ("1", "2", "3", "7"):
                await ui.press(key)
                await ui.until_refreshed()
            await ui.press("w")
            await ui.until_refreshed()
    assert any(words[0].lower() == "psubscribe" for words in seen)
    assert filter_writes(client, seen) == []
    assert dump(client) == before


def test_jobs_of_a_living_worker_are_neither_released_nor_reaped_nor_deleted(stock: Stock, client: Redis) -> None:
    _add_job_in_every_place(stock)
    before = dump(client)
    for id in ("held", "later"):
        for verb in ("release", "delete"):
            refusal = stock.read_refusal(verb, id)
            assert "would run" in refusal or "is not" in refusal or "not in a place" in refusal, (verb, id, refusal)
        refusal = stock.read_refusal("reschedule", id, "--set", "delay_ms=0")
    assert not any(stock.rqtui("reap", stock.queue, "--once")["reaped"].values())
    assert dump(client) == before
    assert stock.act("release", "held", "--force") == {"held": "moved"}
    stock.start(name="second")
    stock.until_ran("held", 2)
    assert stock.runs()["held"] == ["w1", "second"], "and with the explicit word it runs twice, as was said"


def test_a_body_that_is_no_message_is_refused_and_never_enters_a_list(stock: Stock, client: Redis) -> None:
    for body in (
        "this is no JSON",
        "[1, 2]",
        "7",
        "{}",
        '{"task": 7}',
        '{"task": ""}',
        '{"task": "shop.add", "args": 3}',
        '{"task": "shop.add", "kwargs": []}',
        '{"body": "e30=", "content-type": "application/json"}',
        '{"body": "W10=", "headers": {"task": "shop.add", "id": "x"}}',
        '{"body": "no base64!", "headers": {"task": "a", "id": "x"}, "properties": {}}',
    ):
        ran = shell(stock.url, "put", stock.queue, body)
        assert ran.code in (1, 2), (body, ran.out, ran.err)
        assert ran.err, body
        assert "Traceback" not in ran.err, body
        assert "should not happen" not in ran.err, (body, ran.err)
        assert client.dbsize() == 0, body
    odd = {"task": "shop.confirm", "args": ["ä", [1.5, None, True, {"b": []}], 10**25], "kwargs": {}}
    ran = shell(stock.url, "put", stock.queue, json.dumps({**odd, "args": odd["args"][:1], "id": "odd"}))
    assert ran.code == 0, ran.err
    client.set("beside:fixed", 1)
    worker = stock.start()
    assert stock.until("odd", "SUCCESS")["value"] == "ä"
    assert worker.process.poll() is None


def test_an_eta_beyond_the_visibility_timeout_is_not_written(stock: Stock, client: Redis) -> None:
    call = '{"task": "shop.add", "args": [1, 2]}'
    ran = shell(stock.url, "put", stock.queue, call, "--delay", "2h")
    assert ran.code in (1, 2), ran.out
    assert "would run twice" in ran.err
    assert client.dbsize() == 0
    stock.enqueue("later", countdown=60)
    assert "would run twice" in stock.read_refusal("reschedule", "later", "--set", "delay_ms=7200000")


def test_a_failure_whose_arguments_are_unknown_is_not_requeued(stock: Stock, client: Redis) -> None:
    stock.start()
    stock.enqueue("bad", "shop.confirm", (7,))
    stock.until("bad", "FAILURE")
    stock.until_acked()
    before = dump(client)
    ran = shell(stock.url, "act", "requeue", stock.queue, "bad", "--yes")
    assert ran.code == 1 and "its arguments are unknown" in ran.out
    assert dump(client) == before


def test_a_pickle_is_read_and_never_loaded(stock: Stock, client: Redis, tmp_path: Path) -> None:
    mark = tmp_path / "loaded"
    stock.enqueue("evil", queue="mail")
    message = json.loads(client.rpop("mail"))
    message["body"] = base64.b64encode(f"cposix\nsystem\n(S'touch {mark}'\ntR.".encode()).decode()
    message["content-type"], message["content-encoding"] = "application/x-python-serialize", "binary"
    client.lpush("mail", json.dumps(message))
    shown = stock.rqtui("show", "celery:mail", "evil")
    assert shown["id"] == "evil"
    assert stock.act("reprioritise", "evil", "--set", "priority=9", queue="celery:mail") == {"evil": "moved"}
    moved = json.loads(client.lindex("mail" + STEPS[3], 0))
    assert moved["body"] == message["body"]
    assert not mark.exists()
    worker = stock.start("mail")
    wait_until(lambda: client.llen("mail" + STEPS[3]) == 0, SLOW_S, "it is taken")
    stock.enqueue("after", queue="mail")
    stock.until("after", "SUCCESS")
    assert worker.process.poll() is None
