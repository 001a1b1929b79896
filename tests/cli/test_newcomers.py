"""Test the command line for people who know other queues: foreign words, missing arguments, former names."""

from __future__ import annotations

import sys

import pytest
from redis import Redis
from screens import Seeded
from shell import shell

from rqtui.config.state_folder import find_state_folder
from rqtui.connection.connect import hide_url_passwords
from rqtui.operations.journal import Journal
from rqtui.testing import keyspace

NOWHERE = "redis://127.0.0.1:1"


@pytest.fixture
def mail(client: Redis) -> Seeded:
    seeded = Seeded(client)
    seeded.put("a", "b")
    return seeded


# -- words of other programs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("status list ls queues top", "snapshot"),
        ("peek", "jobs"),
        ("add push", "put"),
        ("retry rerun", "rqtui act requeue QUEUE"),
        ("rm remove delete", "rqtui act delete QUEUE"),
        ("pause", "rqtui act pause QUEUE"),
        ("wrokers", "workers"),
        ("setings", "config"),
        ("retyr reqeue", "rqtui act requeue QUEUE"),
    ],
)
def test_a_command_of_another_program_leads_to_ours(words: str, meant: str) -> None:
    for word in words.split():
        ran = shell(NOWHERE, word)
        assert (ran.code, ran.out) == (2, "")
        assert f'there is no command "{word}". Did you mean "{meant}"?' in ran.err


def test_an_unlike_word_leads_to_no_command() -> None:
    for word in ("foo", "xyz"):
        assert "Did you mean" not in shell(NOWHERE, word).err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("retry rerun RETRY", "requeue"),
        ("rm remove", "delete"),
        ("done finish complete", "ack"),
        ("nack fail", "reject"),
        ("unlock", "release"),
        ("requeu", "requeue"),
    ],
)
def test_a_verb_of_another_program_leads_to_ours(mail: Seeded, url: str, words: str, meant: str) -> None:
    for word in words.split():
        ran = shell(url, "act", word, "mail", "a", "--yes")
        assert (ran.code, ran.out) == (2, "")
        assert f'native has no verb "{word}". Did you mean "{meant}"?' in ran.err
        assert "its verbs" not in ran.err
    assert mail.ids("ready") == ["a", "b"]


def test_a_word_is_led_to_a_verb_of_that_system_alone(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "task")
    ran = shell(url, "act", "finish", "dispatcher:readytasklist", "task")
    assert (ran.code, ran.out) == (2, "")
    assert "Did you mean" not in ran.err and "its verbs: promote, delete" in ran.err


# -- what is left out -------------------------------------------------------------------------------------------------


def test_jobs_without_a_place_lists_every_place_that_holds_something(mail: Seeded, url: str) -> None:
    mail.put("c", "d")
    mail.reserve()
    mail.put("later", delay_ms=60_000)
    ran = shell(url, "jobs", "mail", "--limit", "2")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == [
        *("scheduled:", "id", "later"),
        *("ready:", "id", "b", "c"),
        *("reserved:", "id", "a"),
    ]
    assert "2 of 3 in ready, continue with: rqtui jobs mail ready --cursor 2" in ran.err
    document = shell(url, "jobs", "mail", "--limit", "2", "--json").json
    assert (document["queue"], document["layout"]) == ("mail", "native")
    assert [page["place"] for page in document["places"]] == ["scheduled", "ready", "reserved"]
    for page in document["places"]:
        assert page == shell(url, "jobs", "mail", page["place"], "--limit", "2", "--json").json


def test_jobs_without_a_place_filters_each_place(mail: Seeded, url: str) -> None:
    mail.reserve()
    document = shell(url, "jobs", "mail", "--filter", "id:b", "--json").json
    assert [(page["place"], [job["id"] for job in page["jobs"]]) for page in document["places"]] == [
        ("ready", ["b"]),
        ("reserved", []),
    ]


def test_the_command_jobs_reports_an_empty_queue(client: Redis, url: str) -> None:
    ran = shell(url, "jobs", "mail")
    assert (ran.code, ran.out) == (0, "")
    assert "no job is in mail" in ran.err
    assert shell(url, "jobs", "mail", "--json").json["places"] == []


