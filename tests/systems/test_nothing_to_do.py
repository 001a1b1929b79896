"""A script that changes no job sends no command that writes: other clients see no change, and nothing is replicated."""

from __future__ import annotations

import pytest
from redis import Redis
from subjects import SUBJECTS

from rqtui.errors import RqtuiError
from rqtui.testing.subject import PreparedScript, Subject

CHANGES_NO_JOB = {"gone", "exists", "stale", "wrong_place", "changed", "empty", "later", "raw"}
TRIES_BY_WRITING = {  # what these commands return says whether there is a job
    "dispatcher/delete gone": {"lrem"},
    "dispatcher/forget gone": {"lrem"},
    "native/enqueue exists": {"hsetnx"},
    "native/repair gone": {"zrem"},
    "orizuru/ack gone": {"lrem"},
    "orizuru/reap empty": {"hdel", "ltrim"},  # it forgets when it saw a consumer
    "rq/enqueue exists": {"sadd"},
    "timeout_sets/purge empty": {"spop"},
    "timeout_sets/reap empty": {"zrem"},
}


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_a_script_that_changes_no_job_sends_no_command_that_writes(subject: Subject, client: Redis) -> None:
    writes = {name.decode() for name in client.execute_command("ACL", "CAT", "write")}
    found = {}
    for name, use in subject.uses.items():
        source = [*use.sources, *sorted(subject.scripts[name].sources), ""][0]
        for word in sorted(CHANGES_NO_JOB & {*use.reach}):
            prepared = PreparedScript.build(subject, client, name, source)
            request = use.reach[word](prepared.database)
            client.config_resetstat()
            try:
                reply = prepared.database.run(prepared.script, request)
            except RqtuiError:
                continue
            if {outcome.word for outcome in reply.each or [reply]} <= CHANGES_NO_JOB:
                sent = {command.removeprefix("cmdstat_") for command in client.info("commandstats")}
                found[f"{subject.name}/{name} {word}"] = sent & writes
    assert found
    assert {case: sent for case, sent in found.items() if sent} == {
        case: sent for case, sent in TRIES_BY_WRITING.items() if case in found
    }
