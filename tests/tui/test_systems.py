"""The screen on systems of others: several in one Redis, their words, their faults, what is broken or far too large."""

from __future__ import annotations

import time
from collections.abc import Iterable

import arq_subject
import pytest
from families import name_case
from redis import Redis
from screens import NARROW, WIDE, Screen, Seeded, open_view, return_to_overview, run_on_event_loop, screen
from slow_cases import mark_slow_cases
from textual.widgets import Input, TextArea

from rqtui.client.queue import Queue as Client
from rqtui.model import Count, Queue, Ref, State
from rqtui.scenarios.originals import dispatcher, orizuru, redisched, safe_pop, timeout_sets
from rqtui.systems import registry
from rqtui.tui.screens.board import Board, Pane
from rqtui.tui.screens.job import JobPage
from rqtui.tui.services import verb_resolution
from rqtui.tui.target import Target
from rqtui.tui.widgets.question_dialog import Question

ALL = ("native", "dispatcher", "redisched", "timeout_sets", "orizuru:source=jobs", "safe_pop:queue=q")
QUEUES = {
    "dispatcher": "readytasklist",
    "redisched": "help",
    "timeout_sets": "todos",
    "orizuru": "jobs",
    "safe_pop": "q",
}
LOOKS_EVERY_S = 1.0  # a loop


def footer(ui: Screen) -> str:
    return ui.text().splitlines()[-1]


def pane(ui: Screen) -> Pane:
    assert isinstance(ui.app.navigation.view, Board)
    return ui.app.navigation.view.find_current_pane()


async def open_board(ui: Screen, ref: str, *keys: str) -> None:
    """Open the board of a queue, and press keys on it."""
    ui.app.open_board(Ref(*ref.split(":")))
    await ui.until(lambda: isinstance(ui.app.navigation.view, Board), "the board")
    await ui.until_refreshed()
    await ui.press(*keys)


def plant(client: Redis) -> None:
    """Plant a job in most places of each system, by the systems' own commands."""
    now_s = time.time()
    client.zadd(dispatcher.DELAYED, {b"later": int(now_s) + 3600})
    client.rpush(dispatcher.READY, b"task-1", b"task-2")
    topic = redisched.Scheduler(client, "help")
    for number, id in enumerate(("r1", "r2", "x1", "d1")):
        topic.put(id, b"{}", number - 60)
    topic.put("l1", b"{}", 3600)
    topic.reserve(600_000)
    topic.reserve(600_000)
    client.zadd("__REDIS_SCHED_RESERVED__help", {"x1": now_s * 1000 - 60_000})
    client.zrem("__REDIS_SCHED_QUEUED__help", "x1")
    timeout_sets.add_items(client, [1, 2, 3])
    timeout_sets.Worker(client, lock_ms=600_000).take(b"1")
    client.sadd(timeout_sets.DONE, 9)
    consumer = orizuru.Worker(client, "jobs", "w1")
    consumer.register()
    consumer.beat(600_000)
    for number in range(4):
        orizuru.push_job(client, "jobs", number)
    guard = consumer.take_next()
    assert guard is not None
    guard.reject()
    consumer.take_next()
    for id in (b"s1", b"s2", b"s3"):
        client.set(b"q:data:" + id, b"{}")
        safe_pop.push_message_id(client, "q", id)
    safe_pop.Worker(client, "q", block_s=0).safe_pop()
    client.rpush("q", b"s0|%d" % (now_s - 90))


# ── several systems ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("named", [ALL, ()], ids=["named", "as they are there"])
@run_on_event_loop
async def test_one_overview_shows_all_systems(url: str, client: Redis, named: tuple[str, ...]) -> None:
    plant(client)
    client.sadd("q:done", "s9")  # without it a list has no facts of its own
    Seeded(client, "mail").put("native-1")
    async with screen(url, WIDE, systems=named) as ui:
        queues = {**QUEUES, "orizuru": "jobs" if named else "orizuru", "native": "mail"}
        await ui.until_shown(*queues.values(), *queues, "6 queues")
        rows = {
            queue: next(line for line in ui.text().splitlines()[3:] if f" {queue} " in line)
            for queue in queues.values()
        }
        assert all(system in rows[queue] for system, queue in queues.items())
        counts = {word for word in rows["help"].split() if word.isdigit()}
        assert {"1", "3"} <= counts, "1 later, 1 due, 3 reserved (one of them late)"


