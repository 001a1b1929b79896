"""Limits for the size of Redis replies, so that a hostile or broken server cannot exhaust the memory of this process.

`connect` and `aio.pool` use `LimitedParser` and `LimitedAsyncParser` in their connections. hiredis itself has no
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
    """A reply of Redis is longer than any that Redis sends to rqtui. The text begins with "its reply"."""


# Every reply calls these; `super()` takes a tenth of a microsecond more.
_feed, _gets, _has_data = Reader.feed, Reader.gets, Reader.has_data


class LimitedReader(Reader):
    """A hiredis reader that raises ReplyTooLong for a reply beyond the limits.

    The connection must be closed then.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._not_whole = options["notEnoughData"]
        self._head: Any = bytearray()  # bytes whose headers have not been parsed yet
        self._reset_reply_state()

    def _reset_reply_state(self) -> None:
        self._is_empty = True  # no reply is incomplete, and no byte of the next one has arrived
        self._reads_headers = False
        self._skipped = 0  # bytes of a value that have not arrived yet
        self._missing = 0  # values of the current reply that have not arrived yet
        self._items = self._reply_bytes = 0  # of the current reply so far

    def feed(self, data: Any, start: int = 0, length: int | None = None) -> None:
        """Pass received bytes to hiredis, and check the limits of the reply. The bytes begin at `start` of `data`."""
        end = len(data) if length is None else start + length
        previous_length = 0
        if self._is_empty:
            if self._reads_headers:
                self._reset_reply_state()
            self._head = data[start:end]  # a copy, because the connection receives into the same buffer again
        else:
            if type(self._head) is not bytearray:
                self._head = bytearray(self._head)
            previous_length = len(self._head)
            self._head += memoryview(data)[start:end]
        self._is_empty = False
        if (
            self._reads_headers
            or len(self._head) > FREE_BYTES
            or _LONG_TABLE.search(self._head, max(0, previous_length - 9))
        ):
            self._reads_headers = True
            self._parse_reply_headers()
        _feed(self, data, start, end - start)

    def gets(self, decode: bool = True) -> Any:
        """Return the next reply of Redis, or the `notEnoughData` value if the reply has not arrived completely."""
        try:
            reply = _gets(self, decode)
        except MemoryError:
            raise ReplyTooLong("its reply does not fit into the memory of this computer") from None
        if reply is not self._not_whole:
            self._is_empty = not _has_data(self)
        return reply

    def _parse_reply_headers(self) -> None:
        """Parse the RESP2 headers in the received bytes, and keep only an incomplete line at their end."""
        if type(self._head) is not bytearray:
            self._head = bytearray(self._head)
        head, position, reply_start = self._head, self._skipped, 0
        missing, items, arrived = self._missing, self._items, len(self._head)
        match_value = _SMALL_VALUE.match
        while True:
            # Most values of a long reply are small. A second loop for them takes half the time.
            while missing and (value := match_value(head, position)):
                missing -= 1
                position = value.end() + int(value[1]) + 2
            line_end = head.find(b"\r\n", position, position + LINE_BYTES)
            if line_end < 0:
                if len(head) - position >= LINE_BYTES:
                    raise ReplyTooLong(f"its reply has a line of more than {_format_megabytes(LINE_BYTES)}")
                break
            if not missing:  # The next reply begins here.
                missing, items, reply_start, self._reply_bytes = 1, 0, position, 0
            missing -= 1
            kind, header = head[position], head[position + 1 : line_end]
            position = line_end + 2
            if kind == _ARRAY and (number := _parse_header_number(header)) > 0:
                missing += number
                items += number
                if items > REPLY_ITEMS:
                    raise ReplyTooLong(f"its reply has {items} values, and rqtui reads {REPLY_ITEMS} at most")
            elif kind == _VALUE and (number := _parse_header_number(header)) >= 0:
                if number > VALUE_BYTES:
                    raise ReplyTooLong(
                        f"its reply has a value of {number} bytes, and Redis allows {_format_megabytes(VALUE_BYTES)}"
                    )
                position += number + 2
        arrived = min(position, arrived)
        self._reply_bytes += arrived - reply_start
        self._skipped, self._missing, self._items = position - arrived, missing, items
        del head[:arrived]
        if self._reply_bytes > REPLY_BYTES:
            raise ReplyTooLong(f"its reply has more than {_format_megabytes(REPLY_BYTES)}")


# A possible header of a long array. hiredis allocates memory for the whole array when it reads the header.
_LONG_TABLE = re.compile(rb"\*\d{7}")
_SMALL_VALUE = re.compile(rb"\$([0-9]{1,6})\r\n")
_ARRAY, _VALUE = b"*$"


