"""First jobs of a canary for screenshots of its page: while they run, at the question, after a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rqtui.model import Attempt, Job, Ref, State
from rqtui.operations.canary import CanaryProgress
from rqtui.operations.canary_jobs import FirstJob, record_poll
from rqtui.operations.rate_limit import Limits
from rqtui.tui.widgets.canary_page import CanaryPage
from screenshots.seeded import NOW

REF = Ref("native", "orders")
DEAD = Job(b"", "orders", "native", "dead", State.DEAD, b"", name="charge")
TRACE = (
    'Traceback (most recent call last):\n  File "/app/charge.py", line 88, in pay\n    raise E\nCardDeclined: no money'
)


def build_record(number: int, polls: Sequence[Job | None]) -> FirstJob:
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


def build_page() -> CanaryPage:
    """Return the page of a canary of five jobs, at 20 jobs per second and at most 20 failures."""
    return CanaryPage("requeue", "requeued", Limits(20, 20, canary_jobs=5))


def show_running(page: CanaryPage) -> None:
    """Show jobs that are done, running, ready, and in no place."""
    page.show_progress(CanaryProgress(RUNNING, NOW, 287.0), 2495)


def show_question(page: CanaryPage) -> None:
    """Show that all first jobs are done, and the question about the others."""
    page.show_progress(CanaryProgress(DONE_JOBS, NOW, 300.0), 2495)
    page.ask_for_others(
        "5 of 5 done. Requeue the other 2 495 jobs at 20/s?",
        "Nothing more is sent until you answer. It stops at 20 failures.",
    )


def show_failure(page: CanaryPage) -> None:
    """Show a first job that failed, and what became of the others."""
    page.show_progress(CanaryProgress(FAILED, NOW, 300.0), 2495)
    page.show_end(
        [
            (f"Stopped: order-5 {FAILED[4].describe_end()}.", "$state-dead"),
            ("The other 2 495 jobs were not requeued.", "$data"),
        ],
        FAILED[4],
    )


STAGES: Mapping[str, Callable[[CanaryPage], None]] = {
    "running": show_running,
    "question": show_question,
    "failed": show_failure,
}