@run_on_event_loop
async def test_a_narrow_overview_names_the_system_of_the_queue_under_the_cursor(url: str, client: Redis) -> None:
    plant(client)
    async with screen(url, NARROW, systems=ALL) as ui:
        await ui.until_shown("5 queues")
        seen = set()

        def find_title() -> str:
            """Return the title of the second frame; empty while it is not painted."""
            frames = [line.split() for line in ui.text().splitlines() if line.startswith("╭")]
            return frames[1][1] if len(frames) > 1 and len(frames[1]) > 1 else ""

        for _ in range(5):
            seen.add(await ui.until(find_title, "the details of the queue"))
            await ui.press("j")
            await ui.until_refreshed()
        assert seen == {f"{system}:{queue}" for system, queue in QUEUES.items()}


@pytest.mark.parametrize("system", mark_slow_cases(QUEUES, {*QUEUES} - {"dispatcher"}))
@run_on_event_loop
async def test_a_board_counts_by_place_and_omits_what_its_system_does_not_store(
    url: str, client: Redis, system: str
) -> None:
    plant(client)
    async with screen(url, NARROW, systems=ALL) as ui:
        await open_board(ui, f"{system}:{QUEUES[system]}")
        snapshot = ui.app.session.snapshot
        counted = snapshot.find_queue(Ref(system, QUEUES[system])) if snapshot else None
        assert counted is not None
        for number, place in enumerate(registry.create_system(system).places, 1):
            await ui.until_shown(f"{number} {place.name} {counted.count_in_place(place.name) or '0'}")
            await ui.press(str(number))
            await ui.until(lambda place=place: pane(ui).place.name == place.name)
            await ui.until_refreshed()
            titles = ui.text().splitlines()[3].split()
            assert "tried" not in titles and "error" not in titles
            assert ("worker" in titles) == (system == "orizuru" and place.name != "source"), titles
            if pane(ui).jobs:
                await ui.press("enter")
                await ui.until(lambda: isinstance(ui.app.navigation.view, JobPage))
                await ui.until_shown("place", place.name, "body")
                assert not [word for word in ("attempts", "priority", "the queue's") if word in ui.text()]
                await ui.press("escape")


@pytest.mark.slow
@run_on_event_loop
async def test_read_only_offers_no_verb_of_any_system_and_runs_no_loop(url: str, client: Redis) -> None:
    plant(client)
    before = {key: client.dump(key) for key in client.scan_iter()}
    async with screen(url, systems=ALL, read_only=True) as ui:
        for system, queue in QUEUES.items():
            await open_board(ui, f"{system}:{queue}", "D", "A", "N", "R", "full_stop", "greater_than_sign", "comma")
            await ui.until_refreshed()
            assert not isinstance(ui.app.screen, Question)
            assert not [w for w in ("delete", "ack", "enqueue", "promote", "lease", "pull") if w in footer(ui)], footer(
                ui
            )
            await ui.press("escape")
        assert {key: client.dump(key) for key in client.scan_iter()} == before


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_only_the_queue_whose_loop_was_confirmed_is_served(url: str, client: Redis) -> None:
    plant(client)
    past = {b"due": time.time() - 9}
    client.zadd(dispatcher.DELAYED, past)
    native = Seeded(client, "mail")
    native.put("n0")
    async with screen(url, systems=ALL) as ui:
        native.put("n1", delay_ms=20)
        await ui.until(lambda: native.ids("ready") == ["n0", "n1"], "the dispatcher of ours runs from the start")
        await ui.pilot.pause(1.2 * LOOKS_EVERY_S)
        assert client.zscore(dispatcher.DELAYED, b"due") and client.zscore("__REDIS_SCHED_RESERVED__help", "x1")
        await open_board(ui, "dispatcher:readytasklist", "t")
        await ui.until_shown("loops for readytasklist", "dispatch ■ off", "reap  not needed")
        await ui.press("escape", "comma")
        await ui.until_toast("dispatcher is on for readytasklist")
        await ui.until(lambda: client.zscore(dispatcher.DELAYED, b"due") is None, "it is dispatched")
        await ui.press("t")
        await ui.until_shown("loops for readytasklist", "dispatch ▶")
        await ui.press("escape", "comma")
        await ui.until_toast("dispatcher of this screen is off for readytasklist")
        client.zadd(dispatcher.DELAYED, past)
        native.put("n2", delay_ms=20)
        await ui.until(lambda: native.ids("ready") == ["n0", "n1", "n2"], "ours still runs")
        assert client.zscore(dispatcher.DELAYED, b"due") and client.zscore("__REDIS_SCHED_RESERVED__help", "x1")
        await ui.press("escape")
        await open_board(ui, "redisched:help", "full_stop")
        await ui.until(lambda: not client.zscore("__REDIS_SCHED_RESERVED__help", "x1"), "it is reaped")
        assert client.lrange("q", -1, -1)[0].startswith(b"s0|"), "the reaper leaves the others alone"


