"""What servers do differently, for the scripts of every system: another Lua, other rights, other bounds of memory.

On one real server each system's own tests run the whole conformance suite. The others are asked in a plain run for what
differs there: real ones for what not every server can (ACLs, EVAL_RO, maxmemory), fakeredis, whose Lua is another, for
every answer of every script, and all of them for both of the native queue. The rest of the suite on them is the matrix.
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

from rqtui.connection.embedded import EmbeddedServer
from rqtui.testing import conformance
from rqtui.testing.subject import Subject

EACH = (NATIVE, DISPATCHER, ORIZURU, SUBJECTS["ms"], RQ, BULLMQ, SAFE_POP, SIDEKIQ, TIMEOUT_SETS)


@pytest.mark.slow
@pytest.mark.each_server(but_first=True)  # which runs them all in the systems' own tests
@pytest.mark.parametrize("subject", EACH, ids=lambda subject: subject.name)
def test_cases_that_depend_on_the_server_hold_on_each(
    subject: Subject, any_client: Redis, any_server: EmbeddedServer
) -> None:
    is_native, is_fake = subject is NATIVE, any_server.family == "fakeredis"
    asked = (
        case
        for case in conformance.cases(subject)
        if ((is_native or is_fake) and case.word) or ((is_native or not is_fake) and case.needs)
    )
    conformance.run_all(asked, subject, any_client)
