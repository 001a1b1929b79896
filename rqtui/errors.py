"""The exceptions that rqtui raises, as one class tree. The text of each is a sentence for a person.

RqtuiError                 base class; shown without a traceback unless --debug is given
├── UsageError             the request is wrong: unknown verb, bad duration, bad queue name
├── ScriptError            a Lua file contradicts its own header (the message names file and line)
├── ServerError            Redis returned an error, or no reply
│   ├── Unreachable        no connection: wrong host, refused, TLS, time-out before anything was sent
│   ├── Unknown            the reply to a change was lost: it may or may not have happened
│   ├── Elsewhere          another node of a Cluster has this key now: nothing was done
│   ├── NodeAway           one node of a Cluster does not answer, others do: nothing was done
│   ├── ReplicaOnly        the server is a read-only replica for now: nothing was done
│   ├── Denied             a password or an ACL rule refused the command
│   └── WrongType          a key of another program has one of rqtui's names
├── Refused                a script refused its arguments; nothing was written
├── ReadOnly               a change was requested while changes are off
├── CodecError             a body that the queue's codec cannot encode or decode
└── RecordingError         a recording that cannot be read or written
    └── RecordingBusy      another process writes the recording; a later try may succeed
"""

from __future__ import annotations

import logging


class RqtuiError(Exception):
    """The base class of all errors that rqtui raises. The text is a sentence that says what is wrong and what to do."""


def describe_error(error: Exception) -> str:
    """Return the sentence of an exception for a person.

    Any other class than RqtuiError is reported as a bug of rqtui.
    """
    if isinstance(error, RqtuiError):
        return str(error)
    return f"this should not happen: {type(error).__name__}: {error}."


def describe_and_log_error(error: Exception, log: logging.Logger) -> str:
    """Return the sentence of an exception for a person, and log the traceback if it is a bug of rqtui.

    For callers that continue after the error.
    """
    if not isinstance(error, RqtuiError):
        log.error("%s", error, exc_info=error)
    return describe_error(error)


class UsageError(RqtuiError):
    """The request itself is wrong (unknown verb, bad duration, bad queue name). Nothing was sent to Redis."""


class ScriptError(RqtuiError):
    """A Lua file violates the contract in `lua/README.md`; the text starts with `file:line:`."""


class ServerError(RqtuiError):
    """Redis replied with an error, or did not reply."""


class Unreachable(ServerError):
    """No connection to Redis could be opened, or it broke before a change was sent."""


class Unknown(ServerError):
    """The connection broke after a change was sent; whether the change happened is unknown."""


class Elsewhere(ServerError):
    """Another node of a Redis Cluster owns the requested key now.

    Nothing was done, and the call can be sent to that node.
    """


class NodeAway(ServerError):
    """The node of a Cluster that owns this key does not answer, while others do; nothing was done."""


class Denied(ServerError):
    """Authentication failed, or an ACL rule refused the command."""


class ReplicaOnly(ServerError):
    """The server is a read-only replica; nothing was done. A failover ends this state, so a retry may succeed."""


class WrongType(ServerError):
    """A Redis key with one of rqtui's names has another type; nothing was changed. `key` is its name, if known."""

    key = ""


class Refused(RqtuiError):
    """A Lua script refused an argument before its first write, so nothing was changed."""


class ReadOnly(RqtuiError):
    """A change was requested while rqtui runs read-only."""


class CodecError(RqtuiError):
    """The body of a job cannot be encoded or decoded by the codec of its queue."""


class RecordingError(RqtuiError):
    """A recording (`docs/recording.md`) cannot be read or written: it is damaged, foreign, or its disk is full."""


class RecordingBusy(RecordingError):
    """Another process held the lock of a recording for too long. A later try may succeed."""
