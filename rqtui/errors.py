"""Everything rqtui raises, in one tree.

RqtuiError                 a sentence for a person; never a traceback without --debug
├── UsageError             the request itself is wrong: unknown verb, bad duration, bad queue name
├── ScriptError            a Lua file breaks its own header (file and line are in the message)
├── ServerError            what Redis said or did not say
│   ├── Unreachable        no connection: wrong host, refused, TLS, time-out before anything was sent
│   ├── Unknown            the reply to a change was lost: it may or may not have happened
│   ├── Elsewhere          another node of a Cluster has this key now: nothing was done
│   ├── NodeAway           one node of a Cluster does not answer, others do: nothing was done
│   ├── Denied             password, ACL or a read-only replica
│   └── WrongType          a key of another program stands under one of our names
├── Refused                a script refused its arguments; nothing was written
├── ReadOnly               a change was asked for while changes are off
└── CodecError             a body that the queue's codec cannot encode or decode
"""

from __future__ import annotations

import logging


class RqtuiError(Exception):
    """The root: its text is a full sentence that names the thing, what was expected and what to do."""


def told(error: Exception) -> str:
    """An error as a sentence; one that is not of ours is a fault in rqtui, and says which."""
    if isinstance(error, RqtuiError):
        return str(error)
    return f"this should not happen: {type(error).__name__}: {error}."


def reason(error: Exception, log: logging.Logger) -> str:
    """The same, for whoever goes on without what failed: a fault of ours is in the log, with where it happened."""
    if not isinstance(error, RqtuiError):
        log.error("%s", error, exc_info=error)
    return told(error)


class UsageError(RqtuiError):
    """The request itself is wrong; nothing was sent to Redis."""


class ScriptError(RqtuiError):
    """A Lua file breaks the contract in `lua/README.md`; the text starts with `file:line:`."""


class ServerError(RqtuiError):
    """Redis answered with an error, or did not answer."""


class Unreachable(ServerError):
    """No connection could be made, or it broke before a change was sent."""


class Unknown(ServerError):
    """The connection broke after a change was sent: whether it happened is not known."""


class Elsewhere(ServerError):
    """Another node of a Cluster has this key now; nothing was done."""


class NodeAway(ServerError):
    """The node of a Cluster that has this key does not answer, while others do; nothing was done."""


class Denied(ServerError):
    """Authentication, an ACL rule or a read-only replica refused the command."""


class WrongType(ServerError):
    """A key under one of our names holds another type; nothing was changed. `key` is its name, where it is known."""

    key = ""


class Refused(RqtuiError):
    """A script refused an argument before its first write."""


class ReadOnly(RqtuiError):
    """A change was asked for while this session is read-only."""


class CodecError(RqtuiError):
    """A body does not fit the queue's codec."""
