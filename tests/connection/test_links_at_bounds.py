"""Private servers, subscribers, pools, sentinels and nodes of a Cluster, with a given clock and given replies.

`links_at_bounds.txt` has what each of them sends, waits for and returns.
`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/connection/test_links_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import hiredis
import pytest
from bare_objects import Actor, Bare, take
from kept_text import assert_lines_match_file
from redis import exceptions

from rqtui.connection import cluster, embedded, pool, reply_limits, sentinels, subscriber, tls, watchdog
from rqtui.connection.cluster import Cluster
from rqtui.connection.embedded import EmbeddedServer
from rqtui.connection.passwords import add_url_password, has_url_password
from rqtui.connection.pool import Pool, PooledConnection
from rqtui.connection.redis_errors.connecting import describe_connection_error
from rqtui.connection.sentinels import Sentinels
from rqtui.connection.subscriber import Subscriber
from rqtui.connection.urls import find_database, parse_multi_host_url
from rqtui.errors import RqtuiError, ServerError

KEPT = Path(__file__).with_name("links_at_bounds.txt")
LOST = exceptions.ConnectionError("Connection refused")
FINE, OTHER = b"+OK\r\n", b"+NO\r\n"


class Clock:
    """A clock that a test sets; each wait is written down and passes at once."""

    def __init__(self, log: list[str]) -> None:
        self.now_s, self._log = 0.0, log

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self._log.append(f"wait {seconds:g}")
        self.now_s += seconds


def describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


# -- private servers --------------------------------------------------------------------------------------------------


def private_servers(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[str]:
    log: list[str] = []
    clock = Clock(log)
    monkeypatch.setattr(embedded, "time", clock)
    (folder / "log").write_text("one\ntwo\nthree\nfour\n\n")
    for up_after_s, ends_after_s in ((0, 99), (14.98, 99), (15.01, 99), (15.5, 99), (99, 0), (99, 1)):
        clock.now_s = 0.0

        def identify(up_after_s: float = up_after_s) -> tuple[str, str] | None:
            clock.now_s += 0.49
            if clock.now_s < up_after_s:
                if int(clock.now_s) % 2:
                    raise OSError("nothing listens")
                return None
            return "redis", "7.0"

        class Running:
            def __init__(self, ends_after_s: float) -> None:
                self.ends_after_s = ends_after_s

            def poll(self) -> int | None:
                return None if clock.now_s < self.ends_after_s else 1

        server = Bare(EmbeddedServer, _process=Running(ends_after_s), _identify_server=identify, folder=str(folder))
        try:
            found: object = server._wait_until_server_answers()
        except ServerError as error:
            found = describe_error(error)
        waits = len(log)
        log.clear()
        yield f"up after {up_after_s} s, ends after {ends_after_s} s: {found} after {waits} waits"

    replies = {
        "redis": "$50\r\n# Server\r\nredis_version:7.0.15\r\nprocess_id:{pid}\r\n",
        "valkey": "$50\r\nredis_version:7.2.4\r\nvalkey_version:8.0.1\r\nprocess_id:{pid}\r\n",
        "another process": "$50\r\nredis_version:7.0.15\r\nprocess_id:1073741824\r\n",
        "no process": "$50\r\nredis_version:7.0.15\r\n",
        "no version": "$50\r\nprocess_id:{pid}\r\n",
        "refused": "-NOAUTH Authentication required.\r\n",
        "fake": "-ERR unknown command 'INFO'\r\n",
    }
    for name, text in replies.items():
        reply = text.format(pid=os.getpid()).encode()
        monkeypatch.setattr(embedded, "_send_plain_request", lambda *_args, reply=reply: reply)
        server = Bare(EmbeddedServer, host="h", port=1, pid=os.getpgid(0))
        found = server._identify_server()
        yield f"{name}: {found and (found[0], 'its version' if name == 'fake' else found[1])}"
        others = Bare(EmbeddedServer, host="h", port=1, pid=os.getpgid(0) + 1)
        yield f"{name} of another group: {bool(others._identify_server())}"
    own = Bare(EmbeddedServer, pid=os.getpgid(0))
    yield f"own process: {[own._is_own_process(pid) for pid in (-1, 0, os.getpid(), 2**30)]}"

    for failures in ("", "u", "uuuu", "uuuuu", "o", "uo"):
        tries: list[str] = []

        def start(label: str, _command: Any, tries: list[str] = tries, failures: str = failures) -> str:
            tries.append(label)
            if len(tries) <= len(failures):
                raise ServerError({"u": "Address already in use", "o": "out of memory"}[failures[len(tries) - 1]])
            return "started"

        with monkeypatch.context() as patch:
            patch.setattr(embedded, "EmbeddedServer", start)
            try:
                found = embedded._start_on_free_port("it", lambda *_args: [], {})
            except ServerError as error:
                found = describe_error(error)
        yield f"start after {failures or 'no failures'}: {found} by {len(tries)} tries"

    for text in ("Redis server v=7.0.15 sha=0", "Redis server v=6.2.0", "v=6.1", "v=10.0.1", "nothing", ""):
        program = folder / "program"
        program.write_text(f"#!/bin/sh\necho '{text}'\n")
        program.chmod(0o700)
        yield f"version in {text!r}: {embedded._read_program_version(str(program))}"
        with monkeypatch.context() as patch:
            patch.setattr(
                embedded, "find_program_on_path", lambda name, path=str(program): path if "valkey" in name else None
            )
            yield f"program found: {[Path(path).name for path in embedded._find_system_programs()]}"
    yield f"version of no program: {embedded._read_program_version(str(folder / 'none'))}"
    for options in ({}, {"save": "60 1", "port": "9"}):
        yield f"command {options}: {embedded.build_server_command('/bin/x')(7, '/f', options)}"
    monkeypatch.setenv("PYTHONPATH", "/other")
    path = embedded._build_python_path().split(os.pathsep)
    yield f"path: {(Path(path[0]) / 'rqtui' / 'connection').is_dir()} {path[1:]}"
    monkeypatch.delenv("PYTHONPATH")
    yield f"path without one: {len(embedded._build_python_path().split(os.pathsep))}"
    for kind in ("", "auto", "fake", "System"):
        with monkeypatch.context() as patch:
            patch.setattr(embedded, "_yield_start_commands", lambda _kind: iter(()))
            try:
                yield f"{kind}: {embedded.start_server(kind)}"
            except RqtuiError as error:
                yield f"{kind}: {describe_error(error)}"
    for kind in embedded.KINDS:
        with monkeypatch.context() as patch:
            for name in ("installed_servers", "wheel_server", "fake_server"):
                patch.setattr(embedded, f"_find_{name}", lambda name=name: iter([(name, name)]))
            yield f"ways of {kind}: {[label for label, _command in embedded._yield_start_commands(kind)]}"
    for exit_waits in (0, 1):
        waited: list[str] = []
        actor = Actor(waited, "process")

        def wait(limit_s: float | None = None, waited: list[str] = waited, exit_waits: int = exit_waits) -> None:
            waited.append(f"wait {limit_s}")
            if len(waited) <= exit_waits + 2 and exit_waits:
                raise subprocess.TimeoutExpired("it", 1.0)

        process = SimpleNamespace(
            stdin=Actor(waited, "stdin"), stdout=Actor(waited, "stdout"), wait=wait, kill=actor.kill
        )
        removed: list[str] = []
        with monkeypatch.context() as patch:
            patch.setattr(
                embedded,
                "shutil",
                SimpleNamespace(rmtree=lambda path, removed=removed, **_options: removed.append(path)),
            )
            EmbeddedServer.stop(cast(Any, SimpleNamespace(_process=process, folder="f", stop=None)))
        yield f"stop: {' | '.join(waited)} | removed {removed}"


def full_buffers(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield what the server in Python does while the buffer of a client's socket is full."""
    log: list[str] = []
    accepted: list[int | None] = [2, None, None, 3, 1]

    def send(data: memoryview) -> int:
        number = accepted.pop(0)
        log.append(f"send {bytes(data)!r}")
        if number is None:
            raise BlockingIOError
        return number

    monkeypatch.setattr(
        embedded, "select", SimpleNamespace(select=lambda *words: log.append(f"wait {words[0], words[2]}"))
    )
    writer = embedded._WaitingWriter(cast(Any, SimpleNamespace(send=send)))
    yield f"written: {writer.write(b'abcdef')} {take(log)}"
    yield f"nothing to write: {writer.write(b'')} {take(log)}"


