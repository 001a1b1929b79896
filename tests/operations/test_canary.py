"""Test canaries: the first jobs of a change run alone, and the others follow only when all of these succeeded."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any

import pytest
from redis import Redis
from screens import WIDE, Screen, Seeded, run_on_event_loop, screen
from shell import shell

from rqtui.client.queue import Queue
from rqtui.errors import UsageError
from rqtui.model import Job
from rqtui.operations import canary, rate_limit
from rqtui.operations.journal import Circumstances
from rqtui.operations.rate_limit import Limits, Step
from rqtui.systems import registry
from rqtui.tui.widgets.canary_page import CanaryPage

WORDS = "act requeue mail --place dead --all --rate 90/s --canary 2 --json"


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    return Seeded(client)


def bury(seeded: Seeded, number: int) -> tuple[Job, ...]:
    seeded.bury(*(f"d{n:03}" for n in range(number)))
    return seeded.jobs("dead")


def bury_with_equal_priority(seeded: Seeded, number: int) -> tuple[Job, ...]:
    """Add dead jobs that are ready behind the others when they are requeued."""
    seeded.put(*(f"d{n:03}" for n in range(number)))
    settle(seeded, "reject", number, error="TimeoutError: smtp", final=True)
    return seeded.jobs("dead")


def run_steps(
    seeded: Seeded, jobs: tuple[Job, ...], limits: Limits, work: Callable[[int], Any], step_s: int = 1
) -> list[Step]:
    """Run a requeue in steps, each `step_s` seconds of a simulated clock. `work(number)` runs after each step."""
    seconds = count(step=step_s)
    steps: list[Step] = []
    generator = rate_limit.yield_rate_limited_steps(
        seeded.engine, "requeue", [(seeded.ref, jobs)], {}, limits, clock=lambda: float(next(seconds))
    )
    for step in generator:
        steps.append(step)
        work(len(steps))
        assert len(steps) < 100
    return steps


def count_ends(step: Step) -> tuple[int, int, int, int]:
    """Return how many first jobs of a step there are, and how many are done, failed and unknown."""
    progress = step.canary
    assert progress is not None
    return progress.total, progress.done, progress.failed, progress.unknown


def settle(seeded: Seeded, verb: str, limit: int = 100, **form: object) -> None:
    held = seeded.reserve(limit)
    if held:
        seeded.engine.apply_verb(verb, seeded.ref, held, form)


@contextmanager
def consume_in_background(url: str, is_failing: bool = False) -> Iterator[None]:
    """Run a worker of the queue `mail` on a thread; each job succeeds, or fails for good."""
    stop = threading.Event()

    def work() -> None:
        with Queue("mail", url) as queue:
            for job in queue.consume(stop=stop):
                if is_failing:
                    job.reject("CardDeclined: no", final=True)
                else:
                    job.ack()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("keep_ms", [0, 60_000])
def test_the_other_jobs_follow_after_all_first_ones_succeeded(seeded: Seeded, keep_ms: int) -> None:
    jobs = bury(seeded, 12)

    def work(number: int) -> None:
        if number == 3:  # Until then the first jobs wait.
            settle(seeded, "ack", keep_ms=keep_ms)

    steps = run_steps(seeded, jobs, Limits(5, canary_jobs=3), work)
    sent = [len(step.outcomes) for step in steps]
    assert sent[:3] == [3, 0, 0]
    passed = next(number for number, step in enumerate(steps) if step.canary and step.canary.has_passed)
    assert passed >= 3 and sum(sent[: passed + 1]) == 3
    assert max(sent[passed + 1 :]) <= 5 and sum(sent) == 12
    assert steps[-1].stop_reason == rate_limit.ALL_SENT
    assert count_ends(steps[passed]) == (3, 3, 0, 0)


def test_the_first_jobs_run_before_the_other_ready_jobs(seeded: Seeded) -> None:
    jobs = bury_with_equal_priority(seeded, 3)
    seeded.put("a", "b")

    def work(number: int) -> None:
        if number == 1:
            assert seeded.ids("ready") == ["d000", "d001", "a", "b"]
        settle(seeded, "ack")

    steps = run_steps(seeded, jobs, Limits(5, canary_jobs=2), work)
    assert steps[-1].stop_reason == rate_limit.ALL_SENT


def test_a_denied_bump_leaves_the_first_jobs_behind_the_others(seeded: Seeded) -> None:
    jobs = bury_with_equal_priority(seeded, 2)
    seeded.put("a")
    seeded.engine.denied = (("mail", ("bump",)),)

    def work(number: int) -> None:
        if number == 1:
            assert seeded.ids("ready") == ["a", "d000"]
        settle(seeded, "ack")

    assert run_steps(seeded, jobs, Limits(5, canary_jobs=1), work)[-1].stop_reason == rate_limit.ALL_SENT


def test_first_jobs_that_no_worker_takes_stop_the_change_after_five_minutes(seeded: Seeded) -> None:
    steps = run_steps(seeded, bury(seeded, 3), Limits(5, canary_jobs=2), lambda _number: None, step_s=20)
    assert steps[-1].stop_reason == (
        "stopped after 2 of 3: no worker has taken one of the first 2 jobs within 5 min; they are ready"
    )
    assert len(steps) > 5 and len(seeded.jobs("ready")) == 2 and len(seeded.jobs("dead")) == 1


def test_first_jobs_that_run_for_long_do_not_stop_the_change(seeded: Seeded) -> None:
    def work(number: int) -> None:
        if number == 1:
            held.extend(seeded.reserve(1))
        if number == 30:
            seeded.engine.apply_verb("ack", seeded.ref, held)
        if number > 30:
            settle(seeded, "ack")

    held: list[Job] = []
    steps = run_steps(seeded, bury(seeded, 3), Limits(5, canary_jobs=2), work, step_s=60)
    assert steps[-1].stop_reason == rate_limit.ALL_SENT


def test_a_first_job_that_never_ends_stops_the_change_after_its_limit(seeded: Seeded) -> None:
    def work(number: int) -> None:
        if number == 1:
            seeded.reserve(1)

    limits = Limits(5, canary_jobs=2, canary_wait_s=600, canary_run_s=90)
    steps = run_steps(seeded, bury(seeded, 3), limits, work, step_s=20)
    assert steps[-1].stop_reason == (
        "stopped after 2 of 3: d000 has not ended 1 min 30 s after a worker took it; "
        "2 of the first 2 jobs have not ended"
    )
    assert len(seeded.jobs("dead")) == 1


def test_first_jobs_that_stay_ready_after_another_one_ended_stop_the_change(seeded: Seeded) -> None:
    def work(number: int) -> None:
        if number == 1:
            settle(seeded, "ack", 1)

    limits = Limits(5, canary_jobs=3, canary_wait_s=60)
    steps = run_steps(seeded, bury(seeded, 4), limits, work, step_s=20)
    assert steps[-1].stop_reason == (
        "stopped after 3 of 4: no worker has taken the next of the first 3 jobs within 1 min; 2 of them have not ended"
    )


def test_the_limits_of_a_canary_are_options(client: Redis, seeded: Seeded, url: str) -> None:
    bury(seeded, 4)
    ran = shell(url, *WORDS.split(), "--canary-wait", "1s")
    assert ran.code == 1 and "within 1 s; they are ready" in ran.json["stopped"]
    for words, sentence in (
        (("--canary-wait", "soon"), "--canary-wait cannot be 'soon'"),
        (("--canary-run", "10ms"), "--canary-run is a time of one second or more"),
    ):
        refused = shell(url, *WORDS.split(), *words)
        assert refused.code == 2 and sentence in refused.err
    alone = shell(url, *["act", "requeue", "mail", "--place", "dead", "--all", "--rate", "5/s", "--canary-run", "5m"])
    assert alone.code == 2 and "goes with --canary N" in alone.err


@pytest.mark.parametrize(("final", "place"), [(True, "dead"), (False, "scheduled")])
def test_one_failure_stops_the_change_and_names_job_and_error(seeded: Seeded, final: bool, place: str) -> None:
    jobs = bury(seeded, 12)

    def work(number: int) -> None:
        if number == 1:
            settle(seeded, "reject", 1, error="CardDeclined: no\nTraceback …", final=final)

    steps = run_steps(seeded, jobs, Limits(5, canary_jobs=3), work)
    assert steps[-1].stop_reason == (
        "stopped after 3 of 12: 1 of the first 3 jobs failed, such as d000: CardDeclined: no Traceback …"
    )
    assert sum(len(step.outcomes) for step in steps) == 3
    assert len(seeded.jobs("dead")) == 9 + (place == "dead")


def test_a_canary_of_all_jobs_ends_the_change_when_they_succeeded(seeded: Seeded) -> None:
    steps = run_steps(seeded, bury(seeded, 3), Limits(5, canary_jobs=10), lambda _number: settle(seeded, "ack"))
    assert steps[-1].stop_reason == rate_limit.ALL_SENT and sum(len(step.outcomes) for step in steps) == 3
    assert count_ends(steps[-1]) == (3, 3, 0, 0)


def test_a_job_that_was_not_moved_counts_as_failed(seeded: Seeded) -> None:
    jobs = bury(seeded, 4)
    seeded.engine.apply_verb("delete", seeded.ref, jobs[:1])
    steps = run_steps(seeded, jobs, Limits(5, canary_jobs=2), lambda _number: settle(seeded, "ack"))
    assert "1 of the first 2 jobs failed, such as d000: no such job" in steps[-1].stop_reason


def test_a_running_job_is_waited_for(seeded: Seeded) -> None:
    jobs = bury(seeded, 4)
    held: list[Job] = []

    def work(number: int) -> None:
        if number == 1:
            held.extend(seeded.reserve(2))
        if number == 6:
            seeded.engine.apply_verb("ack", seeded.ref, held, {})
        if number > 6:
            settle(seeded, "ack")

    steps = run_steps(seeded, jobs, Limits(5, canary_jobs=2), work)
    assert [len(step.outcomes) for step in steps[:6]] == [2, 0, 0, 0, 0, 0]
    assert steps[-1].stop_reason == rate_limit.ALL_SENT


@pytest.mark.parametrize("size", [0, -1, 101])
def test_the_size_is_bounded(size: int) -> None:
    with pytest.raises(UsageError, match="1 to 100 jobs"):
        canary.check_canary([registry.create_system("native")], size)


def test_jobs_without_ids_cannot_be_followed() -> None:
    with pytest.raises(UsageError, match="have no ids"):
        canary.check_canary([registry.create_system("orizuru")], 5)


@pytest.mark.parametrize(
    ("name", "is_known"), [("native", True), ("rq", True), ("sidekiq", True), ("bullmq", True), ("celery", False)]
)
def test_a_missing_job_has_succeeded_where_failed_jobs_are_stored(name: str, is_known: bool) -> None:
    assert canary.stores_failed_jobs(registry.create_system(name)) is is_known


def test_the_command_tries_the_first_jobs_and_shows_how_they_ended(client: Redis, url: str, seeded: Seeded) -> None:
    bury(seeded, 6)
    with consume_in_background(url):
        ran = shell(
            url, *["act", "requeue", "mail", "--place", "dead", "--all", "--rate", "90/s", "--canary", "2", "--json"]
        )
    document = json.loads(ran.out)
    assert (ran.code, document["stopped"]) == (0, None)
    jobs = document["canary"].pop("jobs")
    assert document["canary"] == {"total": 2, "done": 2, "failed": 0, "unknown": 0}
    assert [(job["id"], job["outcome"], job["error"]) for job in jobs] == [
        ("d000", "done", None),
        ("d001", "done", None),
    ]
    assert all(isinstance(job["ended_at_ms"], int) for job in jobs)
    assert "rqtui: d000: done, seen after " in ran.err and "rqtui: d001: done, seen after " in ran.err
    assert "2 of 2 jobs succeeded; 4 others follow at 90/s." in ran.err


def test_the_command_stops_when_a_first_job_fails(client: Redis, url: str, seeded: Seeded) -> None:
    bury(seeded, 6)
    with consume_in_background(url, is_failing=True):
        ran = shell(url, *WORDS.replace("--canary 2", "--canary 1").split())
    document = json.loads(ran.out)
    assert ran.code == 1
    [job] = document["canary"].pop("jobs")
    assert document["canary"] == {"total": 1, "done": 0, "failed": 1, "unknown": 0}
    assert (job["id"], job["outcome"], job["error"]) == ("d000", "failed", "CardDeclined: no")
    assert job["taken_at_ms"] <= job["ended_at_ms"]
    assert re.search(r"rqtui: d000: failed after .*: CardDeclined: no", ran.err)
    assert document["stopped"] == "stopped after 1 of 6: the first job, d000, failed: CardDeclined: no"
    assert len(seeded.jobs("dead")) == 6


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("act delete mail --place dead --all --canary 2", "delete makes no job ready"),
        ("act requeue mail --place dead --all --canary 0", "--canary is a whole number from 1 on"),
        ("act requeue mail --place dead --all --canary 500", "1 to 100 jobs, not 500"),
    ],
)
def test_a_canary_that_cannot_be_is_refused_before_any_change(
    words: str, expected: str, url: str, seeded: Seeded
) -> None:
    bury(seeded, 3)
    ran = shell(url, *words.split())
    assert ran.code == 2 and expected in ran.err, ran.err
    assert len(seeded.jobs("dead")) == 3


async def start_canary(ui: Screen, jobs: str) -> None:
    """Open the palette's throttled requeue of all dead jobs, and start it with so many first jobs."""
    await ui.press("enter", "5", "asterisk", "colon")
    await ui.press('"throttled requeue', "enter")
    await ui.until_shown("jobs to try first")
    ui.app.screen.query_one("#field-rate").value = "50/s"  # type: ignore[attr-defined]
    ui.app.screen.query_one("#field-canary").value = jobs  # type: ignore[attr-defined]
    await ui.press("y")


