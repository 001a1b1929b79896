"""Names, errors, facts and bodies where a length or a number is at a bound: `errors_at_bounds.txt` has every result.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/text/test_errors_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import json
import pickle
import zlib
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

import msgpack
from kept_text import assert_lines_match_file

from rqtui.errors import UsageError
from rqtui.model import Fact, Ref
from rqtui.text import body, causes, elision, facts, masking, names, paths, pickles, pickling, sanitise, tracebacks
from rqtui.text import msgpack as packed
from rqtui.text.causes import Grouping, Width

KEPT = Path(__file__).with_name("errors_at_bounds.txt")


def digest(text: str) -> str:
    """Return a short text unchanged; of a long one its length, its ends and a digest."""
    return (
        repr(text)
        if len(text) < 100
        else f"{len(text)} {text[:20]!r} {text[-20:]!r} {sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    )


def short_names() -> Iterator[str]:
    groups = {
        "levels": ("acme.production.mail", "acme.production.sms", "acme.staging.mail", "acme.mail"),
        "numbers": tuple(f"queue-{number:02}" for number in range(12)),
        "equal ends": ("a_long_name_of_a_queue", "b_long_name_of_a_queue", "a_long_name_of_b_queue"),
        "wide": ("日本語のキュー一番", "日本語のキュー二番", "日本語"),
        "one": ("a-single-long-name",),
        "ellipses": (".ba", "…", "…b."),
        "nested": ("mail", "mail.high", "mail.high.retry", "mail.low"),
    }
    for title, group in groups.items():
        for width in (-1, 0, 1, 2, 3, 4, 5, 7, 8, 11, 12, 15, 19, 20, 21):
            forms = elision.elide_names(frozenset(group), width)
            yield f"{title} in {width}: {'|'.join(forms[name] for name in group)}"
        fitter = elision.create_name_fitter(group)
        yield f"{title} fitted: {fitter(group[0], 5)}|{fitter('another name', 6)}|{fitter(group[0], 99)}"
        for count in (1, 2, len(group)):
            prefixes = [elision.find_shared_name_prefix(group[:count], splits_at_hyphens=by) for by in (False, True)]
            yield f"{title}, first {count}: {prefixes}"
    for limit in (0, 1, 2, 3, 4):
        yield f"joined {limit}: {names.join_names(('a', 'b', 'c'), limit)}"
    refs = [Ref("rq", "a"), Ref("rq", "a"), Ref("native", "b"), Ref("rq", "b")]
    yield f"duplicates: {sorted(names.find_duplicate_names(refs))}"


def characters() -> Iterator[str]:
    for code in (
        0, 8, 9, 10, 13, 31, 32, 126, 127, 128, 159, 160, 173, 0x2000, 0x2028, 0x3000, 0xD800, 0xDC7F, 0xDC80, 0xDCFF,
        0xDD00, 0xE000, 0xFEFF, 0x1F600, 0x10FFFF,
    ):  # fmt: skip
        shown = [sanitise.safe(f"a{chr(code)}b", is_ascii) for is_ascii in (False, True)]
        restored = [ascii(sanitise.restore_unprintable_characters(each)) for each in shown]
        yield f"{code:X}: {shown} {restored} {sanitise.has_replacement_symbols(shown[0])}"
    for marks in range(12):
        yield f"{marks} marks: {ascii(sanitise.safe('e' + chr(0x301) * marks))}"
    for symbol in ("‹10FFFF›", "‹110000›", "<0041>", "^@", "^?", "\\x80", "\\xff", "\\x7f", "␡", "␀"):
        yield f"{symbol}: {ascii(sanitise.restore_unprintable_characters(symbol))}"


def searched_paths() -> Iterator[str]:
    value = {"a": [{"b": 1}, {"b": 2}, 3], "a.b": 4, "c": {"d": {}, "e": [[{"f": 5}]]}}
    for path in ("a", "a.0", "a.1.b", "a.2", "a.3", "a.b", "c.d", "c.e.0.0.f", "c.e.0.1", "x", ""):
        found = [*paths.find_values_at_path(value, path.split(".") if path else ())]
        yield f"{path}: {[paths.format_searchable_value(each) for each in found]}"
    deep: object = 1
    for depth in range(12):
        yield f"depth {depth}: {paths.list_value_paths([deep])}"
        deep = {"v": deep} if depth % 2 else [{"w": deep}]
    for size in (1, 2, 3, 5, 8, 9, 10, 11, 19, 20, 21, 40, 50, 51, 99, 100, 101):
        yield f"{size} items: {len(paths.list_value_paths([[{f'n{number}': 1} for number in range(size)]]))}"
    yield f"order: {paths.list_value_paths([{'a': 1}, {'b': 1, 'a': 2}, {'b': 1}, {'b': 3}])}"


def error_causes() -> Iterator[str]:
    for size in (38, 39, 40, 41, 42):
        text = f"{'word ' * 20}"[:size]
        yield f"{size} letters: {causes.find_short_error_cause(text)!r} {causes.find_short_error_cause('x' * size)!r}"
    for error in (
        "ValueError: bad",
        "RuntimeError: it broke",
        "RuntimeError",
        "a.b.HTTPError: 404 at 5",
        "Net::Read: x",
    ):
        yield f"{error}: {causes.find_short_error_cause(error)}"
    for width in Width:
        for values in (1, 2, 7, 8, 9):
            errors = [f"ValueError: order {'abcdefghij'[at]} of shop is not paid" for at in range(values)]
            parsed = [causes.parse_error(error) for error in errors]
            keys = {Grouping(parsed, width).find_group_key(error) for error in parsed}
            yield f"{width.name}, {values} values: {len(keys)} groups, {causes.build_group_title(parsed, width)}"
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    for differing in range(9):
        errors = [
            causes.parse_error(
                "KeyError: " + " ".join(f"{word}{'xy'[n]}" if at < differing else word for at, word in enumerate(words))
            )
            for n in range(2)
        ]
        grouping = Grouping(errors)
        keys = {grouping.find_group_key(error) for error in errors}
        yield f"{differing} of 8 words differ: {len(keys)} {causes.build_group_title(errors)}"
    for usual in (3, 4, 5, 7, 8, 9):
        templates = Counter({"usual text here": usual, "other text here": 1, "third": 1 if usual > 5 else 0})
        yield f"{usual} usual: {causes._merge_message_templates(templates)}"
    for sample in (["KeyError: # gone"], ["KeyError: # gone", "KeyError: # left"]):
        grouping = Grouping(map(causes.parse_error, sample))
        yield f"not in the sample of {len(sample)}: {grouping.find_group_key(causes.parse_error('KeyError: one gone'))}"
    for count in (39, 40, 41, 42):
        errors = [causes.parse_error(f"KeyError: {'w ' * (count - 1)}{end}") for end in "abcdefghi"]
        grouping = Grouping(errors)
        yield f"{count} words: {len({*map(grouping.find_group_key, errors)})} groups"


PYTHON = 'Traceback (most recent call last):\n  File "/app/jobs.py", line 7, in run\n    {}\nshop.Failed: no {} left'
TRACES = {
    "python": PYTHON.format("raise Failed('no card left')", "card"),
    "python with few words": PYTHON.format("raise Failed('no')", "card"),
    "python with a placeholder": PYTHON.format("raise Failed(f'no {card} left {at}')", "card"),
    "python that passes on": PYTHON.format("raise Failed(message)", "card"),
    "python in a library": PYTHON.format("raise Failed('no card left')", "card").replace("/app", "/x/site-packages"),
    "java": (
        "a.B: first\n\tat c.D.e(D.java:5)\nCaused by: f.G: second\n\tat java.util.H.i(H.java:6)\n\tat k.L.m(L.java:7)"
    ),
    "java with one cause line": "a.B: first\n\tat c.D.e(D.java:5)\nCaused by: f.G: second",
    "ruby": "/app/job.rb:5:in `run': no card (Shop::Failed)\n\tfrom /app/main.rb:6:in `main'",
    "ruby with a cause": (
        "/app/job.rb:5:in `run': no card (Shop::Failed)\n\tfrom /app/main.rb:6:in `main'\n"
        "Caused by: /app/db.rb:7:in `query': no row (PG::Error)\n\tfrom /app/job.rb:3:in `run'"
    ),
    "ruby that repeats": "Net::ReadTimeout: Net::ReadTimeout with #<TCPSocket:(closed)>",
    "node": "TypeError [ERR_X]: bad\n    at run (/app/a.js:5:6)\n    at node:internal/x:1:2",
    "php": "App\\Failed: no card in /app/a.php:5\nStack trace:\n#0 /app/b.php(6): run()",
    "go": "panic: no card\n\ngoroutine 1 [running]:\nmain.run(0x1)\n\t/app/a.go:5 +0x1",
    "a command": "line one\nline two\nlast line",
    "an indented text": "summary\n  detail\nlast",
    "one line": "just a text",
    "blank": "  \n ",
    "empty": "",
}


def traces() -> Iterator[str]:
    for title, text in TRACES.items():
        trace = tracebacks.parse_traceback(text)
        frames = [frame and (frame.short, frame.function, frame.is_library) for frame in (trace.frame, trace.raised)]
        summary = tracebacks.summarize_error(text)
        yield f"{title}: {trace.kind!r} {trace.message!r} {frames} {trace.statement!r} {summary!r}"
    for size in (8_190, 8_191, 8_192, 8_193):
        yield f"{size} letters: {digest(tracebacks.truncate_error_middle(('abcdefg' * size)[:size]))}"
    for filler in (4_000, 8_000, 9_000):
        for title in ("python", "java", "go"):
            long = TRACES[title].replace("\n", "\n" + "#" * filler + "\n", 1)
            for text in (long, TRACES[title] + "\n" + "#" * filler, "#" * filler + "\n" + TRACES[title]):
                trace = tracebacks.parse_traceback(text)
                frame = trace.frame and trace.frame.short
                yield f"{title} with {filler}: {trace.kind!r} {digest(trace.message)} {frame}"
    for size in (395, 400, 405):
        yield f"a class before {size} letters: {digest(tracebacks.parse_traceback('a.Failed: ' + 'x' * size).message)}"


def job_facts() -> Iterator[str]:
    for count in (1, 2, 39, 40, 41, 49, 50, 51, 99, 100, 101, 199, 200, 201, 400):
        found = facts.format_fact(Fact("note", "\n".join(map(str, range(count))), "text"))
        yield f"{count} lines: {len(found.lines)} {found.is_block} {found.lines[-1]}"
    for fact in (
        Fact("password", "x", "text"), Fact("password", "x", "ref"), Fact("n", 5, "duration"),
        Fact("n", b"\xff", "text"),
        Fact("n", '{"a":1}', "json"), Fact("n", 1_500, "duration"), Fact("n", 7, "odd"),
    ):  # fmt: skip
        yield f"{tuple(fact)}: {tuple(facts.format_fact(fact))} {tuple(facts.format_fact(fact, is_revealed=True))}"


def bodies() -> Iterator[str]:
    document = {"to": "é@b.c", "list": [1, [2, {}], []], "token": "s3cret", "n": None}
    text = json.dumps(document, ensure_ascii=False).encode()
    samples: dict[str, bytes] = {
        "json": text,
        "msgpack": msgpack.packb(document),
        "pickle": pickle.dumps(document, protocol=4),
        "zlib json": zlib.compress(text),
        "zlib text": zlib.compress(b"hello world\n" * 5),
        "text": "line one\r\nline zwei é\n".encode(),
        "binary": bytes(range(256)),
        "nine letters and a control": b"abcdefghi\x01",
        "ten letters and a control": b"abcdefghij\x01",
        "eleven letters and two controls": b"abcdefghijk\x01\x02",
        "half a character": "aé".encode()[:-1],
        "not json": b'{"a":1}}',
        "a number": b"12",
        "a word": b"12x",
    }
    for title, sample in samples.items():
        yield f"{title}: {body.list_body_viewers(body.render_body(sample).encoding)}"
        # Libraries compress to different lengths, so a part of compressed bytes is not compared.
        sizes = (1, 2, len(sample) - 1, len(sample), len(sample) + 1) if "zlib" not in title else (65_536,)
        for most in sizes:
            for viewer in ("", "text", "hex") if "zlib" not in title else ("",):
                view = body.render_body(sample, most_bytes=most, viewer=viewer)
                yield f"{title}, first {most}, {viewer or 'usual'}: {view.encoding} {digest(view.text)}"
        revealed = body.render_body(sample, revealed=True, width=75)
        yield f"{title} revealed: {revealed.encoding} {digest(revealed.text)}"
        yield f"{title} decoded: {digest(repr(paths.decode_body(sample)))}"
    for width in (36, 37, 75, 76, 77):
        yield f"hex in {width}: {digest(body.render_body(bytes(range(40)), width=width, viewer='hex').text)}"
    for depth in (999, 1_000, 1_001):
        nested = b"[" * depth + b"]" * depth
        yield f"nested {depth}: {body.render_body(nested).encoding} {body._is_complete_json(nested)}"
        members = b'{"a":' * depth + b"1" + b"}" * depth
        yield f"members {depth}: {body.render_body(members).encoding}"
    for depth in (23, 24, 25, 26):
        yield f"indented {depth}: {digest(body.render_body(b'[' * depth + b'1' + b']' * depth).text)}"
    for most in range(18):
        yield f"JSON in {most}: {''.join(body._indent_json(b'[1, [2], 3]', False, most))!r}"
    for size in (32_767, 32_768, 32_769):
        pieces = [*body._regroup_at_line_ends(["x" * size, "y\n", "z"])]
        masked = [*masking.mask_text_chunks(["x" * size, "y"])]
        yield f"a piece of {size}: {[*map(len, pieces)]}, masked: {[*map(len, masked)]}"
    for size in (4_095, 4_096, 4_097, 32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 70_000):
        for title, long in {
            "text": b"x" * size,
            "lines": b"0123456789abcde\n" * (size // 16) + b"x" * (size % 16),
            "accents": ("é" * size).encode()[:size],
            "string": b'{"a":"' + b"y" * size + b'"}',
            "escapes": b'{"a":"' + b"\\u00e9" * (size // 6) + b"z" * (size % 6) + b'"}',
            "controls after letters": b"x" * size + b"\x01" * 600,
        }.items():
            pieces = [*body.render_body_pieces(long)]
            yield f"{title} of {size}: {digest(''.join(pieces))} in {[*map(len, pieces)][:4]} of {len(pieces)}"
    for value in (
        0,
        255,
        256,
        65_535,
        65_536,
        2**31 - 1,
        2**31,
        -(2**31),
        -(2**31) - 1,
        2**2031,
        2**2040,
        2**2047,
        -(2**70),
    ):
        written = pickling.write_pickle(value)
        yield f"pickled {value if abs(value) < 2**40 else value.bit_length()}: {len(written)} {written[:8]!r}"
    for size in (0, 1, 30, 31, 32, 100):
        compressed = zlib.compress(b"x" * size)
        for most in (30, 31, 32):
            yield f"zlib of {size}, {most}: {len(body.decompress_zlib(compressed, most))}"
    for size in (body.MAX_BYTES - 1, body.MAX_BYTES, body.MAX_BYTES + 1):
        compressed = zlib.compress(b"x" * size)
        shown, converted = body.render_body(compressed).text, body.convert_binary_to_json(compressed)
        yield f"zlib text of {size}: {digest(shown)} {digest(converted)}"
    yield f"no zlib: {body.decompress_zlib(b'x')!r} {body.decompress_zlib(b'x' + b'0' * 9)!r}"


def packed_bodies() -> Iterator[str]:
    samples = {
        f"{kind} of {size}": msgpack.packb({n: n for n in range(size)} if kind == "map" else [*range(size)])
        for kind in ("map", "array")
        for size in (0, 1, 14, 15, 16, 17)
    }
    samples |= {
        f"{value!r:.20}": msgpack.packb(value) for value in (127, -1, "", "a" * 31, "a" * 70_000, b"", 2**32, None)
    }
    samples |= {
        "two maps": b"\x80\x80",
        "one array and text": b"\x90a",
        "a map of lists": b"\x81\x90\x01",
        "nothing": b"",
    }
    samples |= {f"none by {first:x}": bytes((first, 0, 0, 0, 0)) for first in (0xDB, 0xDD, 0xDF, 0xE0)}
    for title, sample in samples.items():
        whole = packed.convert_msgpack_to_json(sample)
        parts = [packed.parse_partial_msgpack(sample[:end]) for end in (len(sample), len(sample) - 1, 2)]
        yield f"{title} {sample[:1]!r}: {digest(whole)} {[digest(str(part)) for part in parts]}"
    for sample in (b"\x7f", b"\x80", b"\x81", b"{", b"a", b"\xa1a", b"[1]"):
        try:
            yield f"given {sample!r}: {packed.convert_json_to_msgpack(sample)!r}"
        except UsageError as error:
            yield f"given {sample!r}: {error}"


def pickled_values() -> Iterator[str]:
    texts = {"empty": [], "list": [1, "two", (3,), (), {"a": None}], "text": "x" * 20, "bytes": b"y" * 20, "set": {1}}
    for title, value in texts.items():
        parsed = pickles.parse_pickle(pickle.dumps(value, protocol=4))
        whole = pickles.format_as_python(parsed)
        for most in sorted({0, 1, 2, 10, len(whole) - 1, len(whole), len(whole) + 1} - {-1}):
            converted = pickles.convert_to_json_types(parsed, most)
            yield f"{title} in {most}: {pickles.format_as_python(parsed, most)} {converted}"
    for bits in (3_999, 4_000, 4_001):
        number = pickles.parse_pickle(pickle.dumps(1 << bits - 1, protocol=4))
        converted = pickles.convert_to_json_types(number)
        yield f"{bits} bits: {digest(pickles.format_as_python(number))} {digest(repr(converted))}"
    deep: object = 0
    for depth in range(43):
        if depth > 38:
            parsed = pickles.parse_pickle(pickle.dumps(deep, protocol=4))
            converted = pickles.convert_to_json_types(parsed)
            yield f"depth {depth}: {digest(pickles.format_as_python(parsed))} {digest(repr(converted))}"
        deep = [deep]
    for size in (pickles.MOST_BYTES - 1, pickles.MOST_BYTES, pickles.MOST_BYTES + 1):
        data = pickle.dumps(b"z" * (size - len(pickle.dumps(b"z" * 300, protocol=3)) + 300), protocol=3)
        try:
            yield f"{len(data) - pickles.MOST_BYTES} bytes beyond the most: {len(str(pickles.parse_pickle(data)))}"
        except ValueError as error:
            yield f"{error}"
    for data in (
        b"\x80\x02N.",
        b"\x80\x01N.",
        b"\x80\x05N.",
        b"\x80\x06N.",
        b"\x80\x02.",
        b"\x80\x02Nx",
        b"N.",
        b"(.",
        b"t.",
        b"\x80\x02Nt.",
        b"\x80\x02(Nt.",
        b"\x81\x02N.",
    ):
        yield f"pickle {data!r}: {pickles.is_pickle(data)}"
    for function in ("tasks.add",):
        for args, kwargs in (((1,), {}), ([1, 2], {"a": 3}), (None, None)):
            yield f"call: {pickles.format_function_call(function, args, kwargs)}"


def error_groups() -> Iterator[str]:
    """Yield the groups of random errors with few words, in short."""
    words = ["card", "was", "declined", "order", "not", "found", "for", "shop", "user", "12", "5", "timeout", "after"]
    frame = 'Traceback (most recent call last):\n  File "{}", line 7, in run\n    {}\n'
    beginnings = (
        "", frame.format("/app/jobs.py", "run()"), frame.format("/x/site-packages/a.py", "run()"),
        frame.format("/app/jobs.py", 'raise Failed("no such card")'),
    )  # fmt: skip
    for seed in range(60):
        random = Random(seed)
        length, values = random.choice((1, 2, 3, 4, 6, 8, 40, 41)), random.choice((2, 3, 7, 8, 9, 20))
        base = [random.choice(words) for _ in range(length)]
        varying = random.sample(range(length), min(length, random.choice((0, 1, 1, 2, 3, 4))))
        kinds = random.choice((("ValueError: ",), ("ValueError: ", "KeyError: "), ("",), ("HTTPError: 404 ",)))
        beginning, errors = random.choice(beginnings), []
        for _ in range(random.choice((2, 3, 8, 9, 10, 20))):
            message = [
                f"w{'abcdefghijklmnopqrst'[random.randrange(values)]}" if at in varying else word
                for at, word in enumerate(base)
            ]
            errors.append(causes.parse_error(f"{beginning}{random.choice(kinds)}{' '.join(message)}"))
        found = []
        for width in Width:
            grouping = Grouping(errors[: len(errors) // 2 + 1], width)
            keys = [grouping.find_group_key(error) for error in errors]
            found.append(f"{len({*keys})} {causes.build_group_title(errors, width)} {keys}")
        short = " | ".join(each[:30] for each in found)
        yield f"random errors {seed}: {short} #{sha256(''.join(found).encode()).hexdigest()[:8]}"


def text() -> Iterator[str]:
    for part in (
        short_names,
        characters,
        searched_paths,
        error_causes,
        traces,
        job_facts,
        bodies,
        packed_bodies,
        pickled_values,
        error_groups,
    ):
        yield f"== {part.__name__}"
        yield from part()


def test_names_errors_facts_and_bodies_match_the_stored_text() -> None:
    assert_lines_match_file(text(), KEPT)
