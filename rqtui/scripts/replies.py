"""Errors that Redis sends in place of an answer, as our own errors with a sentence for a person.

`scripts` is the only caller. The texts of Redis 6.2, 7 and Valkey 9 differ, and redis-py cuts some codes off;
everything that knows such a text stands here. Looking up which key has the wrong type needs a connection and
stays in `scripts`; this module makes the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from redis import exceptions

from rqtui.errors import (
    Denied,
    Elsewhere,
    Refused,
    RqtuiError,
    ScriptError,
    ServerError,
    Unknown,
    Unreachable,
    WrongType,
)
from rqtui.scripts import acl_denials
from rqtui.text.names import to_text

# " script: 09d7…, on @user_script:3." (Redis 7), " script: on @user_script:3." (Valkey): Redis adds it where a
# command failed inside a script; what a script returns as an error has no such end.
_AT_LINE = re.compile(r"\s*script: (?:[0-9a-f]{40}, )?on @?user_script:(?P<line>\d+)\.?$")
_IN_SCRIPT = re.compile(
    r"^Error running script \(call to f_[0-9a-f]{40}\): @user_script:\s*(?P<line>\d+|\?):\s*(?P<rest>.*)", re.DOTALL
)
_NO_SCRIPTS = re.compile(r"unknown command ['`](eval\w*)", re.IGNORECASE)
_NOTHING_CHANGED = "; nothing was changed"
_HIDDEN = "the command was disabled or renamed there (rename-command)"
_LUA_LINE = re.compile(r"^(?:@?user_script|\[string \"[^\"]*\"\]):\s*(?P<line>\d+): ")


def from_connecting(error: Exception) -> RqtuiError:
    """What went wrong before anything was sent."""
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError | exceptions.NoPermissionError):
        return Denied(f"Redis refused the log-in: {_text(error)} Check user and password in the URL.")
    if isinstance(error, exceptions.BusyLoadingError):
        return Unreachable("Redis is still loading its data; nothing was sent. Try again in a moment.")
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return Unreachable(f"no connection to Redis: {_text(error)} Nothing was sent.")
    return ServerError(f"Redis refused the connection: {_text(error)} Nothing was sent.")


def from_lost_reply(error: Exception, script: str, may_have_run: bool, is_look: bool = False) -> RqtuiError:
    """The connection broke before a reply came; `may_have_run` when a change had been handed over by then.

    `is_look`: a script that only reads, see `from_reply`.
    """
    if "max number of clients" in str(error):
        return Unreachable("Redis has as many clients as it allows (maxclients); nothing was done.")
    if may_have_run and isinstance(error, exceptions.InvalidResponse):
        # fakeredis writes the error of a script with line breaks in it, which ends the protocol
        return ServerError(f"{script}: it failed, and how cannot be read: {_text(error)} Look first what it did.")
    if may_have_run:
        return Unknown(f"{script}: its reply was lost: {_text(error)} Whether it happened is not known; look first.")
    if is_look:
        return Unreachable(f"the connection to Redis broke: {_text(error)}")
    return Unreachable(f"{script}: the connection to Redis broke: {_text(error)} Nothing was changed.")


def from_reply(error: Exception, script: str, path: str, source: str = "", is_look: bool = False) -> RqtuiError:
    """An error that Redis, or the script itself, answered. WrongType is returned without the key.

    `is_look`: a script that only reads. Its name tells a person nothing, and that nothing was changed is no news.
    """
    told, nothing = ("", "") if is_look else (f"{script}: ", _NOTHING_CHANGED)
    code, text, line = _parts(error)
    if "can't run this command" in text or "ACL failure in script" in text:
        return Denied(f"{told}an ACL rule denies a command that it needs: {text}")
    if "Unknown Redis command called from script" in text:
        names = " or ".join(acl_denials.called_in_line(str(error), source)) or f"what line {line} of {path} calls"
        return Denied(f"{told}this Redis does not know {names.upper()}: {_HIDDEN}{nothing}.")
    if found := _NO_SCRIPTS.match(text):
        return Denied(f"{told}this Redis does not know {found[1].upper()}, without which rqtui cannot work: {_HIDDEN}.")
    if "not allowed from read-only scripts" in text:
        return ScriptError(f"{path}:{line or 1}: it writes, but its header has neither moves nor forgets nor writes")
    if code in _BY_CODE:
        return _BY_CODE[code](told, text)
    if text.startswith("Error compiling script") or "error loading code" in text:
        return ScriptError(f"{path}:{_lua_line(text)}: {text}")
    if line is not None:
        return ServerError(f"{script} failed in line {line} of {path}: {text}")
    return Refused(text)


def wrong_type(key: bytes | None, found: str = "", expected: str = "", is_look: bool = False) -> WrongType:
    """The sentence about a key of another program; without a key where TYPE could not be asked."""
    nothing = "" if is_look else ". Nothing was changed."
    if key is None:
        return WrongType(f"one of its keys is of another type: another program uses this name{nothing}")
    name = key.decode("utf-8", "backslashreplace")
    error = WrongType(f"key {name} holds a {found}, not a {expected}: another program uses this name{nothing}")
    error.key = to_text(key)
    return error


def _denied(told: str, text: str) -> RqtuiError:
    return Denied(f"{told}Redis denies it: {_sentence(text)}")


def _out_of_memory(told: str, text: str) -> RqtuiError:
    return ServerError(
        f"{told}Redis is over its maxmemory and refuses what needs more; nothing was changed. "
        "Let workers drain the queue, or raise maxmemory."
    )


def _loading(told: str, text: str) -> RqtuiError:
    return Unreachable(f"{told}Redis is still loading its data; nothing was done. Try again in a moment.")


def _busy(told: str, text: str) -> RqtuiError:
    return ServerError(f"{told}Redis is busy with another script (BUSY); nothing was done. Try again in a moment.")


def _master_down(told: str, text: str) -> RqtuiError:
    return ServerError(
        f"{told}this Redis is a replica that has lost its primary, and answers nothing until it is back "
        "(MASTERDOWN); nothing was done."
    )


def _elsewhere(told: str, text: str) -> RqtuiError:
    return Elsewhere(
        f"{told}this is one node of a Cluster, and another has the queue; nothing was done. "
        "Write redis+cluster://HOST:PORT to reach all of it."
    )


def _moving(told: str, text: str) -> RqtuiError:
    """ASK, TRYAGAIN: a script runs on neither node while its keys are on their way, so there is nothing to follow."""
    return ServerError(
        f"{told}the slot of the queue is on its way to another node of the Cluster; nothing was done. "
        "Try again in a moment."
    )


def _cluster_down(told: str, text: str) -> RqtuiError:
    return ServerError(f"{told}the Cluster is down, a node that has slots is missing (CLUSTERDOWN); nothing was done.")


def _crossing(told: str, text: str) -> RqtuiError:
    return ServerError(f"{told}its keys lie in different slots, so it cannot run on a Cluster; nothing was done.")


def _server(told: str, text: str) -> RqtuiError:
    return ServerError(f"{told}Redis refuses it for now: {_sentence(text)}")


_BY_CODE: Mapping[str, Callable[[str, str], RqtuiError]] = {
    "WRONGTYPE": lambda told, text: wrong_type(None, is_look=not told),
    "NOPERM": _denied,
    "NOAUTH": _denied,
    "WRONGPASS": _denied,
    "READONLY": _denied,
    "OOM": _out_of_memory,
    "LOADING": _loading,
    "BUSY": _busy,
    "MISCONF": _server,
    "NOREPLICAS": _server,
    "MASTERDOWN": _master_down,
    "CLUSTERDOWN": _cluster_down,
    "CROSSSLOT": _crossing,
    "MOVED": _elsewhere,
    "ASK": _moving,
    "TRYAGAIN": _moving,
    "NOSCRIPT": _server,
}
_CODE_OF_CLASS = {  # redis-py 8 also keeps the code in `status_code`; older ones cut it off and leave the class
    exceptions.NoPermissionError: "NOPERM",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.BusyLoadingError: "LOADING",
    exceptions.AuthenticationError: "NOAUTH",
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.MovedError: "MOVED",
    exceptions.AskError: "ASK",
    exceptions.TryAgainError: "TRYAGAIN",
    exceptions.ClusterCrossSlotError: "CROSSSLOT",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.ClusterDownError: "CLUSTERDOWN",
}


def _parts(error: Exception) -> tuple[str, str, str | None]:
    """(code, text without code and marks, line of the script where a command in it failed)."""
    text, line = str(error), None
    if match := _AT_LINE.search(text):
        text, line = text[: match.start()], match["line"]
    elif match := _IN_SCRIPT.match(text):
        text, line = match["rest"], match["line"]
    if match := _LUA_LINE.match(text):
        text, line = text[match.end() :], match["line"]
    code = _CODE_OF_CLASS.get(type(error), "")
    first, _, rest = text.partition(" ")
    if not code and first.removeprefix("-") in _BY_CODE:  # Redis 6.2 leaves the sign of an error in front: -OOM
        code, text = first.removeprefix("-"), rest
    return code, text.partition("\nstack traceback:")[0].removeprefix("ERR "), line


def _lua_line(text: str) -> str:
    match = re.search(r"(?:user_script|\]):(\d+):", text)
    return match[1] if match else "1"


def _text(error: Exception) -> str:
    return _sentence(str(error) or type(error).__name__)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."
