"""Bodies that are shown byte by byte."""

from __future__ import annotations

import tracemalloc
import zlib

from families import in_one

from rqtui.text.body import body_lines, body_view, inflated

BYTES = bytes(range(0x41, 0x41 + 15)) + b"\x00\xffz~\x7f"


def test_bytes_are_shown_in_rows_with_their_letters() -> None:
    wide = body_view(BYTES, viewer="hex", width=100).text.splitlines()
    assert wide == [
        "00000000  41 42 43 44 45 46 47 48  49 4a 4b 4c 4d 4e 4f 00  ABCDEFGHIJKLMNO.",
        "00000010  ff 7a 7e 7f                                       .z~.",
    ]
    narrow = body_view(BYTES, viewer="hex", width=40).text.splitlines()
    assert narrow == [
        "0000 41 42 43 44 45 46 47 48 ABCDEFGH",
        "0008 49 4a 4b 4c 4d 4e 4f 00 IJKLMNO.",
        "0010 ff 7a 7e 7f             .z~.",
    ]


def test_a_text_whose_first_letters_could_begin_another_kind_of_zlib_stays_a_text() -> None:
    assert zlib.decompressobj().decompress(b"8Ojla"), "it would be taken for one"
    assert inflated(b"8Ojla") == inflated(b"xylophone") == inflated(b"") == b""
    assert inflated(zlib.compress(b"{}")) == b"{}"


LARGE = 100_000


@in_one(
    "body",
    [b"\xc6" + b"x" * LARGE, b"\x00\x01" * LARGE, b'"' + b"x" * LARGE + b'"', b"password=" + b'"' + b"x" * LARGE],
    ids=lambda body: repr(body[:12]),
)
def test_a_long_body_is_shown_whole_in_a_few_times_its_memory(body: bytes) -> None:
    tracemalloc.start()
    try:
        letters = sum(len(line) + 1 for line in body_lines(body, most_bytes=len(body))) - 1
        assert tracemalloc.get_traced_memory()[1] < 10 * len(body)
    finally:
        tracemalloc.stop()
    assert letters == len(body_view(body, most_bytes=len(body)).text)


def test_lines_of_a_body_are_those_of_its_view() -> None:
    secret = b"\x00\x01 password=hunter2 \x02" + bytes(range(256))
    for body in (b"", b'{"a": 1}', b"two\nlines", secret, secret * 9):
        for most in (20, 1000):
            view = body_view(body, most_bytes=most)
            assert "\n".join(body_lines(body, most_bytes=most)) == view.text
            assert "hunter2" not in view.text
