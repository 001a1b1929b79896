"""The view of workers: what it shows, and what the keys do there."""

from __future__ import annotations

import time

from celery_workers import FakeWorkers, build_replies
from mill_system import Mill, add_mill_jobs, add_mill_worker, mill
from planted_jobs import add_held_jobs, add_worker
from redis import Redis
from screens import WIDE, Seeded, run_on_event_loop, screen
from text_snapshots import check_snapshot, clock  # noqa: F401 (a fixture)

from rqtui.client.native_keys import build_queue_keys
from rqtui.client.queue import Queue
from rqtui.model import EventCoverage
from rqtui.systems import registry
from rqtui.tui.screens.workers import has_heard_heartbeats

__all__ = ["mill"]  # a fixture


@run_on_event_loop
async def test_workers_that_were_never_seen_are_shown_while_the_rows_stand(url: str, client: Redis) -> None:
    add_held_jobs(client, "early", "a")
    add_worker(client, "early", 1)
    async with screen(url, open_queue="mail") as it:
        await it.press("w", "p")  # typed ahead
        await it.until_shown("frozen: p", "early")
        add_held_jobs(client, "later", "b")
        add_worker(client, "later", 1)
        await it.press("r")
        await it.until_shown("early")
        assert "later" not in it.text()


@run_on_event_loop
async def test_a_silent_worker_is_on_top_with_its_jobs_and_a_key_lets_them_go(url: str, client: Redis) -> None:
    add_held_jobs(client, "lost", "a", "b")
    add_held_jobs(client, "fine", "c")
    add_worker(client, "lost", 70)
    add_worker(client, "fine", 1)
    async with screen(url, open_queue="mail") as it:
        await it.press("w")
        await it.until_shown("late", "running", "its 2 jobs: L releases")
        lines = it.text().splitlines()
        assert lines.index(next(x for x in lines if "lost" in x)) < lines.index(next(x for x in lines if "fine" in x))
        await it.press("L")
        await it.until(lambda: it.app.screen is not it.app.navigation.view, "a question, since there are two")
        await it.press("y")
        await it.until(
            lambda: client.zrange(build_queue_keys("mail")["reserved"], 0, -1) == [b"c"], "the jobs of the lost go back"
        )


@run_on_event_loop
async def test_enter_opens_the_job_that_a_worker_holds(url: str, client: Redis) -> None:
    add_held_jobs(client, "w1", "the-job")
    async with screen(url, open_queue="mail") as it:
        await it.press("w")
        await it.until_shown("no beat", "w1")
        await it.press("enter")
        await it.until_shown("the-job", "reserved")
        assert it.app.navigation.view is not None and it.app.navigation.view.NAME == "job"


@run_on_event_loop
async def test_workers_follow_a_filter_and_esc_takes_it_away(url: str, client: Redis) -> None:
    add_worker(client, "alpha", 1)
    add_worker(client, "beta", 1)
    async with screen(url, open_queue="mail") as it:
        await it.press("w")
        await it.until_shown("alpha", "beta")
        await it.press("slash", '"worker:alp')
        await it.until(lambda: "beta" not in it.text(), "beta is hidden while one types")
        await it.press("enter")
        assert "/worker:alp" in it.text()
        await it.press("escape")
        await it.until_shown("alpha", "beta")


@run_on_event_loop
async def test_workers_of_all_queues_come_with_one_key(url: str, client: Redis) -> None:
    add_worker(client, "m1", 1)
    add_worker(client, "i1", 1, "images")
    for queue in ("mail", "images"):
        Queue(queue, client).put({})
    async with screen(url, open_queue="mail") as it:
        await it.press("w")
        await it.until_shown("m1", "of mail")
        assert "i1" not in it.text()
        await it.press("quotation_mark")
        await it.until_shown("m1", "i1", "of all queues")


@run_on_event_loop
async def test_a_worker_is_told_to_stop_from_the_palette(url: str, client: Redis) -> None:
    Queue("mail", client).put({})
    add_worker(client, "w1", 1)
    async with screen(url, open_queue="mail") as it:
        await it.press("w")
        await it.until_shown("w1", "quiet or to stop")
        verbs = {verb.name: verb for verb, _summary in it.app.verb_starter.list_offered_verbs()}
        it.app.start_verb(verbs["stop"], it.app.navigation.find_target())
        await it.until(
            lambda: b" stop " in (client.hget(build_queue_keys("mail")["workers"], "w1") or b""), "the order stands"
        )
        await it.until_shown("stop asked")


@run_on_event_loop
async def test_a_worker_of_celery_is_asked_with_one_key_and_its_replies_are_shown(url: str, client: Redis) -> None:
    client.sadd("_kombu.binding.mail", "mail\x06\x16\x06\x16mail")
    client.lpush("mail", "x")
    fake = FakeWorkers(client, {"w1@shop": build_replies(time.time())})
    try:
        async with screen(url, systems=("celery",), open_queue="celery:mail") as it:
            await it.press("w")
            await it.until(lambda: fake.beat(active=1) or "w1@shop" in it.text(), "the worker is listed")
            await it.until_shown("running", "a asks it")
            await it.press("a")
            await it.until_shown("it replied within", "shop.hold('go', seconds=600)", "a, b")
            assert {each["method"] for each in fake.commands} == {"active", "active_queues", "registered", "stats"}
            verbs = {verb.name: verb for verb, _summary in it.app.verb_starter.list_offered_verbs()}
            assert {"stop", "grow", "shrink", "rate_limit", "time_limit"} <= verbs.keys()
            assert not {"inspect", "collect"} & verbs.keys()
            it.app.start_verb(verbs["grow"], it.app.navigation.find_target())
            await it.until_shown("Grow the pool of w1@shop?", "takes that back", "processes")
    finally:
        fake.close()