# ── findings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("system", "commands", "words"),
    [
        ("dispatcher", ["ZADD delayedtaskset -5 x"], "below 0"),
        ("dispatcher", ["ZADD delayedtaskset 1800000000000 x"], "in milliseconds instead"),
        ("dispatcher", ["ZADD delayedtaskset inf x"], "infinite"),
        ("redisched", ["ZADD __REDIS_SCHED_QUEUED__help 99 ghost"], "without a body"),
        ("redisched", ["HSET __REDIS_SCHED_JOBS__help lost {}"], "in no place of the queue"),
        ("redisched", ["ZADD __REDIS_SCHED_QUEUED__help 99 r1"], "queued and reserved at once"),
        (
            "redisched",
            ["ZADD __REDIS_SCHED_QUEUED__help 4800000000 s", "HSET __REDIS_SCHED_JOBS__help s {}"],
            "seconds",
        ),
        ("timeout_sets", ["SADD in_progress 77"], "without a lock"),
        ("timeout_sets", ["SADD done 2"], "in another set"),
        ("timeout_sets", ["SADD todos url1"], "not a whole number"),
        ("timeout_sets", ["LPUSH 1-lock x"], "the data of another program"),
        (
            "orizuru",
            ["HSET orizuru:heartbeats gone 1", "LPUSH orizuru:consumers:gone:processing x"],
            "sent no heartbeat",
        ),
        ("orizuru", ["LPUSH orizuru:consumers:w1:processing \xc1"], "not in MessagePack"),
        ("orizuru", ["SET orizuru:consumers:w1:unacked text"], "is not a list"),
        ("safe_pop", ["RPUSH q id|notanumber"], "neither of the form ID"),
        ("safe_pop", ["SADD q:done nobody"], "done mark without"),
        ("safe_pop", ["LPUSH q s2"], "twice"),
        ("safe_pop", ["LPUSH q 6ba7b810-9dad-41d1-80b4-00c04fd430c8"], "job without data"),
    ],
)
@run_on_event_loop
async def test_a_finding_is_reported_in_the_verdict(
    url: str, client: Redis, system: str, commands: Iterable[str], words: str
) -> None:
    plant(client)
    client.delete("__REDIS_SCHED_RESERVED__help")  # a late lease would come first
    client.zadd("__REDIS_SCHED_RESERVED__help", {"r1": time.time() * 1000 + 600_000})
    client.delete("1-lock") if system == "timeout_sets" and "1-lock" in "".join(commands) else None
    client.lrem("q", 1, client.lindex("q", -1))
    client.hdel("__REDIS_SCHED_JOBS__help", "r2", "x1")
    for command in commands:
        client.execute_command(*(word.encode("latin-1") for word in command.split()))
    spec = next(spec for spec in ALL if spec.startswith(system))
    async with screen(url, (250, 45), systems=(spec,)) as ui:
        await ui.until(lambda: words in ui.text(), f"{words} in the verdict")
        finding = next(f for q in ui.app.session.snapshot.queues for f in q.findings if words in f.text)  # type: ignore[union-attr]
        assert finding.remedy and finding.queue == QUEUES[system]


