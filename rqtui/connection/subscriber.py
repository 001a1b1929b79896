"""Subscribe to Pub/Sub patterns over a background connection, and keep the messages until they are taken.

A lost connection is opened again after 1, 1, 2, 3, 5, 8 and 13 s. The time without a connection is reported, counted
from the last reply of the server. Messages that arrive faster than they are taken are dropped, the oldest first, and
counted. Only PSUBSCRIBE and PING are sent. This module knows no queue system: `engine/listening.py` passes the messages
on.
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

from rqtui.connection.connect import copy_client
from rqtui.connection.meter import Meter
from rqtui.connection.nodes import is_cluster
from rqtui.connection.redis_errors.connecting import describe_connection_error
from rqtui.durations import compute_reconnect_delay_s
from rqtui.errors import describe_and_log_error
from rqtui.text.names import to_bytes

log = logging.getLogger("rqtui.connection.subscriber")

MAX_MESSAGES = 50_000  # messages that wait to be taken
MAX_BYTES = 32 * 1024 * 1024  # total size of those messages
MAX_MESSAGE_BYTES = 256 * 1024  # bytes of a message; longer ones are truncated
PING_S = 10.0  # after this time without a reply, a PING checks the connection
POLL_S = 1.0  # how soon a new pattern is subscribed to
RETRY_REFUSED_S = 60.0  # between two tries of a refused pattern: the user may get the right later
_PING = b""


class Message(NamedTuple):
    """A Pub/Sub message, the pattern that matched its channel, and its arrival time (s, `time.monotonic`)."""

    pattern: bytes
    channel: bytes
    data: bytes
    at_s: float


class SubscriptionStatus(NamedTuple):
    """Since when a Pub/Sub pattern is subscribed, for how long it was interrupted, and why it is not active now."""

    since_s: float | None = None  # `time.monotonic`; None: never active yet
    missed_s: float = 0.0  # for how long it was interrupted since then
    problem: str = ""  # why it is not active now; empty: it is active


@dataclass(slots=True)
class _Pattern:
    """The state of the subscription to one Pub/Sub pattern."""

    since_s: float | None = None
    lost_s: float | None = None  # since when the subscription is interrupted; None: it is active, or never was
    missed_s: float = 0.0
    problem: str = ""

    def mark_active(self, now_s: float) -> None:
        """Record that Redis confirmed the subscription to the pattern at `now_s`."""
        self.since_s = now_s if self.since_s is None else self.since_s
        self.missed_s += now_s - self.lost_s if self.lost_s is not None else 0.0
        self.lost_s, self.problem = None, ""

    def mark_lost(self, at_s: float, problem: str) -> None:
        """Record that the subscription to the pattern ended at `at_s`."""
        self.problem = problem
        if self.since_s is not None and self.lost_s is None:
            self.lost_s = at_s


class Subscriber:
    """Subscribes to Pub/Sub patterns on the server of `client`, over its own connection and thread.

    The connection is open from the first `subscribe` until `close`. All methods may be called from any thread.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
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
        """The total number of Pub/Sub messages that were dropped because they arrived faster than they were taken."""
        return self._dropped

    def subscribe(self, patterns: Iterable[str]) -> None:
        """Subscribe to more Pub/Sub patterns. Returns at once; `read_status` says since when a pattern is active."""
        with self._lock:
            for pattern in patterns:
                self._patterns.setdefault(to_bytes(pattern), _Pattern())
            if self._thread is None and self._patterns and not self._stop.is_set():
                self._thread = threading.Thread(target=self._receive_until_closed, name="rqtui-ear", daemon=True)
                self._thread.start()

    def read_status(self, pattern: str) -> SubscriptionStatus:
        """Return since when a Pub/Sub pattern is subscribed, and for how long it was interrupted."""
        with self._lock:
            state = self._patterns.get(to_bytes(pattern)) or _Pattern()
            away_s = time.monotonic() - state.lost_s if state.lost_s is not None else 0.0
            return SubscriptionStatus(state.since_s, state.missed_s + away_s, state.problem)

    def take_messages(self) -> list[Message]:
        """Return the Pub/Sub messages received since the last call, in the order of arrival."""
        with self._lock:
            messages, self._messages, self._bytes = [*self._messages], deque(), 0
        return messages

    def close(self, timeout_s: float = 2.0) -> None:
        """Stop the thread that receives Pub/Sub messages, and close its connection."""
        self._stop.set()
        with self._lock:
            thread, connection = self._thread, self._connection
        if (sock := getattr(connection, "_sock", None)) is not None:  # This wakes the thread, which then closes it.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if thread is not None:
            thread.join(timeout_s)

    # -- the thread -----------------------------------------------------------------------------------------------

    def _receive_until_closed(self) -> None:
        failures = 0
        with copy_client(self._client) as client:
            while not self._stop.is_set():
                try:
                    for _sign_of_life in self._receive_messages(client):
                        failures = 0
                except Exception as error:
                    is_known = isinstance(error, RedisError | OSError)
                    words = describe_connection_error(error) if is_known else describe_and_log_error(error, log)
                    if not self._stop.is_set():
                        log.info("the ear lost its link: %s", words)
                        self._mark_all_patterns_lost(words)
                self._stop.wait(compute_reconnect_delay_s(failures))
                failures += 1

    def _receive_messages(self, client: Any) -> Iterator[None]:
        """Receive Pub/Sub messages over one connection until it fails, which raises.

        Yields once per reply of the server.
        """
        pool = (client.find_live_node_client() if is_cluster(client) else client).connection_pool
        connection = pool.get_connection()
        connection.meter = Meter()  # Messages must not count as commands of the program, nor as time spent waiting.
        self._connection = connection
        pending_requests: deque[bytes] = (
            deque()
        )  # patterns whose replies have not arrived; an empty one stands for a PING
        tried_at_s: dict[bytes, float] = {}
        self._alive_s = request_s = time.monotonic()
        limit_s, next_poll_s = connection.socket_timeout or 5.0, 0.0
        try:
            while not self._stop.is_set():
                now_s = time.monotonic()
                if now_s >= next_poll_s:
                    next_poll_s = now_s + POLL_S
                    due_patterns = self._find_due_patterns(tried_at_s, now_s)
                    if not due_patterns and not pending_requests and now_s - self._alive_s > PING_S:
                        due_patterns = [_PING]
                    for pattern in due_patterns:
                        request_s = now_s if not pending_requests else request_s
                        words = ("PSUBSCRIBE", pattern) if pattern else ("PING",)
                        connection.send_command(*words, check_health=False)
                        pending_requests.append(pattern)
                        tried_at_s[pattern] = now_s
                if connection.can_read(timeout=POLL_S):
                    try:
                        reply = connection.read_response(disconnect_on_error=False)
                    except ResponseError as error:
                        reply = error
                    self._alive_s = time.monotonic()
                    self._handle_reply(reply, pending_requests)
                    yield
                elif pending_requests and time.monotonic() - request_s > limit_s:
                    raise TimeoutError(f"no answer within {limit_s:g} s")
        finally:
            self._connection = None
            connection.disconnect()
            pool.release(connection)

    def _find_due_patterns(self, tried_at_s: Mapping[bytes, float], now_s: float) -> list[bytes]:
        """Return the Pub/Sub patterns to subscribe to now: new ones, and refused ones after a wait."""
        with self._lock:
            return [
                pattern
                for pattern, state in self._patterns.items()
                if pattern not in tried_at_s or (state.problem and now_s - tried_at_s[pattern] > RETRY_REFUSED_S)
            ]

    def _handle_reply(self, reply: Any, pending_requests: deque[bytes]) -> None:
        """Store a Pub/Sub message, or apply a reply to the oldest request in `pending_requests`."""
        if isinstance(reply, list) and reply[0] == b"pmessage":
            _kind, pattern, channel, data = reply
            self._store_message(Message(pattern, channel, data[:MAX_MESSAGE_BYTES], self._alive_s))
            return
        pattern = pending_requests.popleft() if pending_requests else _PING
        if pattern == _PING:
            return  # Any reply to a PING, also an error, shows that the server is alive.
        with self._lock:
            state = self._patterns[pattern]
            if isinstance(reply, Exception):
                state.problem = _explain_refused_pattern(pattern, reply)
            else:
                state.mark_active(self._alive_s)

    def _store_message(self, message: Message) -> None:
        with self._lock:
            self._messages.append(message)
            self._bytes += len(message.data)
            while len(self._messages) > MAX_MESSAGES or self._bytes > MAX_BYTES:
                self._bytes -= len(self._messages.popleft().data)
                self._dropped += 1

    def _mark_all_patterns_lost(self, reason: str) -> None:
        with self._lock:
            for state in self._patterns.values():
                state.mark_lost(self._alive_s, reason)


def _explain_refused_pattern(pattern: bytes, error: Exception) -> str:
    """Return why Redis refused the subscription to a Pub/Sub pattern, as a sentence."""
    pattern_text = pattern.decode("utf-8", "backslashreplace")
    if isinstance(error, NoPermissionError):
        return f"the user may not listen to {pattern_text}: the right &{pattern_text} is missing"
    return f"Redis refuses PSUBSCRIBE {pattern_text}: {error}"
