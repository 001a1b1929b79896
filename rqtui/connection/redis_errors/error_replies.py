"""Convert the error replies of Redis to rqtui's errors, each with a sentence for a person.

Called only by `scripts`. The texts of Redis 6.2, 7 and Valkey 9 differ, and redis-py removes some error codes; all code
that depends on such a text is here. Finding the key that has the wrong type needs a connection, so that is done in
`scripts`; this module builds the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from redis import exceptions

from rqtui.connection.redis_errors import acl_denials
from rqtui.errors import (
    Denied,
    Elsewhere,
    Refused,
    ReplicaOnly,
    RqtuiError,
    ScriptError,
    ServerError,
    Unknown,
    Unreachable,
    WrongType,
)
from rqtui.text.names import to_text
from rqtui.text.source_lines import find_source_position

# Redis adds " script: 09d7…, on @user_script:3." (Redis 7) or " script: on @user_script:3." (Valkey) if a command
# failed inside a script. An error that a script returns itself has no such end.
_AT_LINE = re.compile(r"\s*script: (?:[0-9a-f]{40}, )?on @?user_script:(?P<line>\d+)\.?$")
_IN_SCRIPT = re.compile(
    r"^Error running script \(call to f_[0-9a-f]{40}\): @user_script:\s*(?P<line>\d+|\?):\s*(?P<rest>.*)", re.DOTALL
)
_NO_SCRIPTS = re.compile(r"unknown command ['`](eval\w*)", re.IGNORECASE)
_UNKNOWN_COMMAND = re.compile(r"Unknown (?:Redis )?command called from (?:Lua )?script")  # Valkey, Redis 7, Redis 6.2
_NOTHING_CHANGED = "; nothing was changed"
_HIDDEN = "the command was disabled or renamed there (rename-command)"
_LUA_LINE = re.compile(r"@?(?:user_script|\[string \"[^\"]*\"\]):\s*(?P<line>\d+): ?")


def build_connection_error(error: Exception) -> RqtuiError:
    """Build the error for a failure to connect to Redis, before anything was sent."""
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError | exceptions.NoPermissionError):
        return Denied(f"Redis refused the log-in: {_format_error_sentence(error)} Check user and password in the URL.")
    if isinstance(error, exceptions.BusyLoadingError):
        return Unreachable("Redis is still loading its data; nothing was sent. Try again in a moment.")
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return Unreachable(f"no connection to Redis: {_format_error_sentence(error)} Nothing was sent.")
    return ServerError(f"Redis refused the connection: {_format_error_sentence(error)} Nothing was sent.")


def build_lost_reply_error(error: Exception, script: str, may_have_run: bool, is_read: bool = False) -> RqtuiError:
    """Build the error for a connection to Redis that broke before the reply arrived.

    `may_have_run`: a change had been sent by then. `is_read`: the script only reads, see `build_reply_error`.
    """
    if "max number of clients" in str(error):
        return Unreachable("Redis has as many clients as it allows (maxclients); nothing was done.")
    if may_have_run and isinstance(error, exceptions.InvalidResponse):
        # fakeredis writes the error of a script with its line breaks, which is not valid in the protocol.
        return ServerError(
            f"{script}: it failed with an error that cannot be read: {_format_error_sentence(error)} "
            "Check first what it changed."
        )
    if may_have_run:
        reason = _format_error_sentence(error)
        return Unknown(
            f"{script}: its reply was lost: {reason} It is unknown whether the change happened; check first."
        )
    if is_read:
        return Unreachable(f"the connection to Redis broke: {_format_error_sentence(error)}")
    return Unreachable(f"{script}: the connection to Redis broke: {_format_error_sentence(error)} Nothing was changed.")


def build_reply_error(error: Exception, script: str, path: str, source: str = "", is_read: bool = False) -> RqtuiError:
    """Build the error for an error reply of Redis, or of the script itself. WrongType is returned without its key.

    `source` is the text that Redis has, which names the files of its lines (`text/source_lines.py`). `is_read`: the
    script only reads. Then the text does not name the script, and does not say that nothing was changed.
    """
    prefix, unchanged = ("", "") if is_read else (f"{script}: ", _NOTHING_CHANGED)
    code, text, line = _split_error_reply(error)
    if "can't run this command" in text or "ACL failure in script" in text:
        return Denied(f"{prefix}an ACL rule denies a command that it needs: {text}")
    if _UNKNOWN_COMMAND.search(text):
        names = (
            " or ".join(acl_denials.find_called_commands(str(error), source))
            or f"what {_find_script_position(line, path, source)} calls"
        )
        return Denied(f"{prefix}this Redis does not know {names.upper()}: {_HIDDEN}{unchanged}.")
    if missing := _NO_SCRIPTS.match(text):
        return Denied(
            f"{prefix}this Redis does not know {missing[1].upper()}, without which rqtui cannot work: {_HIDDEN}."
        )
    if "not allowed from read-only scripts" in text:
        position = _find_script_position(line, path, source)
        return ScriptError(f"{position}: it writes, but its header has neither moves nor forgets nor writes")
    if code in _BY_CODE:
        return _BY_CODE[code](prefix, text)
    if text.startswith("Error compiling script") or "error loading code" in text:
        line_match = _LUA_LINE.search(text)
        return ScriptError(
            f"{_find_script_position(line_match and line_match['line'], path, source)}: {_LUA_LINE.sub('', text)}"
        )
    if line is not None:
        return ServerError(f"{script} failed at {_find_script_position(line, path, source)}: {text}")
    return Refused(text)


def build_wrong_type_error(key: bytes | None, actual: str = "", expected: str = "", is_read: bool = False) -> WrongType:
    """Build the error for a key of another type, which another program uses. `key` is None if it is unknown."""
    nothing = "" if is_read else ". Nothing was changed."
    if key is None:
        return WrongType(f"one of its keys is of another type: another program uses this name{nothing}")
    name = key.decode("utf-8", "backslashreplace")
    error = WrongType(f"key {name} holds a {actual}, not a {expected}: another program uses this name{nothing}")
    error.key = to_text(key)
    return error


def _build_denied_error(prefix: str, text: str) -> RqtuiError:
    return Denied(f"{prefix}Redis denies it: {_add_full_stop(text)}")


def _build_memory_error(prefix: str, text: str) -> RqtuiError:
    return ServerError(
        f"{prefix}Redis is over its maxmemory and refuses what needs more; nothing was changed. "
        "Let workers drain the queue, or raise maxmemory."
    )


def _build_loading_error(prefix: str, text: str) -> RqtuiError:
    return Unreachable(f"{prefix}Redis is still loading its data; nothing was done. Try again in a moment.")


def _build_busy_error(prefix: str, text: str) -> RqtuiError:
    return ServerError(f"{prefix}Redis is busy with another script (BUSY); nothing was done. Try again in a moment.")


def _build_read_only_error(prefix: str, text: str) -> RqtuiError:
    return ReplicaOnly(
        f"{prefix}this Redis is a read-only replica and refuses changes until it becomes a primary (READONLY); "
        "nothing was done. Connect to the primary."
    )


def _build_master_down_error(prefix: str, text: str) -> RqtuiError:
    return ServerError(
        f"{prefix}this Redis is a replica that has lost its primary, and answers nothing until it is back "
        "(MASTERDOWN); nothing was done."
    )


def _build_moved_error(prefix: str, text: str) -> RqtuiError:
    return Elsewhere(
        f"{prefix}this is one node of a Cluster, and another has the queue; nothing was done. "
        "Write redis+cluster://HOST:PORT to reach all of it."
    )


def _build_slot_moving_error(prefix: str, text: str) -> RqtuiError:
    """Build the error for the replies ASK and TRYAGAIN of a Cluster, which mean that a slot is moving.

    While a slot moves, a script runs on neither of the two nodes, so no redirection can be followed.
    """
    return ServerError(
        f"{prefix}the slot of the queue is on its way to another node of the Cluster; nothing was done. "
        "Try again in a moment."
    )


def _build_cluster_down_error(prefix: str, text: str) -> RqtuiError:
    return ServerError(
        f"{prefix}the Cluster is down, a node that has slots is missing (CLUSTERDOWN); nothing was done."
    )


def _build_cross_slot_error(prefix: str, text: str) -> RqtuiError:
    return ServerError(f"{prefix}its keys lie in different slots, so it cannot run on a Cluster; nothing was done.")


def _build_temporary_error(prefix: str, text: str) -> RqtuiError:
    return ServerError(f"{prefix}Redis refuses it for now: {_add_full_stop(text)}")


_BY_CODE: Mapping[str, Callable[[str, str], RqtuiError]] = {
    "WRONGTYPE": lambda prefix, text: build_wrong_type_error(None, is_read=not prefix),
    "NOPERM": _build_denied_error,
    "NOAUTH": _build_denied_error,
    "WRONGPASS": _build_denied_error,
    "READONLY": _build_read_only_error,
    "OOM": _build_memory_error,
    "LOADING": _build_loading_error,
    "BUSY": _build_busy_error,
    "MISCONF": _build_temporary_error,
    "NOREPLICAS": _build_temporary_error,
    "MASTERDOWN": _build_master_down_error,
    "CLUSTERDOWN": _build_cluster_down_error,
    "CROSSSLOT": _build_cross_slot_error,
    "MOVED": _build_moved_error,
    "ASK": _build_slot_moving_error,
    "TRYAGAIN": _build_slot_moving_error,
    "NOSCRIPT": _build_temporary_error,
}
_CODE_OF_CLASS = {  # redis-py 8 also has the code in `status_code`; older versions remove it and leave only the class.
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


def _split_error_reply(error: Exception) -> tuple[str, str, str | None]:
    """Split an error reply into its code, its text, and the line of the script in which a command failed."""
    text, line = str(error), None
    if match := _AT_LINE.search(text):
        text, line = text[: match.start()], match["line"]
    elif match := _IN_SCRIPT.match(text):
        text, line = match["rest"], match["line"]
    if match := _LUA_LINE.match(text):
        text, line = text[match.end() :], match["line"]
    code = _CODE_OF_CLASS.get(type(error), "")
    first_word, _, rest_of_text = text.partition(" ")
    if not code and first_word.removeprefix("-") in _BY_CODE:  # Redis 6.2 leaves the protocol's sign in the text: -OOM.
        code, text = first_word.removeprefix("-"), rest_of_text
    return code, text.partition("\nstack traceback:")[0].removeprefix("ERR "), line


def _find_script_position(line: str | None, path: str, source: str) -> str:
    """Return the `FILE:LINE` of a script's line in an error reply.

    An unknown line becomes the first line of the script.
    """
    return find_source_position(source, path, int(line) if line and line.isdigit() else 1)


def _format_error_sentence(error: Exception) -> str:
    return _add_full_stop(str(error) or type(error).__name__)


def _add_full_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."
