"""Bodies that are shown byte by byte."""

from __future__ import annotations

import zlib

from rqtui.text.body import body_view, inflated

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