def test_a_cursor_belongs_to_a_place(mail: Seeded, url: str) -> None:
    ran = shell(url, "jobs", "mail", "--cursor", "1")
    assert (ran.code, ran.out) == (2, "")
    assert "--cursor continues in one place; name it" in ran.err


# -- ids of yesterday -------------------------------------------------------------------------------------------------


def test_an_unknown_id_is_reported_before_any_question(mail: Seeded, client: Redis, url: str) -> None:
    before = keyspace.dump(client)
    ran = shell(url, "act", "delete", "mail", "nobody", "neither", "--json")
    assert ran.code == 1
    assert [(one["id"], one["word"]) for one in ran.json["results"]] == [("nobody", "gone"), ("neither", "gone")]
    assert "--yes" not in ran.err
    assert keyspace.dump(client) == before


def test_the_existing_ones_of_several_ids_are_requested(mail: Seeded, url: str) -> None:
    ran = shell(url, "act", "delete", "mail", "nobody", "a")
    assert (ran.code, ran.out, mail.ids("ready")) == (1, "", ["a", "b"])
    assert "delete on 1 job of mail is dangerous" in ran.err


def test_an_unknown_number_of_jobs_is_requeued_slowly_without_a_question(mail: Seeded, url: str) -> None:
    ran = shell(url, "act", "delete", "mail", "nobody", "--rate", "100/s")
    assert "--yes" not in ran.err


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_an_empty_token_is_taken_where_a_system_has_none(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "task")
    ran = shell(url, "act", "delete", "dispatcher:readytasklist", "task", "--token", "", "--yes", "--json")
    assert (ran.code, ran.json["moved"], client.llen("readytasklist")) == (0, 1, 0)


def test_a_token_that_says_something_is_refused_there(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "task")
    ran = shell(url, "act", "delete", "dispatcher:readytasklist", "task", "--token", "7", "--yes")
    assert (ran.code, client.llen("readytasklist")) == (2, 1)
    assert "delete knows no --token" in ran.err


def test_an_empty_token_ends_no_lease_of_a_worker(mail: Seeded, url: str) -> None:
    mail.reserve()
    ran = shell(url, "act", "ack", "mail", "a", "--token", "", "--yes", "--json")
    assert (ran.code, mail.ids("reserved")) == (1, ["a"])


# -- the journal ------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_servers(mail: Seeded, url: str) -> str:
    """Make a change here and one on another server, and return the other server's URL."""
    other = Journal(find_state_folder(), "redis://:secret@elsewhere:6379")
    other.record_change("purge", "images", "native", count=3)
    shell(url, "act", "kill", "mail", "a", "--yes")
    return other.url


def test_operations_shows_only_the_changes_of_this_server(two_servers: str, url: str) -> None:
    ran = shell(url, "operations")
    assert [line.split()[3] for line in ran.out.splitlines()[1:]] == ["kill"]
    assert "1 change of other servers is left out; --all lists it" in ran.err
    assert [one["verb"] for one in shell(url, "operations", "--json").json["operations"]] == ["kill"]
    assert "purge" not in shell(url, "operations", "--markdown").out


def test_operations_of_all_servers_name_each(two_servers: str, url: str) -> None:
    ran = shell(url, "operations", "--all")
    title, *lines = ran.out.splitlines()
    assert title.split()[1] == "server"
    assert [line.split()[3] for line in lines] == [hide_url_passwords(url), two_servers]
    assert "secret" not in ran.out and "left out" not in ran.err
    document = shell(url, "operations", "--all", "--json").json["operations"]
    assert [one["url"] for one in document] == [hide_url_passwords(url), two_servers]
    page = shell(url, "operations", "--all", "--markdown").out
    when, row = [line for line in page.splitlines() if line.startswith("| ") and "purge" in line]
    assert "elsewhere:6379" in when and "elsewhere:6379" in row


def test_the_limit_counts_the_changes_that_are_reported(two_servers: str, url: str) -> None:
    Journal(find_state_folder(), two_servers).record_change("purge", "images", "native")
    assert [one["verb"] for one in shell(url, "operations", "--limit", "1", "--json").json["operations"]] == ["kill"]


