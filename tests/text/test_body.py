"""Bodies that are shown byte by byte, and long ones in pieces."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from itertools import accumulate

import pytest
from families import run_in_one_test
from hypothesis import given
from hypothesis import strategies as st

from rqtui.text.body import MAX_BYTES, convert_binary_to_json, decompress_zlib, render_body, render_body_pieces
from rqtui.text.masking import MASK, mask_text, mask_text_chunks

BYTES = bytes(range(0x41, 0x41 + 15)) + b"\x00\xffz~\x7f"


def test_bytes_are_shown_in_rows_with_their_letters() -> None:
    wide = render_body(BYTES, viewer="hex", width=100).text.splitlines()
    assert wide == [
        "00000000  41 42 43 44 45 46 47 48  49 4a 4b 4c 4d 4e 4f 00  ABCDEFGHIJKLMNO.",
        "00000010  ff 7a 7e 7f                                       .z~.",
    ]
    narrow = render_body(BYTES, viewer="hex", width=40).text.splitlines()
    assert narrow == [
        "0000 41 42 43 44 45 46 47 48 ABCDEFGH",
        "0008 49 4a 4b 4c 4d 4e 4f 00 IJKLMNO.",
        "0010 ff 7a 7e 7f             .z~.",
    ]


def test_a_text_whose_first_letters_could_begin_another_kind_of_zlib_stays_a_text() -> None:
    assert zlib.decompressobj().decompress(b"8Ojla"), "it would be taken for one"
    assert decompress_zlib(b"8Ojla") == decompress_zlib(b"xylophone") == decompress_zlib(b"") == b""
    assert decompress_zlib(zlib.compress(b"{}")) == b"{}"


LARGE = 100_000


@pytest.mark.slow
@run_in_one_test(
    "body",
    [b"\xc6" + b"x" * LARGE, b"\x00\x01" * LARGE, b'"' + b"x" * LARGE + b'"', b"password=" + b'"' + b"x" * LARGE],
    ids=lambda body: repr(body[:12]),
)
def test_a_long_body_is_shown_whole_in_a_few_times_its_memory(body: bytes) -> None:
    tracemalloc.start()
    try:
        letters = sum(map(len, render_body_pieces(body, most_bytes=len(body))))
        assert tracemalloc.get_traced_memory()[1] < 10 * len(body)
    finally:
        tracemalloc.stop()
    assert letters == len(render_body(body, most_bytes=len(body)).text)


def test_lines_of_a_body_are_those_of_its_view() -> None:
    secret = b"\x00\x01 password=hunter2 \x02" + bytes(range(256))
    for body in (b"", b'{"a": 1}', b"two\nlines", secret, secret * 9):
        for most in (20, 1000):
            view = render_body(body, most_bytes=most)
            assert "".join(render_body_pieces(body, most_bytes=most)) == view.text
            assert "hunter2" not in view.text


RECORD = {"id": 7, "token": "hunter2", "note": 'a "quoted" é😀\n', "tags": ["a", "b"], "url": "http://u:hunter2@host/"}
MB = 1_000_000
PIECES_BYTES = 900_000  # for the pieces that are decoded and masked, whatever the length of the body
LONG = {
    "records": json.dumps([RECORD] * 2_000).encode(),
    "records with escapes only": json.dumps([[{"k": "\u00e9\n"}]] * 8_000).encode(),
    "one string": json.dumps({"data": "password=hunter2 and 😀 " * 8_000}, ensure_ascii=False).encode(),
    "one string of escapes": json.dumps({"data": "😀\n password=hunter2 " * 8_000}).encode(),
    "one line of text": "login é token: hunter2, 😀 ".encode() * 8_000,
    "lines of text": "a line é password=hunter2 😀\r\n".encode() * 8_000,
    "bytes": b"\x00\x01\xff and password=hunter2 and other text" * 8_000,
}


@pytest.mark.slow
@run_in_one_test("name", list(LONG))
def test_a_long_body_is_rendered_in_little_more_memory_than_its_bytes(name: str) -> None:
    body = LONG[name]
    assert len(body) > 120_000
    chunks = pytest.MonkeyPatch()
    chunks.setattr("rqtui.text.body._CHUNK", 2048)
    chunks.setattr("rqtui.text.masking._CHUNK", 2048)
    chunks.setattr("rqtui.text.masking._MARGIN", 512)
    list(render_body_pieces(body[:1000]))  # imports and compiled patterns
    shown = found = longest = 0
    tracemalloc.start()
    try:
        for piece in render_body_pieces(body, most_bytes=len(body)):
            shown += len(piece)
            found += "hunter2" in piece
            longest = max(longest, len(piece))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        chunks.undo()
    assert found == 0
    assert longest < 16_000
    # A body of bytes is searched for secrets with a flag and a letter for each byte.
    assert peak < (2 * len(body) if name == "bytes" else 0) + PIECES_BYTES, peak
    assert shown == len(render_body(body, most_bytes=len(body)).text)


@pytest.mark.slow
@run_in_one_test("name", [name for name in LONG if "text" in name])
def test_a_long_text_is_masked_like_a_short_one(name: str) -> None:
    text = LONG[name].decode()
    expected = mask_text(text).replace("\r\n", "\n")
    assert MASK in expected and "hunter2" not in expected
    assert "".join(render_body_pieces(text.encode(), most_bytes=len(text.encode()))) == expected


@pytest.mark.slow
def test_a_long_string_is_shown_like_short_ones() -> None:
    part = '😀\n \\ "é" password=hunter2; '
    short, long = (render_body(json.dumps([part * times]).encode(), most_bytes=10 * MB).text for times in (10, 20_000))
    inside = short[5:-3]
    assert "hunter2" not in inside and "😀\\n" in inside
    assert long == f'[\n  "{inside * 2_000}"\n]'


SECRETS = (
    'password="hunter2 \\" x"',
    "Authorization: Bearer hunter2\n",
    '["X-Api-Key", "hunter2"]',
    "redis://user:hunter2@host",
    "eyJwYXNzd29yZCI6ICJodW50ZXIyaHVudGVyMiJ9",
    "token=hunter2",
    "cookie: a=hunter2; b=hunter2\n",
)


@pytest.mark.slow
def test_a_secret_is_masked_wherever_the_text_is_cut_into_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rqtui.text.masking._MARGIN", 256)
    monkeypatch.setattr("rqtui.text.masking._CHUNK", 512)
    for secret in SECRETS:
        for before in range(200, 520, 3):
            text = "x" * before + " " + secret + " end of it" + " y" * 500
            assert mask_text(secret) != secret
            parts = (text[start : start + 100] for start in range(0, len(text), 100))
            assert "".join(mask_text_chunks(parts)) == mask_text(text)


def test_a_secret_of_several_chunks_is_masked_to_its_end() -> None:
    value = "hunter2 " * 60_000
    for text in (f'a password="{value}" b', f"x token: [{value}"):
        parts = [text[start : start + 65_536] for start in range(0, len(text), 65_536)]
        assert "".join(mask_text_chunks(parts)) == mask_text(text)
        assert "hunter2" not in mask_text(text)


DOCUMENTS = ["[]", "{}", '""', "0", "-0.5e+3", "NaN", "-Infinity", "null", "[1,2]", '{"a":{"b":[]},"c":[{}]}']
DOCUMENTS += ['"\\u00e9\\/"', " [ 1 , 2 ]\n"]
BROKEN = ["[1,]", "[,1]", '{"a"}', '{"a":}', '{"a":1,}', '{,"a":1}', "{1:2}", "[1}", '{"a":1]', '{"a":1"b":2}']
BROKEN += ["01", "1.", "-", ".5", "1e", "+1", "[1],", "[[1]", "1]", "nul", "Infinityx", "['a']", "[1]x", "[1 2]"]
BROKEN += ['"a', '"\\x"', '"\\u12g4"', '"\t"', '"\n"', '{"a" "b"}']


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_a_body_is_json_where_the_parser_of_python_reads_it() -> None:
    for text in (*DOCUMENTS, *BROKEN, *accumulate('{"a": [1, "b", {"c": null}], "d": -1.5e3}')):
        assert (render_body(text.encode()).encoding == "json") is is_json(text), text
    assert all(map(is_json, DOCUMENTS)) and not any(map(is_json, BROKEN))
    assert render_body(b"[" * 900 + b"]" * 900).encoding == "json"
    assert render_body(b"[" * 5_000 + b"]" * 5_000).encoding == "utf-8"


@given(st.text('[]{},:"\\ \n01.-eEu"', max_size=12))
def test_any_signs_are_json_where_the_parser_of_python_reads_them(text: str) -> None:
    assert (render_body(text.encode()).encoding == "json") is is_json(text)


@pytest.mark.parametrize(("size", "is_shown"), [(MAX_BYTES, True), (MAX_BYTES + 1, False)])
def test_compressed_text_of_up_to_64_kib_is_converted_whole(size: int, *, is_shown: bool) -> None:
    assert convert_binary_to_json(zlib.compress(b"a" * size)) == ("a" * size if is_shown else "")
