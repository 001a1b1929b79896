"""How a migration reads the outcomes of its steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from families import run_in_one_test

from rqtui.errors import Refused, RqtuiError, Unknown
from rqtui.model import Job, MigrationTerms, Outcome, Ref, State
from rqtui.operations.migration import Migration, _raise_if_lost


@run_in_one_test(
    "word, error", [("moved", None), ("gone", None), ("error", Refused), ("unknown", Unknown), ("not sent", Unknown)]
)
def test_an_outcome_that_redis_did_not_reply_ends_the_migration(word: str, error: type[RqtuiError] | None) -> None:
    outcome = Outcome("delete", b"a", word, "the words of the reply")
    if error is None:
        assert _raise_if_lost(outcome) is outcome
    else:
        with pytest.raises(error, match="the words of the reply"):
            _raise_if_lost(outcome)


BEGAN_MS, DEAD_TTL_MS = 900_000, 60_000
FORGOTTEN = "native:mail forgets what died so long ago (its setting dead_ttl_ms)"


@pytest.mark.parametrize(
    ("priority", "state", "since_ms", "losses"),
    [
        (-4096, State.DEAD, BEGAN_MS - DEAD_TTL_MS, []),
        (4095, State.DEAD, BEGAN_MS - DEAD_TTL_MS - 1, [FORGOTTEN]),
        (4095, State.READY, 0, []),
        (4095, State.DEAD, None, []),
        (4096, State.READY, None, ["its priority 4096 is outside of -4096 to 4095"]),
        (-4097, State.READY, None, ["its priority -4097 is outside of -4096 to 4095"]),
    ],
)
def test_a_job_loses_a_priority_outside_of_the_range_and_a_death_too_long_ago(
    priority: int, state: State, since_ms: int | None, losses: list[str]
) -> None:
    migration: Any = SimpleNamespace(target="native:mail", _began_ms=BEGAN_MS, _fetch_dead_ttl_ms=lambda: DEAD_TTL_MS)
    job = Job(b"a", "mail", "rq", "", state, b"", priority=priority, since_ms=since_ms)
    found = Migration._find_migration_losses(migration, job, MigrationTerms(losses=("it would start late",)))
    assert found == ["it would start late", *losses]


def test_the_name_of_the_target_is_registered_once_after_its_first_copies() -> None:
    calls: list[str] = []
    migration: Any = SimpleNamespace(
        target=Ref("native", "new"),
        engine=SimpleNamespace(
            send_request=lambda _request: calls.append("restore") or ["moved"],
            register_queue=lambda ref: calls.append(f"register {ref}"),
        ),
        _target_system=SimpleNamespace(build_call=lambda *_args: None),
        _is_registered=False,
    )
    for _ in range(2):
        assert Migration._put_copies(migration, (), 0) == ["moved"]
    assert calls == ["restore", "register native:new", "restore"]