# -- sentences --------------------------------------------------------------------------------------------------------


def test_an_undo_of_a_pause_counts_no_jobs(mail: Seeded, url: str) -> None:
    shell(url, "act", "pause", "mail")
    assert shell(url, "undo").err == "rqtui: undo of pause (mail): resumed; jobs are handed out again\n"


# -- what a command of `work` prints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_json", [False, True])
def test_output_of_a_command_has_whole_lines_distinguished_from_ours(mail: Seeded, url: str, is_json: bool) -> None:
    code = "import os,sys; os.write(1, b'hello\\n\\x1b[31mred\\x1b[0m\\tbye'); os.write(2, b'oops \\x1b]0;title\\x07')"
    options = ["--json"] if is_json else []
    ran = shell(url, "work", "mail", "--burst", *options, "--", sys.executable, "-S", "-c", code)
    assert ran.code == 0
    shown = (ran.err if is_json else ran.out).splitlines()
    assert [line for line in shown if not line.startswith("rqtui: ") and "oops" not in line] == [
        "hello",
        "red\tbye",
    ] * 2
    assert [line for line in ran.err.splitlines() if "oops" in line] == ["oops ␛]0;title␇"] * 2
    if is_json:
        assert [line["outcome"] for line in ran.lines] == ["acked", "acked"]
    else:
        ours = [line.split()[:4:2] for line in ran.out.splitlines() if line.startswith("rqtui: ")]
        assert ours == [["rqtui:", "send"], ["rqtui:", "send"]]
        assert [line.split()[1] for line in ran.out.splitlines()[2::3]] == ["a", "b"]


def test_a_line_that_never_ends_comes_in_pieces_and_is_not_kept(mail: Seeded, url: str) -> None:
    code = "import sys; sys.stdout.write('x' * 200_000)"
    ran = shell(url, "work", "mail", "--max-jobs", "1", "--", sys.executable, "-S", "-c", code)
    *lines, ours = ran.out.splitlines()
    assert "".join(lines) == "x" * 200_000 and len(lines) > 1
    assert ours.startswith("rqtui: a ")


# -- a word too few, too many, or in the wrong place ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("jobs",), "missing argument 'QUEUE'. Write: rqtui jobs QUEUE [PLACE]. See: rqtui jobs --help"),
        (("show", "mail"), "missing argument 'ID'. Write: rqtui show QUEUE ID. See: rqtui show --help"),
        (("act",), "missing argument 'VERB'. Write: rqtui act VERB QUEUE [ID].... See: rqtui act --help"),
        (("check", "mail", "x"), "(x). Write: rqtui check QUEUE. See: rqtui check --help"),
        (("redis", "mail"), "(mail). Write: rqtui redis. See: rqtui redis --help"),
        (("undo", "mail"), "invalid value for '[N]': a whole number is needed. See"),
        (("jobs", "mail", "--limit", "x"), "invalid value for '--limit': a whole number is needed. See"),
        (("reap", "--every", "x"), "invalid value for '--every': a number is needed. See"),
    ],
)
def test_a_slip_is_answered_with_how_it_is_written(words: tuple[str, ...], sentence: str) -> None:
    ran = shell(NOWHERE, *words)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_a_verb_after_the_queue_is_reported(mail: Seeded, url: str) -> None:
    ran = shell(url, "act", "mail", "retry", "a")
    assert (ran.code, ran.out) == (2, "")
    assert "the verb comes before the queue: rqtui act requeue mail." in ran.err


@pytest.mark.parametrize(
    "words", ["snapshot", "jobs", "workers", "errors", "kinds", "health", "check", "events", "stats", "loops"]
)
def test_a_queue_that_was_never_seen_is_reported_once(mail: Seeded, url: str, words: str) -> None:
    sentence = 'nothing is known of a queue "mial" (native)'
    assert shell(url, words, "mial").err.count(sentence) == 1
    assert sentence not in shell(url, words, "mail").err


def test_without_a_change_operations_reports_it(url: str) -> None:
    ran = shell(url, "operations")
    assert (ran.code, ran.out, ran.err) == (0, "", "rqtui: no change was made from here.\n")