def test_workers_without_a_stored_list_are_not_denied_before_each_could_send_a_heartbeat() -> None:
    celery = registry.create_system("celery")
    assert not has_heard_heartbeats(celery), "nobody listens yet"
    for age_ms, is_heard in ((0, False), (1000, False), (60_000, True)):
        celery.event_coverage = EventCoverage(celery.now_ms() - age_ms)
        assert has_heard_heartbeats(celery) is is_heard
    assert has_heard_heartbeats(registry.create_system("native")), "Redis stores its workers"


@run_on_event_loop
async def test_a_system_without_names_says_so(url: str, client: Redis) -> None:
    client.rpush("readytasklist", "a")
    async with screen(url, systems=("dispatcher",), open_queue="dispatcher:readytasklist") as it:
        await it.press("w")
        await it.until_shown("dispatcher stores no names of workers")
        await it.press("b")
        await it.until_shown("dispatcher stores no kinds of jobs")
        await it.press("e")
        await it.until_shown("no job has died", "no errors stored")


@run_on_event_loop
async def test_consumers_of_another_system_and_what_they_hold_are_shown(url: str, client: Redis) -> None:
    client.rpush("jobs", b"\x91\x01")
    client.sadd("orizuru:consumers", "c1", "c2")
    client.hset("orizuru:heartbeats", mapping={"c1": 1000, "c2": int(time.time() * 1000)})
    client.rpush("orizuru:consumers:c1:processing", b"\x91\x02")
    async with screen(url, systems=("orizuru:source=jobs",), open_queue="orizuru:jobs") as it:
        await it.press("w")
        await it.until_shown("gone", "c1", "its job: L releases", "idle", "c2")


@run_on_event_loop
async def test_esc_leads_from_side_views_back_to_the_board(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url, open_queue="mail") as it:
        for key in ("w", "b", "e"):
            await it.press(key)
        await it.press("escape")
        await it.until(
            lambda: it.app.navigation.view is not None and it.app.navigation.view.NAME == "board", "the board"
        )


@run_on_event_loop
async def test_a_worker_of_several_queues_is_one_row_says_more_below_and_is_told_to_stop(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    add_mill_jobs(client, "bran", "started", "b1", worker="w1", call="mill.grind()")
    add_mill_jobs(client, "flour", "queued", "q1")
    add_mill_worker(
        client, "w1", ["flour", "bran"], job="b1", state="busy", facts=[["jobs run", 41], ["key", "token=abc\x1b[2J"]]
    )
    async with screen(url, systems=("mill",)) as it:
        await it.press("j", "w", "quotation_mark")
        await it.until_shown("1 worker ", "running", "state       busy", "queues      flour, bran", "jobs run    41")
        assert "abc" not in it.text() and "token=••" in it.text()
        await it.until_shown(": tells it to stop")
        await it.press("enter")
        await it.until_shown("mill.grind()", "place       started")
        await it.press("escape", "colon", '"end after its job', "enter")
        await it.until(lambda: client.lrange("mill:orders", 0, -1) == [b"stop w1"])
        await it.press("colon", '"cancel', "enter")
        await it.until(lambda: client.lrange("mill:orders", 1, -1) == [b"cancel b1 of w1"])
        await it.press("quotation_mark")
        await it.until_shown("workers of flour", "hold 0", "─  w1  ─")
        await it.press("enter")
        await it.until_shown("mill.grind()", "place       started")


@run_on_event_loop
async def test_a_question_says_what_a_verb_does_in_this_system_and_a_form_begins_with_its_body(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    add_mill_jobs(client, "flour", "queued", "q1")
    async with screen(url, systems=("mill",)) as it:
        await it.press("P")
        await it.until_shown("Pause flour", "then", "every queue of this mill rests")
        await it.press("y")
        await it.until(lambda: client.exists("mill:paused"))
        await it.press("N")
        await it.until_shown("Enqueue a job", '"func": ""', '"kwargs": {}')


@run_on_event_loop
async def test_workers_with_long_names_are_told_apart_in_every_view(url: str, client: Redis) -> None:
    ends = {"eu-west-1.mail-worker-07": "07", "eu-west-1.mail-worker-08": "08", "us-east-1.mail-worker-07": "us"}
    for name in ends:
        add_held_jobs(client, f"acme.production.{name}", f"job-of-{name[-2:]}-{name[:2]}")
        add_worker(client, f"acme.production.{name}", 1)

    def are_told_apart(text: str) -> bool:
        cut = [word for word in text.split() if "…" in word and any(end in word for end in ends.values())]
        return len(set(cut)) == len(ends) and all(any(end in word for word in cut) for end in ends.values())

    async with screen(url) as it:
        await it.press("w")
        await it.until(lambda: are_told_apart(it.text()), "the workers of all queues")
        await it.press("escape", "enter")
        await it.until(lambda: are_told_apart(it.text()), "the rows of reserved jobs")
    async with screen(url, WIDE) as it:
        await it.until_shown("3 workers: ")
        line = next(line for line in it.text().splitlines() if "3 workers: " in line)
        assert are_told_apart(line), line
