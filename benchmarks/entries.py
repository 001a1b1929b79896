"""List the measured peers: other queue libraries, each with its program, packages, guarantee and jobs per round.

Faster peers get more jobs, so that each measurement takes seconds. A short run does not favour a slow peer, because the
time runs from the first job to the last.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the tables: a measured queue library.

    `home` names its environment (empty: that of `run.py`), `packages` what is installed in it. `jobs` is the number of
    jobs to drain with its best settings, `default_jobs` with its default settings (0: there is no difference),
    `is_kept` says whether a job survives the death of its worker. `is_floor` marks bare scripts, which poll for jobs.
    """

    name: str
    program: str
    home: str
    packages: tuple[str, ...]
    jobs: int
    default_jobs: int
    is_kept: bool
    best: str
    variant: str = ""
    is_floor: bool = False
    one_by_one: int = 2_000

    @property
    def is_node(self) -> bool:
        """Whether the peer runs under node."""
        return self.program.endswith(".js")


ENTRIES = (
    Entry("rqtui", "on_rqtui.py", "", (), 40_000, 0, True, "consume()"),
    Entry("rqtui, no batches", "on_rqtui.py", "", (), 4_000, 0, True, "consume(batch=1)", variant="one"),
    Entry(
        "bare scripts", "on_bare.py", "", (), 40_000, 0, False, "three scripts in batches of 100", is_floor=True
    ),
    Entry("BullMQ", "on_bullmq.js", "bullmq", ("bullmq", "ioredis"), 15_000, 4_000, True, "concurrency 50"),
    Entry("dramatiq", "on_dramatiq.py", "dramatiq", ("dramatiq[redis]",), 4_000, 3_000, True, "8 threads, no middleware"),
    Entry(
        "taskiq streams", "on_taskiq.py", "taskiq", ("taskiq", "taskiq-redis"), 4_000, 3_000, True,
        "100 tasks at once, 100 ahead",
    ),
    Entry("streaq", "on_streaq.py", "streaq", ("streaq",), 4_000, 3_000, True, "concurrency 100"),
    Entry("Celery", "on_celery.py", "celery", ("celery[redis]", "flower"), 2_000, 2_000, True, "solo pool, prefetch 100, late acks"),
    Entry("arq", "on_arq.py", "arq", ("arq",), 1_000, 300, True, "100 jobs at once, a poll each 10 ms"),
    Entry("rq", "on_rq.py", "rq", ("rq",), 1_000, 60, True, "SimpleWorker"),
    Entry("huey", "on_huey.py", "huey", ("huey", "redis"), 4_000, 4_000, False, "4 threads"),
    Entry(
        "taskiq list", "on_taskiq.py", "taskiq", ("taskiq", "taskiq-redis"), 4_000, 3_000, False,
        "100 tasks at once, 100 ahead", variant="list",
    ),
)  # fmt: skip
