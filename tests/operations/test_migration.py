"""How a migration reads the outcomes of its steps."""

from __future__ import annotations

import pytest
from families import run_in_one_test

from rqtui.errors import Refused, RqtuiError, Unknown
from rqtui.model import Outcome
from rqtui.operations.migration import _raise_if_lost


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
