"""Test the screen by the keys a person presses, on a real Redis: each test checks Redis afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from families import name_case
from proxy import Proxy
from redis import Redis
from screens import NARROW, WIDE, Seeded, run_on_event_loop, screen
from textual.widgets import Button, Input, TextArea

from rqtui.client.queue import Queue
from rqtui.tui.screens.board import Board
from rqtui.tui.screens.job import JobPage
from rqtui.tui.screens.overview import Overview
from rqtui.tui.widgets.question_dialog import Question

pytestmark = pytest.mark.newest_textual

PLACES = {"scheduled": "1", "ready": "2", "reserved": "3", "done": "4", "dead": "5"}


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    """Return the empty queue `mail` to fill."""
    return Seeded(client)


# ── one job ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@run_on_event_loop
async def test_n_adds_a_job(url: str, seeded: Seeded) -> None:
    seeded.put("first")
    async with screen(url) as ui:
        await ui.press("enter", "N")
        await ui.until_shown("Enqueue a job in mail")
        ui.app.screen.query_one(TextArea).text = '{"to": "z@y.x"}'
        ui.app.screen.query_one("#field-id", Input).value = "mine"
        ui.app.screen.query_one("#field-priority", Input).value = "-5"
        await ui.press("tab", "enter")
        await ui.until_toast("enqueue: enqueued")
        assert seeded.ids("ready") == ["mine", "first"]
        job = seeded.job("mine")
        assert job is not None and job.body == b'{"to": "z@y.x"}' and job.priority == -5


@pytest.mark.slow
@run_on_event_loop
async def test_n_on_an_empty_redis_asks_for_the_queue_and_opens_the_list(url: str, client: Redis) -> None:
    async with screen(url) as ui:
        await ui.until_shown("no queues yet")
        await ui.press("N")
        await ui.until_shown("Enqueue a job", "queue", "default")
        ui.app.screen.query_one("#field-queue", Input).value = "brand-new"
        await ui.press("enter")
        await ui.until_toast("enqueue: enqueued")
        await ui.until_shown("brand-new")
        assert client.smembers("rqtui:queues") == {b"brand-new"}
        assert client.zcard("rqtui:{brand-new}:ready") == 1


@pytest.mark.slow
@run_on_event_loop
async def test_a_finishes_what_a_worker_holds(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2", keep_ms=60_000)
    seeded.reserve(2)
    async with screen(url) as ui:
        await ui.press("enter", "3", "A")
        await ui.until_shown("Ack a1")
        await ui.press("y")
        await ui.until_toast("ack: acked · a1")
        assert (seeded.ids("reserved"), seeded.ids("done")) == (["a2"], ["a1"])


@run_on_event_loop
async def test_l_gives_back_at_once_what_this_screen_holds(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    seeded.reserve(worker="rqtui")
    async with screen(url) as ui:
        await ui.press("enter", "3", "L")
        await ui.until_toast("release: released · a1")
        assert seeded.ids("ready") == ["a1"]


@pytest.mark.slow
@run_on_event_loop
async def test_l_asks_where_a_worker_holds_the_job(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    seeded.reserve()
    async with screen(url) as ui:
        await ui.press("enter", "3", "L")
        await ui.until_shown("Release a1", "w1 holds it and does not stop", "y release   Tab next   Enter, Esc cancel")
        await ui.press("enter")
        await ui.until(lambda: ui.app.screen is ui.app.navigation.view, "the question is left")
        assert seeded.ids("reserved") == ["a1"]
        await ui.press("L", "y")
        await ui.until_toast("release: released · a1")
        assert seeded.ids("ready") == ["a1"]
        job = seeded.job("a1")
        assert job is not None and job.attempts == 0


@pytest.mark.slow
@run_on_event_loop
async def test_k_rejects_with_a_reason(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    seeded.reserve()
    async with screen(url) as ui:
        await ui.press("enter", "3", "K")
        await ui.until_shown("Reject a1", "reason", "[ ] no further attempt")
        ui.app.screen.query_one("#field-error", Input).value = "its address is wrong"
        ui.app.screen.query_one("#field-final").focus()
        await ui.press("space")
        await ui.until_shown("[x] no further attempt")
        await ui.press("y")
        await ui.until_toast("reject: rejected · a1")
        job = seeded.job("a1")
        assert job is not None and (job.place, job.error) == ("dead", "its address is wrong")


@pytest.mark.slow
@run_on_event_loop
async def test_k_buries_what_waits(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    async with screen(url) as ui:
        await ui.press("enter", "K")
        await ui.until_shown("Kill a1")
        await ui.press("y")
        await ui.until_toast("kill: killed · a1")
        assert seeded.ids("dead") == ["a1"]


@run_on_event_loop
async def test_r_runs_a_dead_job_again_at_once(url: str, seeded: Seeded) -> None:
    seeded.bury("d1")
    async with screen(url) as ui:
        await ui.press("enter", "5", "R")
        await ui.until_toast("requeue: requeued · d1")
        assert seeded.ids("ready") == ["d1"]


@run_on_event_loop
async def test_r_promotes_a_scheduled_job(url: str, seeded: Seeded) -> None:
    seeded.put("later", delay_ms=3_600_000)
    async with screen(url) as ui:
        await ui.press("enter", "1", "R")
        await ui.until_toast("promote: promoted · later")
        assert seeded.ids("ready") == ["later"]


@pytest.mark.slow
@run_on_event_loop
async def test_d_deletes_after_asking(url: str, seeded: Seeded, client: Redis) -> None:
    seeded.put("a1", "a2")
    async with screen(url) as ui:
        await ui.press("enter", "D")
        await ui.until_shown("Delete a1", "the jobs with their bodies and errors")
        await ui.press("n")
        await ui.until(lambda: not isinstance(ui.app.screen, Question))
        await ui.press("D", "enter")  # the focus is on cancel
        await ui.until(lambda: not isinstance(ui.app.screen, Question))
        assert seeded.ids("ready") == ["a1", "a2"]
        await ui.press("D", "left", "enter")
        await ui.until_toast("delete: deleted · a1")
        assert seeded.ids("ready") == ["a2"]
        assert client.hkeys("rqtui:{mail}:jobs") == [b"a2"]


@pytest.mark.slow
@run_on_event_loop
async def test_t_changes_due_time_and_priority(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    async with screen(url) as ui:
        await ui.press("enter", "j", "T")
        await ui.until_shown("Reschedule a2")
        ui.app.screen.query_one("#field-priority", Input).value = "-9"
        await ui.press("enter")
        await ui.until_toast("reprioritise: reprioritised · a2")
        assert seeded.ids("ready") == ["a2", "a1"]
        await ui.press("T", '"90s', "enter")
        await ui.until_toast("reschedule: rescheduled · a2")
        job = seeded.job("a2")
        assert job is not None and job.place == "scheduled" and job.priority == -9


@run_on_event_loop
async def test_e_extends_a_lease(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    (before,) = seeded.reserve()
    async with screen(url) as ui:
        await ui.press("enter", "3", "E", '"2h', "enter")
        await ui.until_toast("extend: extended · a1")
        (after,) = seeded.jobs("reserved")
        assert before.deadline_ms and after.deadline_ms and after.deadline_ms > before.deadline_ms + 3_600_000


@pytest.mark.slow
@run_on_event_loop
async def test_p_pauses_and_resumes(url: str, seeded: Seeded, client: Redis) -> None:
    seeded.put("a1")
    async with screen(url) as ui:
        await ui.press("P")
        await ui.until_shown("Pause mail", "no worker gets a job of it until it is resumed")
        await ui.press("enter")
        assert not client.hget("rqtui:{mail}:meta", "paused")
        await ui.press("P", "y")
        await ui.until_toast("pause: paused; no job is handed out")
        await ui.until_shown("paused", "P resume")
        assert client.hget("rqtui:{mail}:meta", "paused")
        await ui.press("P")
        await ui.until_shown("Resume mail")
        await ui.press("y")
        await ui.until_toast("resume: resumed; jobs are handed out again")
        assert not client.hget("rqtui:{mail}:meta", "paused")


# ── many jobs ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_a_verb_acts_on_the_marked_jobs_and_reports_what_became_of_each(url: str, seeded: Seeded) -> None:
    seeded.bury("d1", "d2", "d3", "d4")
    async with screen(url) as ui:
        await ui.press("enter", "5", "space", "space", "space")
        await ui.until_shown("3 marked")
        seeded.engine.apply_verb("requeue", seeded.ref, [job for job in seeded.jobs("dead") if job.id == b"d2"])
        await ui.press("R")
        await ui.until_shown("Requeue 3 marked jobs", "[ ] keep attempts")
        await ui.press("y")
        await ui.until_toast("2 requeued", "1 already moved (1 ready)")
        assert seeded.ids("dead") == ["d1"]
        await ui.until(lambda: "marked" not in ui.text(), "no mark is left")


@pytest.mark.parametrize(
    ("place", "keys", "target", "words"),
    [
        pytest.param("reserved", ("A", "y"), "done", "1 200 acked", marks=pytest.mark.slow),
        pytest.param("reserved", ("L", "y"), "ready", "1 200 released", marks=pytest.mark.slow),
        pytest.param("ready", ("K", "y"), "dead", "1 200 killed", marks=pytest.mark.slow),
        ("dead", ("R", "y"), "ready", "1 200 requeued"),
        pytest.param("scheduled", ("R", "y"), "ready", "1 200 promoted", marks=pytest.mark.slow),
        pytest.param("dead", ("D", "y"), "", "1 200 deleted", marks=pytest.mark.slow),
        pytest.param("reserved", ("D", "y"), "", "1 200 deleted", marks=pytest.mark.slow),
        pytest.param("reserved", ("K", "y"), "scheduled", "1 200 rejected", marks=pytest.mark.slow),
    ],
)
@run_on_event_loop
async def test_a_verb_acts_on_the_whole_place(
    url: str, seeded: Seeded, place: str, keys: tuple[str, ...], target: str, words: str
) -> None:
    total = 1_200  # more than two chunks
    delay_ms = 3_600_000 if place == "scheduled" else None
    # With that backoff no retry comes due meanwhile.
    row = {"body": b"{}", "keep_ms": 600_000, "delay_ms": delay_ms, "backoff_ms": 600_000}
    rows = [{"id": f"j{n}", **row} for n in range(total)]
    for start in range(0, total, 400):
        call = seeded.engine.systems["native"].build_call("enqueue", "mail", {}, rows[start : start + 400])
        seeded.engine.send_requests([type(seeded.engine.systems["native"].queue_request("mail"))((call,), lambda a: a)])
    seeded.engine.register_queue(seeded.ref)
    if place in ("reserved", "dead"):
        seeded.engine.apply_verb("reserve", seeded.ref, (), {"limit": 1000, "worker": "w"})
        seeded.engine.apply_verb("reserve", seeded.ref, (), {"limit": 1000, "worker": "w"})
    if place == "dead":
        for chunk in seeded.engine.apply_verb_to_place(
            "reject", seeded.ref, "reserved", {"error": "no", "final": True}
        ):
            assert all(outcome.moved for outcome in chunk)
    async with screen(url) as ui:
        await ui.press("enter", PLACES[place], "asterisk")
        await ui.until_shown("all 1 200 marked")
        await ui.press(*keys)
        await ui.until_toast(words)
        counts = seeded.engine.send_request(seeded.engine.systems["native"].queue_request("mail"))
        assert counts.count_in_place(place) == 0
        assert sum(count.count for count in counts.counts) == (total if target else 0)
        assert not target or counts.count_in_place(target) == total


@pytest.mark.slow
@run_on_event_loop
async def test_the_whole_place_is_rescheduled_although_that_changes_its_order(url: str, seeded: Seeded) -> None:
    system = seeded.engine.systems["native"]
    for number in range(1_100):
        seeded.engine.apply_verb(
            "enqueue", seeded.ref, (), {"id": f"j{number}", "body": b"{}", "delay_ms": 600_000 + number}
        )
    async with screen(url) as ui:
        await ui.press("enter", "1", "asterisk", "T", '"5h', "enter")
        await ui.until_toast("1 100 rescheduled")
        page = seeded.engine.fetch_page(seeded.ref, "scheduled", 0, 10)
        assert page.total == 1_100
        soonest = page.jobs[0].due_ms or 0
        assert soonest > time.time() * 1000 + 4 * 3_600_000
        assert system.can("reschedule", "scheduled")


@pytest.mark.slow
@run_on_event_loop
async def test_purge_from_the_palette_empties_one_place_and_no_other(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    seeded.bury("d1", "d2", "d3")
    async with screen(url) as ui:
        await ui.press("enter", "5", "colon", '"purge')
        await ui.until_shown("Purge a place")
        await ui.press("enter")
        await ui.until_shown("Purge dead of mail")
        await ui.press("y")
        await ui.until_toast("3 purged")
        assert (seeded.ids("dead"), seeded.ids("ready")) == ([], ["a1", "a2"])


# ── what can go wrong in a form ──────────────────────────────────────────────────────────────────────────────────────


BAD_INPUT = [
    ("body", "{not json", "not JSON"),
    ("body", '{"a": NaN}', "NaN is no JSON number"),
    ("delay_ms", "soon", "it cannot be 'soon'"),
    ("delay_ms", "-5s", "it cannot be '-5s'"),
    ("priority", "NaN", '"NaN" is not a whole number'),
    ("priority", "1e3", '"1e3" is not a whole number'),
    ("priority", "99999", "4095"),
    ("id", "i" * 600, "512"),
    ("name", "n" * 600, "200"),
]


@pytest.mark.slow
@run_on_event_loop
async def test_bad_input_is_reported_in_the_dialog_and_nothing_is_written(
    url: str, seeded: Seeded, client: Redis
) -> None:
    seeded.put("first")
    before = client.dbsize()
    async with screen(url) as ui:
        await ui.press("enter", "N")
        for field, typed, sentence in BAD_INPUT:  # one after the other in the same form
            with name_case(f"{field}={typed[:20]}"):
                await ui.until_shown("Enqueue a job in mail")
                assert sentence not in ui.text()
                widget = ui.app.screen.query_one(f"#field-{field}")
                if isinstance(widget, TextArea):
                    usual, widget.text = widget.text, typed
                else:
                    assert isinstance(widget, Input)
                    usual, widget.value = widget.value, typed
                button = ui.app.screen.query_one("#yes", Button)
                await ui.until(lambda button=button: not button.has_class("-active"), "it takes another press")
                button.focus()
                await ui.press("enter")
                await ui.until_shown(sentence)
                assert isinstance(ui.app.screen, Question)
                assert seeded.ids("ready") == ["first"] and client.dbsize() == before
                field_widget = ui.app.screen.query_one(f"#field-{field}")
                assert typed in (
                    field_widget.text if isinstance(field_widget, TextArea) else getattr(field_widget, "value", "")
                )
                setattr(field_widget, "text" if isinstance(field_widget, TextArea) else "value", usual)
        widget.value = "kept"  # type: ignore[union-attr]
        await ui.press("escape", "y")  # throws away what was typed
        await ui.until(lambda: not isinstance(ui.app.screen, Question), "the form is closed")
        assert seeded.ids("ready") == ["first"] and client.dbsize() == before


@pytest.mark.slow
@run_on_event_loop
async def test_a_name_that_is_none_is_refused_in_the_dialog(url: str, client: Redis) -> None:
    async with screen(url) as ui:
        for name in ("a b", "{x}", "", "n" * 201):
            with name_case(repr(name[:20])):
                await ui.press("N")
                await ui.until_shown("Enqueue a job")
                sentence = "queue: say which" if not name else "1 to 200 bytes without"
                assert sentence not in ui.text()
                ui.app.screen.query_one("#field-queue", Input).value = name
                await ui.press("enter")
                await ui.until_shown(sentence)
                assert client.dbsize() == 0
                await ui.press("escape", "y")  # throws away what was typed
                await ui.until(lambda: not isinstance(ui.app.screen, Question), "the form is closed")


# ── what stays where it is ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_the_cursor_and_the_marks_stay_on_their_jobs_while_jobs_stream_through(url: str, seeded: Seeded) -> None:
    seeded.put(*(f"j{n:03}" for n in range(60)))
    async with screen(url) as ui:
        await ui.press("enter", *["j"] * 12, "space")
        pane = ui.app.navigation.view.find_current_pane()  # type: ignore[union-attr]
        await ui.until(lambda: pane.cursor_id == b"j013")
        for number in range(8):
            seeded.reserve(1)
            seeded.put(f"new{number}", priority=-1)
            await ui.until_refreshed()
        assert pane.cursor_id == b"j013" and pane.marks == (b"j012",)
        line = next(line for line in ui.text().splitlines() if "j013" in line)
        assert line.startswith("│▌")


@run_on_event_loop
async def test_a_job_that_left_stays_under_the_cursor_and_can_not_be_acted_on(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    async with screen(url) as ui:
        await ui.press("enter", "j", "k")
        seeded.reserve(1)
        await ui.until_shown("×a1")
        await ui.press("D")
        await ui.until_refreshed()
        assert not isinstance(ui.app.screen, Question)
        await ui.press("j")
        await ui.until(lambda: "a1" not in ui.text())


@pytest.mark.slow
@run_on_event_loop
async def test_a_job_page_follows_its_job_and_reports_when_it_is_missing(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    async with screen(url) as ui:
        await ui.press("enter", "enter")
        await ui.until_shown("place       ready", '"to": "a@b.c"')
        seeded.reserve()
        await ui.until_shown("place       reserved", "w1")
        await ui.press("L", "y")
        await ui.until_toast("release: released")
        await ui.until_shown("place       ready")
        seeded.engine.apply_verb("delete", seeded.ref, seeded.jobs("ready"))
        await ui.until_shown("This job no longer exists")
        await ui.press("D")
        await ui.until_refreshed()
        assert isinstance(ui.app.screen, JobPage)
        await ui.press("escape")
        await ui.until_shown("2 ready")


@pytest.mark.slow
@pytest.mark.parametrize("size", [NARROW, WIDE])
@run_on_event_loop
async def test_the_places_are_reached_by_number_by_tab_and_by_letter(
    url: str, seeded: Seeded, size: tuple[int, int]
) -> None:
    seeded.put("r1")
    async with screen(url, size) as ui:
        await ui.press("enter")
        board = ui.app.navigation.view
        assert isinstance(board, Board)
        for key, place in (
            ("tab", "reserved"),
            ("l", "done"),
            ("h", "reserved"),
            ("shift+tab", "ready"),
            ("4", "done"),
        ):
            await ui.press(key)
            await ui.until(lambda: board.find_current_pane().has_focus)
            assert board.find_current_pane().place.name == place


@run_on_event_loop
async def test_while_frozen_the_rows_stay_and_the_counters_run(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    async with screen(url) as ui:
        await ui.press("enter", "p")
        await ui.until_shown("frozen: p", "ready 2")
        seeded.put("a3")
        await ui.until_shown("ready 3")
        assert "a3" not in ui.text().replace("ready 3", "")
        await ui.press("p")
        await ui.until_shown("a3")


@pytest.mark.slow
@run_on_event_loop
async def test_a_place_that_was_not_seen_before_the_freeze_has_its_rows(url: str, seeded: Seeded) -> None:
    seeded.put("first")
    seeded.put("later", delay_ms=3_600_000)
    async with screen(url, NARROW) as ui:
        await ui.until_shown("mail")
        await ui.press("enter", "p")  # typed ahead
        await ui.until_shown("first", "frozen: p")
        await ui.press("1")
        await ui.until_shown("later", "frozen: p")


@run_on_event_loop
async def test_a_range_everything_loaded_and_nothing_are_marked(url: str, seeded: Seeded) -> None:
    seeded.put(*(f"j{n}" for n in range(9)))
    async with screen(url) as ui:
        await ui.press("enter", "j", "v", "j", "j", "v")
        await ui.until_shown("3 marked")
        await ui.press("a")
        await ui.until_shown("9 marked")
        await ui.press("u")
        await ui.until(lambda: "marked" not in ui.text())
        await ui.press("asterisk")
        await ui.until_shown("all 9 marked")
        await ui.press("u")
        await ui.until(lambda: "all 9 marked" not in ui.text())


@pytest.mark.slow
@run_on_event_loop
async def test_secrets_of_a_body_are_shown_on_demand(url: str, seeded: Seeded) -> None:
    seeded.put("a1", body=b'{"token": "sesame", "n": [1, true]}')
    async with screen(url) as ui:
        await ui.press("enter", "enter")
        await ui.until_shown('"token": ••••••••')
        await ui.press("c")
        await ui.until_shown('"token": "sesame"')


@pytest.mark.slow
@run_on_event_loop
async def test_a_long_body_scrolls_and_tab_reaches_the_other_half(url: str, seeded: Seeded) -> None:
    seeded.put("a1", body=b'{"rows": [' + b", ".join(b'{"n": %d}' % n for n in range(3000)) + b"]}")
    async with screen(url) as ui:
        await ui.press("enter", "enter")
        await ui.until_shown('"rows": [', '"n": 0')
        await ui.press("j", "j")
        await ui.until(lambda: '"rows"' not in ui.text())
        await ui.press("end")
        await ui.until_shown('"n": 2999')
        await ui.press("tab")
        await ui.until(lambda: ui.app.focused is not None and ui.app.focused.id == "job-left")


@pytest.mark.slow
@run_on_event_loop
async def test_three_hundred_queues_are_counted_in_turn_and_those_in_sight_at_once(url: str, client: Redis) -> None:
    ref = Seeded(client)
    for number in range(300):
        queue = Seeded(client, f"q{number:03}")
        queue.engine.apply_verb("enqueue", queue.ref, (), {"id": "a", "body": b"{}"})
    client.sadd("rqtui:queues", *(f"q{number:03}" for number in range(300)))
    async with screen(url) as ui:
        await ui.press("s", "G")
        await ui.until_shown("q299")
        await ui.until(lambda: "not counted yet" not in ui.text(), "those in sight are counted")
        await ui.press("g")
        await ui.until_shown("q000", "300 queues")
        await ui.until(lambda: ui.app.session.snapshot and len(ui.app.session.snapshot.queues) <= 140, "some of them")
        snapshot = ui.app.session.snapshot
        assert snapshot is not None
        assert snapshot.cost.commands <= 4 * len(snapshot.queues) + 10, "four plain reads of a queue at rest"
        assert ref.ids("ready") == []


@run_on_event_loop
async def test_a_queue_that_is_deleted_leaves_an_empty_board(url: str, seeded: Seeded, client: Redis) -> None:
    seeded.put("a1", "a2")
    async with screen(url) as ui:
        await ui.press("enter", "j")
        client.flushall()
        await ui.until_shown("×a2")
        await ui.press("j")
        await ui.until_shown("mail no longer exists: Redis has none of its keys")
        await ui.press("q")
        await ui.until(lambda: isinstance(ui.app.screen, Overview))


@pytest.mark.slow
@run_on_event_loop
async def test_a_million_jobs_are_paged_like_ten(url: str, client: Redis) -> None:
    many = 1_000_000
    batch = client.pipeline(transaction=False)
    for start in range(0, many, 20_000):
        batch.zadd("rqtui:{big}:ready", {b"j%07d" % n: n for n in range(start, start + 20_000)})
    batch.execute()
    client.sadd("rqtui:queues", "big")
    async with screen(url) as ui:
        await ui.press("enter")
        await ui.until_shown("1-18 of 1 000 000", "j0000000")
        await ui.press("G")
        await ui.until_shown("of 1 000 000", "j0999999")
        await ui.press("g")
        await ui.until_shown("j0000000")
        for _ in range(5):
            await ui.press("right_square_bracket")
        await ui.until_shown("j0000085")
        assert ui.app.session.snapshot is not None and ui.app.session.snapshot.cost.round_trips == 1


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_while_the_dispatcher_is_off_a_due_job_stays_scheduled(url: str, seeded: Seeded) -> None:
    seeded.put("first")
    async with screen(url) as ui:
        await ui.press("comma")
        await ui.until_toast("The dispatcher of this screen is off")
        seeded.put("due", delay_ms=50)
        await ui.press("enter", "1")
        await ui.until_shown("1 due")
        assert seeded.ids("scheduled") == ["due"]
        await ui.press("less_than_sign")
        await ui.until_toast("dispatcher: 1 moved")
        assert seeded.ids("ready") == ["first", "due"]
        seeded.put("due2", delay_ms=50)
        await ui.press("comma")
        await ui.until(lambda: seeded.ids("ready") == ["first", "due", "due2"], "the dispatcher moved it")


@pytest.mark.slow
@run_on_event_loop
async def test_while_the_reaper_is_off_an_expired_lease_stays(url: str, seeded: Seeded) -> None:
    async with screen(url) as ui:
        await ui.press("full_stop")
        await ui.until_toast("The reaper of this screen is off")
        seeded.put("a1", ttr_ms=100)
        seeded.reserve(1)
        await ui.press("r")
        await ui.until_shown("mail")
        await ui.press("enter", "3")
        await ui.until_shown("1 lease over")
        assert seeded.ids("reserved") == ["a1"]
        await ui.press("t")
        await ui.until_shown("reap ■ off")
        await ui.press("escape", "full_stop")
        await ui.until(lambda: seeded.ids("ready") == ["a1"], "the reaper took it back")


# ── read-only, lost, small ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_read_only_hides_what_changes_and_runs_no_loop(url: str, seeded: Seeded) -> None:
    seeded.put("a1", delay_ms=50)
    async with screen(url, read_only=True) as ui:
        await ui.until_shown("read-only")
        assert not ui.app.session.loops
        await ui.press("enter", "1", "D", "N", "R", "P", "comma", "less_than_sign")
        await ui.until_refreshed()
        footer = ui.text().splitlines()[-1]
        assert not any(word in footer for word in ("delete", "enqueue", "promote", "pause"))
        assert not isinstance(ui.app.screen, Question)
        assert seeded.ids("scheduled") == ["a1"]


@run_on_event_loop
async def test_without_a_redis_it_opens_with_a_diagnosis_and_tries_again_by_itself(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    proxy = Proxy(url)
    proxy.listen()
    proxy.refuse()
    async with screen(f"redis://:sesame@127.0.0.1:{proxy.port}/3") as ui:
        await ui.until_shown(
            "No answer from Redis yet", "database  3", "TLS       no", "The next try is in", "r tries now"
        )
        assert "sesame" not in ui.text()
        await ui.press("N", "P", "enter", "colon")
        await ui.press("escape")
        await ui.until_shown("Nothing listens at", "Redis is away: no changes")
    async with screen(proxy.url) as ui:
        await ui.until_shown("No answer from Redis yet")
        proxy.listen()
        await ui.press("r")
        await ui.until_shown("mail", "1 queue")
        await ui.until(lambda: "No answer" not in ui.text())
    proxy.refuse()


@run_on_event_loop
async def test_a_lost_redis_dims_the_last_snapshot_and_comes_back_with_the_marks(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2", "a3")
    with Proxy(url) as proxy:
        async with screen(proxy.url) as ui:
            await ui.press("enter", "j", "space")
            await ui.until_shown("1 marked")
            proxy.refuse()
            await ui.until_shown("lost", "Redis is away: no changes", "a1", "a2", "next try in", "onnect")
            pane = ui.app.navigation.view.find_current_pane()  # type: ignore[union-attr]
            assert pane.dimmed
            await ui.press("D")
            assert not isinstance(ui.app.screen, Question)
            proxy.listen()
            await ui.press("r")
            await ui.until(lambda: "lost" not in ui.text(), "it is back")
            assert pane.marks == (b"a2",) and pane.cursor_id == b"a3" and not pane.dimmed
            await ui.press("D", "y")
            await ui.until_toast("delete: deleted · a2")
            assert seeded.ids("ready") == ["a1", "a3"]


@run_on_event_loop
async def test_a_change_whose_answer_is_lost_is_reported_as_unknown_and_sent_once(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    with Proxy(url) as proxy:
        async with screen(proxy.url) as ui:
            await ui.press("enter", "comma", "full_stop", "D")
            await ui.until_shown("Delete a1")
            await ui.until(lambda: not any(loop.is_running for loop in ui.app.session.loops.values()))
            sent = proxy.requests.count("EVAL")  # the first call of a script sends its text
            proxy.fail("lose reply", "EVAL ")  # what reads (EVAL_RO, EVALSHA_RO) continues
            await ui.press("y")
            await ui.until_toast("may have happened")
            await ui.until(lambda: ui.app.session.connection_loss is None and "a2" in ui.text())
            assert seeded.ids("ready") == ["a2"] and proxy.requests.count("EVAL") == sent + 1


@run_on_event_loop
async def test_a_wrong_password_is_a_sentence(url: str, client: Redis, settings: Callable[[str, str], None]) -> None:
    settings("requirepass", "open-sesame")
    client.auth("open-sesame")
    async with screen(url.replace("://", "://:sesame@")) as ui:
        await ui.until_shown("refused the password", "login     default, with a password")
        assert ":sesame" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_resizing_rearranges_everything_also_below_a_dialog(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    async with screen(url, NARROW) as ui:
        await ui.press("enter", "D")
        await ui.until_shown("Delete a1")
        await ui.pilot.resize_terminal(*WIDE)
        await ui.until_shown("Delete a1", "1 scheduled", "5 dead")
        await ui.press("n")
        await ui.until_shown("life-line", "3 reserved", "a2")
        await ui.pilot.resize_terminal(40, 10)
        await ui.until_shown("This terminal is 40×10", "Make it larger")
        await ui.pilot.resize_terminal(60, 16)
        await ui.until_shown("a1", "a2", "keys")
        assert all(len(line) <= 60 for line in ui.text().splitlines())


@pytest.mark.slow
@run_on_event_loop
async def test_hostile_names_are_text(url: str, client: Redis) -> None:
    hostile = "[red]q[/red]"
    queue = Queue(hostile, url)
    queue.put(b'{"a": "\x1b]0;owned\x07 \xe2\x80\xae evil"}', id="\x1b[31mid\x07[bold]", name="[b]n[/b]")
    queue.put(b"{}", id="i" * 512)
    queue.put(b"\xff\xfe\x00", id="花子" * 20)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("[red]q[/red]")
        await ui.press("enter")
        await ui.until_shown("[b]n[/b]", "[bold]")
        await ui.press("enter")
        await ui.until_shown("␛[31mid␇[bold]", "‹202E›")
        await ui.press("D")
        await ui.until_shown("Delete ")
        await ui.press("y")
        await ui.until_toast("delete: deleted", "␛[31mid␇[bold]")
        assert not [letter for letter in ui.text() if letter < " " and letter != "\n" or "\x7f" <= letter < "\xa0"]


@pytest.mark.slow
@run_on_event_loop
async def test_a_person_leases_the_next_job_or_takes_it_for_good(url: str, seeded: Seeded) -> None:
    seeded.put("first")
    seeded.put("second")
    async with screen(url) as ui:
        await ui.press("enter", "H", "U")  # keys of before, that took a job: they do nothing
        await ui.press("colon", '"lease', "enter")
        await ui.until_shown("Lease the next job of mail", "the next ready job goes to rqtui")
        await ui.press("enter")
        assert seeded.ids("ready") == ["first", "second"]
        await ui.press("colon", '"lease', "enter")
        await ui.until_shown("Lease the next job of mail")
        await ui.press("y")
        await ui.until_toast("lease: leased")
        assert (seeded.ids("reserved"), seeded.ids("ready")) == (["first"], ["second"])
        await ui.press("colon", '"pull', "enter")
        await ui.until_shown("Pull the next job of mail", "no worker will run it")
        await ui.press("y")
        await ui.until_toast("pull:")
        assert (seeded.ids("reserved"), seeded.ids("ready")) == (["first"], [])
        await ui.press("3", "A", "y")
        await ui.until_toast("ack:")
        assert seeded.ids("reserved") == []
