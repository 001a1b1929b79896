"""Limits for the size of Redis replies, so that a hostile or broken server cannot exhaust the memory of this process.

`connect` and `aio.pool` use `LimitedParser` and `LimitedParserForLoop` in their connections. hiredis itself has no
limits: it keeps all bytes of a reply that never ends.

A small reply costs two Python calls. The RESP2 headers of a reply are parsed only when it grows beyond `FREE_BYTES`, or
when it contains what looks like the header of a long array. The body of a job may contain that too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from hiredis import Reader
from redis import Redis, exceptions
from redis._parsers import _AsyncHiredisParser, _HiredisParser
from redis.client import CaseInsensitiveDict

FREE_BYTES = 4 << 20  # bytes of a reply that may arrive before its headers are parsed
VALUE_BYTES = 512 << 20  # Redis's own limit for a value (proto-max-bulk-len)
REPLY_BYTES = VALUE_BYTES + (16 << 20)  # one value of that size, and the rest of the reply
REPLY_ITEMS = 4 << 20  # values in a reply, including nested arrays; rqtui requests pages of some thousands
LINE_BYTES = 2 << 20  # a number, a status or an error
ERROR_CHARACTERS = 4096  # longer error texts are truncated


class ReplyTooLong(exceptions.InvalidResponse):
    """A reply is longer than any that Redis sends to rqtui. The text begins with "its reply"."""


# Every reply calls these; `super()` takes a tenth of a microsecond more.
_feed, _gets, _has_data = Reader.feed, Reader.gets, Reader.has_data


class LimitedReader(Reader):
    """A hiredis reader that raises ReplyTooLong for a reply beyond the limits. Its connection must be closed then."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._not_whole = options["notEnoughData"]
        self._head: Any = bytearray()  # bytes whose headers have not been parsed yet
        self._reset()

    def _reset(self) -> None:
        self._is_empty = True  # no reply is incomplete, and no byte of the next one has arrived
        self._reads_headers = False
        self._skipped = 0  # bytes of a value that have not arrived yet
        self._missing = 0  # values of the current reply that have not arrived yet
        self._items = self._reply_bytes = 0  # of the current reply so far

    def feed(self, data: Any, start: int = 0, length: int | None = None) -> None:
        """Add received bytes, or the part of `data` that begins at `start`, and check them against the limits."""
        end = len(data) if length is None else start + length
        before = 0
        if self._is_empty:
            if self._reads_headers:
                self._reset()
            self._head = data[start:end]  # a copy, because the connection receives into the same buffer again
        else:
            if type(self._head) is not bytearray:
                self._head = bytearray(self._head)
            before = len(self._head)
            self._head += memoryview(data)[start:end]
        self._is_empty = False
        if self._reads_headers or len(self._head) > FREE_BYTES or _LONG_TABLE.search(self._head, max(0, before - 9)):
            self._reads_headers = True
            self._read_headers()
        _feed(self, data, start, end - start)

    def gets(self, decode: bool = True) -> Any:
        """Return the next reply, or the `notEnoughData` value if it has not arrived completely."""
        try:
            reply = _gets(self, decode)
        except MemoryError:
            raise ReplyTooLong("its reply does not fit into the memory of this computer") from None
        if reply is not self._not_whole:
            self._is_empty = not _has_data(self)
        return reply

    def _read_headers(self) -> None:
        """Parse the headers in `_head`, and drop all bytes of it except an incomplete line."""
        if type(self._head) is not bytearray:
            self._head = bytearray(self._head)
        head, at, begun = self._head, self._skipped, 0
        missing, items, arrived = self._missing, self._items, len(self._head)
        match_value = _SMALL_VALUE.match
        while at < arrived:
            # Most values of a long reply are small. A second loop for them takes half the time.
            while missing and (value := match_value(head, at)):
                missing -= 1
                at = value.end() + int(value[1]) + 2
            if at >= arrived:
                break
            line_end = head.find(b"\r\n", at, at + LINE_BYTES)
            if line_end < 0:
                if len(head) - at >= LINE_BYTES:
                    raise ReplyTooLong(f"its reply has a line of more than {_mb(LINE_BYTES)}")
                break
            if not missing:  # The next reply begins here.
                missing, items, begun, self._reply_bytes = 1, 0, at, 0
            missing -= 1
            kind = head[at]
            number = _number(head[at + 1 : line_end]) if kind in _SIZED else 0
            at = line_end + 2
            if kind == _ARRAY and number > 0:
                missing += number
                items += number
                if items > REPLY_ITEMS:
                    raise ReplyTooLong(f"its reply has {items} values, and rqtui reads {REPLY_ITEMS} at most")
            elif kind == _VALUE and number >= 0:
                if number > VALUE_BYTES:
                    raise ReplyTooLong(f"its reply has a value of {number} bytes, and Redis allows {_mb(VALUE_BYTES)}")
                at += number + 2
        arrived = min(at, arrived)
        self._reply_bytes += arrived - begun
        self._skipped, self._missing, self._items = at - arrived, missing, items
        del head[:arrived]
        if self._reply_bytes > REPLY_BYTES:
            raise ReplyTooLong(f"its reply has more than {_mb(REPLY_BYTES)}")


