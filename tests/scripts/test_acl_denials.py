"""What a refusal of an ACL is told as: the right that the user lacks, by what each server says."""

from __future__ import annotations

import pytest

from rqtui.errors import Denied
from rqtui.scripts.acl_denials import HINT, named

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
        ("it is about something else", KEYS, ""),
    ],
)
def test_the_right_that_is_missing_is_named(said: str, keys: list[bytes | str], lacks: str) -> None:
    for text in ("it was denied", "it was denied."):
        error = Denied(text)
        told = named(error, said, SOURCE, keys)
        if lacks:
            assert str(told) == f"it was denied. The user lacks {lacks}; {HINT}"
        else:
            assert told is error
