"""The view of workers: what it shows, and what the keys do there."""

from __future__ import annotations

import time

import pytest
from celery_workers import FakeWorkers, build_replies
from mill_system import Mill, add_mill_jobs, add_mill_worker, mill
from planted_jobs import add_held_jobs, add_worker
from redis import Redis
from screens import WIDE, Seeded, run_on_event_loop, screen
from text_snapshots import check_snapshot, clock  # noqa: F401 (a fixture)

from rqtui.client.native_keys import build_queue_keys
from rqtui.client.queue import Queue
from rqtui.model import EventCoverage, Job, Ref, State, Worker
from rqtui.reports.workers import WorkerEntry, WorkerHealth
from rqtui.systems import registry
from rqtui.tui.screens.workers import _HELD_JOB_HEAD, Workers, _format_worker_details, has_received_heartbeats

__all__ = ["mill"]  # a fixture


@pytest.mark.slow
@run_on_event_loop
async def test_workers_that_were_never_seen_are_shown_while_the_rows_stay(url: str, client: Redis) -> None:
    add_held_jobs(client, "early", "a")
    add_worker(client, "early", 1)
    async with screen(url, open_queue="mail") as ui:
        await ui.press("w", "p")  # typed ahead
        await ui.until_shown("frozen: p", "early")
        add_held_jobs(client, "later", "b")
        add_worker(client, "later", 1)
        await ui.press("r")
        await ui.until_shown("early")
        assert "later" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_a_silent_worker_is_on_top_with_its_jobs_and_a_key_releases_them(url: str, client: Redis) -> None:
    add_held_jobs(client, "lost", "a", "b")
    add_held_jobs(client, "fine", "c")
    add_worker(client, "lost", 70)
    add_worker(client, "fine", 1)
    async with screen(url, open_queue="mail") as ui:
        await ui.press("w")
        await ui.until_shown("late", "running", "its 2 jobs: L releases")
        lines = ui.text().splitlines()
        assert lines.index(next(x for x in lines if "lost" in x)) < lines.index(next(x for x in lines if "fine" in x))
        await ui.press("L")
        await ui.until(lambda: ui.app.screen is not ui.app.navigation.view, "a question, since there are two")
        await ui.press("y")
        await ui.until(
            lambda: client.zrange(build_queue_keys("mail")["reserved"], 0, -1) == [b"c"], "the jobs of the lost go back"
        )


@pytest.mark.slow
@run_on_event_loop
async def test_enter_opens_the_job_that_a_worker_holds(url: str, client: Redis) -> None:
    add_held_jobs(client, "w1", "the-job")
    async with screen(url, open_queue="mail") as ui:
        await ui.press("w")
        await ui.until_shown("unknown", "w1")
        await ui.press("enter")
        await ui.until_shown("the-job", "reserved")
        assert ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "job"


@pytest.mark.slow
@run_on_event_loop
async def test_workers_follow_a_filter_and_esc_takes_it_away(url: str, client: Redis) -> None:
    add_worker(client, "alpha", 1)
    add_worker(client, "beta", 1)
    async with screen(url, open_queue="mail") as ui:
        await ui.press("w")
        await ui.until_shown("alpha", "beta")
        await ui.press("slash", '"worker:alp')
        await ui.until(lambda: "beta" not in ui.text(), "beta is hidden while one types")
        await ui.press("enter")
        assert "/worker:alp" in ui.text()
        await ui.press("escape")
        await ui.until_shown("alpha", "beta")


@pytest.mark.slow
@run_on_event_loop
async def test_workers_of_all_queues_come_with_one_key(url: str, client: Redis) -> None:
    add_worker(client, "m1", 1)
    add_worker(client, "i1", 1, "images")
    for queue in ("mail", "images"):
        Queue(queue, client).put({})
    async with screen(url, open_queue="mail") as ui:
        await ui.press("w")
        await ui.until_shown("m1", "of mail")
        assert "i1" not in ui.text()
        await ui.press("quotation_mark")
        await ui.until_shown("m1", "i1", "of all queues")


