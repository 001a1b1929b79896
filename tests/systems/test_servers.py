"""What servers do differently, for the scripts of every system: another Lua, other rights, other bounds of memory.

On one real server each system's own tests run the whole conformance suite; here each server in a plain run is asked for
every answer of every script, and for what not every server can (ACLs, EVAL_RO, maxmemory). The rest of the suite on the
other servers is the matrix.
"""

from __future__ import annotations

import conformance
import pytest
from dispatcher_subject import DISPATCHER
from native_subject import NATIVE
from orizuru_subject import ORIZURU
from redis import Redis
from redisched_subject import SUBJECTS
from rq_subject import RQ
from safe_pop_subject import SAFE_POP
from subject import Subject
from timeout_sets_subject import TIMEOUT_SETS

EACH = (NATIVE, DISPATCHER, ORIZURU, SUBJECTS["ms"], RQ, SAFE_POP, TIMEOUT_SETS)


@pytest.mark.each_server
@pytest.mark.parametrize("subject", EACH, ids=lambda subject: subject.name)
def test_every_answer_is_given_on_every_server(subject: Subject, any_client: Redis) -> None:
    conformance.run_all((case for case in conformance.cases(subject) if case.word or case.needs), subject, any_client)
