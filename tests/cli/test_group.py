"""`rqtui group`: what it prints to people and as JSON, and that its command acts on exactly the group."""

from __future__ import annotations

import shlex

import pytest
from redis import Redis
from shell import shell

from rqtui.client import Queue
from rqtui.reports import groups
from rqtui.testing.keyspace import dump, plant


@pytest.fixture
def tenants(client: Redis) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": {"tenant": tenant}, "name": "send"} for tenant in ["acme corp"] * 6 + ["globex"] * 2])
        mail.put({"password": "hunter2"})


@pytest.mark.usefixtures("tenants")
def test_the_groups_are_listed_with_share_and_filter_and_the_command_for_the_largest(url: str) -> None:
    ran = shell(url, "group", "mail", "--by", ".tenant")
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert ran.code == 0 and lines[0] == "jobs share .tenant oldest done/s filter"
    assert lines[1].startswith("6 67 % acme corp ") and lines[1].endswith(' ? .tenant:"acme corp"')
    assert lines[2].startswith("2 22 % globex ") and lines[3].startswith("1 11 % (none) ")
    command = """rqtui act delete mail --place ready --filter '.tenant:"acme corp"' --dry-run"""
    assert f"to act on acme corp, without changing anything yet: {command}" in ran.err
    assert "done per second is unknown: no job is done." in ran.err and "rqtui undo" in ran.err


@pytest.mark.usefixtures("tenants")
def test_the_command_of_a_group_changes_its_jobs_and_the_undo_restores_them(client: Redis, url: str) -> None:
    document = shell(url, "group", "mail", "--by", ".tenant", "--json").json
    words = shlex.split(document["groups"][0]["dry_run"])[1:]
    before = dump(client)
    dry = shell(url, *words, "--json")
    assert dry.code == 0 and dump(client) == before
    assert shell(url, *words[:-1], "--yes").code == 0
    left = shell(url, "group", "mail", "--by", ".tenant", "--json").json["groups"]
    assert [(each["value"], each["jobs"]) for each in left] == [("globex", 2), (None, 1)]
    assert shell(url, "undo").code == 0
    again = shell(url, "group", "mail", "--by", ".tenant", "--json").json["groups"]
    assert [(each["value"], each["jobs"]) for each in again] == [("acme corp", 6), ("globex", 2), (None, 1)]


@pytest.mark.usefixtures("tenants")
def test_a_group_is_moved_to_another_queue_and_the_undo_brings_it_back(client: Redis, url: str) -> None:
    words = ["act", "move", "mail", "--place", "ready", "--filter", ".tenant:globex"]
    before = dump(client)
    for to_queue, problem in (
        ("", "move needs --set to_queue=VALUE"),
        ("to_queue=mail", "the jobs are in mail already; name another queue"),
        ("to_queue=two words", "is no queue name"),
        ("to=slow", 'move has no field "to"; its fields: to_queue'),
    ):
        for extra in ([], ["--dry-run"]):
            ran = shell(url, *words, *(["--set", to_queue] if to_queue else []), *extra)
            assert ran.code == 2 and problem in ran.err
    words += ["--set", "to_queue=slow"]
    dry = shell(url, *words, "--dry-run", "--json").json
    assert dry["plan"]["total"] == 2 and dry["plan"]["undo"] == "rqtui undo undoes it" and dump(client) == before
    assert shell(url, *words, "--why", "acme waits", "--json").json["moved"] == 2
    assert (client.zcard("rqtui:{mail}:ready"), client.zcard("rqtui:{slow}:ready")) == (7, 2)
    [operation] = shell(url, "operations", "--json").json["operations"]
    assert (operation["filter"], operation["why"]) == ("/.tenant:globex of ready to slow", "acme waits")
    assert shell(url, "undo").code == 0
    again = shell(url, "group", "mail", "--by", ".tenant", "--json").json["groups"]
    assert [(each["value"], each["jobs"]) for each in again] == [("acme corp", 6), ("globex", 2), (None, 1)]