@asynccontextmanager
async def open_canary_page(url: str, seeded: Seeded) -> AsyncIterator[Screen]:
    """Start the screen, and requeue 2 of 12 dead jobs first, whose page it then shows."""
    bury(seeded, 12)
    async with screen(url) as ui:
        await start_canary(ui, "2")
        await ui.until_shown("Requeue 2 jobs first: 0 of 2 done")
        yield ui


@pytest.mark.parametrize(("answer", "ready"), [("y", 10), pytest.param("n", 0, marks=pytest.mark.slow)])
@run_on_event_loop
async def test_the_screen_asks_before_the_other_jobs_follow(answer: str, ready: int, url: str, seeded: Seeded) -> None:
    bury(seeded, 12)
    async with screen(url) as ui:
        await start_canary(ui, "2")
        await ui.until_shown("Requeue 2 jobs first: 0 of 2 done", "X stops the change")
        settle(seeded, "ack")
        await ui.until_shown(
            "2 of 2 done. Requeue the other 10 jobs at 50/s?", "Nothing more is sent", "at 20 failures"
        )
        assert len(seeded.jobs("dead")) == 10
        await ui.press(answer)
        await ui.until_toast(*(["12 requeued"] if ready else ["stopped", "after 2 of 12"]))
    assert (len(seeded.jobs("ready")), len(seeded.jobs("dead"))) == (ready, 10 - ready)


