"""What rqtui reads of each system's jobs, whole and damaged, is what a kept text says: `readings/SYSTEM.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/systems/test_readings.py` writes the texts; review the difference as code.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import arq_subject
import bullmq_subject
import celery_subject
import dispatcher_subject
import native_jobs
import orizuru_subject
import pytest
import redisched_subject
import rq_subject
import safe_pop_subject
import sidekiq_subject
import timeout_sets_subject
from readings import describe_readings
from redis import Redis
from slow_cases import mark_slow_cases
from subjects import SUBJECTS

from rqtui.systems.bullmq import lock_holders, workers
from rqtui.systems.bullmq import system as bullmq_system

KEPT = Path(__file__).with_name("readings")
QUEUES = {  # the option --system, the queue, and the time at which the subject's jobs are planted
    "native": ("native", "mail", native_jobs.NOW),
    "dispatcher": ("dispatcher:ready=readytasklist", "readytasklist", dispatcher_subject.NOW),
    "orizuru": ("orizuru:source=jobs", "jobs", orizuru_subject.NOW),
    "redisched": ("redisched:topic=mail,unit=ms", "mail", redisched_subject.NOW),
    "rq": ("rq", "default", rq_subject.NOW),
    "arq": ("arq", arq_subject.QUEUE, arq_subject.NOW),
    "bullmq": ("bullmq", "mail", bullmq_subject.NOW),
    "celery": ("celery", "default", celery_subject.NOW),
    "safe_pop": ("safe_pop:queue=crawl,timeout_s=30", "crawl", safe_pop_subject.NOW),
    "sidekiq": ("sidekiq", "default", sidekiq_subject.NOW),
    "timeout_sets": ("timeout_sets:todos=todos", "todos", timeout_sets_subject.NOW),
}


LONG_TEXTS = ("native", "rq", "bullmq", "celery", "sidekiq", "arq", "redisched", "orizuru")  # slow to read


@pytest.mark.parametrize("system", mark_slow_cases(SUBJECTS, LONG_TEXTS))
def test_a_queue_is_read_as_in_its_stored_text(system: str, client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    # What rqtui keeps of BullMQ's workers is read again after some seconds, which pass here on a busy machine.
    for module in (workers, lock_holders, bullmq_system):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 1e6))
    text = describe_readings(SUBJECTS[system], *QUEUES[system], client)
    file = KEPT / f"{system}.txt"
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    assert text.splitlines() == file.read_text("utf-8").splitlines()