# ── what is broken ───────────────────────────────────────────────────────────────────────────────────────────────────

KEYS = {
    "dispatcher": ("delayedtaskset", "readytasklist"),
    "redisched": ("__REDIS_SCHED_JOBS__help", "__REDIS_SCHED_QUEUED__help", "__REDIS_SCHED_RESERVED__help"),
    "timeout_sets": ("todos", "in_progress", "done"),
    "orizuru": ("jobs", "orizuru:consumers", "orizuru:heartbeats", "orizuru:consumers:w1:processing"),
    "safe_pop": ("q", "q:done"),
}


def read_verdict(ui: Screen, ref: Ref) -> object:
    """Return the findings of a queue on the screen."""
    snapshot = ui.app.session.snapshot
    queue = snapshot.find_queue(ref) if snapshot else None
    return queue is not None and (queue.error or queue.findings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "system", [each if each == "safe_pop" else pytest.param(each, marks=pytest.mark.matrix) for each in KEYS]
)
@run_on_event_loop
async def test_a_key_of_another_type_is_reported_and_never_written(url: str, client: Redis, system: str) -> None:
    ref = Ref(system, QUEUES[system])
    spec = next(spec for spec in ALL if spec.startswith(system))
    plant(client)
    async with screen(url, WIDE, systems=(spec,)) as ui:
        await ui.until_shown(ref.queue)
        for key in KEYS[system]:
            with name_case(key):
                client.flushall()
                plant(client)
                await ui.until_refreshed()
                client.delete(key)
                client.set(key, "another program's") if system != "redisched" else client.rpush(
                    key, "another program's"
                )
                before = client.dump(key)
                await open_board(ui, f"{system}:{ref.queue}")
                for number in range(1, len(registry.create_system(system).places) + 1):
                    await ui.press(str(number), "D")
                    await ui.until_refreshed()
                    await ui.press("y" if isinstance(ui.app.screen, Question) else "g")
                await ui.press("greater_than_sign", "less_than_sign")
                await ui.until_refreshed()
                await ui.until(lambda: read_verdict(ui, ref), "it says so")
                assert ui.app.is_running and client.dump(key) == before
                await return_to_overview(ui)


