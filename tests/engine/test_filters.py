"""What people type behind `/` and in `--filter`."""

from __future__ import annotations

import json
import pickle
import re
import zlib
from dataclasses import replace

import msgpack
import pytest
from families import run_in_one_test

from rqtui.engine.filters import build_exact_term, build_part_term, parse_filter, parse_text_filter
from rqtui.errors import UsageError
from rqtui.model import Job, State
from rqtui.systems.native import Native
from rqtui.systems.redisched import Redisched

JOB = Job(
    b"welcome:42",
    "mail",
    "native",
    "dead",
    State.DEAD,
    b"welcome:42",
    name="send_invoice",
    error="TimeoutError: smtp 10.0.0.7",
    body="""{"to": "a@b.c", "path": "x/y", "note": "it's Größe", "customer": {"plan": "gold", "id": 42},
        "items": [{"sku": "A-1", "paid": true}, {"sku": "B-2"}], "a.b": "dotted"}""".encode(),
)


@run_in_one_test(
    "expression",
    [
        "",
        "   ",
        "welcome",
        "WELCOME:42",
        "invoice",
        "timeouterror",
        "a@b.c",
        "größe",
        "it's",
        "x/y",
        "id:welcome",
        "job:invoice",
        "err:smtp",
        "body:to",
        "/time.*smtp/",
        "/^welcome:\\d+$/",
        "/unfinished|time",
        r"/x\/y/",
        "err:/10\\.0/",
        'err:"smtp 10"',
        "'TimeoutError: smtp'",
        "!nothing",
        "!err:KeyError",
        "!/^nothing$/",
        "invoice err:timeout !body:nothing",
        "foo:bar !foo:bar".replace("foo:bar ", ""),
        ".to:a@b.c",
        ".note:~größe",
        '.note:"it\'s größe"',
        ".path:/^x.y$/",
        "!.to:nobody",
        ".customer.plan:gold",
        ".customer.id:42",
        ".items.sku:B-2",
        ".items.1.sku:b-2",
        ".items.0.paid:true",
        ".customer:~gold",
        ".a.b:dotted",
        ".to:~b.c",
        '.note:~"t\'s"',
        ".customer.plan:/^go/",
        "!.customer.id:~7",
    ],
)
def test_an_expression_finds_the_job(expression: str) -> None:
    assert parse_filter(expression)(JOB)


@run_in_one_test(
    "expression",
    [
        "nothing",
        "id:invoice",
        "job:welcome",
        "err:a@b.c",
        "body:smtp",
        "/^42/",
        "!welcome",
        "!err:timeout",
        "invoice nothing",
        'err:"smtp  10"',
        "foo:bar",
        "err:timeout err:KeyError",
        ".to:welcome",
        ".customer.plan:silver",
        ".customer.gone:gold",
        ".items.0.sku:B-2",
        ".items.7.sku:B-2",
        ".to.more:a",
        "!.customer.plan:gold",
        ".customer.plan",
        ".customer:gold",
        ".customer.id:4",
        ".customer.id:2",
        ".to:b.c",
        ".customer.plan:gol",
        ".customer.plan:~silver",
        "!.customer.id:~2",
    ],
)
def test_an_expression_passes_the_job_over(expression: str) -> None:
    assert not parse_filter(expression)(JOB)


@pytest.mark.parametrize("expression", ["/(/", "err:/[/", "/*/", "err:", "!body:", "a >= 3", "==", "age > x"])
def test_an_expression_that_means_nothing_is_refused_in_a_sentence(expression: str) -> None:
    with pytest.raises(UsageError, match="the filter"):
        parse_filter(expression)


def test_a_number_of_a_body_is_found_as_it_is_and_not_as_a_part() -> None:
    def accepts(expression: str, body: bytes) -> bool:
        return parse_filter(expression)(replace(JOB, body=body))

    assert accepts(".customer.id:4711", b'{"customer": {"id": 4711}}')
    assert accepts(".customer.id:4711", b'{"customer": {"id": "4711"}}')
    assert not accepts(".customer.id:4711", b'{"customer": {"id": 304711}}')
    assert accepts(".customer.id:~4711", b'{"customer": {"id": 304711}}')
    assert accepts(".net:12.50", b'{"net": 12.5}') and accepts(".net:12.50", b'{"net": "12.50"}')
    assert not accepts(".net:12.50", b'{"net": 12.51}') and not accepts(".net:12.50", b'{"net": 112.5}')


def test_ages_attempts_and_body_fields_are_compared_as_numbers() -> None:
    job = replace(
        JOB,
        state=State.READY,
        since_ms=1_000_000,
        attempts=3,
        body=b'{"amount": 99.5, "items": [{"n": 1}, {"n": "7"}]}',
    )
    system = Native()
    system.set_server_time(1_600_000)  # the job has waited ten minutes
    for expression, matches in {
        "age>=10m": True,
        "age > 599s attempts >= 3": True,
        "age<9m": False,
        "!age<9m": True,
        "age>599": True,
        "attempts>3": False,
        "attempts<=3 attempts>2": True,
        ".amount>99 .amount<100": True,
        ".amount < 99.5": False,
        ".items.n>5": True,
        ".items.n>8": False,
        ".gone>0": False,
        "!.gone>0": True,
        ".items.n>=7 welcome": True,
    }.items():
        assert parse_filter(expression, [system])(job) is matches, expression
    assert parse_filter("age>0")(replace(job, since_ms=None, enqueued_ms=None)) is False, "its age is unknown"
    assert parse_filter(".amount>1").needs_job_bodies and not parse_filter("age>1 attempts>1").needs_job_bodies


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("age>soon", "the age in age>soon cannot be 'soon': write 500ms"),
        ("attempts>=many", 'compares attempts with a number, as in attempts>=3, and "many" is none'),
        (".amount<x", "as in .amount>100"),
        ("size > 10", "compares with < <= > >= only age, attempts and body fields"),
        ("age >", "compares with < <= > >= only age, attempts and body fields"),
    ],
)
def test_a_comparison_with_no_number_is_refused(expression: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)):
        parse_filter(expression)


