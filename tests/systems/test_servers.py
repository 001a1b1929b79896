"""What servers do differently, for the scripts of every system: another Lua, other rights, other bounds of memory.

On one real server each system's own tests run the whole conformance suite; here each server in a plain run is asked for
every answer of every script, and for what not every server can (ACLs, EVAL_RO, maxmemory). The rest of the suite on the
other servers is the matrix.
"""

from __future__ import annotations

import pytest
from bullmq_subject import BULLMQ
from dispatcher_subject import DISPATCHER
from native_subject import NATIVE
from orizuru_subject import ORIZURU
from redis import Redis
from redisched_subject import SUBJECTS
from rq_subject import RQ
from safe_pop_subject import SAFE_POP
from sidekiq_subject import SIDEKIQ
from timeout_sets_subject import TIMEOUT_SETS

from rqtui.testing import conformance
from rqtui.testing.subject import Subject

EACH = (NATIVE, DISPATCHER, ORIZURU, SUBJECTS["ms"], RQ, BULLMQ, SAFE_POP, SIDEKIQ, TIMEOUT_SETS)


@pytest.mark.each_server(but_first=True)  # which runs them all in the systems' own tests
@pytest.mark.parametrize("subject", EACH, ids=lambda subject: subject.name)
def test_every_answer_is_given_on_every_server(subject: Subject, any_client: Redis) -> None:
    conformance.run_all((case for case in conformance.cases(subject) if case.word or case.needs), subject, any_client)