@pytest.mark.slow
@run_on_event_loop
async def test_members_that_cannot_be_read_are_shown_with_their_problem_and_deleted_only_on_request(
    url: str, client: Redis
) -> None:
    client.rpush("q", b"id|notanumber", b"\xff\xfe", b"fine")
    client.sadd("q:done", "fine")
    client.lpush("jobs", b"\xda\xff", b"\x91\x01")
    orizuru.Worker(client, "jobs", "w1").register()
    client.zadd(dispatcher.DELAYED, {b"\x00\xff\x1b[31m": "-inf", b"due-never": "inf"})
    async with screen(url, systems=ALL) as ui:
        await open_board(ui, "safe_pop:q", "1")
        await ui.until_shown("‹FF›" if "‹FF›" in ui.text() else "fine")
        assert client.lrange("q", 0, -1) == [b"id|notanumber", b"\xff\xfe", b"fine"]
        await ui.press("escape")
        await open_board(ui, "orizuru:jobs", "1")
        await ui.until_shown("its body is no Messag", "0=1")
        await ui.press("escape")
        await open_board(ui, "dispatcher:readytasklist", "1")
        await ui.until_shown("a due time below 0", "a due time that is infinite")
        await ui.press("G")
        await ui.until(lambda: (job := pane(ui).find_current_job()) is not None and job.member == b"due-never")
        await ui.press("D", "y")
        await ui.until(lambda: client.zscore(dispatcher.DELAYED, b"due-never") is None, "it is deleted")
        assert client.zcard(dispatcher.DELAYED) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ref", "key", "place"),
    [
        ("dispatcher:readytasklist", dispatcher.READY, "2"),
        pytest.param("orizuru:jobs", "jobs", "1", marks=pytest.mark.matrix),
        pytest.param("safe_pop:q", "q", "1", marks=pytest.mark.matrix),
    ],
)
@run_on_event_loop
async def test_a_body_of_30_mb_in_a_list_is_shown_by_its_size(
    url: str, client: Redis, ref: str, key: str, place: str
) -> None:
    big = b"\xc6\x01\xc9\xc3\x80" + b"x" * 30_000_000 if key == "jobs" else b"x" * 30_000_000
    client.rpush(key, big, b"\x91\x01" if key == "jobs" else b"small")
    orizuru.Worker(client, "jobs", "w1").register()
    read = client.info("stats")["total_net_output_bytes"]
    async with screen(url, systems=ALL) as ui:
        await open_board(ui, ref, place)
        await ui.until(lambda: len(pane(ui).jobs) == 2, "both are listed")
        long = next(job for job in pane(ui).jobs.values() if job.body_bytes > 1_000_000 or job.is_partial)
        while pane(ui).cursor_id != long.id:
            await ui.press("j")
        await ui.press("enter")
        await ui.until_shown("body", "are too many to show" if long.body is None else "x")
        assert client.info("stats")["total_net_output_bytes"] - read < 3_000_000, "it was never sent"
        await ui.press("D", "y")
        await ui.until(lambda: client.llen(key) == 1, "it is deleted, as whole as it is")
        assert client.lindex(key, 0) != big


# ── whole places ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_a_whole_set_is_run_again_and_deleted_beyond_what_is_held_of_it(url: str, client: Redis) -> None:
    total = 11_000
    for start in range(0, total, 1_000):
        client.sadd(timeout_sets.DONE, *range(start, start + 1_000))
    client.sadd(timeout_sets.TODOS, 1_000_000)
    async with screen(url, systems=("timeout_sets",)) as ui:
        await open_board(ui, "timeout_sets:todos", "3")
        await ui.until_shown("3 done 11 000", "of 10 000", "part of 11 000")
        await ui.press("asterisk", "R")
        await ui.until_shown("Requeue")
        await ui.press("y")
        await ui.until(lambda: client.scard(timeout_sets.DONE) == 0, "all of them", timeout_s=40)
        assert client.scard(timeout_sets.TODOS) == total + 1
        await ui.until_shown("3 done 0")
        await ui.press("1", "asterisk", "D")
        await ui.until_shown("Delete")
        await ui.press("y")
        await ui.until(lambda: client.scard(timeout_sets.TODOS) == 0, "all of them", timeout_s=40)


@pytest.mark.slow
@run_on_event_loop
async def test_a_change_of_one_of_two_places_in_one_key_leaves_the_other(url: str, client: Redis) -> None:
    now_s = int(time.time())
    client.lpush("q", *(b"new%d" % n for n in range(700)), *(b"held%d|%d" % (n, now_s) for n in range(7)))
    client.lpush("q", b"late|%d" % (now_s - 900))
    async with screen(url, systems=("safe_pop:queue=q,timeout_s=600",)) as ui:
        await open_board(ui, "safe_pop:q")
        await ui.until_shown("1 ready 700", "2 in_progress 7", "3 expired 1")
        await ui.press("1", "asterisk", "D", "y")
        await ui.until(lambda: client.llen("q") == 8, "the ready ones are gone", timeout_s=20)
        assert all(b"|" in entry for entry in client.lrange("q", 0, -1))
        await ui.press("2", "asterisk", "L")
        await ui.until_shown("Release")
        await ui.press("y")
        await ui.until(
            lambda: sum(b"|" not in entry for entry in client.lrange("q", 0, -1)) == 7, "they are given back"
        )
        assert client.lrange("q", 0, -1).count(b"late|%d" % (now_s - 900)) == 1


