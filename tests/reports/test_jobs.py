"""Jobs as documents: text of others that stands for no bytes breaks no document, on no system."""

from __future__ import annotations

import json

from families import run_in_one_test
from redis import Redis
from shell import shell

from rqtui.model import Fact
from rqtui.reports.jobs import build_body_document, build_fact_documents, encode_text
from rqtui.text.masking import MASK

HALF = "\ud83d"  # the first half of an emoji: a producer cut its text at so many characters


def test_text_stays_text_bytes_become_base64_and_half_a_pair_becomes_a_sign() -> None:
    assert encode_text("grüße") == encode_text("grüße".encode()) == "grüße"
    assert encode_text(b"\xff\x00") == encode_text("\udcff\x00") == "/wA="
    assert encode_text(f"ab{HALF}") == "ab\ufffd"
    assert encode_text(f"{HALF} \U0001f600 \udcff") == "\ufffd \U0001f600 \ufffd"


def test_facts_of_such_text_are_reported() -> None:
    facts = build_fact_documents([Fact("origin", HALF), Fact("raw", b"\xff"), Fact("tree", f'["{HALF}"]', "json")])
    assert [fact["value"] for fact in facts] == ["\ufffd", "/w==", ["\ufffd"]]
    assert facts[1]["value_encoding"] == "base64" and "value_encoding" not in facts[0]


@run_in_one_test(
    "raw, encoding, value",
    [
        (b'{"a": [1, 2.5, null]}', "json", {"a": [1, 2.5, None]}), (b"7", "json", 7), (b'"text"', "json", "text"),
        (b'{"a": NaN}', "utf-8", '{"a": NaN}'), (b"1e999", "utf-8", "1e999"), (b"plain", "utf-8", "plain"),
        ("größe".encode(), "utf-8", "größe"), (b"", "utf-8", ""), (b"a\r\n\tb\x1b[0m", "utf-8", "a\r\n\tb\x1b[0m"),
        (b"\x01" + b"a" * 9, "utf-8", "\x01" + "a" * 9), (b"\x01" + b"a" * 8, "base64", "AWFhYWFhYWFh"),
        (b"\x81\xa1a\x01", "msgpack", {"a": 1}), (b"\x92\x01\xc4\x01\xff", "msgpack", [1, "/w=="]),
        (b"\x81\x01\xa1x", "msgpack", {"1": "x"}),
        (b"\x81\xc4\x01\xff\x01", "msgpack", {"/w==": 1}), (b"\x81\x90\x01", "base64", "gZAB"),
        (b"\xd4\x05a", "base64", "1AVh"), (b"\xcb\x7f\xf0\0\0\0\0\0\0", "base64", "y3/wAAAAAAAA"),
        (b"\x91\xcb\x7f\xf0\0\0\0\0\0\0", "base64", "kct/8AAAAAAAAA=="), (b"\xff\xfe", "base64", "//4="),
        (b"\xc3", "base64", "ww=="), (b"\x01", "base64", "AQ=="), (b"[" * 5000, "utf-8", "[" * 5000),
    ],
)  # fmt: skip
def test_a_body_is_json_text_messagepack_or_base64_by_its_content(raw: bytes, encoding: str, value: object) -> None:
    assert build_body_document(raw, len(raw)) == {"bytes": len(raw), "encoding": encoding, "value": value}
    omitted = {"bytes": len(raw) + 1, "encoding": "omitted", "value": None}
    assert build_body_document(raw, len(raw) + 1) == build_body_document(None, len(raw) + 1) == omitted
    assert build_body_document(raw, 0)["encoding"] == encoding


@run_in_one_test(
    "fact, document",
    [
        (Fact("took", 5, "duration"), {"value": 5}), (Fact("took", True), {"value": True}),
        (Fact("a", "b"), {"value": "b"}),
        (Fact("a", '{"b": 1}', "json"), {"value": {"b": 1}}), (Fact("a", "{b", "json"), {"value": "{b"}),
        (Fact("a", "1e999", "json"), {"value": "1e999"}), (Fact("a", '{"b": 1}'), {"value": '{"b": 1}'}),
        (Fact("password", "b"), {"value": MASK}), (Fact("password", "b", "ref"), {"value": "b"}),
        (Fact("a", "password=b"), {"value": f"password={MASK}"}),
        (Fact("a", "password=b", "ref"), {"value": "password=b"}),
        (Fact("a", '{"password": "b"}', "json"), {"value": {"password": MASK}}),
        (Fact("a", b"\xff"), {"value": "/w==", "value_encoding": "base64"}),
        (Fact("a", b"\xffpassword=b"), {"value": MASK}),
        (Fact("a", "b", "ref", "mail"), {"value": "b", "queue": "mail"}),
    ],
)  # fmt: skip
def test_a_fact_has_its_value_in_the_type_of_its_kind(fact: Fact, document: dict[str, object]) -> None:
    assert build_fact_documents([fact]) == [{"name": fact.name, "kind": fact.kind, **document}]


def test_a_page_with_such_a_job_is_complete(client: Redis, url: str) -> None:
    client.set("stat:processed", 1)
    client.sadd("queues", "default")
    for jid, arguments in (("a", ["fine"]), ("b", [HALF, {HALF: 1}])):
        fields = {"class": "Mailer", "jid": jid, "args": arguments, "queue": "default", "error_message": HALF}
        client.lpush("queue:default", json.dumps(fields))
    ran = shell(url, "jobs", "sidekiq:default", "queue", "--json")
    assert ran.code == 0, ran.err
    assert {job["id"]: job["call"] for job in ran.json["jobs"]} == {
        "a": 'Mailer.perform("fine")',
        "b": 'Mailer.perform("\ufffd", {"\ufffd" => 1})',
    }
    assert shell(url, "show", "sidekiq:default", "b", "--json").code == 0
