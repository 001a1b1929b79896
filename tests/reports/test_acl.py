"""`rqtui acl`: the user that a role gets can do what the role is for, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest
from families import run_in_one_test
from redis import Redis, exceptions
from shell import shell
from versions import is_server_older

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer
from rqtui.engine.engine import Engine
from rqtui.reports import acl
from rqtui.scripts import script as scripts
from rqtui.systems import registry

PASSWORD = "sesame"


@pytest.fixture
def become(server: EmbeddedServer, server_client: Redis) -> Iterator[Callable[..., str]]:
    """Return a function that creates the user of `rqtui acl` and returns the URL with the user's password.

    For example `become("viewer", "mail")`.
    """
    items: list[str] = []

    def user(role: str, *words: str) -> str:
        ran = shell(server.url, "acl", role, *words, *(["--redis6"] if is_server_older(server_client, 7) else []))
        assert ran.code == 0, ran.err
        command = ran.out.strip().replace(">PASSWORD", f">{PASSWORD}")
        assert "\n" not in command
        server_client.execute_command(*command.split(" "))
        items.append(f"rqtui-{role}")
        return server.url.replace("redis://", f"redis://rqtui-{role}:{PASSWORD}@")

    yield user
    for name in items:
        server_client.execute_command("ACL", "DELUSER", name)


@pytest.fixture
def mail(server_client: Redis) -> Queue:
    queue = Queue("mail", server_client)
    for n in range(4):
        queue.put({"n": n}, id=f"job-{n}")
    queue.reserve(1, worker="w1")[0].reject("boom", final=True)
    return queue


def list_denials(client: Redis) -> set[str]:
    """Return what users were denied since the log was reset, without the search for other systems."""
    entries = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in client.execute_command("ACL", "LOG")]
    found = {(entry[b"reason"].decode(), entry[b"object"].decode("utf-8", "replace")) for entry in entries}
    return {what for why, what in found if what != "scan" and (why != "key" or what.startswith("rqtui:{mail}"))}


@pytest.mark.each_server
def test_a_viewer_sees_all_and_changes_nothing(become: Callable[..., str], mail: Queue, server_client: Redis) -> None:
    url = become("viewer", "mail")
    before = mail.client.dump("rqtui:{mail}:ready")
    for words in (
        ("snapshot",), ("snapshot", "mail"), ("jobs", "mail", "ready"), ("show", "mail", "job-2"), ("check", "mail"),
        ("stats", "mail"), ("events", "mail"), ("workers", "mail"), ("metrics",),
    ):  # fmt: skip
        ran = shell(url, *words)
        assert ran.code == 0, (words, ran.out, ran.err)
    for words in (
        ("put", "mail", "1"), ("act", "requeue", "mail", "job-0"), ("act", "pause", "mail"),
        ("act", "delete", "mail", "job-2", "--yes"), ("act", "purge", "mail", "--place", "ready", "--yes"),
    ):  # fmt: skip
        assert shell(url, *words).code != 0, words
    with connect(url) as client:
        for command in (("DEL", "rqtui:{mail}:ready"), ("GET", "x"), ("FLUSHALL",), ("CONFIG", "GET", "*")):
            with pytest.raises(exceptions.NoPermissionError):
                client.execute_command(*command)
    assert mail.client.dump("rqtui:{mail}:ready") == before


def test_a_viewer_sees_no_other_queue(become: Callable[..., str], mail: Queue) -> None:
    Queue("secret", mail.client).put(1, id="hidden")
    url = become("viewer", "mail")
    assert shell(url, "jobs", "mail", "ready").code == 0
    ran = shell(url, "jobs", "secret", "ready")
    assert ran.code != 0 and "hidden" not in ran.out


@pytest.mark.each_server
def test_a_worker_puts_and_works_and_cannot_purge(
    become: Callable[..., str], mail: Queue, server_client: Redis
) -> None:
    url = become("worker", "mail")
    server_client.execute_command("ACL", "LOG", "RESET")
    assert shell(url, "put", "mail", '{"n": 9}', "--id", "by-worker").code == 0
    assert shell(url, "put", "mail", "1", "--delay", "1ms", "--id", "later").code == 0
    assert shell(url, "dispatch", "mail", "--once").code == 0
    assert shell(url, "work", "mail", "--burst", "--", "true").code == 0
    assert shell(url, "reap", "mail", "--once").code == 0
    assert list_denials(server_client) == set()
    assert server_client.zcard("rqtui:{mail}:ready") == 0
    assert server_client.zcard("rqtui:{mail}:dead") == 1
    assert server_client.hget("rqtui:{mail}:meta", "unnoted") is None, "no bookkeeping was denied"
    assert shell(url, "act", "purge", "mail", "--place", "dead", "--all", "--yes").code != 0
    assert server_client.zcard("rqtui:{mail}:dead") == 1


@pytest.mark.each_server
def test_an_operator_can_do_every_verb(become: Callable[..., str], mail: Queue, server_client: Redis) -> None:
    url = become("operator", "mail")
    server_client.execute_command("ACL", "LOG", "RESET")
    for words in (
        ("act", "requeue", "mail", "job-0"), ("act", "kill", "mail", "job-1", "--set", "reason=why", "--yes"),
        ("act", "reschedule", "mail", "job-2", "--set", "delay=1h"), ("act", "promote", "mail", "job-2"),
        ("act", "reprioritise", "mail", "job-2", "--set", "priority=3"), ("act", "pause", "mail"),
        ("act", "resume", "mail"), ("act", "configure", "mail", "--set", "ttr_ms=1m"), ("check", "mail", "--repair"),
        ("act", "delete", "mail", "job-3", "--yes"), ("act", "purge", "mail", "--all", "--force", "--yes"),
        ("events", "mail", "--record"),
    ):  # fmt: skip
        ran = shell(url, *words)
        assert ran.code == 0, (words, ran.out, ran.err)
    assert list_denials(server_client) == set()
    with connect(url) as client, pytest.raises(exceptions.NoPermissionError):
        client.execute_command("FLUSHALL")


@run_in_one_test("name", registry.list_system_names())
def test_the_server_knows_every_command_that_a_role_is_given(name: str, client: Redis) -> None:
    system = registry.create_system(name)
    queue = system.named_queues()[0] if system.named_queues() else "q"
    for role in acl.ROLES:
        rights = acl.compute_rights(role, [(system, queue)])
        client.execute_command(*acl.format_acl_command(role, rights, user="probe").replace('"', "").split(" "))
    client.execute_command("ACL", "DELUSER", "probe")


@run_in_one_test("folder", [*registry.list_system_names(), "shared"])
def test_every_command_of_a_script_is_seen(folder: str) -> None:
    for script in scripts.load_scripts(folder).values():
        called = script.source.count("redis.call(") + script.source.count("redis.pcall(")
        assert bool(acl.list_commands(script)) == bool(called), script.path


def denials(client: Redis) -> int:
    """Return how many commands the ACL log has noted; an entry stands for all of its kind in a minute."""
    entries = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in client.execute_command("ACL", "LOG", 128)]
    return sum(int(entry[b"count"]) for entry in entries)


@pytest.mark.each_server
def test_a_viewer_of_a_queue_that_only_a_walk_finds_finds_it(
    become: Callable[..., str], mail: Queue, server_client: Redis
) -> None:
    for name in ("video", "secret"):
        server_client.hset(f"bull:{name}:meta", mapping={"version": "bullmq:5.81.5", "opts.maxLenEvents": 10_000})
    url = become("viewer", "mail", "bullmq:video")
    ran = shell(url, "snapshot", "--json")
    queues = [(queue["layout"], queue["queue"]) for queue in json.loads(ran.out)["queues"]]
    assert ran.code == 0 and queues == [("native", "mail"), ("bullmq", "video")], (ran.out, ran.err)


@pytest.mark.each_server
def test_a_queue_that_no_walk_may_find_is_missed_with_a_word_and_how_to_see_it(
    become: Callable[..., str], mail: Queue, server_client: Redis
) -> None:
    server_client.hset("bull:video:meta", mapping={"version": "bullmq:5.81.5"})
    url = become("viewer", "mail", "bullmq:video")
    server_client.execute_command("ACL", "SETUSER", "rqtui-viewer", "-scan")
    ran = shell(url, "snapshot")
    assert ran.code == 0 and "bullmq" in ran.err and "SCAN is denied" in ran.err, ran.err
    ran = shell(url, "snapshot", "bullmq:video")
    assert ran.code == 0 and "video" in ran.out


@pytest.mark.each_server
@pytest.mark.parametrize("is_walked", [True, False])
def test_a_command_that_an_acl_denies_is_sent_once_a_minute_and_not_at_each_poll(
    become: Callable[..., str], mail: Queue, server_client: Redis, is_walked: bool
) -> None:
    for name in ("video", "secret"):
        server_client.hset(f"bull:{name}:meta", mapping={"version": "bullmq:5.81.5", "opts.maxLenEvents": 10_000})
    url = become("viewer", "mail", "bullmq:video")
    if not is_walked:
        server_client.execute_command("ACL", "SETUSER", "rqtui-viewer", "-scan")
    with connect(url) as client:
        engine = Engine(client, registry.create_systems())
        assert list(engine.discover())
        before = denials(server_client)
        for _look in range(3):
            assert list(engine.discover())
            engine.take_snapshot()
        assert denials(server_client) == before
        assert {ref.queue for ref in engine.refs} == ({"mail", "video"} if is_walked else {"mail"})


def test_a_queue_name_means_itself_and_no_pattern(client: Redis, url: str) -> None:
    rights = acl.compute_rights("viewer", [(registry.create_system("native"), "a*")], major=6)
    words = [*(f"~{key}" for key in rights.keys), *(f"+{command}" for command in rights.commands)]
    client.execute_command("ACL", "SETUSER", "probe", "reset", "on", f">{PASSWORD}", *words)
    try:
        with connect(url.replace("redis://", f"redis://probe:{PASSWORD}@")) as probe:
            assert probe.zcard("rqtui:{a*}:ready") == 0
            with pytest.raises(exceptions.NoPermissionError):
                probe.zcard("rqtui:{ab}:ready")
    finally:
        client.execute_command("ACL", "DELUSER", "probe")


def test_an_unknown_role_is_refused_in_a_sentence(url: str) -> None:
    ran = shell(url, "acl", "emperor", "mail")
    assert ran.code == 2 and "viewer, worker, operator" in ran.err


def test_a_queue_name_that_is_no_ascii_is_written_as_redis_cli_reads_it(client: Redis, url: str) -> None:
    for name in ("grüße", 'a"b', "a\\b"):
        Queue(name, client).put(1, id="a")
        ran = shell(url, "acl", "viewer", name, "--user", "probe")
        assert ran.code == 0 and ran.out.isascii(), ran.err
        words = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', ran.out)
        assert len(words) == len(set(words)) > 10
        client.execute_command(*map(as_redis_cli_reads_it, words))
        try:
            with connect(url.replace("redis://", "redis://probe:PASSWORD@")) as probe:
                assert probe.zcard(f"rqtui:{{{name}}}:ready") == 1
                with pytest.raises(exceptions.NoPermissionError):
                    probe.zcard("rqtui:{other}:ready")
        finally:
            client.execute_command("ACL", "DELUSER", "probe")


def as_redis_cli_reads_it(word: str) -> bytes:
    """Parse a word as redis-cli does: plain, or in quotes with escapes."""
    if not word.startswith('"'):
        return word.encode()
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), word[1:-1].encode())


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("mail!~", "mail!~"),
        ("two words", '"two words"'),
        ("a\x1f\x7f", r'"a\x1f\x7f"'),
        ('say "a\\b"', r'"say \x22a\x5cb\x22"'),
        ("é", r'"\xc3\xa9"'),
        ("", '""'),
    ],
)
def test_a_word_is_quoted_as_redis_cli_reads_it(word: str, quoted: str) -> None:
    assert acl._quote_for_redis_cli(word) == quoted
