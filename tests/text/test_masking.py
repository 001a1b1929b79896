"""Secrets in texts, documents, commands and URLs are masked; everything else stays as it is."""

from __future__ import annotations

import base64
import json
import pickle
import timeit
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from families import run_in_one_test

from rqtui.errors import UsageError
from rqtui.model import Job, State
from rqtui.reports import jobs as documents
from rqtui.text.body import render_body
from rqtui.text.masking import (
    MASK,
    is_secret_name,
    mask_json_document,
    mask_json_value,
    mask_printed_text,
    mask_redis_command,
    mask_text,
    mask_url,
    reveal_secrets,
    set_mask_patterns,
)
from rqtui.text.preview import render_body_line as line_of_body

SECRET = "hunter2x"


@pytest.fixture(autouse=True)
def _own_words() -> Iterator[None]:
    yield
    set_mask_patterns(())


def _celery(value: object) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


@run_in_one_test(
    "text",
    [
        f"password={SECRET}", f"password: {SECRET}", f"api_key={SECRET}", f"X-Api-Key: {SECRET}", f"apikey={SECRET}",
        f'"apiKey":"{SECRET}"', f"passphrase={SECRET}", f"aws_secret_access_key = {SECRET}", f"private_key={SECRET}",
        f"Authorization: Bearer {SECRET}", f"Authorization:Bearer {SECRET}", f"authorization=Basic {SECRET}",
        f"got Bearer {SECRET} there", f"Cookie: a=b; session={SECRET}", f"Set-Cookie: sid={SECRET}; Path=/",
        f"login(user='bob', token='{SECRET}')", f"KeyError: {{'token': '{SECRET}', 'a': 1}}", f"b'token={SECRET}'",
        f"{{'token': b'{SECRET}'}}", f"('x-api-key', '{SECRET}')", f"[('a', 'b'), (b'X-API-Key', b'{SECRET}')]",
        f"https://host/?a=1&api_key={SECRET}&b=2", f"redis://op:{SECRET}@host:6379/0", f"amqps://:{SECRET}@host",
        f"connect to https://user:{SECRET}@host failed", json.dumps({"token": SECRET}), json.dumps([{"token": SECRET}]),
        json.dumps(json.dumps({"token": SECRET})), json.dumps(json.dumps(json.dumps({"a": 1, "token": SECRET}))),
        json.dumps({"token": SECRET})[:-4], json.dumps({"body": _celery([[], {"token": SECRET}, {}])}),
        _celery({"token": SECRET}), _celery({"token": SECRET})[:-6] + "... (12 more bytes)", f"token => {SECRET}",
        json.dumps({"secret": {"deep": [SECRET]}}), f"TOKEN\n=\n{SECRET}", f'{{"password": "a\\"{SECRET}"}}',
        f"ValueError(\"token='{SECRET}'\")", f"token={SECRET!r}, at 0x7f",
    ],
)  # fmt: skip
def test_a_secret_in_data_is_masked(text: str) -> None:
    assert SECRET not in mask_text(text) and _celery({"token": SECRET})[:24] not in mask_text(text), mask_text(text)
    assert MASK in mask_text(text) or "***" in mask_text(text)
    assert mask_text(mask_text(text)) == mask_text(text)
    with reveal_secrets():
        assert mask_text(text) == text


@run_in_one_test(
    "text",
    [
        "", "TimeoutError: smtp", "KeyError: 'id'", "max 5 keys", "see https://example.com:8080/users/@me",
        "bearer of news", "a passing car",
        '{"monkey": "see"}', "rqtui:{mail}:ready", "bob@example.com", "eyJhbGciOiJIUzI1NiJ9", "W1tdLCB7fV0=",
        "redis://host:6379/0", "unix:///run/redis.sock", f"token={MASK}", "redis://op:***@host",
    ],
)  # fmt: skip
def test_a_text_without_a_secret_stays_as_it_is(text: str) -> None:
    assert mask_text(text) == mask_printed_text(text) == text


@run_in_one_test(
    "line",
    [
        "password-reset: the queue is not known.", "bull:token-refresh:wait", "rqtui:{password}:ready",
        "token        0a1b2c",
        'there is no job "secret:42" in token:refresh.', "native:password-mails  3 ready",
    ],
)  # fmt: skip
def test_names_of_queues_keys_and_ids_stay_in_output(line: str) -> None:
    assert mask_printed_text(line) == line


def test_a_line_of_output_hides_what_cannot_be_a_name() -> None:
    for line in (
        f'{{"token": "{SECRET}"}}',
        f"token={SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"x-api-key: {SECRET}",
    ):
        assert SECRET not in mask_printed_text(line), line
    assert mask_printed_text(f"cannot reach redis://op:{SECRET}@host") == "cannot reach redis://op:***@host"


def test_words_of_a_user_are_masked_everywhere() -> None:
    body = json.dumps({"pin": SECRET, "note": f"pin={SECRET}"}).encode()
    set_mask_patterns(["^pin$|pin"])
    assert SECRET not in mask_text(f"pin={SECRET}") + mask_printed_text(f"pin={SECRET}") + render_body(body).text
    assert mask_json_value({"pin": SECRET}) == {"pin": MASK}
    assert mask_redis_command(("HSET", "job:1", "pin", SECRET)) == ("HSET", "job:1", "pin", MASK)
    with pytest.raises(UsageError, match="cannot be read"):
        set_mask_patterns(["("])
    assert is_secret_name("pin")