@pytest.mark.slow
@run_on_event_loop
async def test_the_screen_sends_the_others_at_20_per_second_where_no_speed_is_typed(url: str, seeded: Seeded) -> None:
    bury(seeded, 42)
    async with screen(url) as ui:
        await ui.press("enter", "5", "asterisk", "R")
        await ui.until_shown("jobs to try first", "All at once this takes about")
        ui.app.screen.query_one("#field-canary").value = "2"  # type: ignore[attr-defined]
        await ui.until_shown("At 20/s the others take 2 s after the first.")
        await ui.press("y")
        await ui.until_shown("Requeue 2 jobs first: 0 of 2 done")
        settle(seeded, "ack")
        await ui.until_shown("Requeue the other 40 jobs at 20/s?")


@pytest.mark.slow
@run_on_event_loop
async def test_the_screen_stops_when_a_first_job_fails(url: str, seeded: Seeded) -> None:
    async with open_canary_page(url, seeded) as ui:
        settle(seeded, "reject", 1, error="CardDeclined: no", final=True)
        await ui.until_shown("Stopped: d000 failed after", "CardDeclined: no", "The other 10 jobs were not requeued.")
        await ui.press("enter")
        await ui.until(lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "job", "its page")
        await ui.until_shown("d000", "CardDeclined: no")
    assert len(seeded.jobs("dead")) == 11