def plain_requests() -> Iterator[str]:
    for parts in (
        [b"-no\r\n"],
        [b"$5\r\nab", b"cde"],
        [b"$5\r\nab", b"c", b"de\r\n"],
        [b"$5\r\nabcde", b"more"],
        [b""],
    ):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            received: list[bytes] = []

            def serve(
                listener: socket.socket = listener, parts: list[bytes] = parts, received: list[bytes] = received
            ) -> None:
                link, _address = listener.accept()
                with link, contextlib.suppress(OSError):  # The client may close the connection first.
                    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    received.append(link.recv(99))
                    for part in parts[:-1]:
                        link.sendall(part)
                    link.sendall(parts[-1])
                    link.shutdown(socket.SHUT_WR)
                    link.recv(1)

            thread = threading.Thread(target=serve)
            thread.start()
            found = embedded._send_plain_request("127.0.0.1", listener.getsockname()[1], b"PING")
            thread.join()
        size = re.match(rb"\$(\d+)\r\n", found)
        whole = size is None or len(found) >= size.end() + int(size[1])
        yield f"{parts}: asked {received}, a whole reply: {whole}, begins {found[:4]!r}"


# -- the end of a parent ----------------------------------------------------------------------------------------------


def watched_commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for polls, inputs in (([None, 3], []), ([None, None, 0], [b"x"]), ([None, None], [b""]), ([0], [])):
        log: list[str] = []
        waiting_polls, waiting_inputs = [*polls], [*inputs]

        class Process:
            pid, returncode = 42, polls[-1]

            def poll(self, waiting: list[int | None] = waiting_polls) -> int | None:
                return waiting.pop(0) if len(waiting) > 1 else waiting[0]

            def wait(self, seconds: float, log: list[str] = log) -> None:
                log.append(f"wait {seconds}")
                if len(log) % 2:
                    raise subprocess.TimeoutExpired("it", seconds)

        def wait_for_input(
            *words: Any, log: list[str] = log, waiting: list[bytes] = waiting_inputs
        ) -> tuple[list[int], list[int], list[int]]:
            log.append(f"select {words}")
            return ([0] if waiting else [], [], [])

        with monkeypatch.context() as patch:
            popen = SimpleNamespace(
                Popen=lambda command, log=log, **options: (
                    log.append(f"run {command} in a new session {options['start_new_session']}") or Process()
                ),
                DEVNULL=0,
                TimeoutExpired=subprocess.TimeoutExpired,
            )
            patch.setattr(watchdog, "subprocess", popen)
            patch.setattr(watchdog, "select", SimpleNamespace(select=wait_for_input))
            signals = SimpleNamespace(
                signal=lambda number, _handler, log=log: log.append(f"handles {number}"), SIGTERM=15, SIGKILL=9
            )
            patch.setattr(watchdog, "signal", signals)
            patch.setattr(watchdog, "print", lambda *words, log=log, **_: log.append(f"print {words}"), raising=False)
            patch.setattr(watchdog, "_build_parent_death_hook", lambda: None)
            patch.setattr(watchdog, "_remove_folder", lambda folder, log=log: log.append(f"remove {folder}"))
            patch.setattr(
                watchdog,
                "os",
                SimpleNamespace(
                    read=lambda *words, log=log, waiting=waiting_inputs: log.append(f"read {words}") or waiting.pop(0),
                    killpg=lambda *words, log=log: log.append(f"kill {words}"),
                ),
            )
            code = watchdog.main("folder", ["it"])
        yield f"{polls} {inputs}: {code} | {' | '.join(log)}"
    try:
        watchdog._exit_on_signal(15, None)
    except SystemExit as error:
        yield f"exit after a signal: {error.code}"


