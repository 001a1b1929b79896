"""Ear: a connection that listens to channels, on a thread of its own, and keeps what it hears until somebody takes it.

A link that is lost is made again, after 1 1 2 3 5 8 13 s; for how long nobody could hear is told, counted from the last
sign of life. What comes faster than it is taken is dropped, the oldest first, and counted. It sends PSUBSCRIBE and PING
and nothing else. It knows no layout: `engine/listening.py` hands on what it hears.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from redis.exceptions import NoPermissionError, RedisError, ResponseError

from rqtui.connection.connect import connect_like
from rqtui.connection.error_messages import describe
from rqtui.connection.meter import Meter
from rqtui.connection.nodes import is_cluster
from rqtui.durations import backoff_s
from rqtui.errors import reason
from rqtui.text.names import to_bytes

log = logging.getLogger("rqtui.connection.ear")

MOST = 50_000  # messages that wait to be taken
MOST_BYTES = 32 * 1024 * 1024  # of them
LONGEST = 256 * 1024  # bytes of a message; of a longer one its beginning is kept
PING_S = 10.0  # of silence, after which the server is asked whether it is there
LOOK_S = 1.0  # how soon another pattern is listened to
REFUSED_S = 60.0  # between two tries where the server refuses a pattern: a right may be given later
_PING = b""


class Message(NamedTuple):
    """What came on a channel, by which pattern it was heard, and when (seconds by `time.monotonic`)."""

    pattern: bytes
    channel: bytes
    data: bytes
    at_s: float


class Heard(NamedTuple):
    """What is known of one pattern: since when it is listened to (`time.monotonic`; None: never yet), for how many
    seconds since then nobody could hear, and why it cannot be heard now; empty: it can."""

    since_s: float | None = None
    missed_s: float = 0.0
    problem: str = ""


@dataclass(slots=True)
class _Pattern:
    """`lost_s`: since when nobody hears it; None: it is heard, or never was."""

    since_s: float | None = None
    lost_s: float | None = None
    missed_s: float = 0.0
    problem: str = ""

    def heard(self, now_s: float) -> None:
        """It is listened to, from now on."""
        self.since_s = now_s if self.since_s is None else self.since_s
        self.missed_s += now_s - self.lost_s if self.lost_s is not None else 0.0
        self.lost_s, self.problem = None, ""

    def lost(self, at_s: float, problem: str) -> None:
        """It is not listened to any more."""
        self.problem = problem
        if self.since_s is not None and self.lost_s is None:
            self.lost_s = at_s


class Ear:
    """Listens at the server behind `client`, over a connection of its own, from the first `listen` until `close`.

    All methods may be called from any thread.
    """

    def __init__(self, client: Any) -> None:
        self._theirs = client
        self._lock = threading.Lock()
        self._patterns: dict[bytes, _Pattern] = {}
        self._messages: deque[Message] = deque()
        self._bytes = self._dropped = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection: Any = None
        self._alive_s = 0.0  # the last sign of life of the server

    @property
    def dropped(self) -> int:
        """How many messages were dropped, ever."""
        return self._dropped

    def listen(self, patterns: Iterable[str]) -> None:
        """Listens to these patterns, too. Returns at once; `heard` tells since when."""
        with self._lock:
            for pattern in patterns:
                self._patterns.setdefault(to_bytes(pattern), _Pattern())
            if self._thread is None and self._patterns and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="rqtui-ear", daemon=True)
                self._thread.start()

    def heard(self, pattern: str) -> Heard:
        """What is known of a pattern."""
        with self._lock:
            known = self._patterns.get(to_bytes(pattern)) or _Pattern()
            away_s = time.monotonic() - known.lost_s if known.lost_s is not None else 0.0
            return Heard(known.since_s, known.missed_s + away_s, known.problem)

    def take(self) -> list[Message]:
        """All that came since the last call, in the order in which it came."""
        with self._lock:
            taken, self._messages, self._bytes = [*self._messages], deque(), 0
        return taken

    def close(self, timeout_s: float = 2.0) -> None:
        """Ends the thread and its connection."""
        self._stop.set()
        with self._lock:
            thread, connection = self._thread, self._connection
        if (sock := getattr(connection, "_sock", None)) is not None:  # wakes the thread; it closes the connection
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if thread is not None:
            thread.join(timeout_s)

    # -- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        with connect_like(self._theirs) as client:
            while not self._stop.is_set():
                try:
                    for _sign_of_life in self._listening(client):
                        failures = 0
                except Exception as error:
                    is_known = isinstance(error, RedisError | OSError)
                    words = describe(error) if is_known else reason(error, log)
                    if not self._stop.is_set():
                        log.info("the ear lost its link: %s", words)
                        self._lost(words)
                self._stop.wait(backoff_s(failures))
                failures += 1

    def _listening(self, client: Any) -> Iterator[None]:
        """Listens over one connection until that is lost, which raises; a step for each sign of life."""
        pool = (client.live() if is_cluster(client) else client).connection_pool
        connection = pool.get_connection()
        connection.meter = Meter()  # messages are no commands, and nobody waits for them
        self._connection = connection
        asked: deque[bytes] = deque()  # whose answers have not come: patterns, empty for a PING
        tried: dict[bytes, float] = {}
        self._alive_s = asked_s = time.monotonic()
        limit_s, look_s = connection.socket_timeout or 5.0, 0.0
        try:
            while not self._stop.is_set():
                now_s = time.monotonic()
                if now_s >= look_s:
                    look_s = now_s + LOOK_S
                    due = self._unheard(tried, now_s)
                    if not due and not asked and now_s - self._alive_s > PING_S:
                        due = [_PING]
                    for pattern in due:
                        asked_s = now_s if not asked else asked_s
                        words = ("PSUBSCRIBE", pattern) if pattern else ("PING",)
                        connection.send_command(*words, check_health=False)
                        asked.append(pattern)
                        tried[pattern] = now_s
                if connection.can_read(timeout=LOOK_S):
                    try:
                        told = connection.read_response(disconnect_on_error=False)
                    except ResponseError as error:
                        told = error
                    self._alive_s = time.monotonic()
                    self._take_in(told, asked)
                    yield
                elif asked and time.monotonic() - asked_s > limit_s:
                    raise TimeoutError(f"no answer within {limit_s:g} s")
        finally:
            self._connection = None
            connection.disconnect()
            pool.release(connection)

    def _unheard(self, tried: Mapping[bytes, float], now_s: float) -> list[bytes]:
        """The patterns to ask for over this connection now."""
        with self._lock:
            return [
                pattern
                for pattern, known in self._patterns.items()
                if pattern not in tried or (known.problem and now_s - tried[pattern] > REFUSED_S)
            ]

    def _take_in(self, told: Any, asked: deque[bytes]) -> None:
        """A message, or an answer to the first of what was asked."""
        if isinstance(told, list) and told[0] == b"pmessage":
            _kind, pattern, channel, data = told
            self._keep(Message(pattern, channel, data[:LONGEST], self._alive_s))
            return
        pattern = asked.popleft() if asked else _PING
        if pattern == _PING:
            return  # an error is an answer, too
        with self._lock:
            known = self._patterns[pattern]
            if isinstance(told, Exception):
                known.problem = _refusal(pattern, told)
            else:
                known.heard(self._alive_s)

    def _keep(self, message: Message) -> None:
        with self._lock:
            self._messages.append(message)
            self._bytes += len(message.data)
            while len(self._messages) > MOST or self._bytes > MOST_BYTES:
                self._bytes -= len(self._messages.popleft().data)
                self._dropped += 1

    def _lost(self, words: str) -> None:
        with self._lock:
            for known in self._patterns.values():
                known.lost(self._alive_s, words)


def _refusal(pattern: bytes, error: Exception) -> str:
    """Why a pattern cannot be heard, in words."""
    named = pattern.decode("utf-8", "backslashreplace")
    if isinstance(error, NoPermissionError):
        return f"the user may not listen to {named}: the right &{named} is missing"
    return f"Redis refuses PSUBSCRIBE {named}: {error}"