@pytest.mark.slow
@run_on_event_loop
async def test_equal_entries_are_rows_of_their_own_and_one_verb_takes_one(url: str, client: Redis) -> None:
    client.rpush(dispatcher.READY, b"same", b"same", b"same", b"other")
    async with screen(url, systems=("dispatcher",)) as ui:
        await open_board(ui, "dispatcher:readytasklist", "2")
        await ui.until(lambda: len(pane(ui).jobs) == 4)
        await ui.press("j", "space", "space")
        await ui.until_shown("2 marked")
        await ui.press("D", "y")
        await ui.until(lambda: client.lrange(dispatcher.READY, 0, -1) == [b"same", b"other"], "two of the three")


# ── one job ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_a_job_without_an_id_has_a_page_until_it_is_missing(url: str, client: Redis) -> None:
    client.rpush(dispatcher.READY, b'{"to": "a@b.c", "token": "sesame"}', b"other")
    async with screen(url, systems=("dispatcher",)) as ui:
        await open_board(ui, "dispatcher:readytasklist", "2", "enter")
        await ui.until_shown("place       ready", '"to": "a@b.c"', "••••")
        assert "sesame" not in ui.text()
        client.lpop(dispatcher.READY)
        await ui.until_shown("This job no longer exists")
        await ui.press("D")
        await ui.until_refreshed()
        assert isinstance(ui.app.navigation.view, JobPage) and client.llen(dispatcher.READY) == 1


@pytest.mark.slow
@run_on_event_loop
async def test_the_question_about_a_held_job_depends_on_tokens(url: str, client: Redis) -> None:
    plant(client)
    async with screen(url, systems=ALL) as ui:
        await open_board(ui, "orizuru:jobs", "2", "D")
        await ui.until_shown("w1 holds it and does not stop: it may still release the job.")
        await ui.press("n", "escape")
        await open_board(ui, "redisched:help", "3", "D")
        await ui.until_shown("A worker holds it and does not stop: its result will be refused.")


# ── palette and forms ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("system", mark_slow_cases(QUEUES, {*QUEUES} - {"dispatcher"}))
@run_on_event_loop
async def test_the_palette_offers_just_the_verbs_that_act_here(url: str, client: Redis, system: str) -> None:
    plant(client)
    instance = registry.create_system(system)
    async with screen(url, systems=ALL) as ui:
        await open_board(ui, f"{system}:{QUEUES[system]}")
        met = set()
        for number, place in enumerate(instance.places, 1):
            await ui.press(str(number))
            await ui.until(lambda place=place: pane(ui).place.name == place.name and bool(pane(ui).jobs), "its jobs")
            ways = {
                verb.name for verb, _words in ui.app.verb_starter.list_offered_verbs() if verb.script
            }  # to use another verb's script
            offered = {verb.name for verb, _words in ui.app.verb_starter.list_offered_verbs()} - ways
            assert {"duplicate", "edit and retry", "drip requeue"} >= ways and ("duplicate" in ways) == instance.can(
                "enqueue"
            )
            met |= offered
            rows = [row for row in instance.verbs() if not row.is_hidden]
            assert offered == {row.name for row in rows if row.scope != "job" or instance.can(row.name, place.name)}
            commands = {command.title for command in ui.app.palette.list_commands()}
            assert commands >= {row.label for row in rows if row.name in offered} and not commands & {
                "pause",
                "resume",
                "kill",
                "cancel",
                "quiet",
            }
        assert met == {row.name for row in instance.verbs() if not row.is_hidden}


FORMS = {
    "dispatcher": {"enqueue": ["body", "delay_ms"], "reschedule": ["delay_ms"]},
    "redisched": {
        "enqueue": ["body", "id", "delay_ms"],
        "release": ["delay_ms"],
        "reschedule": ["delay_ms"],
        "extend": ["ttr_ms"],
    },
    "timeout_sets": {"enqueue": ["body"], "extend": ["ttr_ms"]},
    "orizuru": {"enqueue": ["body"]},
    "safe_pop": {"enqueue": ["body", "id"], "extend": ["ttr_ms"]},
}


