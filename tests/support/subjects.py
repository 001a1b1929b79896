"""The descriptions of all systems for the conformance suite (`Subject`), by the name of the system."""

from __future__ import annotations

from arq_subject import ARQ
from bullmq_subject import BULLMQ
from celery_subject import CELERY
from dispatcher_subject import DISPATCHER
from native_subject import NATIVE
from orizuru_subject import ORIZURU
from redisched_subject import SUBJECTS as REDISCHED
from rq_subject import RQ
from safe_pop_subject import SAFE_POP
from sidekiq_subject import SIDEKIQ
from timeout_sets_subject import TIMEOUT_SETS

from rqtui.testing.subject import Subject

SUBJECTS: dict[str, Subject] = {
    "native": NATIVE,
    "dispatcher": DISPATCHER,
    "orizuru": ORIZURU,
    "redisched": REDISCHED["ms"],
    "rq": RQ,
    "arq": ARQ,
    "bullmq": BULLMQ,
    "celery": CELERY,
    "safe_pop": SAFE_POP,
    "sidekiq": SIDEKIQ,
    "timeout_sets": TIMEOUT_SETS,
}
