"""What redis-py writes to its sockets: one entry per write, which is one round trip."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.connection import AbstractConnection


@contextmanager
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The writes of all connections inside the block."""
    writes: list[bytes] = []
    original = AbstractConnection.send_packed_command

    def noted(self: Any, command: Any, check_health: bool = True) -> None:
        writes.append(command if isinstance(command, bytes) else b"".join(command))
        original(self, command, check_health)

    with monkeypatch.context() as patch:
        patch.setattr(AbstractConnection, "send_packed_command", noted)
        yield writes