@pytest.mark.parametrize("system", FORMS)
def test_a_form_has_the_fields_that_the_scripts_have(system: str) -> None:
    instance = registry.create_system(system)
    forms = {
        row.name: [field.name for field in verb_resolution.list_form_fields(instance, row)]
        for row in instance.verbs()
        if row.key
    }
    forms.pop("reserve", None)
    assert {name: fields for name, fields in forms.items() if fields} == FORMS[system]


@pytest.mark.parametrize(
    ("ref", "typed", "sentence"),
    [
        ("orizuru:jobs", "no list", "MessagePack"),
        ("timeout_sets:todos", "url1", "not a whole number"),
        ("orizuru:orizuru", "[1]", "needs the source list"),
    ],
)
@run_on_event_loop
async def test_a_body_that_its_workers_could_not_read_is_refused_in_a_sentence(
    url: str, client: Redis, ref: str, typed: str, sentence: str
) -> None:
    plant(client)
    before = {key: client.dump(key) for key in client.scan_iter()}
    named = tuple("orizuru" if ref == "orizuru:orizuru" and "orizuru" in spec else spec for spec in ALL)
    async with screen(url, systems=named) as ui:
        await open_board(ui, ref, "N")
        await ui.until_shown("Enqueue a job in", "as it is")
        ui.app.screen.query_one(TextArea).text = typed
        ui.app.screen.query_one("#yes").focus()
        await ui.press("enter")
        await ui.until(lambda: sentence in " ".join((ui.text(), *ui.toasts)).replace("\n", " "), sentence)
        assert {key: client.dump(key) for key in client.scan_iter()} == before


@pytest.mark.slow
@run_on_event_loop
async def test_without_a_source_what_needs_it_is_refused_in_a_sentence_and_the_rest_works(
    url: str, client: Redis
) -> None:
    plant(client)
    async with screen(url, systems=("orizuru",)) as ui:
        await open_board(ui, "orizuru:orizuru", "colon", '"lease', "enter")
        await ui.until_shown("Lease the next job of orizuru")
        await ui.press("y")
        await ui.until_shown("needs the source list")
        await ui.press("escape")
        await ui.press("2", "K", "y")
        await ui.until(lambda: client.llen(orizuru.build_key("w1", "unacked")) == 2, "it is rejected")
        await ui.press("3", "R")
        await ui.until(lambda: sum("requeue needs the source" in sentence for sentence in ui.toasts) == 1)
        assert client.llen(orizuru.build_key("w1", "unacked")) == 2


@pytest.mark.slow
@run_on_event_loop
async def test_bodies_of_others_go_as_they_are(url: str, client: Redis) -> None:
    plant(client)
    async with screen(url, systems=ALL) as ui:
        await open_board(ui, "safe_pop:q", "N")
        ui.app.screen.query_one(TextArea).text = "no JSON, \u00e9"
        ui.app.screen.query_one("#field-id", Input).value = "mine"
        await ui.press("tab", "enter")
        await ui.until(lambda: client.get("q:data:mine") == "no JSON, é".encode(), "it is put")
        await ui.press("escape")
        await open_board(ui, "redisched:help", "N", "tab", "tab", '"1h', "enter")
        await ui.until(lambda: client.hlen("__REDIS_SCHED_JOBS__help") == 6, "an id was made")
        assert client.zcount("__REDIS_SCHED_QUEUED__help", (time.time() + 3500) * 1000, "inf") == 2


@pytest.mark.slow
@run_on_event_loop
async def test_nothing_is_claimed_about_unreadable_data(client: Redis, url: str) -> None:
    Client("held", client).put({})
    client.set("rqtui:{held}:dead", "another program")
    client.sadd("rq:queues", "rq:queue:mail")
    client.hset("rq:job:a", mapping={"status": "queued", "origin": "mail"})
    client.rpush("rq:queue:mail", "a")
    async with screen(url, WIDE) as ui:
        await ui.until_shown("rqtui:{held}:dead holds a string", "not known")
        assert (
            "keeps no dead" not in ui.text() and "keeps no list" not in ui.text() and "nothing waits" not in ui.text()
        )
        await open_board(ui, "rq:mail")
        await ui.until_shown("its hash has no data")
        await ui.press("enter")
        await ui.until_shown("body · none", "it has no body")