def test_parsed_json_is_masked_by_its_names_and_in_its_texts() -> None:
    value = {
        "to": "bob",
        "n": 1,
        "api_key": {"a": [1]},
        "note": f"token={SECRET}",
        "h": [["X-Api-Key", SECRET], ["a", "b"]],
    }
    masked = mask_json_value(value)
    assert masked == {
        "to": "bob",
        "n": 1,
        "api_key": MASK,
        "note": f"token={MASK}",
        "h": [["X-Api-Key", MASK], ["a", "b"]],
    }
    with reveal_secrets():
        assert mask_json_value(value) == value


def test_a_document_keeps_what_other_commands_take() -> None:
    document = {"id": "token=a", "queue": "secret=b", "keys": ["token=c"], "token": "lease", "text": f"token={SECRET}"}
    assert mask_json_document(document) == {**document, "text": f"token={MASK}"}


def test_arguments_of_a_command_that_redis_cut_are_masked() -> None:
    body = json.dumps({"to": "bob@example.com", "token": SECRET * 20})
    shown = mask_redis_command(("LPUSH", "celery", body[:60] + "... (140 more bytes)"))
    assert SECRET not in " ".join(shown) and shown[:2] == ("LPUSH", "celery") and "bob@example.com" in shown[2]
    assert mask_redis_command(("HSET", "rqtui:{token}:jobs", "a", "x")) == ("HSET", "rqtui:{token}:jobs", "a", "x")
    assert mask_redis_command(("HSET", "k", "token", SECRET, "n", "1")) == ("HSET", "k", "token", MASK, "n", "1")
    for packed in (msgpack.packb({"token": SECRET}), pickle.dumps({"token": SECRET})):
        assert SECRET not in mask_redis_command(("RPUSH", "q", packed.decode("utf-8", "surrogateescape")))[2]


def _body(value: Any) -> dict[str, Any]:
    document: dict[str, Any] = documents.build_body_document(value, len(value))
    return document


def test_a_body_in_a_document_is_masked_in_each_encoding() -> None:
    plain = {"token": SECRET, "n": 1}
    assert _body(json.dumps(plain).encode())["value"] == {"token": MASK, "n": 1}
    assert _body(msgpack.packb({**plain, "x": b"\xff"}))["value"]["token"] == MASK
    assert _body(f"token={SECRET}".encode())["value"] == f"token={MASK}"
    raw = pickle.dumps(plain)
    assert _body(raw) == {"bytes": len(raw), "encoding": "masked", "value": MASK}
    assert _body(pickle.dumps({"n": 1}))["encoding"] == "base64"
    with reveal_secrets():
        assert _body(raw)["encoding"] == "base64" and _body(json.dumps(plain).encode())["value"] == plain


def test_a_secret_inside_a_string_of_a_body_is_masked_on_the_screen() -> None:
    for value in ({"msg": f"password={SECRET}"}, {"args": json.dumps({"token": SECRET})}, [f"Bearer {SECRET}"]):
        body = json.dumps(value).encode()
        for view in (render_body(body), render_body(body[:-1] + b" " * 70_000), render_body(body, viewer="text")):
            assert SECRET not in view.text, view
        assert SECRET not in line_of_body(body) and SECRET in render_body(body, revealed=True).text
    escaped = render_body(b'{"t\\u006fken": "%s"}' % SECRET.encode())
    assert SECRET not in escaped.text


def test_every_text_of_a_job_is_masked_in_its_document() -> None:
    text = f"token={SECRET}"
    job = Job(b"1", "q", "native", "dead", State.DEAD, b"1", name=text, call=text, error=text, problem=text,
              worker=text, body=text.encode(), body_bytes=len(text))  # fmt: skip
    assert SECRET not in json.dumps(documents.build_job_document(job))


def test_urls_of_redis_are_masked_also_without_a_scheme() -> None:
    assert mask_url(f"op:{SECRET}@host") == "op:***@host"
    assert mask_url("redis://op@host:6379/0") == "redis://op@host:6379/0"


def test_a_text_without_secrets_costs_a_microsecond_or_two() -> None:
    line = "TimeoutError: [Errno 110] connection to smtp.example.com timed out after 30 seconds of waiting" * 2
    took_s = min(timeit.repeat(lambda: mask_text(line), number=200, repeat=5)) / 200
    assert took_s < 100e-6  # a busy machine; 2 µs on a quiet one


@pytest.mark.slow
def test_64_kb_of_anything_are_masked_in_time() -> None:
    for text in ("token" * 13_000, "token=\\\"" * 8_000, "('token'," * 8_000, "Bearer " * 9_000, "a://b:" * 11_000,
                 "eyJ" * 21_000, "[\"" * 32_000, "token=\\\\\\\\" * 6_000):  # fmt: skip
        took_s = min(timeit.repeat(lambda: mask_text(text), number=1, repeat=2))  # noqa: B023  called at once
        assert took_s < 2, (text[:20], took_s)
