"""Facts of foreign jobs, and messages and results of Celery, with values at bounds: `facts_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/systems/test_facts_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from kept_text import assert_lines_match_file

from rqtui.model import Fact
from rqtui.systems.bullmq import job_facts as bullmq
from rqtui.systems.celery import messages, payloads
from rqtui.systems.rq import job_facts as rq
from rqtui.text import pickles

KEPT = Path(__file__).with_name("facts_at_bounds.txt")
NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1000
DETAILS = ("kind", "of", "name", "value")


def show(facts: Iterable[Fact]) -> str:
    return "; ".join(f"{one.name}={one.value!r} {one.kind} {one.queue}".rstrip() for one in facts) or "nothing"


def rows(*each: tuple[str, bytes, bytes, bytes]) -> list[dict[str, object]]:
    return [dict(zip(DETAILS, row, strict=True)) for row in each]


def facts_of_rq(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(rq, "_MAX_FIELD_BYTES", 9)
    usual = {"status": "queued", "description": b"add(1)", "retries_left": "", "rate_limit_key": "", "beat": "",
             "seen": "", "timeout": "", "ttl": "", "score": "", "left_ms": -1, "now_ms": NOW_MS}  # fmt: skip
    values: Mapping[str, Sequence[object]] = {
        "status": ("", "started", "stopped", "odd"), "description": (b"", b"sub"), "retries_left": ("0", "2"),
        "rate_limit_key": ("slow",), "beat": ("0", str(NOW_S)), "seen": ("0", str(NOW_S)),
    }  # fmt: skip
    yield f"usual: {show(rq.build_job_facts('mail', 'queue', 'add(1)', usual))}"
    for name, each in values.items():
        for value in each:
            yield f"{name} {value!r}: {show(rq.build_job_facts('mail', 'queue', 'add(1)', {**usual, name: value}))}"
    packed = base64.b64encode(b'"ok"')
    details = {
        "none": (),
        "result of a run": (("result", b"5-0", b"return_value", packed), ("field", b"", b"result", b"7")),
        "two results": (("result", b"5-0", b"return_value", b"7"), ("result", b"6-0", b"type", b"2"),
                        ("result", b"7-0", b"return_value", packed)),
        "8 bytes": (("result", b"5-0", b"return_value", b"x" * 8),),
        "9 bytes": (("result", b"5-0", b"return_value", b"x" * 9),),
        "result of the hash": (("field", b"", b"result", b"7"), ("result", b"5-0", b"type", b"2")),
        "meta": (("field", b"", b"meta", b'{"a": 1}'), ("field", b"", b"empty", b""), ("field", b"", b"other", b"x")),
        "times": (("field", b"", b"seen_at", b"2027-01-15T08:00:00Z"), ("field", b"", b"a_heartbeat", b"x"),
                  ("field", b"", b"last_heartbeat", b"5"), ("field", b"", b"seen", b"2027-01-15T08:00:00Z")),
        "dependencies": (("dependency", b"d1", b"origin", b"mail"), ("dependency", b"d2", b"origin", b"sms"),
                         ("dependent", b"d3", b"origin", b"")),
        "executions": (("execution", b"e1", b"worker_name", b"w1"), ("execution", b"e1", b"last_heartbeat", b"0"),
                       ("execution", b"e2", b"last_heartbeat", b"x")),
        "lifetimes": tuple(("field", b"", name, value) for name, value in (
            (b"result_ttl", b"-1"), (b"failure_ttl", b"0"))),
        "long": (("long", b"", b"exc_info", b"70000"),),
    }  # fmt: skip
    for title, each in details.items():
        for beat in ("", "5") if title == "executions" else ("",):
            row = {**usual, "more": rows(*each), "beat": beat}
            yield f"{title}, beat {beat!r}: {show(rq.build_job_facts('mail', 'queue', 'add(1)', row))}"
    for place in ("queue", *sorted(rq.FORGOTTEN)):
        for score in ("", "0", str(NOW_S), "inf"):
            row = {**usual, "more": [], "score": score, "left_ms": 0, "timeout": "180", "ttl": "-1"}
            yield f"in {place} at {score!r}: {show(rq.build_job_facts('mail', place, 'add(1)', row))}"
    for kind in (b"1", b"2", b"3", b"4", b""):
        fields = {b"type": kind, b"execution_started_at": b"5", b"execution_ended_at": b"7", b"worker_name": b"w1",
                  b"exc_string": base64.b64encode(zlib.compress(b"boom"))}  # fmt: skip
        for left_out in (b"", b"execution_started_at", b"execution_ended_at"):
            run = rows(*(("result", b"9000-1", name, value) for name, value in fields.items() if name != left_out))
            yield f"a run of type {kind!r} without {left_out!r}: {rq.parse_failed_runs(run)}"


def facts_of_bullmq() -> Iterator[str]:
    usual = {"stc": "", "ats": "1", "lock_ms": -1, "defa": "", "rjk": b"", "deid": b"", "opts": b'{"attempts": 3}'}
    values: Mapping[str, Sequence[object]] = {
        "stc": ("0", "1", "2"), "ats": ("", "0", "1", "2", "3"), "lock_ms": (-1, 0, 1), "defa": ("no",),
        "rjk": (b"daily",), "deid": (b"d",),
    }  # fmt: skip
    for is_reserved in (False, True):
        for name, each in values.items():
            for value in each:
                found = bullmq.build_job_facts("bull", "mail", is_reserved, 1, {**usual, name: value})
                yield f"{name} {value!r}, reserved {is_reserved}: {show(found)}"
    child, parent, below = b"bull:mail:c1", b"bull:sms:p1", b"bull:mail:g1"
    details = {
        "none": (), "progress": (("field", b"", b"progress", b"0"),), "text": (("field", b"", b"progress", b'"x"'),),
        "result": (("field", b"", b"returnvalue", b"5"), ("field", b"", b"stampOn", b"1800000000000"),
                   ("field", b"", b"stampAt", b"x"), ("field", b"", b"stamp", b"1800000000000")),
        "long": (("long", b"", b"data", b"70000"),),
        "parents": (("parent", b"", parent, b""), ("parent", b"", b"bull:mail:p2", b""),
                    ("parent", b"", b"bull:x", b""),
                    ("parent", b"", b"other:mail:p3", b""), ("parent", b"", b"bullmail:p4", b"")),
        "children": (("child", b"", child, b"waits"), ("child", b"", b"bull:sms:c2", b"odd"),
                     ("name", child, b"", b"gone"),
                     ("below", child, below, b"failed"), ("below", child, b"bull:mail:g2", b"odd"),
                     ("below", b"x", below, b"failed"), ("children", b"", b"waits", b"2")),
        "more children": (("child", b"", child, b"processed"), ("children", b"", b"processed", b"2"),
                          ("children", b"", b"failed", b"0"), ("children", b"", b"ignored", b"1")),
        **{f"log of {number}": (("log", b"", b"", b"a"), ("log", b"", b"", b"b"), ("logged", b"", b"", b"%d" % number))
           for number in (1, 2, 3)},
        "log without a number": (("log", b"", b"", b"a"),),
    }  # fmt: skip
    for title, each in details.items():
        found = bullmq.build_job_facts("bull", "mail", False, 1, {**usual, "more": rows(*each)})
        yield f"{title}: {show(found)}"
    for opts in (b"", b"{}", b'{"attempts": 3}', b'{"attempts": 3, "lifo": true}', b"x"):
        found = bullmq.build_job_facts("bull", "mail", False, 1, {**usual, "opts": opts, "more": []})
        yield f"opts {opts!r}: {show(found)}"


def results_of_celery() -> Iterator[str]:
    error = {"exc_type": "ValueError", "exc_message": ["a", 3]}
    usual = {"status": "FAILURE", "task_id": "a1", "result": error}
    changes: Sequence[Mapping[str, object]] = (
        {}, {"status": "SUCCESS"}, {"status": "REVOKED"}, {"status": "RETRY"}, {"status": None}, {"result": None},
        {"result": 0}, {"traceback": " Traceback…\n"}, {"traceback": " "}, {"traceback": None},
        {"result": {"exc_type": "ValueError"}}, {"result": {"exc_message": "text"}}, {"result": {"exc_message": []}},
        {"date_done": "2027-01-15T08:00:00"}, {"date_done": "soon"}, {"parent_id": "a1"}, {"parent_id": "p1"},
        {"parent_id": 3}, {"children": [[["c1", None], None], [[3]], [[]], [], "x"]}, {"children": 3},
        {"children": [[[f"c{at}"]] for at in range(payloads.MAX_CHILDREN + 1)]},
    )  # fmt: skip
    for change in changes:
        result = {**usual, **change}
        facts = [show(payloads.build_result_facts(result, has_error)) for has_error in (False, True)]
        yield f"result {str(dict(change)):.60}: {payloads.format_result_error(result)!r} {facts}"
    for raw in (b"{}", b"[]", b"x", b'{"a": 1, "b": "cut', b'{"a": ' + b"[" * 100_000, b""):
        yield f"object {raw[:20]!r}: {payloads.parse_json_object(raw)}"
    for event in ({}, {"uuid": "a"}, {"uuid": 3}, {"uuid": "\ud800"}):
        yield f"id of {event!a}: {payloads.read_task_id(event)!r} {payloads.read_text_field(event, 'uuid')!r}"
    yield f"texts: {[payloads.read_text_field({'a': value}, 'a') for value in (None, 0, [1], 'x', 'é')]}"
    for body in ({"uuid": "a"}, [{"uuid": "a"}, {"type": "x"}, {"uuid": 3}, 4], 3, None):
        document = {"body": base64.b64encode(json.dumps(body).encode()).decode(), "content-type": "application/json",
                    "properties": {"body_encoding": "base64"}}  # fmt: skip
        yield f"events {body}: {[*payloads.decode_event_message(json.dumps(document).encode())]}"


def bodies_of_celery(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(pickles, "MOST_BYTES", 100)
    base64_fields = {"body_encoding": "base64"}

    def pack(raw: bytes) -> str:
        return base64.b64encode(raw).decode()

    cases: Mapping[str, tuple[object, Mapping[str, object], Mapping[str, object], object]] = {
        "a list": ([1], {}, {}, None), "an object": ({"a": 1}, {}, {}, None), "nothing": (None, {}, {}, None),
        "a number": (3, {}, {}, None), "text": ("[1]", {}, {}, None), "no JSON": ("x", {}, {}, None),
        "too deep": ("[" * 100_000, {}, {}, None), "JSON": ("[1]", {}, {}, "application/json"),
        "another type": ("[1]", {}, {}, "application/x-yaml"), "base64": (pack(b"[1]"), {}, base64_fields, None),
        "no base64": ("é", {}, base64_fields, None), "cut base64": ("W1", {}, base64_fields, None),
        "compressed": (pack(zlib.compress(b"[1]")), {"compression": "zlib"}, base64_fields, None),
        "another compression": (pack(b"x"), {"compression": "z" * 50}, base64_fields, None),
        "100 bytes": (pack(zlib.compress(b"[%s]" % (b" " * 98))), {"compression": "zlib"}, base64_fields, None),
        "101 bytes": (pack(zlib.compress(b"[%s]" % (b" " * 99))), {"compression": "zlib"}, base64_fields, None),
        "pickle": (pack(b"\x80\x02]K\x01a."), {}, base64_fields, "application/x-python-serialize"),
        "no pickle": (pack(b"\x80\x02x"), {}, base64_fields, None),
    }  # fmt: skip
    for title, (body, headers, properties, content_type) in cases.items():
        document = {"body": body, "content-type": content_type}
        yield f"body, {title}: {messages.decode_body(document, headers, properties)}"
    for end in (b'"content-encoding": "utf-8", "headers": {"id": "a"}}', b'x", "headers": {"id": "a"}, "b": 1}',
                b'"headers": {"id": "a", "headers": {}}, "b": 1}', b"x", b'"headers": {',
                b'"headers": ' + b"[" * 100_000,
                b'\xff"content-encoding": 1, "headers": {}} "content-encoding": 2}'):  # fmt: skip
        yield f"end {end[:60]!r}: {messages._parse_message_end(end)}"
    read = messages._READ_BYTES
    for head, tail in ((b"x" * read, b""), (b"x" * (read + 1), b""), (b"x", b'"headers": {"id": "a"}}'), (b"x", b"y"),
                       (b"x" * read + b'"headers": {}}', b""), (b"x" * read + b'"headers": {}}' + b" " * 6144, b""),
                       (b"[]", b""), (b"{}", b"")):  # fmt: skip
        for is_in_unacked in (False, True):
            try:
                found = str(messages._parse_message(head, tail, is_in_unacked))
            except ValueError as error:
                found = f"ValueError: {error}"
            yield f"message of {len(head)} bytes, end {tail!r}, unacked {is_in_unacked}: {found}"
    for reprs in ((None, None), (None, "{}"), ("(1,)", None), ("", ""), ("(", "{}"), ("(1,)", "{'a': 1}"),
                  ("()", "{1: 2}"), ("(1, 2)", "{'a': 1, ...}"), ("('\ud800',)", "{}"),
                  ("()", "{'a': '" + "x" * 200 + "'}")):  # fmt: skip
        yield f"call of {reprs!a}: {messages.format_call_of_reprs('add', *reprs)}"
    most = messages.MAX_CALL_LENGTH
    for length in (most, most + 1):
        text = messages._format_keyword_arguments("{'a': '%s'}" % ("x" * (length - 9)))
        yield f"keywords of {length} letters: {text[:9]}"
    for tasks in (
        {"task": "add"},
        [{"task": "a", "args": [1]}, {"task": "b", "kwargs": {"c": 2}}],
        [],
        [3],
        {"task": 3},
    ):
        yield f"then {tasks}: {messages._format_follow_up_tasks(tasks)}"
    for info in ({}, {"exchange": ""}, {"exchange": "x"}, {"exchange": "x", "routing_key": "k"}):
        yield f"exchange {info}: {messages._format_exchange(info)!r}"
    for limit in ([None, 5], [0, 1], [5], [-1, 1e12], 3, None):
        yield f"limits {limit}: {[messages.read_time_limit_ms({'timelimit': limit}, at) for at in (0, 1)]}"


def test_facts_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (facts_of_rq(monkeypatch), facts_of_bullmq(), results_of_celery(), bodies_of_celery(monkeypatch))
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__}", *part)), KEPT)