@pytest.mark.slow
@run_on_event_loop
async def test_a_worker_is_ordered_to_stop_from_the_palette(url: str, client: Redis) -> None:
    Queue("mail", client).put({})
    add_worker(client, "w1", 1)
    async with screen(url, open_queue="mail") as ui:
        await ui.press("w")
        await ui.until_shown("w1", "quiet or stop")
        verbs = {verb.name: verb for verb, _summary in ui.app.verb_starter.list_offered_verbs()}
        ui.app.start_verb(verbs["stop"], ui.app.navigation.find_target())
        await ui.until(
            lambda: b" stop " in (client.hget(build_queue_keys("mail")["workers"], "w1") or b""), "the order stands"
        )
        await ui.until_shown("stop asked")


@pytest.mark.slow
@run_on_event_loop
async def test_a_worker_of_celery_is_asked_with_one_key_and_its_replies_are_shown(url: str, client: Redis) -> None:
    client.sadd("_kombu.binding.mail", "mail\x06\x16\x06\x16mail")
    client.lpush("mail", "x")
    fake = FakeWorkers(client, {"w1@shop": build_replies(time.time(), ("mail", "b"))})
    try:
        async with screen(url, systems=("celery",), open_queue="celery:mail") as ui:

            async def until_shown_with_heartbeats(*words: str) -> None:
                await ui.until(lambda: fake.beat(active=1) or all(word in ui.text() for word in words), f"{words}")

            await ui.press("w")
            await until_shown_with_heartbeats("w1@shop")
            await until_shown_with_heartbeats("running", "a asks it")
            await ui.press("a")
            await until_shown_with_heartbeats("it replied within", "shop.hold('go', seconds=600)", "mail, b")
            view = ui.app.navigation.view
            assert isinstance(view, Workers)

            def is_row_of_two_queues() -> bool:
                entry = view.find_selected_worker()
                return entry is not None and entry.queues == ("mail", "b")

            await ui.until(lambda: fake.beat(active=1) or is_row_of_two_queues(), "its row names both queues")
            assert "it replied within" in ui.text() and not view.table.is_cursor_row_missing
            assert {each["method"] for each in fake.commands} == {"active", "active_queues", "registered", "stats"}
            verbs = {verb.name: verb for verb, _summary in ui.app.verb_starter.list_offered_verbs()}
            assert {"stop", "grow", "shrink", "rate_limit", "time_limit"} <= verbs.keys()
            assert not {"inspect", "collect"} & verbs.keys()
            ui.app.start_verb(verbs["grow"], ui.app.navigation.find_target())
            await ui.until_shown("Grow the pool of w1@shop?", "until it restarts; shrink reverses", "processes")
    finally:
        fake.close()


def test_workers_without_a_stored_list_are_not_denied_before_each_could_send_a_heartbeat() -> None:
    celery = registry.create_system("celery")
    assert not has_received_heartbeats(celery), "no Pub/Sub events are received yet"
    for age_ms, is_heard in ((0, False), (1000, False), (60_000, True)):
        celery.event_coverage = EventCoverage(celery.now_ms() - age_ms)
        assert has_received_heartbeats(celery) is is_heard
    assert has_received_heartbeats(registry.create_system("native")), "Redis stores its workers"


@pytest.mark.slow
@run_on_event_loop
async def test_a_system_without_names_reports_it(url: str, client: Redis) -> None:
    client.rpush("readytasklist", "a")
    async with screen(url, systems=("dispatcher",), open_queue="dispatcher:readytasklist") as ui:
        await ui.press("w")
        await ui.until_shown("dispatcher stores no names of workers")
        await ui.press("b")
        await ui.until_shown("dispatcher stores no kinds of jobs")
        await ui.press("e")
        await ui.until_shown("no job has died", "no errors stored")


@run_on_event_loop
async def test_consumers_of_another_system_and_what_they_hold_are_shown(url: str, client: Redis) -> None:
    client.rpush("jobs", b"\x91\x01")
    client.sadd("orizuru:consumers", "c1", "c2")
    client.hset("orizuru:heartbeats", mapping={"c1": 1000, "c2": int(time.time() * 1000)})
    client.rpush("orizuru:consumers:c1:processing", b"\x91\x02")
    async with screen(url, systems=("orizuru:source=jobs",), open_queue="orizuru:jobs") as ui:
        await ui.press("w")
        await ui.until_shown("gone", "c1", "its job: L releases", "idle", "c2")