def _format_megabytes(number: int) -> str:
    return f"{number >> 20} MB"


def _parse_header_number(text: bytearray) -> int:
    try:
        return int(text)
    except ValueError:  # hiredis refuses the reply when it parses this header.
        return 0


class UnexpectedReply(exceptions.InvalidResponse):
    """A reply of Redis has another type than its command returns. The text begins with "its reply"."""

    def __init__(self, command: str, reply: object) -> None:
        super().__init__(f"its reply to {command} has an unexpected form: {reply!r:.80}")


def check_reply_types(client: Redis) -> Redis:
    """Make the commands of a Redis client raise UnexpectedReply for a reply of the wrong type. Returns the client."""
    client.response_callbacks = _CheckedCallbacks(client.response_callbacks)
    return client


class _CheckedCallbacks(CaseInsensitiveDict):
    """The response callbacks of redis-py by command, each with a check of the reply's type.

    A client shares the callbacks with its pipelines.
    """

    def __contains__(self, command: Any) -> bool:
        return str(command).upper() in _FORMS or bool(super().__contains__(command))  # type: ignore[no-untyped-call]

    def __getitem__(self, command: str) -> Any:
        has_form = _FORMS.get(command.upper())
        convert = dict.get(self, command.upper())

        def convert_checked_reply(reply: Any, **options: Any) -> Any:
            try:
                if has_form is None or has_form(reply):
                    return convert(reply, **options) if convert else reply
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                pass
            raise UnexpectedReply(command, reply)

        return convert_checked_reply


def _is_integer_reply(reply: object) -> bool:
    return type(reply) is int


def _is_text_reply(reply: object) -> bool:
    return reply is None or isinstance(reply, bytes)


def _is_text_list_reply(reply: object) -> bool:
    return isinstance(reply, list) and all(map(_is_text_reply, reply))


def _is_scan_reply(reply: object) -> bool:
    return isinstance(reply, list) and len(reply) == 2 and _is_text_reply(reply[0]) and _is_text_list_reply(reply[1])


_FORMS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("LLEN", "ZCARD", "SCARD", "HLEN", "XLEN", "EXISTS", "SISMEMBER", "STRLEN"), _is_integer_reply),
    **dict.fromkeys(("TYPE", "GET", "HGET", "LINDEX"), _is_text_reply),
    **dict.fromkeys(
        ("LRANGE", "ZRANGE", "SMEMBERS", "HMGET", "MGET", "HGETALL", "HKEYS", "HVALS", "KEYS"), _is_text_list_reply
    ),
    **dict.fromkeys(("SCAN", "SSCAN", "HSCAN", "ZSCAN"), _is_scan_reply),
}
"""Checks of the RESP2 replies, before redis-py converts them, to the plain commands that rqtui sends."""


def _create_limited_reader(reader: Any, parse_error: Any) -> LimitedReader:
    """Create the reader with limits that replaces redis-py's reader, which has read nothing yet."""
    return LimitedReader(
        protocolError=exceptions.InvalidResponse, replyError=parse_error, notEnoughData=reader.gets(), errors="replace"
    )


def _truncate_error_text(text: str) -> str:
    return text if len(text) <= ERROR_CHARACTERS else text[: ERROR_CHARACTERS - 1] + "…"


class LimitedParser(_HiredisParser):
    """redis-py's parser for blocking connections, with limits on the size of replies."""

    def on_connect(self, connection: Any, **options: Any) -> None:
        """Create the reader with limits for the socket of a new connection."""
        super().on_connect(connection, **options)  # type: ignore[no-untyped-call]
        self._reader = _create_limited_reader(self._reader, self.parse_error)

    @classmethod
    def parse_error(cls, response: str) -> Any:
        """Return the exception for an error reply of Redis, with its text truncated to 4096 characters."""
        return super().parse_error(_truncate_error_text(response))  # type: ignore[no-untyped-call]


class LimitedAsyncParser(_AsyncHiredisParser):
    """redis-py's parser for asyncio connections, with limits on the size of replies."""

    def on_connect(self, connection: Any) -> None:
        """Create the reader with limits for the stream of a new asyncio connection."""
        super().on_connect(connection)  # type: ignore[no-untyped-call]
        self._reader = _create_limited_reader(self._reader, self.parse_error)  # type: ignore[assignment]

    @classmethod
    def parse_error(cls, response: str) -> Any:
        """Return the exception for an error reply of Redis, with its text truncated to 4096 characters."""
        return super().parse_error(_truncate_error_text(response))  # type: ignore[no-untyped-call]
