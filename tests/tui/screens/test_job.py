"""The page of a job: its body in several ways, searched, and fetched whole; its life; the next job of the list."""

from __future__ import annotations

import json
from dataclasses import replace

import msgpack
import pytest
from mill_system import Mill, add_mill_jobs, mill
from redis import Redis
from screens import Seeded, run_on_event_loop, screen

from rqtui.model import Attempt, Job, State
from rqtui.tui.format import timeline
from rqtui.tui.screens.job import MAX_FETCHED_BODY, JobPage

__all__ = ["mill"]  # a fixture
SIZE = (110, 30)


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    """Return the empty queue `mail` to fill."""
    return Seeded(client)


@pytest.mark.slow
@run_on_event_loop
async def test_v_shows_the_body_as_json_as_text_and_in_hex_and_secrets_in_none(url: str, seeded: Seeded) -> None:
    seeded.put("a1", body=b'{"to":"a@b.c","password":"hunter2"}')
    async with screen(url, SIZE) as ui:
        await ui.press("enter", "enter")
        await ui.until_shown("body · json", '"to": "a@b.c"')
        assert "hunter2" not in ui.text()
        await ui.press("v")
        await ui.until_shown("body · text", '{"to":"a@b.c"')
        assert "hunter2" not in ui.text()
        await ui.press("v")
        await ui.until_shown("body · hex", "7b 22 74 6f")
        assert "hunter" not in ui.text() and "68 75 6e" not in ui.text()
        await ui.press("c")
        await ui.until_shown("68 75 6e")
        await ui.press("v")
        await ui.until_shown("body · json", "hunter2")


@pytest.mark.slow
@run_on_event_loop
async def test_a_msgpack_body_is_shown_as_what_it_holds(url: str, seeded: Seeded) -> None:
    seeded.put("a1", body=msgpack.packb({"to": "a@b.c", "password": "hunter2"}))
    async with screen(url, SIZE) as ui:
        await ui.press("enter", "enter")
        await ui.until_shown("body · msgpack", '"to": "a@b.c"')
        await ui.press("v", "v")
        await ui.until_shown("body · hex")
        assert "hunter" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_a_search_in_the_body_goes_from_match_to_match(url: str, seeded: Seeded) -> None:
    body = {"items": [{"n": n, "odd": n % 50 == 0} for n in range(200)]}
    seeded.put("a1", body=json.dumps(body).encode())
    async with screen(url, SIZE) as ui:
        await ui.press("enter", "enter")
        await ui.until_shown("body · json")
        await ui.press("slash", '"true', "enter")
        await ui.until_shown("/true 1 of 4")
        await ui.press("n", "n")
        await ui.until_shown("/true 3 of 4", '"n": 100')
        await ui.press("n", "n")
        await ui.until_shown("/true 1 of 4", '"n": 0,')
        await ui.press("slash", *["backspace"] * 4, '"/1[78]0,/', "enter")
        await ui.until_shown("1 of 2", '"n": 170')
        await ui.press("slash", *["backspace"] * 20, '"/(/', "enter")
        await ui.until_toast("cannot be read")
        await ui.press("escape")
        await ui.until(lambda: " of 2" not in ui.text())


@pytest.mark.slow
@run_on_event_loop
async def test_a_long_body_shows_its_size_and_enter_fetches_it_once(url: str, seeded: Seeded) -> None:
    body = json.dumps({"items": ["x" * 90] * 1_000, "end": "the very end"}).encode()
    seeded.put("a1", body=body)
    async with screen(url, SIZE) as ui:
        await ui.press("enter", "enter")
        await ui.until_shown("Enter shows it", "body · omitted")
        await ui.press("enter")
        await ui.until_shown("body · json")
        await ui.press("slash", '"very', "enter")
        await ui.until_shown("1 of 1", "the very end")


