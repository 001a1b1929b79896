"""The person on call, before a Redis where the stock application runs: the screen, no option, keys."""

from __future__ import annotations

import pytest
from beside.celery.stock import Stock
from beside.stock import FIXED
from redis import Redis
from screens import WIDE, run_on_event_loop, screen

pytestmark = pytest.mark.beside
HOUR_S = 3600


@pytest.mark.parametrize("events", [False, True], ids=["silent", "with -E"])
@run_on_event_loop
async def test_the_screen_shows_from_events_what_no_key_has(
    stock: Stock, client: Redis, url: str, events: bool
) -> None:
    stock.enqueue("bad", "shop.confirm", (4711,))
    stock.enqueue("sum")
    stock.enqueue("elsewhere", queue="mail")
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "mail", "celery")
        await ui.press("enter")
        await ui.until_shown("queue 2", "confirm(4711)")
        stock.start("default", name="w1", events=events)
        await ui.until_shown("failed 1", "succeeded 1")
        await ui.press("7")
        await ui.until_shown("bad", "no such order: 4711", "shop.confirm")
        await ui.press("6")
        await ui.until_shown("sum")
        await ui.press("w")
        await ui.until_shown("w1@shop")
    assert {id: len(runs) for id, runs in stock.runs().items()} == {"bad": 1, "sum": 1}


@run_on_event_loop
async def test_a_worker_killed_with_9_is_followed_to_the_repaired_state_by_keys(
    stock: Stock, client: Redis, url: str
) -> None:
    stock.configure(task_acks_late=True)
    killed = stock.start(name="killed", pool="prefork", events=True)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "celery")
        await ui.press("enter")
        await ui.until_shown("failed 0")
        stock.enqueue("held", "shop.hold", ("go",))
        await ui.until_shown("unacked 1")
        await ui.press("3")
        await ui.until_shown("held", "killed@shop")
        killed.kill()
        stock.age(HOUR_S + 200)
        await ui.until_shown("late 1", "visibility timeout")
        await ui.press("w")
        await ui.until_shown("killed@shop", "silent")
        await ui.press("escape", "full_stop")
        await ui.until(lambda: stock.read_waiting() == ["held"], "the reaper has given it out again")
        await ui.until(lambda: "visibility timeout" not in ui.text(), "the finding is gone")
        client.set("go", 1)
        stock.start(name="next", events=True)
        await ui.until(lambda: len(stock.runs()["held"]) == 2, "a stock worker has run it again")
        await ui.until_shown("succeeded 1")
    assert stock.runs() == {"held": ["killed", "next"]}


@pytest.mark.parametrize("tool", ["inspect", "flower"])
@run_on_event_loop
async def test_a_tool_with_a_shorter_timeout_that_gives_out_what_runs_is_reported(
    stock: Stock, client: Redis, url: str, tool: str
) -> None:
    stock.configure(task_acks_late=True, worker_prefetch_multiplier=1)
    living = stock.start(name="living", pool="prefork", events=True)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "celery")
        await ui.press("enter")
        await ui.until_shown("failed 0")
        stock.enqueue("held", "shop.hold", ("go",))
        await ui.until_shown("unacked 1")
        await ui.press("3")
        await ui.until_shown("held", "living@shop")
        stock.age(60)
        stock.inspect_workers(tool, visibility_s=5)
        await ui.until(lambda: stock.read_waiting() == ["held"], "it is given out again while it runs")
        await ui.until_shown("given out again, the last held while living@shop ran it", "visibility_timeout")
        await ui.press("2")
        await ui.until_shown("queue 1", "held")
        await ui.press("D")
        await ui.until_shown("Delete held")
        await ui.press("y")
        await ui.until(lambda: stock.read_waiting() == [], "D deletes the second one")
        client.set("go", 1)
        await ui.until_shown("succeeded 1")
        assert living.process.poll() is None
    assert stock.runs() == {"held": ["living"]}


@run_on_event_loop
async def test_a_queue_that_no_worker_consumes_is_reported_until_a_worker_does(
    stock: Stock, client: Redis, url: str
) -> None:
    stock.start(name="w1")
    stock.enqueue("lonely", queue="mail")
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "mail", "no worker takes them")
        await ui.press("g", "enter")
        await ui.until_shown("1 ready, and no worker takes them", "celery -A APP worker -Q mail")
        stock.start("mail", name="w2")
        await ui.until(lambda: "no worker takes them" not in ui.text(), "the finding is gone")
        await ui.until_shown("succeeded 1")