@pytest.mark.slow
@run_on_event_loop
async def test_queues_of_one_name_in_two_systems_are_distinguished_where_it_is_narrow(url: str, client: Redis) -> None:
    client.sadd("rq:queues", "rq:queue:default")
    for name in ("default", "mailers"):
        client.lpush(f"queue:{name}", f'{{"class": "A", "args": [], "jid": "s1", "queue": "{name}"}}')
        client.sadd("queues", name)
    async with screen(url, NARROW) as ui:
        await ui.until_shown("rq:default", "sidekiq:default", " mailers", "3 queues")
        assert "sidekiq:mailers" not in "\n".join(ui.text().splitlines()[3:])
    async with screen(url, WIDE) as ui:
        await ui.until_shown("rq", "sidekiq", "3 queues")
        assert "rq:default" not in ui.text().splitlines()[4], "its system has a column"


@pytest.mark.slow
@run_on_event_loop
async def test_the_loops_of_a_system_without_dispatcher_are_opened_from_its_scheduled_jobs(
    url: str, client: Redis
) -> None:
    client.sadd("queues", "default")
    client.sadd("rq:queues", "rq:queue:default")
    client.zadd("rq:scheduled:default", {"r1": 1})
    client.zadd("schedule", {'{"class": "A", "args": [], "jid": "s1", "queue": "default"}': 1})
    async with screen(url, WIDE) as ui:
        await ui.until_shown("sidekiq")
        await ui.until(lambda: ui.app.session.snapshot is not None)
        ui.app.open_board(Ref("sidekiq", "default"))
        await ui.until_shown("1 schedule 1")
        await ui.press("t")
        await ui.until_shown("dispatch  not needed")
        assert "r1" not in ui.text() and "due 1" not in ui.text(), "what waits there is another system's"


def test_jobs_that_an_upgrade_left_in_paused_are_resumed_by_the_key_of_a_paused_queue() -> None:
    systems = {"bullmq": registry.create_system("bullmq")}

    def meant(paused: int) -> str:
        queue = Queue("mail", "bullmq", (Count("paused", State.READY, paused),))
        verb = verb_resolution.find_verb_of_key(systems, "P", Target(Ref("bullmq", "mail"), queue=queue))
        return verb.name if verb else ""

    assert (meant(0), meant(2)) == ("pause", "resume")


@pytest.mark.slow
@run_on_event_loop
async def test_every_view_names_the_system_of_a_queue_whose_name_another_system_has_too(
    url: str, client: Redis
) -> None:
    seeded = Seeded(client)
    seeded.bury("dead")
    seeded.put("held", "waiting")
    seeded.reserve()
    redisched.Scheduler(client, "mail").put("r1", b"{}", -60)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("2 queues")
        for view in ("kinds", "errors", "workers", "loops"):
            await open_view(ui, view)
            await ui.press("quotation_mark")  # all queues, and not the one under the cursor alone
            await ui.until_shown("native:mail")
            await return_to_overview(ui)


@pytest.mark.slow
@run_on_event_loop
async def test_a_place_whose_jobs_no_key_lists_never_reports_that_it_is_empty(url: str, client: Redis) -> None:
    client.mset({f"other:{number}": "x" for number in range(20_000)})
    arq_subject.plant_job(client, "queued", "first")
    async with screen(url, systems=("arq",)) as ui:
        ui.app.open_board(Ref("arq", arq_subject.QUEUE))
        await ui.until(lambda: isinstance(ui.app.navigation.view, Board), "the board")
        await ui.until_refreshed()
        await ui.press("5")
        await ui.until_shown("no job of failed was met so far", "failed ~0")
        arq_subject.plant_job(client, "failed", "late")
        await ui.until_shown("ValueError: no such order", "failed ~")
        await ui.press("R")
        await ui.until(lambda: client.exists("arq:job:late") == 1, "it is requeued")