@pytest.mark.slow
@run_on_event_loop
async def test_for_a_body_too_long_for_a_screen_it_names_the_command_that_prints_it(url: str, seeded: Seeded) -> None:
    seeded.put("a1", body=b"y" * (MAX_FETCHED_BODY + 1))
    async with screen(url, SIZE) as ui:
        await ui.press("enter", "enter")
        await ui.until_shown("rqtui show --raw")
        await ui.press("enter")
        await ui.until_refreshed()
        assert "yyyy" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_brackets_go_through_the_jobs_of_the_list(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2", "a3")
    async with screen(url, SIZE) as ui:
        await ui.press("enter", "j", "enter")
        await ui.until_shown("id          a2")
        await ui.press("right_square_bracket")
        await ui.until_shown("id          a3")
        await ui.press("right_square_bracket")
        await ui.until_toast("the end of the list")
        await ui.press("left_square_bracket", "left_square_bracket")
        await ui.until_shown("id          a1")
        await ui.press("D", "y")
        await ui.until(lambda: seeded.ids("ready") == ["a2", "a3"])


@pytest.mark.slow
@run_on_event_loop
async def test_errors_of_all_attempts_are_on_the_page_the_newest_first_and_masked(url: str, seeded: Seeded) -> None:
    seeded.put("a1", backoff_ms=0)
    for error in ("KeyError: first", "TimeoutError: password=hunter2"):
        held = seeded.reserve()
        seeded.engine.apply_verb("reject", seeded.ref, held, {"error": error})
        seeded.engine.apply_verb("promote", seeded.ref, seeded.jobs("scheduled"))
    async with screen(url, (110, 40)) as ui:
        await ui.press("enter", "enter")
        await ui.until_shown("life-line", "attempt 2", "attempt 1", "reserved by w1", "failed: KeyError: first")
        text = ui.text()
        assert text.index("attempt 2") < text.index("attempt 1")
        assert "hunter2" not in text
        await ui.press("c")
        await ui.until_shown("hunter2")


def test_a_life_line_has_every_step_with_the_time_since_the_one_before() -> None:
    job = Job(
        b"a",
        "mail",
        "native",
        "reserved",
        State.RESERVED,
        b"a",
        enqueued_ms=0,
        reserved_ms=400_000,
        deadline_ms=430_000,
        attempts=2,
        worker="w2\x1b[31m",
        history=(Attempt(60_000, 61_500, "w1", "Traceback\nTimeoutError: [red]smtp"),),
    )
    lines = timeline.format_job_timeline(job, 60, now_ms=410_000).plain.splitlines()
    strips = [line.split(maxsplit=2)[2].split("  ")[0].strip() for line in lines[1:]]
    assert strips == [
        "enqueued",
        "reserved by w1",
        "failed: TimeoutError: [red]smtp",
        "reserved by w2␛[31m",
        "lease ends",
    ]
    assert [line.split()[-1] for line in lines[2:]] == ["1m00", "1.5s", "5m38", "30s"]
    assert ["○" in line for line in lines[1:]] == [False, False, False, False, True]
    assert timeline.format_attempt_errors(job).plain.startswith("\nattempt 1  ")


def test_a_life_line_breaks_a_long_error_and_cuts_only_its_fourth_line() -> None:
    history = (Attempt(1_000, 2_000, "w1", "TimeoutError: smtp 10.0.0.7 did not answer within 5.0 s"),)
    job = Job(b"a", "mail", "native", "dead", State.DEAD, b"a", history=history)
    lines = timeline.format_job_timeline(job, 38, now_ms=9_000).plain.splitlines()
    assert [line[9:] for line in lines[2:]] == [
        "● failed: TimeoutError:  1.0s",
        "  smtp 10.0.0.7 did not",
        "  answer within 5.0 s",
    ]
    endless = replace(job, history=(Attempt(1_000, 2_000, "w1", "E: " + "word " * 60),))
    lines = timeline.format_job_timeline(endless, 38, now_ms=9_000).plain.splitlines()
    assert len(lines) == 2 + 4 and lines[-1].endswith("…") and all(len(line) <= 38 for line in lines)


def test_lines_are_broken_at_spaces_and_none_is_wider_than_the_text() -> None:
    from rqtui.text.formats import cell_len
    from rqtui.tui.widgets.long_text import _yield_wrapped_rows

    for line in ("", "word " * 40, "x" * 200, "花" * 90, "a" + "花é" * 60):
        parts = [line[start:end] for start, end in _yield_wrapped_rows(line, 30)]
        assert "".join(parts) == line
        assert all(cell_len(part.rstrip()) <= 30 for part in parts)
    assert [line[a:b] for line in ["aaaa bbbb cccc"] for a, b in _yield_wrapped_rows(line, 10)] == [
        "aaaa bbbb ",
        "cccc",
    ]


# ── what a system knows beyond the rest ──────────────────────────────────────────────────────────────────────────────

FACTS = [
    ["status", "started"],
    ["meta", '{"progress": 40, "password": "hunter2"}', "json"],
    ["parent", "q1", "ref"],
    ["child", "x1", "ref", "bran"],
    ["lost", "nobody", "ref"],
    ["beat", 1_700_000_000_000, "instant"],
    ["limit", 180_000, "duration"],
    ["raised", "Traceback:\n  in f\x1b[31m\nE: password=hunter2", "trace"],
]


@pytest.mark.slow
@run_on_event_loop
async def test_facts_are_in_their_order_and_links_lead_to_other_jobs_and_back(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    add_mill_jobs(client, "flour", "started", "s1", facts=FACTS, call="mill.grind(password='hunter2')")
    add_mill_jobs(client, "flour", "queued", "q1")
    add_mill_jobs(client, "bran", "queued", "x1")
    async with screen(url, (110, 40), systems=("mill",)) as ui:
        await ui.press("j", "enter", "5", "enter")
        await ui.until_shown(
            "raised", "E: password=••", "in f␛[31m", "limit       3m00", '"progress": 40', "Enter: parent"
        )
        text = ui.text()
        assert "hunter2" not in text
        names = [str(fact[0]) for fact in FACTS]
        assert sorted(names, key=lambda name: text.index(f"│ {name}")) == names
        await ui.press("c")
        await ui.until_shown("password='hunter2'", '"password": "hunter2"', "E: password=hunter2")

        def job() -> str:
            view = ui.app.navigation.view
            return view.job.id.decode() if isinstance(view, JobPage) else ""

        await ui.press("enter")
        await ui.until(lambda: job() == "q1", "Enter opens the first link")
        await ui.press("escape")
        await ui.until(lambda: job() == "s1", "Esc comes back")
        await ui.press("shift+tab", "j")
        await ui.until_shown("Enter: child")
        await ui.press("enter")
        await ui.until(lambda: job() == "x1", "a job of another queue")
        await ui.until_shown("bran")
        await ui.press("escape", "j", "enter")
        await ui.until_toast("lost: there is no job nobody in flour any more.")
        rows = ui.text().splitlines()
        y = next(y for y, row in enumerate(rows) if "│ parent" in row)
        await ui.pilot.click(offset=(rows[y].index("q1"), y))
        await ui.until(lambda: job() == "q1", "a click opens a link")


@pytest.mark.slow
@run_on_event_loop
async def test_a_board_shows_calls_in_place_of_what_is_in_bodies(client: Redis, url: str, mill: type[Mill]) -> None:
    add_mill_jobs(client, "flour", "failed", "f1", call="mill.grind('wheat', token='abc')", error="ValueError: chaff")
    add_mill_jobs(client, "flour", "failed", "f2", call="mill.sieve\x1b[2J(2)")
    add_mill_jobs(client, "flour", "failed", "f3", call="", body='{"who": "knows"}')
    async with screen(url, (110, 30), systems=("mill",)) as ui:
        await ui.press("enter")
        await ui.until_shown("call", "mill.grind('wheat', token=••", "mill.sieve␛[2J(2)", '"who": "knows"', "chaff")
        assert "flour=1" not in ui.text(), "no word of fields"
        await ui.press("slash", '"call:wheat', "enter")
        await ui.until(lambda: "f2" not in ui.text() and "f1" in ui.text(), "found by its call")


@pytest.mark.slow
@run_on_event_loop
async def test_an_error_longer_than_the_body_gets_the_wider_column(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    trace = "\n".join(
        ["Traceback (most recent call last):", *(f"  File 'x.py', line {n}, in f" for n in range(20)), "E: 1"]
    )
    seeded.engine.apply_verb("reject", seeded.ref, seeded.reserve(1), {"error": trace, "final": True})
    async with screen(url, SIZE) as ui:
        await ui.press("enter", "5", "enter")
        await ui.until_shown("attempt 1")
        view = ui.app.navigation.view
        assert view is not None
        left, right = view.query_one("#job-left"), view.query_one("#job-right")
        await ui.until(lambda: left.size.width > right.size.width, "a wider traceback")
        await ui.press("escape", "2", "enter")
        await ui.until_shown("place       ready")
        view = ui.app.navigation.view
        assert view is not None and view.query_one("#job-left").size.width < view.query_one("#job-right").size.width
