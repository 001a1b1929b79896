"""Bodies, pickles, errors, secrets and previews of random texts: the files `random_*.txt` have what becomes of each.

The texts are drawn with fixed seeds. `RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/text/test_random_texts.py` writes the
text; review the difference as code. A long result is kept as a digest.
"""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest
from kept_text import assert_lines_match_file
from slow_cases import mark_slow_cases

from rqtui.text import body, causes, fields, formats, masking, pickles, preview, tracebacks
from rqtui.text.preview import RowFields

KEPT = Path(__file__)
SECRET = "hunter2x"


def digest(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return (
        ascii(text)
        if len(text) <= 60
        else f"{len(text)} {ascii(text[:24])} #{sha256(ascii(text).encode()).hexdigest()[:8]}"
    )


def digest_all(values: Iterable[object]) -> str:
    return sha256("\n".join(map(repr, values)).encode("ascii", "backslashreplace")).hexdigest()[:12]


def attempt(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return function(*args, **options)
    except ValueError:  # Its text is that of Python, and differs between versions.
        return "refused"


# -- bodies ------------------------------------------------------------------------------------------------------------

TOKENS = (
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    " ",
    "\n",
    '"',
    '"a"',
    '"token"',
    '"b\\n"',
    '"\\u00e9"',
    '"\\ud83d\\ude00"',
    '"\\x"',
    f'"{SECRET}"',
    f'"password={SECRET}"',
    "1",
    "-1.5e3",
    "01",
    "true",
    "null",
    "NaN",
    "-Infinity",
    "é",
    "\x01",
    '"X-Api-Key"',
)


def build_json(random: Random, depth: int = 0) -> Any:
    kind = random.randrange(8 if depth < 4 else 4)
    if kind < 4:
        return (random.randrange(10**6), random.choice(["", "a\nb", "é", f"token={SECRET}", "x" * 30]), None, 2.5)[kind]
    number = random.randrange(4)
    if kind < 6:
        return [build_json(random, depth + 1) for _ in range(number)]
    return {
        random.choice(["a", "b", "token", "list", "Api-Key"]) + str(n): build_json(random, depth + 1)
        for n in range(number)
    }


def json_bodies() -> Iterator[str]:
    for seed in range(30):
        random = Random(seed)
        value = build_json(random)
        text = json.dumps(value, ensure_ascii=seed % 2 == 0, indent=seed % 3 or None).encode()
        shown = [
            body.render_body(text[:end] + bytes(tail))
            for end in range(0, len(text) + 1, 3)
            for tail in ((), b"}", b"\xc3")
        ]
        complete = [body._is_complete_json(text[:end]) for end in range(len(text) + 1)]
        yield f"{seed}: {digest(body.render_body(text).text)} {digest_all(shown)} complete at {complete.count(True)}"
    for seed in range(60):
        random = Random(seed)
        drawn = ["".join(random.choice(TOKENS) for _ in range(random.randrange(12))).encode() for _ in range(40)]
        views = [body.render_body(each, revealed=revealed) for each in drawn for revealed in (False, True)]
        lines = [preview.render_body_line(each) for each in drawn]
        parts = [fields.format_as_json(fields.parse_partial_body(each)) for each in drawn]
        encodings = "".join(view.encoding[0] for view in views)
        yield f"tokens {seed}: {encodings} {digest_all(views)} {digest_all(lines)} {digest_all(parts)}"


def long_bodies() -> Iterator[str]:
    for size in (32_768, 65_540):
        for title, text in {
            "a long string": json.dumps({"k": "ab " * (size // 3)}),
            "a long string with escapes": json.dumps({"k": "é\n" * (size // 7), "n": 1}),
            "a secret at its end": json.dumps({"k": "x" * size + f" token={SECRET}"}),
            "a secret at its start": json.dumps({"k": f"password={SECRET} " + "x " * (size // 2)}),
            "a long secret": json.dumps({"token": "s" * size, "n": [1, 2]}),
            "a secret name after": json.dumps({"k" * size + "token": "s", "n": 1}),
            "a secret of many parts": json.dumps({"token": [["s", {"a": n}] for n in range(size // 16)], "n": 1}),
            "many members": json.dumps({f"k{n}": n for n in range(size // 12)}),
            "many lists": json.dumps([[n] for n in range(size // 8)]),
            "plain lines": "line of text\n" * (size // 13),
            "a plain line": "wörd " * (size // 6),
            "a plain line with a secret": "word " * (size // 5) + f"password={SECRET}\n" + "word " * 9,
            "control characters": "\x01\x02ab" * (size // 4),
            "deep": "[" * (size // 40) + "]" * (size // 40),
        }.items():
            raw = text.encode()
            for most, revealed in ((body.MAX_BYTES, False), (10**9, size < 40_000)):
                pieces = [*body.render_body_pieces(raw, revealed, most)]
                whole = "".join(pieces)
                numbers = f"{len(pieces)} pieces, hidden {SECRET not in whole}"
                yield f"{title} of {size} up to {most}, {revealed}: {numbers}, {digest(whole)}"
    for text in (json.dumps({"k": "ab " * 30_000}), "word\n" * 9_000, "x" * 40_000):
        whole = "".join(body.render_body_pieces(text.encode()))
        assert whole == body.render_body(text.encode()).text


def binary_bodies() -> Iterator[str]:
    for seed in range(40):
        random = Random(seed)
        value = build_json(random)
        secret = f"password={SECRET} and more".encode() * (seed % 3)
        samples = {
            "msgpack": msgpack.packb(value),
            "pickle": pickle.dumps(value, protocol=2 + seed % 4),
            "bytes": random.randbytes(seed * 3) + secret + random.randbytes(seed),
            "letters": bytes(random.choices(range(256), weights=[1] * 32 + [9] * 224, k=seed)),
            "mostly controls": bytes(random.choices((1, 65), weights=(seed % 5, 20), k=30)),
            "zlib of bytes": zlib.compress(random.randbytes(50)),
        }
        for title, sample in samples.items():
            views = [
                body.render_body(sample, revealed, most, width, viewer)
                for revealed in (False, True)
                for most in (7, 33, 10**6)
                for width in (37, 75, 76, 80)
                for viewer in ("", "text", "hex")
            ]
            flags = digest(bytes(masking.flag_secret_bytes(sample)))
            # Libraries compress to different bytes, so only what is inside is compared.
            kept = views[36 + 24 : 36 + 25] if title.startswith("zlib") else views
            yield (
                f"{seed} {title}: {views[24].encoding} {digest_all(kept)} {flags if title != 'zlib of bytes' else ''} "
                f"{digest(body.convert_binary_to_json(sample)) if title != 'zlib of bytes' else ''}"
            )
    for letters in range(8, 13):
        for controls in range(3):
            text = b"x" * letters + b"\x01" * controls
            yield (
                f"{letters} letters, {controls} controls: {body.render_body(text).encoding} "
                f"{body.render_body(text, viewer='text').text!r}"
            )
    for head in (b"\x78\x9c", b"\x78\x01", b"\x78\x02", b"\x79\x9c", b"x", b""):
        yield f"zlib head {head!r}: {body.decompress_zlib(head + zlib.compress(b'hello')[2:])!r}"
    for size in (body.MAX_BYTES - 1, body.MAX_BYTES, body.MAX_BYTES + 1):
        packed = zlib.compress(b"a" * size)
        yield f"inner of {size}: {digest(body.render_body(packed).text)} {digest(body.convert_binary_to_json(packed))}"


# -- pickles -----------------------------------------------------------------------------------------------------------


def pickled() -> Iterator[str]:
    value = {
        "a": 1,
        "list": [1, "two", (3,), (4, 5), (6, 7, 8), ()],
        "d": {"x": None, "y": {1}},
        "b": b"\xff",
        "n": True,
    }
    for protocol in range(6):
        data = pickle.dumps(value, protocol=protocol)
        items = [attempt(pickles.parse_pickled_dict, data[:end]) for end in range(len(data) + 1)]
        shown = [
            [(each.key, each.start, each.middle, each.end) for each in found] if isinstance(found, list) else found
            for found in items
        ]
        yield f"protocol {protocol}, whole: {shown[-1]}"
        yield f"  lengths {[len(found) if isinstance(found, list) else -1 for found in shown]}"
        yield (
            f"  cut {digest_all(shown)} parsed {digest_all(format_parsed(data[:end]) for end in range(len(data) + 1))}"
        )
        without = [pickles.remove_frames(data[:end]) for end in range(len(data) + 1)]
        yield f"  without frames {len(without[-1])} of {len(data)}, {digest_all(without)}"
        replaced = [
            data[:at] + bytes((new,)) + data[at + 1 :]
            for at in range(len(data))
            for new in (0x28, 0x29, 0x30, 0x31, 0x52, 0x62, 0x75, 0x85, 0x94)
        ]
        yield f"  replaced {digest_all(map(format_parsed, replaced))} {digest_all(map(pickles.is_pickle, replaced))}"
    for data in (
        b"(lp0\nI1\naI2\na.",
        b"(dp0\nS'a'\nI1\ns.",
        b"(I1\nI2\ntp0\n.",
        b"cbuiltins\nlist\n(I1\ntR.",
        b"(icollections\nCounter\nI1\nI2\np0\n.",
        b"(ccollections\nCounter\nI1\no.",
        b"cmod\nName\n.",
        b"Pid\n.",
        b"\x80\x02I1\nQ.",
        b"\x80\x02\x82\x05.",
        b"\x80\x02I1\n2\x86.",
        b"I1\n0I2\n.",
        b"(I1\n1I2\n.",
        b"(0I2\n.",
        b"(I1\nI2\n.",
        b"]I1\na.",
        b"}I1\nI2\ns.",
        b"}(I1\nI2\nI3\nu.",
        b"\x80\x04\x8f(I1\nI2\n\x90.",
        b"\x80\x04(I1\n\x91.",
        b"I1\n}b.",
        b"cmod\nF\n)\x81}b.",
        b"cmod\nF\n)}\x92.",
        b"cmod\nF\n)I1\n\x92.",
        b"cmod\nF\nI1\nR.",
        b"cmod\nF\n)RI1\na.",
        b"cmod\nF\n)R(I1\nI2\nu.",
        b"I1\nI2\na.",
        b"I1\nI2\nI3\ns.",
        b"a.",
        b"0.",
        b"(.",
        b"\x85.",
        b"h\x05.",
        b"I1\nq\x01h\x01\x86.",
        b"\x80\x05\x97.",
        b"Vmod\nVName\n\x93.",
        b"\x80\x02}q\x00U\x01aK\x01s.",
        b"\x80\x02](K\x01e.",
        b"\x80\x02K\x01.",
        b"\x80\x02}(U\x01aK\x01U\x01b",
        b"\x80\x02}(U\x01aK\x01U\x01bK\x02u",
    ):
        yield f"{data!r}: {format_parsed(data)} {attempt(pickles.parse_pickled_dict, data)!r:.160}"
    parsed: Any = pickles.parse_pickle(pickle.dumps(value, protocol=4))
    for most in range(130):
        yield (
            f"in {most}: {pickles.format_as_python(parsed, most)} | "
            f"{json.dumps(pickles.convert_to_json_types(parsed, most))}"
        )
    yield f"get: {parsed.get('a')} {parsed.get('z')} {pickles.Pairs([('a', 1), ('a', 2)]).get('a')}"
    call = pickles.Call(pickles.Name("m", "f"), (1,), [("k", 2), (3, 4)], {"s": 1}, [5])
    for inner in (
        call,
        pickles.Name("builtins", "int"),
        pickles.Name("", "x"),
        pickles.Group("set", []),
        {1: 2},
        bytearray(b"\xff"),
        2**4001,
    ):
        yield (
            f"{type(inner).__name__}: {digest(pickles.format_as_python(inner))} "
            f"{digest(repr(pickles.convert_to_json_types({'v': inner, 5: inner})))}"
        )
    for args in ((), (1,), [1, 2], "no list", None):
        for kwargs in ({}, {"a": 1}, pickles.Pairs([("a", 1), ("b", 2)]), None):
            yield (
                f"call {args!r} {kwargs if not isinstance(kwargs, pickles.Pairs) else kwargs.pairs}: "
                f"{pickles.format_function_call('f', args, kwargs)}"
            )


def format_parsed(data: bytes) -> str:
    parsed = attempt(pickles.parse_pickle, data)
    return parsed if isinstance(parsed, str) and parsed.startswith("refused") else pickles.format_as_python(parsed)


# -- secrets -----------------------------------------------------------------------------------------------------------

PIECES = (
    "password",
    "token",
    "Authorization: Bearer ",
    "api_key",
    "cookie: ",
    "=",
    ": ",
    " => ",
    '"',
    "'",
    "\\",
    '\\\\"',
    "{",
    "}",
    "[",
    "(",
    ")",
    ",",
    " ",
    "\n",
    SECRET,
    "x1",
    "redis://op:",
    "@host",
    "http://h:80/",
    "eyJ0b2tlbiI6ImEifQAAAAAA",
    "&",
    "monkey",
    "é",
    "b'",
    "***",
)


def secrets() -> Iterator[str]:
    for seed in range(50):
        random = Random(seed)
        texts = ["".join(random.choice(PIECES) for _ in range(random.randrange(1, 10))) for _ in range(40)]
        results = [
            (
                masking.mask_text(text),
                masking.mask_printed_text(text),
                masking.mask_url(text),
                masking.mask_redis_command([text, text]),
                masking.may_have_secret(text),
                masking.is_secret_name(text),
                bytes(masking.flag_secret_bytes(text.encode())),
            )
            for text in texts
        ]
        yield f"{seed}: {results[0][0]!r:.60} {digest_all(results)}"
        whole = "".join(texts)
        for length in (7,):
            chunks = [whole[at : at + length] for at in range(0, len(whole), length)]
            assert "".join(masking.mask_text_chunks(chunks)) == masking.mask_text(whole)
    for before in (0, 28_670, 32_768):
        for secret in (
            f"password={SECRET}",
            f"Bearer {SECRET}1 ",
            f"redis://op:{SECRET}@host",
            "('token', '" + "s" * 5_000 + "')",
            "token=" + "s" * 40_000,
        ):
            for length in (5_000, 32_768):
                text = "word " * (before // 5) + secret + " word" * 2_000
                chunks = [*masking.mask_text_chunks(text[at : at + length] for at in range(0, len(text), length))]
                same = "".join(chunks) == masking.mask_text(text)
                yield f"{secret[:16]} after {before} in {length}: {[*map(len, chunks)]} {same}"
    for size in (32_760, 36_864, 70_000):
        for at in (0, size // 2, size - 40):
            inner = "x" * at + '"token": "s"' + "y" * (size - at)
            encoded = base64.b64encode(json.dumps({"a": inner}).encode()).decode()
            yield (
                f"base64 of {size}, at {at}: {len(masking.mask_text(encoded))} "
                f"{[len(each) for each in masking._decode_base64_parts(encoded)]}"
            )
    for value in (
        [],
        ["token"],
        ["token", "a"],
        ["token", "a", "b"],
        ["token", 1],
        [1, "token"],
        ["to ken", "a"],
        ["a", "token"],
        ("token", "a"),
        ["t" * 60 + "token", "a"],
    ):
        yield f"{value!r:.40}: {masking.mask_name_value_pair(value)!r:.60} {masking.mask_json_value(value)!r:.60}"
    for document in (
        {"id": "token=a", "text": ["token=a", {"queue": "token=b", "n": 5}]},
        ("token=a", None),
        "token=a",
        5,
    ):
        yield f"document {document!r}: {masking.mask_json_document(document)}"
    for length in (0, 1, 40, 47, 48, 49, 60):
        raw = b"\x00token" + b"\x02" * length + b"\x00" * 9
        yield (
            f"{length} bytes after a name: {sum(masking.flag_secret_bytes(raw))} "
            f"{masking.mask_redis_command([raw.decode('latin-1')])!r:.120}"
        )
    for url in (
        "redis://:secret@h",
        "redis://u:p@h:1/0",
        "redis://h:1/0",
        "redis://u@h",
        "redis://:secret",
        "redis:/:secret@h",
        "u:p@h",
        "u:p/q@h",
        "redis://u:p@q@h",
        "redis://h?password=x",
        "redis://h?db=1&username=u",
        "redis://h?a@b=c",
        "redis://u:p@h?x=y@z",
        "redis://u:p?x=y@z",
        "rediss://h:70000",
        "redis://h:port",
        "redis://[::1]:6379",
        "redis://a:1,b:2",
        "redis+sentinel://a:1,b:2/mymaster?sentinel_password=x",
        "redis://h:1?ssl_keyfile=k&ssl_password=p",
        "",
        "@",
        ":p@",
        "unix:///x?password=y",
        "redis://u:@h",
    ):
        yield f"{url}: {masking.mask_url(url)}"


# -- errors ------------------------------------------------------------------------------------------------------------

LINES = (
    "Traceback (most recent call last):",
    '  File "/app/jobs.py", line 7, in run',
    "    raise Failed('no such card')",
    '  File "/x/site-packages/a.py", line 3, in f',
    "    return g(x)",
    "shop.errors.Failed: no such card",
    "ValueError",
    "KeyError: 'x'",
    "    at run (/app/a.js:5:6)",
    "    at node:internal/x:1:2",
    "TypeError [ERR_X]: bad",
    "Error: no",
    "\tat com.acme.Jobs.run(Jobs.java:5)",
    "\tat java.util.X.y(X.java:6)",
    "Caused by: com.acme.Failed: why",
    "com.acme.Outer: oops",
    "Caused by: just a text",
    "/app/job.rb:5:in `run'",
    "\tfrom /x/gems/a.rb:6:in `main'",
    "/app/job.rb:5:in `run': no card (Shop::Failed)",
    "Net::ReadTimeout: Net::ReadTimeout with #<TCPSocket>",
    "#0 /app/b.php(6): run()",
    "Failed: no card in /app/a.php:5",
    "Stack trace:",
    "PHP Fatal error:  Uncaught Failed: x in /app/a.php:5",
    "panic: no card",
    "goroutine 1 [running]:",
    "main.run(0x1)",
    "\t/app/a.go:5 +0x1",
    "[signal SIGSEGV]",
    "   at Acme.Jobs.Run(String x) in C:\\app\\Jobs.cs:line 12",
    "System.Exception: no",
    "",
    "   ",
    "plain words",
    "  indented words",
    "x" * 700,
    "  + Exception Group Traceback (most recent call last):",
    '  |   File "/app/jobs.py", line 9, in run',
    "  | ValueError: inner",
    "  +-+---------------- 1 ----------------",
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
    "    ^^^^^^",
    "Uncaught Error: x",
    "E: E: E: again",
    "E(1, 'two')",
    "exit status 1",
)


def errors() -> Iterator[str]:
    for seed in range(160):
        random = Random(seed)
        results = []
        for _ in range(20):
            text = "\n".join(random.choice(LINES) for _ in range(random.randrange(1, 8)))
            trace = tracebacks.parse_traceback(text)
            frames = [
                frame and (frame.path, frame.line, frame.function, frame.source, frame.is_library)
                for frame in (trace.frame, trace.raised)
            ]
            parsed = causes.parse_error(text)
            results.append(
                (
                    trace.kind,
                    trace.message,
                    frames,
                    trace.statement,
                    tracebacks.summarize_error(text),
                    parsed.title,
                    parsed.place,
                    parsed.status,
                    causes.shorten_error_cause(parsed),
                )
            )
        yield f"{seed}: {results[0][0]!r} {results[0][1]!r:.50} {digest_all(results)}"
    for size in (598, 599, 600, 601, 1_199, 1_200, 1_201, 2_000):
        for text in ("E: " + "w" * size, "E: " + "w " * (size // 2), "w " * (size // 2) + "in /a.php:5"):
            trace = tracebacks.parse_traceback(text)
            yield f"{size}: {trace.kind} {len(trace.message)} {trace.message[-8:]!r}"
    for words in ("x", "one", "one two", "one t", "{a} two", "%s two three", "{a} {b}"):
        lines = '  File "/app/a.py", line 7, in run', f'    raise Failed("{words}")', f"Failed: {words}"
        text = "\n".join(["Traceback (most recent call last):", *lines])
        yield f"raise {words}: {tracebacks.parse_traceback(text).statement!r}"


# -- previews ----------------------------------------------------------------------------------------------------------


def previews() -> Iterator[str]:
    names = (
        "id",
        "name",
        "to",
        "user.id",
        "user.name",
        "args.0",
        "args.1.code",
        "kind",
        "password",
        "at",
        "order.id",
        "order.title",
        "long",
        "n",
    )
    before = preview.Preview()
    for seed in range(120):
        random = Random(seed)
        columns = random.sample(names, random.randrange(1, 9))
        shapes = {name: random.randrange(8) for name in columns}
        number = random.choice((1, 2, 3, 7, 8, 9, 20, 47, 48, 49, 60))
        rows = []
        for at in range(number):
            found = {}
            for name, shape in shapes.items():
                if random.random() < (1.0, 0.62, 0.58, 0.1)[shape % 4]:
                    found[name] = (
                        f"v{random.randrange(3)}",
                        str(at),
                        "same",
                        f"prefix:{'x' * shape}-{at}",
                        f"{random.getrandbits(128):032x}",
                        f"user{at}@mail.example.org",
                        "x" * random.randrange(60),
                        fields.Number(at * shape),
                    )[shape]
            rows.append(RowFields(found, (str(at),) if seed % 3 == 0 else ()))
        choice = preview.choose_preview_fields(rows)
        suits = [
            preview.is_choice_still_suitable(before, rows),
            preview.is_choice_still_suitable(choice, rows[: number // 2]),
        ]
        updated = preview.update_field_choice(before, rows)
        pairs = [preview.format_field_pairs(row.fields, (*choice.columns, *choice.others)) for row in rows[:3]]
        labels = [field.label for field in (*choice.columns, *choice.others)]
        yield f"{seed}, {number} rows: {labels} {suits} {digest_all([choice, updated, pairs])}"
        before = choice
    ids = preview.IdFormat()
    for seed in range(80):
        random = Random(seed)
        beginning = random.choice(("", "job-", "ab:", "abc:", "abcd:", "a.very.long.prefix:", "x" * 12))
        lengths, number = random.choice(((3,), (11, 12), (13, 14), (32,), (16, 24))), random.choice((1, 2, 4, 5, 6, 20))
        texts = [
            f"{beginning}{random.getrandbits(200):050x}"[: len(beginning) + random.choice(lengths)].encode()
            for _ in range(number)
        ]
        if seed % 4 == 0:
            texts += [b"other", beginning.encode() or b"z"]
        chosen = preview.choose_id_format(texts)
        kept = preview.choose_id_format(texts, ids)
        shown = [preview.shorten_id_to_format(each, chosen) for each in texts]
        yield f"ids {seed}: {tuple(chosen)} {tuple(kept)} {chosen.is_short} {digest_all(shown)}"
        ids = chosen
    for seed in range(60):
        random = Random(seed)
        texts = [
            "".join(random.choice(("a", "日", "-", " ", "é", "0123456789abcdef")) for _ in range(random.randrange(9)))
            for _ in range(20)
        ]
        results = [
            (
                formats.fit_to_width(text, width, align),
                formats.elide_middle(text, width),
                formats.shorten_job_id(text, width),
                formats.wrap_to_width(text, max(1, width)),
            )
            for text in texts
            for width in (-1, 0, 1, 2, 3, 5, 11, 12, 13, 19)
            for align in ("left", "right", "center")
        ]
        values = [random.choice((0, 1, 2.5, 1000, 10**6, -1)) for _ in range(random.randrange(12))]
        bars = [
            formats.build_sparkline(values, width, ascii_only)
            for width in (None, 0, 3, 20)
            for ascii_only in (False, True)
        ]
        shares = [
            formats.build_share_bar([*zip("abcdefghijklm", map(int, values), strict=False)], width)
            for width in range(16)
        ]
        yield f"cells {seed}: {digest_all(results)} {digest_all(bars)} {digest_all(shares)}"


@pytest.mark.parametrize(
    "part",
    mark_slow_cases(
        [json_bodies, long_bodies, binary_bodies, pickled, secrets, errors, previews],
        (long_bodies, pickled, secrets, previews),
    ),
)
def test_random_texts_are_shown_as_before(part: Callable[[], Iterator[str]]) -> None:
    assert_lines_match_file(part(), KEPT.with_name(f"random_{part.__name__}.txt"))
