"""What the error replies of a script mean, in the wording of each server."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from rqtui.connection.redis_errors.error_replies import build_reply_error
from rqtui.errors import Denied

SHA = "0123456789" * 4
SOURCE = "-- header\nlocal page = redis.call('SCAN', ARGV[1])\nreturn page"


@pytest.mark.parametrize(
    "said",
    [
        f"Unknown Redis command called from script script: {SHA}, on @user_script:2.",
        "Unknown command called from script script: on @user_script:2.",
        f"Error running script (call to f_{SHA}): @user_script:2: @user_script: 2: "
        "Unknown Redis command called from Lua script ",
    ],
    ids=["redis", "valkey", "redis62"],
)
def test_a_command_that_the_server_does_not_know_is_named(said: str) -> None:
    error = build_reply_error(ResponseError(said), "walk", "lua/shared/walk.lua", SOURCE, is_read=True)
    assert isinstance(error, Denied)
    assert str(error).startswith("this Redis does not know SCAN: the command was disabled or renamed there")


@pytest.mark.parametrize(
    ("said", "position"),
    [
        ("Error compiling script (new function): user_script:2: '=' expected near 'x'", "lua/shared/walk.lua:2"),
        ("Error compiling script (new function): too many local variables", "lua/shared/walk.lua:1"),
    ],
)
def test_a_script_that_cannot_be_compiled_is_reported_with_its_line_or_its_first(said: str, position: str) -> None:
    error = build_reply_error(ResponseError(said), "walk", "lua/shared/walk.lua", SOURCE)
    assert str(error).startswith(f"{position}: Error compiling script (new function): ")