@run_on_event_loop
async def test_a_task_acked_before_its_run_is_lost_with_its_worker_and_reported(
    stock: Stock, client: Redis, url: str
) -> None:
    killed = stock.start(name="killed", pool="prefork", events=True)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "celery")
        await ui.press("enter")
        await ui.until_shown("failed 0", "workers 1")  # it has beaten: who is never heard to is not said to be gone
        stock.enqueue("held", "shop.hold", ("go",))
        await ui.until_shown("running 1")
        killed.kill()
        await ui.until_shown("1 lost with killed@shop, such as held")
    assert stock.read_unacked() == {}
    assert stock.read_waiting() == []


@run_on_event_loop
async def test_outcomes_without_a_known_queue_are_counted_and_reported(stock: Stock, client: Redis, url: str) -> None:
    stock.start("default", "mail", name="w1")
    for queue in ("default", "mail"):
        stock.client.sadd(f"_kombu.binding.{queue}", f"{queue}\x06\x16\x06\x16{queue}")
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "mail", "celery")
        stock.do("many", rows=[[f"sum-{n}", "shop.add", [1, 2]] for n in range(20)], queue="mail")
        await ui.until_shown("is unknown: no event names it", "result_extended")


@run_on_event_loop
async def test_each_verb_has_its_key_and_a_stock_worker_runs_what_they_left(
    stock: Stock, client: Redis, url: str
) -> None:
    for id in ("deleted", "stays", "sooner"):
        stock.enqueue(id, **({"countdown": HOUR_S} if id == "sooner" else {}))
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "celery")
        await ui.press("enter", "2")
        await ui.until_shown("queue 3", "deleted")
        await ui.press("D")
        await ui.until_shown("Delete deleted")
        await ui.press("y")
        await ui.until(lambda: stock.read_waiting() == ["stays", "sooner"], "D deletes")
        await ui.until_shown("queue 2")
        await ui.press("G", "T")
        await ui.until_shown("due from now")
        await ui.press('"0s', "enter")
        await ui.until(lambda: b"later" not in client.lindex("default", 0), "T has written it")
        await ui.press("N")
        await ui.until_shown("Enqueue a job in default", "tasks.add")
        await ui.press("end", "ctrl+u", '"{"task": "shop.add", "args": [20, 22]}', "tab", '"new', "enter")
        await ui.until(lambda: "new" in stock.read_waiting(), "N enqueues")
        worker = stock.start(name="w1", events=True)
        await ui.until_shown("succeeded 3")
        await ui.press("P")
        await ui.until_shown("Pause")
        await ui.press("y")
        await ui.until(
            lambda: stock.do("inspect", method="active_queues")["w1@shop"] == [], "the worker takes of no queue"
        )
        stock.enqueue("waits")
        await ui.until_shown("queue 1")
        assert worker.process.poll() is None
    stock.act("resume", queue=stock.queue)
    stock.until("waits", "SUCCESS")
    assert stock.do("result", id="new")["value"] == 42
    assert {id: len(runs) for id, runs in stock.runs().items()} == dict.fromkeys(("stays", "sooner", "new", "waits"), 1)


@run_on_event_loop
async def test_k_revokes_what_runs_and_the_worker_lives_on(stock: Stock, client: Redis, url: str) -> None:
    worker = stock.start(name="w1", pool="prefork", events=True)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "celery")
        await ui.press("enter")
        await ui.until_shown("failed 0")
        stock.enqueue("held", "shop.hold", ("go",))
        await ui.until_shown("running 1")
        await ui.press("5")
        await ui.until_shown("held", "w1@shop")
        await ui.press("colon")
        await ui.press('"cancel', "enter")
        await ui.press("y")
        await ui.until(lambda: stock.do("result", id="held")["status"] == "REVOKED", "it is revoked")
        await ui.until_shown("revoked 1")
        assert worker.process.poll() is None
    assert stock.runs() == {"held": ["w1"]}


@pytest.mark.parametrize("events", [False, True], ids=["silent", "with -E"])
@run_on_event_loop
async def test_each_outcome_of_a_burst_is_received_once(stock: Stock, client: Redis, url: str, events: bool) -> None:
    stock.start(name="w1", pool="prefork", slots=2, events=events)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "celery")
        await ui.press("enter")
        await ui.until_shown("failed 0", "workers 1")
        rows = [[f"sum-{n}", "shop.add", [n, 1]] for n in range(400)] + [
            [f"bad-{n}", "shop.confirm", [n]] for n in range(100)
        ]
        stock.do("many", rows=rows)
        await ui.until(lambda: len(stock.runs()) == 500, "all have run")
        await ui.until_shown("succeeded 400", "failed 100")
        await ui.press("e")
        await ui.until_shown("no such order: #", "100")
    assert {len(runs) for runs in stock.runs().values()} == {1}