def test_attempts_are_compared_only_where_a_system_stores_them() -> None:
    with pytest.raises(UsageError, match="redisched does not store how often a job was tried"):
        parse_filter("attempts>0", [Redisched()])
    accepts = parse_filter("attempts<9", [Native(), Redisched()])
    assert accepts(JOB) and not accepts(replace(JOB, system="redisched"))
    with pytest.raises(UsageError, match="these are no jobs"):
        parse_text_filter("age>1h")
    assert parse_text_filter("err:x") == parse_filter("err:x")


def test_a_dot_is_a_dot_unless_slashes_are_around_it() -> None:
    assert not parse_filter("smtp.10")(JOB)
    assert parse_filter("/smtp.10/")(JOB)


def test_a_filter_shows_whether_it_needs_bodies() -> None:
    assert parse_filter("text").needs_job_bodies
    assert parse_filter("body:x").needs_job_bodies
    assert parse_filter("call:x").needs_job_bodies and parse_filter("id:x .to:y").needs_job_bodies
    assert not parse_filter("id:x err:y !job:z").needs_job_bodies and not parse_filter("").needs_job_bodies


def test_a_body_in_messagepack_is_searched_as_the_screen_shows_it() -> None:
    packed = replace(JOB, body=msgpack.packb({"to": "a@b.c", "tries": 7, "whole": True, 5: ["größe", b"\xff"]}))
    for found in ('body:/"tries": 7/', "body:true", "body:größe", "a@b.c", 'body:/"5":/', "body:base64:"):
        assert parse_filter(found)(packed), found
    assert not parse_filter("body:/tries.*8/")(packed)
    cut = replace(JOB, body=packed.body[:12])
    assert parse_filter("body:a@b")(cut) and not parse_filter('body:/"to"/')(cut)


@run_in_one_test(
    "body, found, missed",
    [
        (b'{"to": "a@b.c"}', r"body:/\A\{[^\n]*\}\Z/", "body:xyz"),
        (b"xyz", r"body:/\Axyz/", "body:a@b.c"),
        (zlib.compress(b'{"to": "a@b.c"}'), "body:a@b.c", r"body:/\A\{/"),
        (pickle.dumps({"to": "a@b.c"}), 'body:/"to": "a@b.c"/', "body:xyz"),
        (msgpack.packb({"to": "a@b.c"}), 'body:/"to": "a@b.c"/', "body:xyz"),
        (b"\x7fabc", r"body:/\A\x7fabc\Z/", "body:xyz"),
        (b"", r"body:/\A\Z/", "body:a"),
        (None, r"body:/\A\Z/", "body:a"),
    ],
)
def test_a_body_is_searched_in_each_encoding(body: bytes | None, found: str, missed: str) -> None:
    job = replace(JOB, body=body)
    assert parse_filter(found)(job) and not parse_filter(missed)(job)


def test_bytes_that_are_no_text_do_not_break_a_filter() -> None:
    job = Job(b"\xff\xfe", "mail", "native", "ready", State.READY, b"\xff\xfe", body=b"\x80abc")
    assert parse_filter("abc")(job)
    assert not parse_filter("xyz")(job)


def test_a_filter_finds_a_worker_by_name() -> None:
    job = Job(b"a", "mail", "native", "reserved", State.RESERVED, b"a", worker="host-7:worker")
    assert parse_filter("worker:host-7")(job)
    assert parse_filter("HOST-7")(job)
    assert not parse_filter("worker:host-8")(job)
    assert not parse_filter("err:host-7")(job)
    assert not parse_filter("!worker:/^host-/")(job)
    assert not parse_filter("worker:host-7").needs_job_bodies


def test_a_sign_that_turns_nothing_round_is_looked_for() -> None:
    loud = replace(JOB, error="no!")
    for expression in ("!", "timeout !", "! no"):
        assert not parse_filter(expression)(JOB), expression
    assert parse_filter("!")(loud) and parse_filter("no !")(loud) and parse_filter("! no")(loud)


def test_a_term_is_built_that_matches_one_value_and_no_other() -> None:
    values = ["acme", "ACME", "two words", 'a "b" c', "it's", "/x/", "~x", "12.5", "12.50", "", "a\tb", "\x1b[2J", "ß"]
    for value in values:
        accepts = parse_filter(build_exact_term(".tenant", value, values))
        matching = [each for each in values if accepts(replace(JOB, body=json.dumps({"tenant": each}).encode()))]
        assert matching == [value], value
    assert build_exact_term(".tenant", "acme") == ".tenant:acme"
    assert build_exact_term("job", "send") == r"job:/^send\Z/"
    assert build_exact_term(".a b", "x") == build_exact_term(".a:b", "x") == build_exact_term("nonsense", "x") == ""


def test_a_term_is_built_that_matches_a_part_of_a_text() -> None:
    for text in ("smtp", "two words", '"it\'s"', "a/b", "/x", "\x1b["):
        accepts = parse_filter(build_part_term("err", text))
        assert accepts(replace(JOB, error=f"before {text} after")) and not accepts(replace(JOB, error="other")), text
    assert build_part_term("err", "CardDeclined") == "err:CardDeclined"


def test_a_quoted_operator_is_searched_as_text() -> None:
    job = replace(JOB, error="expected a > b")
    assert parse_filter('err:">"')(job) and parse_filter("'>'")(job) and parse_filter('"a > b"')(job)