@pytest.mark.slow
@run_on_event_loop
async def test_a_closed_page_leaves_the_change_alone_and_the_question_comes_later(url: str, seeded: Seeded) -> None:
    async with open_canary_page(url, seeded) as ui:
        await ui.press("escape")
        await ui.until_shown("requeue 2 of 12 · first 2 jobs: 0 succeeded", "X stop")
        assert "Requeue 2 jobs first" not in ui.text()
        settle(seeded, "ack")
        await ui.until_shown("Requeue the other 10 jobs at 50/s?", "2 of 2 jobs succeeded.", "Nothing more is sent")
        assert len(seeded.jobs("dead")) == 10
        await ui.press("y")
        await ui.until_toast("12 requeued")
    assert len(seeded.jobs("ready")) == 10


@pytest.mark.slow
@pytest.mark.parametrize("key", ["question_mark", "slash"])
@run_on_event_loop
async def test_the_page_does_not_open_above_a_dialog_or_an_input(key: str, url: str, seeded: Seeded) -> None:
    jobs = bury(seeded, 12)
    async with screen(url) as ui:
        await ui.press("enter", "5", key)
        rate_limited = ui.app.verb_starter.rate_limited
        limits = Limits(50, canary_jobs=2)
        rate_limited.start_change("requeue", [(seeded.ref, jobs)], {}, limits, "", Circumstances())
        await ui.until(lambda: "0 succeeded" in str(rate_limited.format_progress()), "the first jobs are looked up")
        assert not isinstance(ui.app.screen, CanaryPage)
        await ui.press("escape")
        await ui.until_shown("Requeue 2 jobs first: 0 of 2 done")


