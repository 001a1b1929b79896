"""Jobs as documents: text of others that stands for no bytes breaks no document, on no system."""

from __future__ import annotations

import json

from redis import Redis
from shell import shell

from rqtui.model import Fact
from rqtui.reports.jobs import facts, text

HALF = "\ud83d"  # the first half of an emoji: a producer cut its text at so many characters


def test_text_is_kept_bytes_are_told_in_base64_and_half_a_pair_is_a_sign_that_it_was_one() -> None:
    assert text("grüße") == text("grüße".encode()) == "grüße"
    assert text(b"\xff\x00") == text("\udcff\x00") == "/wA="
    assert text(f"ab{HALF}") == "ab\ufffd"
    assert text(f"{HALF} \U0001f600 \udcff") == "\ufffd \U0001f600 \ufffd"


def test_facts_of_such_text_are_told() -> None:
    told = facts([Fact("origin", HALF), Fact("raw", b"\xff"), Fact("tree", f'["{HALF}"]', "json")])
    assert [fact["value"] for fact in told] == ["\ufffd", "/w==", ["\ufffd"]]
    assert told[1]["value_encoding"] == "base64" and "value_encoding" not in told[0]


def test_a_page_with_such_a_job_is_told_whole(client: Redis, url: str) -> None:
    client.set("stat:processed", 1)
    client.sadd("queues", "default")
    for jid, arguments in (("a", ["fine"]), ("b", [HALF, {HALF: 1}])):
        known = {"class": "Mailer", "jid": jid, "args": arguments, "queue": "default", "error_message": HALF}
        client.lpush("queue:default", json.dumps(known))
    ran = shell(url, "jobs", "sidekiq:default", "queue", "--json")
    assert ran.code == 0, ran.err
    assert {job["id"]: job["call"] for job in ran.json["jobs"]} == {
        "a": 'Mailer.perform("fine")',
        "b": 'Mailer.perform("\ufffd", {"\ufffd" => 1})',
    }
    assert shell(url, "show", "sidekiq:default", "b", "--json").code == 0
