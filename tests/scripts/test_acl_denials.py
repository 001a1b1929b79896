"""Test which missing right is named when an ACL refuses a command, for the words of each server."""

from __future__ import annotations

import pytest

from rqtui.connection.redis_errors.acl_denials import HINT, add_missing_right
from rqtui.errors import Denied

SOURCE = (
    "-- header\nredis.call('ZCARD', KEYS[1])\nnote('XADD', x) redis.call('UNLINK', y) redis.call('UNLINK', z)\nreturn 1"
)
KEYS = ["a", b"b", "a", b"\xff", "d", "e"]


@pytest.mark.parametrize(
    ("said", "keys", "lacks"),
    [
        ("this user has no permissions to run the 'unlink' command", KEYS, "+unlink"),
        ("can't run this command or subcommand script: 0f, on @user_script:3.", KEYS, "+xadd or +unlink"),
        ("can't run this command or subcommand script: 0f, on @user_script:2.", KEYS, "+zcard"),
        ("can't run this command or subcommand script: 0f, on @user_script:1.", KEYS, ""),
        ("can't run this command or subcommand script: 0f, on @user_script:4.", KEYS, ""),
        ("can't run this command or subcommand script: 0f, on @user_script:5.", KEYS, ""),
        ("can't run this command or subcommand script: 0f, on @user_script:0.", KEYS, ""),
        ("this user has no permissions to access one of the keys used as arguments", ["a", b"b"], "one of ~a ~b"),
        ("can't access at least one of the keys mentioned in the command", ["a", "a"], "one of ~a"),
        ("this user has no permissions to access one of the keys", KEYS, "one of ~a ~b ~\\xff (and 2 more)"),
        ("this user has no permissions to access one of the keys", [], ""),
        # Redis from 7.2 on, and Valkey
        ("User ann has no permissions to run the 'client|list' command", KEYS, "+client|list"),
        ("ACL failure in script: User ann has no permissions to run the 'get' command", KEYS, "+get"),
        ("ACL failure in script: No permissions to access a key script: 0f, on @user_script:1.", ["a"], "one of ~a"),
        ("User ann has no permissions to access the 'a' key", ["a"], "one of ~a"),
        # neither a channel nor a database is a key
        ("this user has no permissions to access one of the channels used as arguments", KEYS, ""),
        ("ACL failure in script: No permissions to access a channel script: 0f, on @user_script:1.", KEYS, ""),
        ("User ann has no permissions to access the 'a' channel", KEYS, ""),
        ("No permissions to access database", KEYS, ""),
        ("User ann has no permissions to access database 3", KEYS, ""),
        ("it is about something else", KEYS, ""),
    ],
)
def test_the_right_that_is_missing_is_named(said: str, keys: list[bytes | str], lacks: str) -> None:
    for text in ("it was denied", "it was denied."):
        error = Denied(text)
        result = add_missing_right(error, said, SOURCE, keys)
        if lacks:
            assert str(result) == f"it was denied. The user lacks {lacks}; {HINT}"
        else:
            assert result is error