@pytest.mark.usefixtures("tenants")
def test_a_sample_is_named_with_its_size_and_the_counts_are_estimated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MAX_JOBS", 5)
    ran = shell(url, "group", "mail", "--by", "kind")
    assert "5 of 9 jobs were read" in ran.err and "at random" in ran.err
    assert ran.out.split()[:6] == ["jobs", "in", "place", "share", "kind", "oldest"] and "~" in ran.out
    document = shell(url, "group", "mail", "--by", "kind", "--json").json
    assert (document["looked"], document["of"], document["exact"], document["random"]) == (5, 9, False, True)
    assert sum(each["jobs"] for each in document["groups"]) == 5
    assert 8 <= sum(each["estimate"] for each in document["groups"]) <= 10


@pytest.mark.usefixtures("tenants")
def test_a_filter_and_a_limit_are_named(url: str) -> None:
    ran = shell(url, "group", "mail", "ready", "--by", ".tenant", "--filter", "job:send", "--limit", "1")
    assert "acme corp" in ran.out and "globex" not in ran.out
    assert "8 of the jobs that were read match the filter." in ran.err
    assert "1 smaller group with 2 of the jobs; --limit N lists more." in ran.err
    assert "--filter '.tenant:\"acme corp\" job:send' --dry-run" in ran.err
    document = shell(url, "group", "mail", "--by", ".tenant", "--limit", "1", "--json").json
    assert (document["more"], len(document["groups"])) == (2, 1)


@pytest.mark.usefixtures("tenants")
def test_masked_values_are_one_group_and_only_reveal_shows_them(url: str) -> None:
    words = ("group", "mail", "--by", ".password", "--filter", "!job:send")
    assert "hunter2" not in shell(url, *words).out and "hunter2" not in shell(url, *words, "--json").out
    assert "hunter2" in shell(url, *words, "--reveal").out


def test_an_empty_place_and_a_system_without_the_field_are_explained(client: Redis, url: str) -> None:
    plant(client, {"list": ["a"], "list:done": {"x"}})
    ran = shell(url, "group", "safe_pop:list", "--by", "kind")
    assert "(none)" in ran.out and "safe_pop stores no kind of a job." in ran.err
    ran = shell(url, "group", "safe_pop:list", "reserved")
    assert (ran.code, ran.out) == (0, "") and "no job is in reserved." in ran.err
    ran = shell(url, "group", "safe_pop:list", "--filter", "nothing")
    assert "no job of ready that was read matches the filter." in ran.err


def test_jobs_are_grouped_by_host_and_a_queue_without_a_known_host_is_explained(client: Redis, url: str) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": n} for n in range(3)])
        for worker in ("box:1:0a1b2", "box:2:0a1b3", "w1"):
            [job] = mail.reserve(1, worker=worker)
            job.reject("Oops", final=True)
    ran = shell(url, "group", "mail", "dead", "--by", "host")
    assert "box" in ran.out and "(unknown)" in ran.out and "no host" not in ran.err
    document = shell(url, "group", "mail", "dead", "--by", "host", "--json").json
    box = document["groups"][0]
    assert (document["by"], box["value"], box["jobs"]) == ("host", "box", 2)
    assert shell(url, "jobs", "mail", "dead", "--filter", box["filter"], "--json").json["total"] == 3
    listed = shell(url, "jobs", "mail", "dead", "--filter", box["filter"], "--json").json["jobs"]
    assert sorted(job["worker"] for job in listed) == ["box:1:0a1b2", "box:2:0a1b3"]
    ran = shell(url, "group", "mail", "dead", "--by", "host", "--filter", "worker:w1")
    assert "no host of a worker of mail is known." in ran.err


def test_an_empty_value_is_not_a_missing_one(client: Redis, url: str) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": {"tenant": ""}}, {"body": {"tenant": ""}}, {"body": {}}])
    document = shell(url, "group", "mail", "--by", ".tenant", "--json").json
    assert [(each["value"], each["filter"]) for each in document["groups"]] == [
        ("", '.tenant:""'),
        (None, "!.tenant:/^/"),
    ]
    assert "(empty)" in shell(url, "group", "mail", "--by", ".tenant").out


@pytest.mark.usefixtures("tenants")
def test_wrong_words_are_refused_before_anything_is_read(url: str) -> None:
    for words, sentence in (
        (("--by", "tenant"), "--by is one of kind, worker, host, error, age, or a body field such as .tenant."),
        (("--limit", "0"), "--limit is a whole number from 1 on."),
        (("--filter", "/[/"), "cannot be read"),
        (("nowhere",), 'has no place "nowhere"'),
    ):
        ran = shell(url, "group", "mail", *words)
        assert ran.code == 2 and sentence in ran.err, words
