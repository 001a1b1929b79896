"""The native system keeps what every system must keep: the conformance suite over all its scripts."""

from __future__ import annotations

import pytest
from native_subject import NATIVE
from redis import Redis

from rqtui.testing import conformance


@pytest.mark.parametrize("script", NATIVE.scripts)
def test_native(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(NATIVE, [script]), NATIVE, any_client)
