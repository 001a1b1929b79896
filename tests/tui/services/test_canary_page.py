"""Compare the page of a canary with text snapshots: while its jobs run, at the question, and after a failure."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from screens import read_text
from text_snapshots import NARROW, SMALL, WIDE, check_snapshot, planted_url, stopped_clock
from textual.pilot import Pilot

from rqtui.model import Attempt, Job, Ref, State
from rqtui.operations.canary import CanaryProgress
from rqtui.operations.canary_jobs import FirstJob, record_poll
from rqtui.operations.rate_limit import Limits
from rqtui.tui.widgets.canary_page import CanaryPage
from screenshots.seeded import NOW, open_still_app, wait_until_still

__all__ = ["planted_url", "stopped_clock"]  # fixtures

REF = Ref("native", "orders")
DEAD = Job(b"", "orders", "native", "dead", State.DEAD, b"", name="charge")
TRACE = (
    'Traceback (most recent call last):\n  File "/app/charge.py", line 88, in pay\n    raise E\nCardDeclined: no money'
)
SIZES = {"160x45": WIDE, "80x24": NARROW, "60x16": SMALL}


def build_record(number: int, polls: list[Job | None]) -> FirstJob:
    """Return the record of a first job that was found so by polls, the last one now."""
    first = FirstJob(REF, replace(DEAD, id=b"order-%d" % number), NOW - 2000)
    for job in polls:
        first = record_poll(
            first, None if job is None else replace(job, id=first.job.id), NOW, stores_failed_jobs=False
        )
    return first


RESERVED = replace(DEAD, state=State.RESERVED, reserved_ms=NOW - 1600, worker="orders-eu-1.7")
DONE = replace(RESERVED, state=State.DONE, since_ms=NOW - 400)
ATTEMPT = Attempt(NOW - 1500, NOW - 300, "orders-eu-2.7", TRACE)
RUNNING = (
    build_record(1, [DONE]),
    build_record(2, [RESERVED]),
    build_record(3, [replace(DEAD, state=State.RESERVED)]),
    build_record(4, [replace(DEAD, state=State.READY)]),
    build_record(5, [None, None]),
)
DONE_JOBS = tuple(build_record(number, [DONE]) for number in range(1, 6))
FAILED = (*RUNNING[:4], build_record(5, [replace(DEAD, error=TRACE, history=(ATTEMPT,))]))


def show_running(page: CanaryPage) -> None:
    page.show_progress(CanaryProgress(RUNNING, NOW, 287.0), 2495)


def show_question(page: CanaryPage) -> None:
    page.show_progress(CanaryProgress(DONE_JOBS, NOW, 300.0), 2495)
    page.ask_for_others(
        "5 of 5 done. Requeue the other 2 495 jobs at 20/s?",
        "Nothing more is sent until you answer. It stops at 20 failures.",
    )


def show_failure(page: CanaryPage) -> None:
    page.show_progress(CanaryProgress(FAILED, NOW, 300.0), 2495)
    page.show_end(
        [
            (f"Stopped: order-5 {FAILED[4].describe_end()}.", "$state-dead"),
            ("The other 2 495 jobs were not requeued.", "$data"),
        ],
        FAILED[4],
    )


STAGES = {"running": show_running, "question": show_question, "failed": show_failure}


@pytest.mark.parametrize("stage", STAGES)
def test_the_page_of_a_canary_matches_its_snapshots(planted_url: str, stage: str) -> None:
    async def read_pages() -> dict[str, str]:
        texts = {}
        async with open_still_app(planted_url, WIDE, ()) as app:
            page = CanaryPage("requeue", "requeued", Limits(20, 20, canary_jobs=5))
            await app.push_screen(page)
            STAGES[stage](page)
            for title, size in SIZES.items():
                pilot: Pilot[None] = Pilot(app)
                await pilot.resize_terminal(*size)
                await wait_until_still(app, pilot)
                region = page.query_one("#canary").region
                lines = read_text(app).split("\n")[region.y : region.bottom]
                texts[title] = "\n".join(line[region.x : region.right] for line in lines)
        return texts

    for title, text in asyncio.run(read_pages()).items():
        assert text.startswith("╭") and text.endswith("╯")
        check_snapshot(f"canary-{stage}-{title}", text)