@pytest.mark.parametrize("tells", ["result_extended", "task_send_sent_event"])
@run_on_event_loop
async def test_the_queue_of_an_outcome_is_shown_with_it(stock: Stock, client: Redis, url: str, tells: str) -> None:
    stock.configure(**{tells: True}, task_routes={"*": {"routing_key": "mail"}})
    stock.start("default", "mail", name="w1", events=tells == "task_send_sent_event")
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "mail", "celery", "workers 1")
        stock.enqueue("bad", "shop.confirm", (4711,), queue="mail")
        stock.enqueue("good", queue="default")
        await ui.press("g", "slash")
        await ui.press('"mail', "enter")
        await ui.until(lambda: len(stock.runs()) == 2, "both have run")
        await ui.press("enter")
        await ui.until_shown("queues ▸ mail", "failed 1", "succeeded 0")
        await ui.press("7")
        await ui.until_shown("bad", "no such order: 4711")


@pytest.mark.parametrize("known", ["by its message", "by events", "by its result"])
@run_on_event_loop
async def test_a_failed_task_is_enqueued_again_and_a_stock_worker_finishes_it_under_its_id(
    stock: Stock, client: Redis, url: str, known: str
) -> None:
    stock.configure(result_extended=known == "by its result")
    events = known == "by events"
    if known == "by its message":
        stock.enqueue("bad", "shop.confirm", (4711,))
    else:
        stock.start(name="w1", events=events)
    async with screen(url, WIDE) as ui:
        if known == "by its message":
            await ui.until_shown("default", "celery")
            await ui.press("enter")
            await ui.until_shown("queue 1", "confirm(4711)")
            stock.start(name="w1")
        else:
            await ui.until_shown("default", "celery")
            await ui.press("enter")
            await ui.until_shown("failed 0", "workers 1")
            stock.enqueue("bad", "shop.confirm", (4711,))
        await ui.until_shown("failed 1")
        await ui.press("7")
        await ui.until_shown("bad", "no such order: 4711", "shop.confirm")
        stock.until("bad", "FAILURE")
        client.set(FIXED, 1)
        await ui.press("R")
        await ui.until_shown("runs again under its own id")
        await ui.press("y")
        await ui.until_shown("succeeded 1", "failed 0")
        await ui.press("6")
        await ui.until_shown("bad")
    assert stock.until("bad", "SUCCESS")["value"] == 4711
    assert stock.runs() == {"bad": ["w1", "w1"]}


@run_on_event_loop
async def test_expired_and_retried_jobs_are_described_as_such(stock: Stock, client: Redis, url: str) -> None:
    stock.enqueue("expired", expires=0.01)
    stock.enqueue("flaky", "shop.flaky", (7,))
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "celery")
        await ui.press("enter")
        await ui.until_shown("queue 2", "failed 0")
        stock.start(name="w1", events=True)
        await ui.until_shown("revoked 1", "succeeded 1")
        await ui.press("8", "enter")
        await ui.until_shown("ended by", "expired")
        await ui.press("escape")
        await ui.press("6", "enter")
        await ui.until_shown("attempt 1", "result      7", "raise self.retry")
    assert {id: len(runs) for id, runs in stock.runs().items()} == {"flaky": 2}


@run_on_event_loop
async def test_a_prefix_needs_no_option_on_the_screen_either(stock: Stock, client: Redis, url: str) -> None:
    stock.configure(broker_transport_options={"global_keyprefix": "shop:"}, task_acks_late=True)
    stock.start(name="w1", events=True)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "celery", "workers 1")
        await ui.press("enter")
        await ui.until_shown("failed 0")
        stock.enqueue("bad", "shop.confirm", (4711,))
        stock.enqueue("later", countdown=HOUR_S - 60)
        await ui.until_shown("failed 1", "eta 1")
        await ui.press("7")
        await ui.until_shown("bad", "no such order: 4711")


def test_the_workers_command_lists_a_worker_that_only_sends_events(stock: Stock) -> None:
    stock.start(name="w1")
    stock.enqueue("waits", countdown=3600)
    assert [worker["worker"] for worker in stock.rqtui("workers", stock.queue)] == ["w1@shop"]
