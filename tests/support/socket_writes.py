"""Record what redis-py writes to its sockets. Each write is one round trip."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.connection import AbstractConnection


@contextmanager
def record_socket_writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Record the socket writes of all Redis connections inside a `with` block."""
    writes: list[bytes] = []
    original = AbstractConnection.send_packed_command

    def record_command(self: Any, command: Any, check_health: bool = True) -> None:
        writes.append(command if isinstance(command, bytes) else b"".join(command))
        original(self, command, check_health)

    with monkeypatch.context() as patch:
        patch.setattr(AbstractConnection, "send_packed_command", record_command)
        yield writes