# A possible header of a long array. hiredis allocates memory for the whole array when it reads the header.
_LONG_TABLE = re.compile(rb"\*\d{7}")
_SMALL_VALUE = re.compile(rb"\$([0-9]{1,6})\r\n")
_ARRAY, _VALUE = b"*$"
_SIZED = frozenset(b"*$")


def _mb(number: int) -> str:
    return f"{number >> 20} MB"


def _number(text: bytearray) -> int:
    try:
        return int(text)
    except ValueError:  # hiredis refuses the reply when it parses this header.
        return 0


class UnexpectedReply(exceptions.InvalidResponse):
    """A reply has another type than its command returns. The text begins with "its reply"."""

    def __init__(self, command: str, reply: object) -> None:
        super().__init__(f"its reply to {command} has an unexpected form: {reply!r:.80}")


def check_replies(client: Redis) -> Redis:
    """Make the commands of `client` raise UnexpectedReply for a malformed reply, and return the client."""
    client.response_callbacks = _CheckedCallbacks(client.response_callbacks)
    return client


class _CheckedCallbacks(CaseInsensitiveDict):
    """The response callbacks of redis-py by command, with a check of the reply.

    A client shares the callbacks with its pipelines.
    """

    def __contains__(self, command: Any) -> bool:
        return str(command).upper() in _FORMS or bool(super().__contains__(command))  # type: ignore[no-untyped-call]

    def __getitem__(self, command: str) -> Any:
        has_form = _FORMS.get(command.upper())
        convert = dict.get(self, command.upper())

        def converted(reply: Any, **options: Any) -> Any:
            try:
                if has_form is None or has_form(reply):
                    return convert(reply, **options) if convert else reply
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                pass
            raise UnexpectedReply(command, reply)

        return converted


def _is_number(reply: object) -> bool:
    return type(reply) is int


def _is_text(reply: object) -> bool:
    return reply is None or isinstance(reply, bytes)


def _has_texts(reply: object) -> bool:
    return isinstance(reply, list) and all(map(_is_text, reply))


def _is_step(reply: object) -> bool:
    return isinstance(reply, list) and len(reply) == 2 and _is_text(reply[0]) and _has_texts(reply[1])


_FORMS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("LLEN", "ZCARD", "SCARD", "HLEN", "XLEN", "EXISTS", "SISMEMBER", "STRLEN"), _is_number),
    **dict.fromkeys(("TYPE", "GET", "HGET", "LINDEX"), _is_text),
    **dict.fromkeys(("LRANGE", "ZRANGE", "SMEMBERS", "HMGET", "MGET", "HGETALL", "HKEYS", "HVALS", "KEYS"), _has_texts),
    **dict.fromkeys(("SCAN", "SSCAN", "HSCAN", "ZSCAN"), _is_step),
}
"""Checks of the RESP2 replies, before redis-py converts them, to the plain commands that rqtui sends."""


def _create_reader(reader: Any, parse_error: Any) -> LimitedReader:
    """Create the limited reader that replaces redis-py's reader, which has read nothing yet."""
    return LimitedReader(
        protocolError=exceptions.InvalidResponse, replyError=parse_error, notEnoughData=reader.gets(), errors="replace"
    )


def _truncate(text: str) -> str:
    return text if len(text) <= ERROR_CHARACTERS else text[: ERROR_CHARACTERS - 1] + "…"


class LimitedParser(_HiredisParser):
    """redis-py's parser for blocking connections, with limits on the size of replies."""

    def on_connect(self, connection: Any, **options: Any) -> None:
        """Create the limited reader for the socket of a new connection."""
        super().on_connect(connection, **options)  # type: ignore[no-untyped-call]
        self._reader = _create_reader(self._reader, self.parse_error)

    @classmethod
    def parse_error(cls, response: str) -> Any:
        """Return the exception for an error reply, after truncating its text."""
        return super().parse_error(_truncate(response))  # type: ignore[no-untyped-call]


class LimitedParserForLoop(_AsyncHiredisParser):
    """redis-py's parser for asyncio connections, with limits on the size of replies."""

    def on_connect(self, connection: Any) -> None:
        """Create the limited reader for the stream of a new connection."""
        super().on_connect(connection)  # type: ignore[no-untyped-call]
        self._reader = _create_reader(self._reader, self.parse_error)  # type: ignore[assignment]

    @classmethod
    def parse_error(cls, response: str) -> Any:
        """Return the exception for an error reply, after truncating its text."""
        return super().parse_error(_truncate(response))  # type: ignore[no-untyped-call]
