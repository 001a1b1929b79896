"""Jobs that a person wrote, checked and rewritten for foreign systems, with values at bounds: `new_jobs_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/systems/test_new_jobs_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file

from rqtui.errors import UsageError
from rqtui.systems.bullmq import new_jobs as bullmq
from rqtui.systems.celery import messages
from rqtui.systems.rq import new_jobs as rq
from rqtui.systems.sidekiq import new_jobs as sidekiq

KEPT = Path(__file__).with_name("new_jobs_at_bounds.txt")
NOW_MS = 1_800_000_000_000
DEEP = "[" * 100_000 + "]" * 100_000
WRAPPER = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"


def show(call: Callable[..., object], *args: Any) -> str:
    """Return what a call returns, or the text of its error. Compressed bytes are shown as they were before."""
    try:
        found = call(*args)
    except (UsageError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    if isinstance(found, dict):
        return str({name: unpack(value) for name, value in found.items()})
    return str(found)


def unpack(value: Any) -> Any:
    return zlib.decompress(value) if isinstance(value, bytes) and value[:1] == b"\x78" else value


def vary(usual: Mapping[str, object], **values: Sequence[object]) -> Iterator[tuple[str, bytes]]:
    """Yield titled JSON bodies: one field has another value, or is missing."""
    for name, each in values.items():
        for value in each:
            text = json.dumps(value)
            title = text if len(text) < 60 else f"of {len(text)} characters"
            yield f"{name} {title}", json.dumps({**usual, name: value}).encode()
    for name in usual:
        yield f"no {name}", json.dumps({key: value for key, value in usual.items() if key != name}).encode()


def jobs_of_sidekiq(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(sidekiq, "secrets", SimpleNamespace(token_hex=lambda number: f"{number} bytes"))
    usual = {"class": "Hard", "args": [1]}
    bodies = {
        "usual": json.dumps(usual).encode(), "no JSON": b"x", "a list": b"[]", "not UTF-8": b'{"class":"\xff"}',
        "too deep": f'{{"class": "A", "args": {DEEP}}}'.encode(), "ActiveJob": b'{"job_class": "MailJob"}',
        **dict(vary(
            usual, **{"class": ("", 3)}, args=(3, []), queue=("mail", "sms", "", 3), retry=(True, -1, 0, 1, "x", 1.5),
            retry_for=(-1, 0, 1_000_000_000, 1_000_000_001, True), at=(0, -1, "x", NOW_MS / 1000 + 1), tags=([], "x"),
            jid=("a" * 200, "a" * 201, "", "é", 3), created_at=(NOW_MS, NOW_MS / 1000, 5, None, True),
            enqueued_at=(5,), retried_at=(NOW_MS,), failed_at=(NOW_MS,),
        )),
    }  # fmt: skip
    for title, body in bodies.items():
        yield f"{title}: {show(sidekiq.build_enqueue_columns, 'mail', {'body': body}, NOW_MS, True)}"
    for row in (
        {"id": "b1"}, {"id": b"\xff"}, {"delay_ms": 0}, {"delay_ms": 1}, {"due_ms": NOW_MS}, {"due_ms": NOW_MS + 1},
        {"delay_ms": "x"}, {"due_ms": None},
    ):  # fmt: skip
        for body in (usual, {**usual, "at": NOW_MS / 1000 + 9}):
            given = {"body": json.dumps(body).encode(), **row}
            yield f"{row}, at {body.get('at')}: {show(sidekiq.build_enqueue_columns, 'mail', given, NOW_MS, False)}"


def rewritten_jobs_of_sidekiq(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(sidekiq, "secrets", SimpleNamespace(token_hex=lambda number: f"{number} bytes"))
    usual = {"class": "Hard", "args": [1], "jid": "a1", "at": 5, "queue": "mail", "retry": True, "created_at": 7.5}
    bodies = {
        "usual": json.dumps(usual).encode(),
        **dict(vary(usual, retry_count=(0, 3, True, "x"), created_at=(NOW_MS, None), retry=(None, False))),
        "no class": b'{"args": []}', "no list": b'{"class": "A", "args": 3}',
    }  # fmt: skip
    for title, body in bodies.items():
        for writes_ms, is_retry in ((True, True), (False, False)):
            found = show(sidekiq.rewrite_for_push, body, "mail", NOW_MS, writes_ms, is_retry)
            yield f"{title}, ms {writes_ms}, retry {is_retry}: {found}"
    wrapped = {**usual, "class": WRAPPER}
    moved = {
        "usual": json.dumps(usual).encode(), "no JSON": b"x",
        **dict(vary(usual, retry_queue=("mail", "low"), unique_for=(None, False, 5), unique_token=("x",),
                    lock_digest=("x",), unique_digest=("x",))),
        **{f"ActiveJob {title}": body for title, body in vary(
            wrapped, args=([{"queue_name": "mail", "a": 1}], [{"queue_name": "low"}], [{}], [], [1, 2]))},
    }  # fmt: skip
    for title, body in moved.items():
        yield f"moved, {title}: {show(sidekiq.rewrite_for_queue, body, 'mail', 'sms')}"
    yield f"moved to bytes: {show(sidekiq.rewrite_for_queue, moved['usual'], 'mail', chr(0xDCFF))}"


def jobs_of_rq() -> Iterator[str]:
    usual = {"func": "tasks.add", "args": [1], "kwargs": {"b": 2}}
    bodies = {
        "usual": json.dumps(usual).encode(), "no JSON": b"x", "a list": b"[]", "too deep": DEEP.encode(),
        "data": zlib.compress(b'["sub", null, [1], {}]'), "no data": zlib.compress(b""),
        "a surrogate": b'{"func": "tasks.add", "args": ["\\ud800"]}',
        **dict(vary(
            usual, func=(3, "add", "tasks.1", "a.b.c", "é.x", "a.b "), args=(3,), kwargs=([],), other=(1,),
            timeout=(-1, 0, 1, "1h", "x"), ttl=(-1, 0, 1), result_ttl=(-1, 0, 500), failure_ttl=(-1, 0, 1),
            retry=(-1, 0, 1, 999_999, 1_000_000, True), retry_intervals=([], [0], [1, 2], [1_000_000], 5, ["x"]),
            description=("text", 3), meta=({"a": 1}, 3), at_front=(True, 1),
        )),
    }  # fmt: skip
    for title, body in bodies.items():
        yield f"{title}: {show(rq.build_enqueue_columns, body, 'json')}"
    for row in ({"ttr_ms": 0}, {"ttr_ms": -1}, {"ttl_ms": 0}, {"ttl_ms": -1}, {"ttl_ms": 1}, {}):
        yield f"durations {row}: {show(rq.check_job_durations, row)}"


def jobs_of_bullmq() -> Iterator[str]:
    rows: Sequence[Mapping[str, object]] = (
        {}, {"body": b""}, {"body": b"x"}, {"body": b"NaN"}, {"body": b"\xff"}, {"body": DEEP.encode()},
        {"id": "b1", "priority": 0}, {"id": "", "delay_ms": None}, {"backoff_ms": 0}, {"backoff_ms": 5},
        {"backoff_ms": 5, "backoff_cap_ms": 5}, {"backoff_ms": 5, "backoff_cap_ms": 6}, {"backoff_cap_ms": 6},
        {"backoff_ms": 5, "opts": {"backoff": 1}}, {"backoff_ms": 5, "opts": {"keepLogs": 3}},
        {"opts": '{"attempts": 3}', "max_attempts": 3}, {"opts": '{"attempts": 3, "delay": 5, "jobId": "a"}'},
    )  # fmt: skip
    options: Sequence[object] = (
        "", "{}", b"{}", "x", "[]", '{"a": NaN}', DEEP, {"repeat": {}}, {"parent": 1, "de": 1}, {"attempts": -1},
        {"attempts": 0}, {"attempts": True}, {"attempts": "3"}, {"jobId": 3}, {"jobId": ""}, {"lifo": True},
        {"lifo": 1}, {"priority": 2**21}, {"keepLogs": 3, "é": "\ud800"},
    )  # fmt: skip
    for row in (*rows, *({"opts": opts} for opts in options)):
        yield f"{str(row):.80}: {show(bullmq.build_enqueue_columns, {'body': b'1', **row})}"


def tasks_of_celery(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(messages, "uuid4", lambda: "new")
    usual = {"task": "add", "args": [1], "kwargs": {"b": 2}}
    options = messages.Options("a1", b"null", b"5", 3)
    most_s = messages.MAX_EXPIRES_S
    tasks = {
        "usual": json.dumps(usual).encode(), "no JSON": b"x", "a list": b"[]", "not UTF-8": b'{"task":"\xff"}',
        "too deep": f'{{"task": "a", "args": {DEEP}}}'.encode(),
        **dict(vary(
            usual, task=("", 3), args=(3, []), kwargs=([], {}), id=("a" * 200, "a" * 201, "é", 3), other=(1, ),
            eta=("2026-11-22T21:44:12Z", "soon", 3), countdown=(0, -1, "x", True),
            expires=(most_s - 1, most_s, "2026-11-22T21:44:12Z", "soon", None), priority=(-1, 0, 9, 10, True),
            retries=(-1, 0, 1), timelimit=([None, 5], [5], [1, 2, 3], ["x", 1], 3), ignore_result=(True, 1),
        )),
    }  # fmt: skip
    for title, body in tasks.items():
        yield f"{title}: {show(messages.parse_written_task, body)}"
    whole = json.loads(messages.create_message(tasks["usual"], usual, "mail", options))
    yield f"message: {whole}"
    for title in ("usual", "no args", "no kwargs", "retries 1", "timelimit [null, 5]", "ignore_result true"):
        message = messages.create_message(tasks[title], json.loads(tasks[title]), "mail", options)
        yield f"message, {title}: {list_changed_fields(whole, message)}"
    body = [[1], {"b": 2}, {}]
    plain = {**whole, "body": body}
    written = {
        "whole": whole, "plain": plain, "two parts": {**whole, "body": body[:2]},
        "four parts": {**whole, "body": [*body, 1]},
        "wrong parts": {**whole, "body": [{}, [], {}]}, "pickled": {**plain, "content-type": "x"},
        "raw": {**plain, "properties": {**whole["properties"], "body_encoding": "x"}}, "number": {**whole, "body": 3},
        "no id": {**whole, "headers": {"task": "add"}}, "no task": {**whole, "headers": {"id": "a1"}},
        "no headers": {key: value for key, value in whole.items() if key != "headers"},
        "no properties": {key: value for key, value in whole.items() if key != "properties"},
        "list of headers": {**whole, "headers": []}, "no delivery_info": {**whole, "properties": {}},
        "wrong delivery_info": {**whole, "properties": {"delivery_info": 3}},
    }  # fmt: skip
    for title, message in written.items():
        found = show(messages.parse_written_task, json.dumps(message).encode())
        yield f"written, {title}: {'accepted' if found.startswith('{') else found}"
    other_root = {**whole, "headers": {**whole["headers"], "root_id": "other"}}
    for title, message in {"whole": whole, "plain": plain, "another root": other_root}.items():
        for id, priority in (("b2", 5), (None, None)):
            copy = messages.copy_message(json.dumps(message).encode(), "sms", id, {"eta": b"5"}, priority)
            yield f"copy, {title}, {id!r}, {priority}: {list_changed_fields(message, copy)}"
    yield f"addressed: {list_changed_fields(whole, messages.address_message(json.dumps(whole).encode(), 'sms'))}"
    for priority in (-1, 0, 9, 10, True, "1"):
        yield f"priority {priority!r}: {show(messages.parse_priority, priority)}"
    for length in (messages._MAX_REPR_LENGTH - 1, messages._MAX_REPR_LENGTH, messages._MAX_REPR_LENGTH + 1):
        text = messages._shorten_repr("x" * length)
        yield f"arguments of {length} letters: {len(text)}, {text[-5:]}"
    for reprs in (("(1,)", "{}"), ("()", "{'a': [1, None, 1.5, True]}"), ("(1,...)", "{}"), ("('<x>',)", "{}"),
                  ("(1e999,)", "{}"), ("((1,),)", "{}"), ("({1: 2},)", "{}"), ("(1 ,)", "{}"), ("[1]", "{}"),
                  ("1", "{}"), ("([1.5, {'a': None}],)", "{}"),
                  ("(1,)", "()"), ("(", "{}"), ("('****',)", "{}")):  # fmt: skip
        yield f"shown as {reprs}: {messages.build_task_of_reprs('add', *reprs)!r}"
    yield f"without a name: {messages.build_task_of_reprs('', '()', '{}')!r}"


def list_changed_fields(before: Mapping[str, Any], message: bytes) -> str:
    """Return the fields of a message, its headers and its properties that differ from those of another message."""
    after = json.loads(message)
    parts = {part: (before[part], after[part]) for part in ("headers", "properties")}
    changed = {
        f"{part}.{name}": new.get(name)
        for part, (old, new) in {"": (before, after), **parts}.items()
        for name in [*new, *(old.keys() - new.keys())]
        if name not in parts and old.get(name) != new.get(name)
    }
    if ".body" in changed:
        changed[".body"] = base64.b64decode(changed[".body"]).decode()
    return str(changed)


def test_new_jobs_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (
        jobs_of_sidekiq(monkeypatch), rewritten_jobs_of_sidekiq(monkeypatch), jobs_of_rq(), jobs_of_bullmq(),
        tasks_of_celery(monkeypatch),
    )  # fmt: skip
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__}", *part)), KEPT)
