"""The native layout keeps what every layout must keep: the conformance suite over all its scripts."""

from __future__ import annotations

import conformance
import pytest
from native_subject import NATIVE
from redis import Redis


@pytest.mark.parametrize("case", conformance.cases(NATIVE), ids=str)
def test_native(case: conformance.Case, any_client: Redis) -> None:
    missing = case.needs - conformance.features(any_client)
    if missing:
        pytest.skip(f"this server has no {' and no '.join(sorted(missing))}")
    case.run(NATIVE, any_client)