@pytest.mark.slow
@run_on_event_loop
async def test_esc_leads_from_side_views_back_to_the_board(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url, open_queue="mail") as ui:
        for key in ("w", "b", "e"):
            await ui.press(key)
        await ui.press("escape")
        await ui.until(
            lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "board", "the board"
        )


@pytest.mark.slow
@run_on_event_loop
async def test_a_worker_of_several_queues_has_one_row_with_details_and_is_ordered_to_stop(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    add_mill_jobs(client, "bran", "started", "b1", worker="w1", call="mill.grind()")
    add_mill_jobs(client, "flour", "queued", "q1")
    add_mill_worker(
        client, "w1", ["flour", "bran"], job="b1", state="busy", facts=[["jobs run", 41], ["key", "token=abc\x1b[2J"]]
    )
    async with screen(url, systems=("mill",)) as ui:
        await ui.press("j", "w", "quotation_mark")
        await ui.until_shown("1 worker ", "running", "state       busy", "queues      flour, bran", "jobs run    41")
        assert "abc" not in ui.text() and "token=••" in ui.text()
        await ui.until_shown(": asks it to stop or cancel its job")
        await ui.press("enter")
        await ui.until_shown("mill.grind()", "place       started")
        await ui.press("escape", "colon", '"end after its job', "enter")
        await ui.until(lambda: client.lrange("mill:orders", 0, -1) == [b"stop w1"])
        await ui.press("colon", '"cancel', "enter")
        await ui.until(lambda: client.lrange("mill:orders", 1, -1) == [b"cancel b1 of w1"])
        await ui.press("quotation_mark")
        await ui.until_shown("workers of flour", "hold 0", "─  w1  ─")
        await ui.press("enter")
        await ui.until_shown("mill.grind()", "place       started")


@pytest.mark.slow
@run_on_event_loop
async def test_a_question_reports_what_a_verb_does_in_this_system_and_a_form_begins_with_its_body(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    add_mill_jobs(client, "flour", "queued", "q1")
    async with screen(url, systems=("mill",)) as ui:
        await ui.press("P")
        await ui.until_shown("Pause flour", "then", "every queue of this mill rests")
        await ui.press("y")
        await ui.until(lambda: client.exists("mill:paused"))
        await ui.press("N")
        await ui.until_shown("Enqueue a job", '"func": ""', '"kwargs": {}')


@pytest.mark.slow
@run_on_event_loop
async def test_workers_with_long_names_are_distinguished_in_every_view(url: str, client: Redis) -> None:
    ends = {"eu-west-1.mail-worker-07": "07", "eu-west-1.mail-worker-08": "08", "us-east-1.mail-worker-07": "us"}
    for name in ends:
        add_held_jobs(client, f"acme.production.{name}", f"job-of-{name[-2:]}-{name[:2]}")
        add_worker(client, f"acme.production.{name}", 1)

    def are_workers_distinguished(text: str) -> bool:
        cut = [word for word in text.split() if "…" in word and any(end in word for end in ends.values())]
        return len(set(cut)) == len(ends) and all(any(end in word for word in cut) for end in ends.values())

    async with screen(url) as ui:
        await ui.press("w")
        await ui.until(lambda: are_workers_distinguished(ui.text()), "the workers of all queues")
        await ui.press("escape", "enter")
        await ui.until(lambda: are_workers_distinguished(ui.text()), "the rows of reserved jobs")
    async with screen(url, WIDE) as ui:
        await ui.until_shown("3 workers: ")
        line = next(line for line in ui.text().splitlines() if "3 workers: " in line)
        assert are_workers_distinguished(line), line


def test_the_heading_of_held_jobs_is_never_the_last_visible_line() -> None:
    job = Job(b"j1", "mail", "native", "reserved", State.RESERVED, b"j1", name="send")
    worker = Worker("w1", "mail", 1_800_000_000_000, 60_000)
    entry = WorkerEntry(Ref("native", "mail"), "w1", WorkerHealth.RUNNING, worker, (job, job), is_whole=True)
    for rows in range(1, 12):
        text = _format_worker_details(entry, 1_800_000_001_000, 76, rows)
        visible = text.plain.split("\n")[:rows]
        assert not visible[-1].startswith(_HELD_JOB_HEAD), rows
        assert _HELD_JOB_HEAD in text.plain and text.plain.count("send") >= 2