@pytest.mark.slow
@run_on_event_loop
async def test_the_page_shows_the_life_line_of_each_first_job(url: str, seeded: Seeded) -> None:
    bury(seeded, 12)
    async with screen(url, WIDE) as ui:
        await start_canary(ui, "2")
        await ui.until_shown("● d000", "● d001", "requeued → ready", "no worker takes one within 5m00", "m", "left")
        held = seeded.reserve(1)
        await ui.until_shown("→ running", "on worker w1", "one runs for 1h00")
        seeded.engine.apply_verb("ack", seeded.ref, held, {"keep_ms": 60_000})
        await ui.until_shown("✓ d000", "→ done after", "Requeue 2 jobs first: 1 of 2 done")
        settle(seeded, "ack")
        await ui.until_shown("✓ d001", "2 of 2 done. Requeue the other 10 jobs at 50/s?")
        await ui.press("enter")
        await ui.until_toast("stopped", "after 2 of 12")


@pytest.mark.slow
@pytest.mark.parametrize("is_failing", [False, True])
@run_on_event_loop
async def test_the_page_follows_a_real_worker_until_it_is_accepted_or_stopped(
    is_failing: bool, url: str, seeded: Seeded
) -> None:
    async with open_canary_page(url, seeded) as ui:
        with consume_in_background(url, is_failing):
            if is_failing:
                await ui.until_shown("✕ d00", "CardDeclined: no", "The other 10 jobs were not requeued.")
                return
            await ui.until_shown("✓ d000", "✓ d001", "done, seen after", "2 of 2 done. Requeue the other 10 jobs")
            await ui.press("y")
            await ui.until_toast("12 requeued")
    assert not seeded.jobs("dead")