# -- subscribers ------------------------------------------------------------------------------------------------------


class Ear:
    """A connection on which given replies arrive at given times."""

    def __init__(self, log: list[str], clock: Clock, replies: dict[float, Any], socket_timeout: float | None) -> None:
        self._log, self._clock, self._replies, self.socket_timeout = log, clock, replies, socket_timeout

    def send_command(self, *words: Any, check_health: bool) -> None:
        self._log.append(f"{self._clock.now_s:g} s: {words}" + (" with a check" if check_health else ""))

    def can_read(self, timeout: float) -> bool:
        due = min(self._replies, default=9e9)
        self._clock.now_s = min(max(due, self._clock.now_s), self._clock.now_s + timeout)
        return due <= self._clock.now_s

    def read_response(self, disconnect_on_error: bool) -> Any:
        reply = self._replies.pop(min(self._replies))
        if isinstance(reply, Exception):
            raise reply
        return reply

    def disconnect(self) -> None:
        self._log.append(f"{self._clock.now_s:g} s: disconnect")


def subscribers(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    log: list[str] = []
    clock = Clock(log)
    monkeypatch.setattr(subscriber, "time", clock)
    confirmed, denied = [b"psubscribe", b"a*", 1], exceptions.NoPermissionError("no")
    stories: dict[str, tuple[float | None, dict[float, Any]]] = {
        "confirmed, then silent": (3.0, {0.5: confirmed}),
        "a ping is answered": (3.0, {0.5: confirmed, 11.75: [b"pong", b""], 12: [b"pong", b""]}),
        "a ping is refused": (None, {0.5: confirmed, 11.75: exceptions.ResponseError("no ping")}),
        "denied": (None, {0.5: denied, 40.0: [b"pmessage", b"b*", b"b1", b"late"], 61.5: [b"pong", b""]}),
        "refused": (2.0, {0.5: exceptions.ResponseError("bad")}),
        "never": (2.0, {}),
        "no limit": (None, {}),
        "a message first": (5.0, {0.25: [b"pmessage", b"a*", b"a1", b"x" * 10], 0.5: confirmed, 0.75: "odd"}),
    }
    for name, (timeout_s, replies) in stories.items():
        clock.now_s = 0.0
        ear = Subscriber(None)
        ear._patterns = {b"a*": subscriber._Pattern()}
        connection = Ear(log, clock, replies, timeout_s)
        client: Any = SimpleNamespace(
            connection_pool=Actor(log, "pool", get_connection=lambda connection=connection: connection)
        )
        try:
            for number, _sign_of_life in enumerate(ear._receive_messages(client)):
                if number > 5 or clock.now_s > 90:
                    break
        except TimeoutError as error:
            log.append(str(error))
        states = [(state.since_s, state.lost_s, state.problem) for state in ear._patterns.values()]
        messages = [(each.channel, each.data, each.at_s) for each in ear.take_messages()]
        yield f"{name}: {take(log)}; {states} {messages} alive at {ear._alive_s:g} s"

    ear = Subscriber(None)
    for number in range(50_001):
        ear._store_message(subscriber.Message(b"a*", b"a", b"", number))
    yield f"most messages: {ear.dropped} dropped, first {ear.take_messages()[0].at_s}"
    long = b"x" * 262_144
    for sizes in ([], [1]):
        for data in [long] * 128 + [b"x"] * len(sizes):
            ear._store_message(subscriber.Message(b"a*", b"a", data, 0.0))
        yield f"most bytes and {sizes}: {len(ear.take_messages())} messages, {ear.dropped} dropped"
    for most, most_bytes, sizes in ((2, 99, (1, 1)), (2, 99, (1, 1, 1)), (9, 5, (2, 3)), (9, 5, (2, 4)), (9, 5, (6,))):
        monkeypatch.setattr(subscriber, "MAX_MESSAGES", most)
        monkeypatch.setattr(subscriber, "MAX_BYTES", most_bytes)
        ear = Subscriber(None)
        for size in sizes:
            ear._handle_reply([b"pmessage", b"a*", b"a", b"x" * size], deque())
        taken = [len(message.data) for message in ear.take_messages()]
        ear._handle_reply([b"pmessage", b"a*", b"a", b"x"], deque())
        yield f"{most} messages of {most_bytes} bytes from {sizes}: {taken}, {ear.dropped} dropped, {ear._bytes} later"
    monkeypatch.setattr(subscriber, "MAX_BYTES", 9**9)
    for size in (262_143, 262_144, 262_145):
        ear._handle_reply([b"pmessage", b"a*", b"a", b"x" * size], deque())
        yield f"message of {size} bytes: {len(ear.take_messages()[-1].data)}"

    pattern = subscriber._Pattern()
    for action, at_s in (
        ("lost", 1),
        ("active", 2),
        ("active", 3),
        ("lost", 5),
        ("lost", 6),
        ("active", 8),
        ("lost", 9),
    ):
        pattern.mark_active(at_s) if action == "active" else pattern.mark_lost(at_s, "away")
        yield f"{action} at {at_s}: {pattern.since_s} {pattern.lost_s} {pattern.missed_s} {pattern.problem!r}"
    ear = Subscriber(None)
    ear._patterns = {b"a": pattern}
    clock.now_s = 20.0
    yield f"status: {ear.read_status('a')} {ear.read_status('none')}"
    for age_s in (59, 60, 61):
        for problem in ("", "no"):
            ear._patterns = {b"a": subscriber._Pattern(problem=problem), b"new": subscriber._Pattern()}
            yield f"tried {age_s} s ago, problem {problem!r}: {ear._find_due_patterns({b'a': 0.0}, age_s)}"

    for failing in (2, 9):
        log.clear()
        ear = Subscriber(None)
        ear._patterns = {b"a": subscriber._Pattern(since_s=1.0)}
        rounds = [0]

        def receive(_client: Any, rounds: list[int] = rounds, failing: int = failing) -> Iterator[None]:
            rounds[0] += 1
            if rounds[0] == failing:
                yield
            raise LOST if rounds[0] % 2 else ValueError("strange")

        def wait(seconds: float, ear: Any = ear, rounds: list[int] = rounds) -> None:
            log.append(f"{seconds:g}")
            if rounds[0] > 10:
                ear._stop.is_set = lambda: True

        monkeypatch.setattr(subscriber, "copy_client", lambda _client: contextlib.nullcontext())
        cast(Any, ear)._receive_messages = receive
        cast(Any, ear)._stop = SimpleNamespace(is_set=lambda: False, wait=wait)
        ear._receive_until_closed()
        yield f"waits with a reply in round {failing}: {take(log)}; {[*ear._patterns.values()]}"
    started = SimpleNamespace(Thread=lambda **options: Actor(log, f"thread {options['daemon']}"), Lock=threading.Lock)
    with monkeypatch.context() as patch:
        ear = Subscriber(None)
        patch.setattr(subscriber, "threading", started)
        for patterns in ([], ["a", "b"], ["b", "c"]):
            ear.subscribe(patterns)
            log.append(f"{[*ear._patterns]}")
        yield f"subscribe: {take(log)}"
    closed = Subscriber(None)
    cast(Any, closed)._thread = Actor(log, "thread")
    cast(Any, closed)._connection = SimpleNamespace(_sock=Actor(log, "socket"))
    closed.close()
    closed._connection = closed._thread = None
    closed.close()
    closed.subscribe(["a"])
    yield f"close: {take(log)}; a thread afterwards: {closed._thread}"


# -- pools ------------------------------------------------------------------------------------------------------------


class Link:
    """A connection of a pool, whose states are given."""

    def __init__(self, log: list[str], name: str, **states: Any) -> None:
        self._log, self._name, self.pid, self._sock = log, name, os.getpid(), states.get("sock", "a socket")
        self.states = states
        self.is_misplaced = states.get("is_misplaced", False)

    def connect(self) -> None:
        self._log.append(f"{self._name} connects")
        if self.states.get("connect"):
            raise self.states["connect"]

    def disconnect(self) -> None:
        self._log.append(f"{self._name} disconnects")

    def can_read(self) -> bool:
        found = self.states.get("can_read", False)
        if isinstance(found, Exception):
            raise found
        return bool(found)

    def should_reconnect(self) -> bool:
        return bool(self.states.get("should_reconnect"))


def pools(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    log: list[str] = []
    states: dict[str, dict[str, Any]] = {
        "open": {}, "new": {"sock": None}, "misplaced": {"is_misplaced": True}, "unread": {"can_read": True},
        "lost": {"can_read": exceptions.ConnectionError()}, "slow": {"can_read": exceptions.TimeoutError()},
        "broken": {"can_read": OSError()}, "dead": {"sock": None, "connect": LOST},
    }  # fmt: skip
    for name, state in states.items():
        with contextlib.suppress(exceptions.ConnectionError):
            pool.reconnect_if_stale(Link(log, name, **state))
        yield f"{name}: {take(log)}"

    created = [0]

    class Recorded(pool.ConnectionPool):
        """A pool of redis-py that creates no real connections."""

        def get_connection(self, *_words: Any, **_options: Any) -> Any:
            created[0] += 1
            return Link(log, f"created {created[0]}")

        def release(self, connection: Any) -> None:
            log.append(f"{connection._name} goes to redis-py")

        def disconnect(self, inuse_connections: bool = True) -> None:
            log.append(f"all disconnect, in use {inuse_connections}")

    class Trial(Pool, Recorded):
        """The pool, above a pool of redis-py that creates no real connections."""

    for keeps in (True, False):
        found = Trial() if keeps else Trial(credential_provider=object())
        first = found.get_connection()
        found.release(first)
        found.release(first)
        second = found.get_connection()
        third = found.get_connection()
        third.states["should_reconnect"] = True
        found.release(third)
        found.release(second)
        yield f"keeps {keeps}: {second is first} {len(found._idle)} {take(log)}"
        found.disconnect(False)
        yield f"disconnected: {len(found._idle)} {take(log)}"
    found = Trial()
    parents, own = (PooledConnection(Link(log, name)) for name in ("parent's", "own"))
    parents.connection.pid = 1
    found.return_connection(parents)
    yield f"of the parent: {len(found._idle)} {take(log)}"
    found._idle = [own, parents]
    yield f"taken: {found.take_connection().connection._name}, {len(found._idle)} idle, {take(log)}"
    found._idle = [PooledConnection(Link(log, "dead", sock=None, connect=LOST))]
    try:
        found.take_connection()
    except exceptions.ConnectionError as error:
        yield f"not opened: {error}, {take(log)}"

    mine, others = socket.socketpair()
    with mine, others:
        reader = hiredis.Reader()
        connection = Bare(pool.Connection, _sock=mine, _parser=SimpleNamespace(_reader=reader))
        line = PooledConnection.__new__(PooledConnection)
        line.connection = connection
        monkeypatch.setattr(pool, "is_passthrough", lambda _kind: True)
        line.refresh_socket()
        mine.settimeout(0.01)
        yield f"plain {line.is_plain}, ready {line.is_ready()}"
        others.sendall(FINE)
        yield f"with data: {line.is_ready()}, expected {line.receive_expected(FINE)}, then {line.is_ready()}"
        others.sendall(OTHER)
        yield f"other data: {line.receive_expected(FINE)} {reader.gets()!r} {line.is_ready()}"
        reader.feed(FINE)
        yield f"data of the reader: {line.is_ready()} {reader.gets()!r}"
        try:
            line.receive_expected(FINE)
        except exceptions.TimeoutError as error:
            yield f"late: {error}"
        connection.__dict__["_sock"] = others
        yield f"another socket: {line.is_ready()}"
        connection.__dict__["_sock"] = mine
        others.shutdown(socket.SHUT_WR)
        yield f"closed: {line.receive_expected(FINE)}, {line.is_ready()}"
    for attributes in ({"_sock": None}, {"_sock": mine, "_parser": None}, {"_sock": object(), "_parser": None}):
        line.connection = Bare(pool.Connection, **attributes)
        line.refresh_socket()
        yield f"{[*attributes]}: plain {line.is_plain} {line.is_ready()}"
    for options in ({}, {"socket_timeout": 2.0, "orig_host": "x", "maint_notifications_config": 1, "host": "h"}):
        copied = pool.copy_pool_options({**options, "retry_on_error": [1]})
        yield f"options: {sorted((name, str(value)) for name, value in copied.items() if name != 'parser_class')}"


# -- certificates -----------------------------------------------------------------------------------------------------


def certificates(folder: Path) -> Iterator[str]:
    """Yield which TLS options are refused, with files of each kind."""
    files = folder / "tls"
    files.mkdir()
    (files / "folder").mkdir()
    os.mkfifo(files / "pipe")
    (files / "text").write_text("no certificate")
    paths = {name: str(files / name) for name in ("missing", "folder", "pipe", "text")}
    cases: list[dict[str, str]] = [
        {}, *({"ssl_cert_reqs": demand} for demand in ("none", "required", "optional")),
        {"ssl_keyfile": paths["text"]}, {"ssl_ca_certs": ""}, {"ssl_certfile": ""},
        *({"ssl_ca_certs": path} for path in paths.values()), *({"ssl_certfile": path} for path in paths.values()),
        *({"ssl_certfile": paths["text"], "ssl_keyfile": path} for path in paths.values()),
        {"ssl_certfile": paths["text"], "ssl_password": "pw"},
    ]  # fmt: skip
    for options in cases:
        try:
            found: Any = tls.check_tls_options("URL", options)
        except RqtuiError as error:
            found = describe_error(error)
        yield f"{options}: {found}".replace(str(files), "…")


# -- sentinels --------------------------------------------------------------------------------------------------------


def primary(port: int, epoch: int | None = 1, is_down: bool = False) -> dict[str, Any]:
    return {"ip": "10.0.0.1", "port": port, "is_down": is_down} | ({} if epoch is None else {"config-epoch": epoch})


def build_sentinels(*states: Any) -> tuple[Any, list[int]]:
    """Return sentinels with clients that reply with these states, and the list of those that were asked."""
    asked: list[int] = []

    def build_client(number: int) -> Any:
        def read() -> Any:
            asked.append(number)
            state = states[number]
            if isinstance(state, Exception):
                raise state
            return {"mine": state} if state else {}

        return SimpleNamespace(sentinel_masters=read)

    clients: Any = [(("s", number), build_client(number)) for number in range(len(states))]
    return Sentinels("mine", clients, lambda state, _service: not state["is_down"]), asked


def watched_servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    cases: dict[str, tuple[Any, ...]] = {
        "all": (primary(1), primary(1)), "the first is away": (LOST, primary(2)),
        "the second is away": (primary(2), LOST), "down": (primary(1, is_down=True), primary(2)),
        "unknown": (None, None), "none": (LOST, primary(1, is_down=True), None),
        "an older one first": (primary(1, 3), primary(2, 4)), "equal": (primary(1, 4), primary(2, 4)),
        "a newer one first": (primary(1, 5), primary(2, 4)), "no epoch": (primary(1, None), primary(2, 1)),
    }  # fmt: skip
    for name, states in cases.items():
        found, asked = build_sentinels(*states)
        lines = []
        for _again in range(2):
            try:
                lines.append(str(found.find_primary()))
            except sentinels.NotFound as error:
                lines.append(str(error))
            lines.append(f"asked {asked}")
            asked.clear()
        log: list[str] = []
        links = [
            Actor(log, f"{host}:{port} open {is_open}", host=host, port=port, is_open=is_open)
            for host, port, is_open in (
                ("10.0.0.1", 1, True),
                ("10.0.0.1", 2, True),
                ("10.0.0.1", 3, False),
                ("x", 1, True),
            )
        ]
        found._watched = links
        for number in (*range(len(states)), 0):
            found._check_sentinel_primary(number)
            log.append(f"after {number}: trusted {found._trusted}, views {found._views}")
        yield f"{name}: {' | '.join(lines)} | {take(log)}"

    log = []
    clock = Clock(log)
    monkeypatch.setattr(sentinels, "time", clock)
    for problem in (None, LOST):
        found, _asked = build_sentinels(primary(1))
        link = SimpleNamespace(is_open=True, host="10.0.0.1", port=1)
        found._watched, found._followed = [link], {0}

        class Listener:
            subscribed = False
            rounds = 0

            def subscribe(self, channel: str) -> None:
                log.append(f"subscribe {channel}")
                self.subscribed = True

            def get_message(self, timeout: float, problem: Exception | None = problem, link: Any = link) -> None:
                log.append(f"listen {timeout}")
                self.rounds += 1
                link.is_open = self.rounds < 3
                if problem:
                    raise problem

            def close(self) -> None:
                log.append("close")

        found._sentinels[0][1].pubsub = lambda ignore_subscribe_messages: Listener()
        found._watch_sentinel(0)
        yield f"watch, {problem}: {take(log)}; followed {found._followed}"
    found, _asked = build_sentinels(primary(1), primary(1))
    monkeypatch.setattr(
        sentinels,
        "threading",
        SimpleNamespace(
            Thread=lambda **options: Actor(log, f"{options['args']} {options['daemon']}"), Lock=threading.Lock
        ),
    )
    watched = SimpleNamespace(is_open=True)

    class Open:
        is_open = True

    link_of_this_process = cast(Any, Open())
    found.watch_connection(link_of_this_process)
    found.watch_connection(link_of_this_process)
    yield f"threads: {take(log)}; {len(found._watched)} watched"
    found._pid = 1
    found.watch_connection(link_of_this_process)
    yield f"threads after a fork: {take(log)}; {len(found._watched)} {watched.is_open}"


# -- nodes of a Cluster -----------------------------------------------------------------------------------------------


def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    log: list[str] = []
    slots = [[0, 99, [b"a", 1]], [100, 16_383, [b"", 2], [b"replica", 3]]]
    replies: dict[str, Any] = {"a": slots, "b": slots, "c": exceptions.NoPermissionError("no")}

    def build_node(host: str, port: int) -> Any:
        def execute_command(*words: str) -> Any:
            log.append(f"{host}:{port} {' '.join(words)}")
            reply = replies.get(host, LOST)
            if isinstance(reply, Exception):
                raise reply
            return reply

        def ping() -> None:
            log.append(f"{host}:{port} PING")
            if isinstance(reply := replies.get(host, LOST), Exception):
                raise reply

        def client_list() -> list[str]:
            if isinstance(reply := replies.get(host, LOST), Exception):
                raise reply
            return [host]

        actor = Actor(log, f"{host}:{port}", execute_command=execute_command, ping=ping, client_list=client_list)
        return actor

    monkeypatch.setattr(cluster, "Pool", lambda host, port, **_options: (host, port))
    monkeypatch.setattr(cluster, "Redis", SimpleNamespace(from_pool=lambda address: build_node(*address)))
    monkeypatch.setattr(cluster, "check_reply_types", lambda client: client)
    for seeds in ("a", "ab", "xa", "ca", "x", "xy"):
        found = Cluster([(host, 1) for host in seeds], {"host": "no", "port": 9, "db": 0})
        lines = []
        for slot in (0, 99, 100, 16_383, 16_384):
            try:
                lines.append(f"{slot} at {found.find_slot_address(slot)}")
            except exceptions.RedisError as error:
                lines.append(f"{slot}: {describe_error(error)}")
        lines.append(f"slots {len(found._slots)}")
        try:
            lines.append(f"live {found.find_live_node_client()._name}, {found.ping()}")
        except exceptions.RedisError as error:
            lines.append(describe_error(error))
        yield f"seeds {seeds}: {' | '.join(lines)} | {take(log)}"
    found = Cluster([("a", 1)], {})
    found.read_slot_map()
    replies["a"] = LOST
    found.discard_slot_map()
    for call in (found.read_slot_map, found.find_live_node_client, found.client_list, found.list_primary_clients):
        try:
            result: Any = call()
        except exceptions.RedisError as error:
            result = describe_error(error)
        yield f"away: {result} | {take(log)}"
    found._slots = [(0, 16_383, ("a", 1)), (0, 1, ("b", 2))]
    yield f"one away: {found.find_live_node_client()._name} {found.client_list()} {take(log)}"
    replies["a"] = exceptions.NoPermissionError("no")
    yield f"one denies PING: {found.find_live_node_client()._name} {take(log)}"
    found.exists("k"), found.sadd("k", "m"), found.srem("k", "m"), found.sscan("k", cursor=1), found.time()
    found.close()
    yield f"commands: {take(log)}"
    found._slots = []
    found._clients = {}
    replies["a"] = []
    try:
        found.find_live_node_client()
    except exceptions.RedisError as error:
        yield describe_error(error)
    yield f"slot of a key: {[cluster.compute_key_slot(key) for key in ('a', b'a', '{a}b', 'b{}a', '')]}"


class PlainConnection:
    """A connection without a server, whose role is given."""

    role: Any = b"master"

    def __init__(self, log: list[str], **_options: Any) -> None:
        self._sock: Any = None
        self.log = log

    def connect(self) -> None:
        self.log.append(f"connect to {self.host}:{self.port}")  # type: ignore[attr-defined]
        self._sock = SimpleNamespace()

    def disconnect(self) -> None:
        self.log.append("disconnect")
        self._sock = None

    def send_command(self, *words: str, check_health: bool) -> None:
        self.log.append(f"{words} {check_health}")

    def read_response(self) -> Any:
        if isinstance(self.role, Exception):
            raise self.role
        return [self.role]


class Readdressed(cluster._ReaddressingMixin, PlainConnection):
    """A connection that asks for its address each time it connects."""


def addresses(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(cluster, "register_for_failover", lambda _find, link: link.log.append("registered"))
    for must_lead in (False, True):
        for role in (b"master", b"slave", exceptions.ResponseError("no ROLE")):
            log: list[str] = []
            found: Any = iter([("a", 1), ("b", 2)])
            link = cast(Any, Readdressed)(log=log, find=lambda found=found: next(found), must_lead=must_lead)
            link.role = role
            log.append(f"open {link.is_open} misplaced {link.is_misplaced}")
            for step in (link.connect, link.connect):
                try:
                    step()
                except sentinels.NotFound as error:
                    log.append(str(error))
                    break
            log.append(f"open {link.is_open}")
            if link.is_open:
                link.role = exceptions.ReadOnlyError("read-only")
                with contextlib.suppress(exceptions.ReadOnlyError):
                    link.read_response()
                link.role = role if isinstance(role, bytes) else b"master"
                log.append(f"misplaced {link.is_misplaced}")
                link.connect()
                log.append(f"misplaced {link.is_misplaced}")
            yield f"must lead {must_lead}, {role}: {take(log)}"
    mine, others = socket.socketpair()
    with mine, others:
        link._sock = mine
        link.cut_connection()
        yield f"cut: misplaced {link.is_misplaced}, read {others.recv(9)!r}"
    link._sock = None
    link.cut_connection()


# -- URLs and passwords -----------------------------------------------------------------------------------------------

URLS = (
    "redis://h", "redis+sentinel://h", "redis+sentinel://h/s", "redis+sentinel://h:1,[::1]:2/s/3",
    "rediss+sentinel://u:p@h,i:99/s%20x?sentinel_password=q&x=1#f", "redis+sentinel://[::1]/s?db=1",
    "redis+cluster://h", "redis+cluster://u:p@h:1/", "redis+cluster://h/0", "redis+cluster://h/1",
    "redis+cluster://h?sentinel_password=q", "redis+cluster://:1", "redis+sentinel://h:x/s", "redis+sentinel://,/s",
    "redis+sentinel:///s", "redis+sentinel://h//2",
)  # fmt: skip


def urls() -> Iterator[str]:
    for url in URLS:
        try:
            found = parse_multi_host_url(url, "shown")
            text = found and f"{found} {found.kind} {found.single} {found.service!r} {found.login}"
        except RqtuiError as error:
            text = str(error)
        yield f"{url}: {text}"
    for url in ("redis://h", "redis://u@h/0", "redis://u:p@h", "redis://h?password=x", "redis://h/0?a=1&password=x",
                "redis://h?nopassword=x", "redis://:@h", "redis://h:1#a@b:c", "unix:///a:b@c"):  # fmt: skip
        yield f"{url}: {has_url_password(url)} {add_url_password(url, 'p@/')} {add_url_password(url, '')}"
    for error in (
        LOST,
        exceptions.TimeoutError("Timeout connecting"),
        exceptions.AuthenticationError("no"),
        exceptions.ResponseError("WRONGPASS invalid"),
        OSError(111, "refused"),
        ConnectionResetError(),
    ):
        texts = describe_connection_error(error), describe_connection_error(error, "redis://u:p@h:1")
        yield f"{type(error).__name__} {error}: {texts}"


def test_links_match_the_stored_text(tmp_path: Path) -> None:
    lines = []
    for part in (
        lambda patch: private_servers(patch, tmp_path),
        lambda _patch: plain_requests(), full_buffers,
        watched_commands, subscribers, pools, watched_servers, nodes, addresses,
        lambda _patch: urls(), lambda _patch: certificates(tmp_path),
    ):  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            lines += [line.replace(str(tmp_path), "FOLDER") for line in part(patch)]
    assert_lines_match_file(lines, KEPT)


@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("redis://h", "0"), ("redis://h/", "0"), ("redis://h/3", "3"), ("redis://h/3/", "3"), ("redis://h/3?db=5", "5"),
        ("redis://h?db=5", "5"), ("unix:///tmp/s", "0"), ("unix:///tmp/s?db=2", "2"), ("redis://h/3?db=", "3"),
    ],
)  # fmt: skip
def test_the_database_of_a_url_is_its_option_or_else_its_path(url: str, database: str) -> None:
    assert find_database(url) == database


def test_the_folder_of_a_server_is_removed_also_if_it_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "file").touch()
    for _ in range(2):
        watchdog._remove_folder(str(folder))
        assert not folder.exists()


@pytest.mark.parametrize(("platform", "has_hook"), [("linux", True), ("darwin", False), ("win32", False)])
def test_only_linux_ends_a_server_with_its_watchdog(
    monkeypatch: pytest.MonkeyPatch, platform: str, *, has_hook: bool
) -> None:
    called: list[Any] = []
    library = SimpleNamespace(prctl=lambda *words: called.append(words))
    monkeypatch.setitem(sys.modules, "ctypes", SimpleNamespace(CDLL=lambda _name: library))
    monkeypatch.setattr(watchdog, "sys", SimpleNamespace(platform=platform))
    hook = watchdog._build_parent_death_hook()
    assert (hook is not None) is has_hook
    if hook is not None:
        hook()
        assert called == [(watchdog.PR_SET_PDEATHSIG, signal.SIGKILL)]


@pytest.mark.parametrize(("text", "number"), [(b"12", 12), (b"-1", -1), (b"x", 0), (b"", 0)])
def test_a_header_that_is_no_number_is_left_to_hiredis(text: bytes, number: int) -> None:
    assert reply_limits._parse_header_number(bytearray(text)) == number