@pytest.mark.slow
@run_on_event_loop
async def test_the_key_to_stop_works_on_the_page(url: str, seeded: Seeded) -> None:
    async with open_canary_page(url, seeded) as ui:
        await ui.press("X")
        await ui.until_toast("throttled requeue: stopped by X after 2 of 12")
        await ui.until(lambda: "Requeue 2 jobs first" not in ui.text(), "the page is closed")
        assert ui.app.verb_starter.format_progress() is None
    assert len(seeded.jobs("dead")) == 10


@pytest.mark.slow
@run_on_event_loop
async def test_a_canary_of_all_jobs_ends_on_its_page(url: str, seeded: Seeded) -> None:
    bury(seeded, 2)
    async with screen(url) as ui:
        await start_canary(ui, "5")
        await ui.until_shown("Requeue 2 jobs first: 0 of 2 done")
        settle(seeded, "ack")
        await ui.until_shown("2 of 2 done. No other job is left.", "Esc closes")
        await ui.press("escape")
        await ui.until(lambda: "No other job is left" not in ui.text(), "the page is closed")


@pytest.mark.slow
@run_on_event_loop
async def test_a_wait_limit_of_the_form_stops_the_change_and_the_page_says_so(url: str, seeded: Seeded) -> None:
    bury(seeded, 12)
    async with screen(url) as ui:
        await ui.press("enter", "5", "asterisk", "R")
        await ui.until_shown("jobs to try first")
        assert "stop if none is taken" not in ui.text()
        ui.app.screen.query_one("#field-canary").value = "2"  # type: ignore[attr-defined]
        await ui.until_shown("stop if none is taken", "stop if one runs for")
        ui.app.screen.query_one("#field-canary_wait").value = "100ms"  # type: ignore[attr-defined]
        await ui.press("y")
        await ui.until_shown("the first jobs need a time of one second or more")
        ui.app.screen.query_one("#field-canary_wait").value = "1s"  # type: ignore[attr-defined]
        await ui.press("y")
        await ui.until_shown("no worker has taken one of the first 2 jobs", "within 1 s; they are ready.")
        await ui.until_shown("The other 10 jobs were not requeued.", "Esc closes")
        await ui.press("escape")
        await ui.until(lambda: "The other 10 jobs" not in ui.text(), "the page is closed")
    assert (len(seeded.jobs("ready")), len(seeded.jobs("dead"))) == (2, 10)


@pytest.mark.slow
@run_on_event_loop
async def test_a_stopped_canary_is_undone_with_its_bumped_jobs(url: str, seeded: Seeded) -> None:
    bury_with_equal_priority(seeded, 12)
    seeded.put("a")
    async with screen(url) as ui:
        await start_canary(ui, "2")
        await ui.until_shown("Requeue 2 jobs first: 0 of 2 done")
        assert seeded.ids("ready") == ["d000", "d001", "a"]
        await ui.press("X")
        await ui.until_toast("stopped", "after 2 of 12")
        await ui.press("z")
        await ui.until(lambda: len(seeded.jobs("dead")) == 12, "the first jobs are dead again")
    assert seeded.ids("ready") == ["a"]


@pytest.mark.slow
@run_on_event_loop
async def test_a_canary_that_is_too_large_is_refused_in_the_dialog(url: str, seeded: Seeded) -> None:
    bury(seeded, 12)
    async with screen(url) as ui:
        await start_canary(ui, "500")
        await ui.until_shown("a canary has 1 to 100 jobs, not 500.")
    assert len(seeded.jobs("dead")) == 12


@pytest.mark.slow
@run_on_event_loop
async def test_a_page_that_is_being_removed_accepts_further_calls(url: str, seeded: Seeded) -> None:
    async with open_canary_page(url, seeded) as ui:
        page = ui.app.screen
        assert isinstance(page, CanaryPage)
        await page.query_one("#canary").remove()
        page.ask_for_others("Requeue the other 10 jobs?", "")
