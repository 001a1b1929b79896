"""Test `rqtui acl`: what each role may do, that no right is superfluous, and which errors other users get.

The rights are those of the printed line. Redis's own statistics show which commands it ran, and its log shows what it
refused, so neither depends on what rqtui believes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from redis import Redis
from screens import VIEW_KEYS, run_on_event_loop, screen
from shell import shell
from versions import is_server_older

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer
from rqtui.errors import Denied, RqtuiError
from rqtui.reports import acl
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.testing.keyspace import dump

PASSWORD = "sesame"

# What each role is for, as a person would do it; each line ends with exit code 0.
LOOKS = (
    "snapshot", "snapshot mail --json", "jobs mail ready", "jobs mail dead --filter err:boom", "show mail job-2",
    "check mail", "workers", "errors mail", "events mail", "stats mail", "metrics", "redis", "kinds mail",
    "group mail ready --by .a", "group mail dead --by error", "diff mail dead ready",
)  # fmt: skip
WORKS = (
    "snapshot mail", "put mail 1 --id p1", "put mail 1 --delay 1ms --id p2", "dispatch mail --once", "dispatch --once",
    "reap mail --once", "work mail --burst -- true",
)  # fmt: skip
OPERATES = (
    "act requeue mail job-0", "act kill mail job-1 --set reason=why --yes", "act reschedule mail job-2 --set delay=1h",
    "act promote mail job-2", "act reprioritise mail job-2 --set priority=3", "act pause mail", "act resume mail",
    "act configure mail --set ttr_ms=1m", "check mail --repair", "act delete mail job-3 --yes", "undo", "redis",
    "workers", "events mail --record", "act reserve mail", "act pull mail --yes", "put mail 1", "dispatch mail --once",
    "reap mail --once", "act quiet mail w1 --yes", "act stop mail w1 --yes", "stats mail", "snapshot", "metrics",
    "act purge mail --all --force --yes", "put mail 1 --id again",
)  # fmt: skip
PROGRAMMES = {"viewer": LOOKS, "worker": WORKS, "operator": OPERATES}
FURNISHED = 7  # jobs
WAIT_S = 20.0  # for a job that is due in 0.2 s; without a right it may never come


class Users:
    """Makes the users of the printed lines."""

    def __init__(self, server: EmbeddedServer, admin: Redis) -> None:
        self.server, self.admin = server, admin
        self.is_old = is_server_older(admin, 7)

    def words(self, role: str, *queues: str) -> list[str]:
        """Return the words of the ACL SETUSER line that `rqtui acl` prints, for the queue `mail` or for others."""
        ran = shell(
            self.server.url,
            "acl",
            role,
            *(queues or ("mail",)),
            "--user",
            "probe",
            *(["--redis6"] if self.is_old else []),
        )
        assert ran.code == 0, ran.err
        return ran.out.strip().replace(">PASSWORD", f">{PASSWORD}").split(" ")

    def become(self, role: str, without: str = "") -> str:
        """Create the user of a role and return the URL; `without` leaves out one word of the line."""
        words = self.words(role)
        assert not without or without in words
        self.admin.execute_command(*(word for word in words if word != without))
        return self.server.url.replace("redis://", f"redis://probe:{PASSWORD}@")

    def denied(self) -> set[tuple[str, str]]:
        """Return what was refused since the log was reset, as (reason, object)."""
        entries = [
            dict(zip(entry[::2], entry[1::2], strict=True)) for entry in self.admin.execute_command("ACL", "LOG", 128)
        ]
        return {(entry[b"reason"].decode(), entry[b"object"].decode("utf-8", "replace").lower()) for entry in entries}


@pytest.fixture
def users(server: EmbeddedServer, server_client: Redis) -> Iterator[Users]:
    yield Users(server, server_client)
    server_client.execute_command("ACL", "DELUSER", "probe")


def _furnish(admin: Redis) -> None:
    """Plant a queue with jobs in every place, workers, recorded events, and a key of another program."""
    admin.flushall()
    queue = Queue("mail", admin)
    queue.configure(events="on")
    for n in range(6):
        queue.put({"n": n}, id=f"job-{n}")
    queue.put(1, id="late", delay="1h")
    queue.reserve(1, worker="w1")[0].reject("boom", final=True)
    scripts.run_call(
        admin, registry.create_system("native").build_call("beat", "mail", {"worker": "w1", "ttl_ms": 60_000})
    )
    admin.zadd("rqtui:{mail}:scheduled", {"late": 1})  # it is overdue
    admin.hdel("rqtui:{mail}:meta", "minute")  # the next change begins the statistics
    admin.delete("rqtui:{mail}:minutes")
    admin.zadd("rqtui:{mail}:done", {"a ghost": 9e15})  # for `check`: a member that is no job,
    admin.hset("rqtui:{mail}:attempts", "another", "1 2 3 4 w1 - x")  # and a line of one that is none


def _run_verb(url: str, verb: str, **args: object) -> str:
    """Run a script of the queue with the user's rights, and return the word of the reply."""
    with connect(url) as client:
        return scripts.run_call(client, registry.create_system("native").build_call(verb, "mail", args)).word


def _run_programme(role: str, url: str, admin: Redis) -> list[str]:
    """Run the lines of a role's programme, and return those that failed. The last one meets a foreign key."""
    _furnish(admin)
    admin.execute_command("SCRIPT", "FLUSH")
    admin.execute_command("ACL", "LOG", "RESET")
    failed = []
    for line in PROGRAMMES[role]:
        if "purge" in line:
            failed += _not_noted(role, admin)
        ran = shell(url, *line.split())
        if ran.code > (line == "check mail"):  # which has found something
            failed.append(f"{line}: {ran.code} {ran.out} {ran.err}")
    try:
        failed += _EXTRAS[role](url)
    except RqtuiError as error:
        failed.append(str(error))
    failed += _not_noted(role, admin)
    key, line = ("minutes", "stats mail") if role == "viewer" else ("wake", "put mail 1")
    admin.set(f"rqtui:{{mail}}:{key}", "of another program")
    ran = shell(url, *line.split())
    return failed if f"{key} holds a string" in ran.err + ran.out else [*failed, ran.out + ran.err]


def _not_noted(role: str, admin: Redis) -> list[str]:
    """Return the bookkeeping that failed or that did not count a put job, although the scripts continued."""
    unnoted, put = admin.hmget("rqtui:{mail}:meta", "unnoted", "enqueued")
    return ["something was not noted"] if unnoted or (role != "viewer" and put and int(put) == FURNISHED) else []


def _follow(url: str) -> list[str]:
    """Read new events as `rqtui events --follow` does."""
    return [] if _run_verb(url, "events", after="0-1", limit=10) == "events" else ["events"]


def _beat(url: str) -> list[str]:
    """Read the events and send a heartbeat, as any client may."""
    return _follow(url) + ([] if _run_verb(url, "beat", worker="w9", ttl_ms=1000) == "run" else ["beat"])


def _wait_for_work(url: str) -> list[str]:
    """Run a consumer that waits with a timer (BZPOPMIN, CLIENT UNBLOCK) and reads an expired lease (HEXISTS)."""
    queue, stop = Queue("mail", url), threading.Event()
    if [one.word for one in scripts.run_call(queue.client, queue.call("extend", {}, [(b"nobody", "1")])).each] != [
        "gone"
    ]:
        return ["extend"]
    queue.put(1, id="soon", delay=0.2)
    alarm = threading.Timer(WAIT_S, stop.set)
    alarm.start()
    try:
        for job in queue.consume(ttr=30, stop=stop):
            with job:
                return [] if job.id == "soon" else [f"another job came: {job.id}"]
    finally:
        alarm.cancel()
    return ["no job came"]


_EXTRAS: dict[str, Callable[[str], list[str]]] = {"viewer": _follow, "worker": _wait_for_work, "operator": _beat}


def _list_called_commands(admin: Redis) -> set[str]:
    """Return the commands that ran since the statistics were reset."""
    found = {name.removeprefix("cmdstat_"): each for name, each in admin.info("commandstats").items()}
    return {name for name, each in found.items() if each["calls"] > 0}


# Enough, and no more --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", acl.ROLES)
def test_a_role_can_do_what_it_is_for_and_each_of_its_commands_is_used(
    role: str, users: Users, server_client: Redis
) -> None:
    url = users.become(role)
    granted = {word[1:] for word in users.words(role) if word.startswith("+")}
    server_client.config_resetstat()
    assert _run_programme(role, url, server_client) == []
    assert {each for each in users.denied() - _IN_VAIN if _is_ours(each)} == set()
    unused = granted - _list_called_commands(server_client)
    assert unused == set(), f"{role} is given commands that nothing it does needs"


# Missing rights that are reported where the data is shown: other systems, and what the Redis view shows; and a
# ping, whose refusal is an answer as good as any.
_IN_VAIN = {
    ("command", name) for name in ("scan", "client|list", "slowlog|get", "config|get", "client", "slowlog", "ping")
}


def _is_ours(refused: tuple[str, str]) -> bool:
    why, what = refused
    return why != "key" or what.startswith("rqtui:{mail}")


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("role", acl.ROLES)
def test_taking_any_right_of_a_role_away_breaks_something_it_is_for(
    role: str, users: Users, server_client: Redis
) -> None:
    rules = [word for word in users.words(role) if word[0] in "+~%" or word.startswith('"')]
    assert len(rules) > 15
    idle = []
    for rule in rules:
        url = users.become(role, without=rule)
        failed = _run_programme(role, url, server_client)
        missed = {each for each in users.denied() if _is_ours(each) or rule[1:].lstrip("R~") in each[1]} - _IN_VAIN
        if not failed and not missed:
            idle.append(rule)
    assert idle == [], f"{role} does everything without these"


# Too much -------------------------------------------------------------------------------------------------------------

_CHANGES = (
    "put mail 1", "act requeue mail job-0", "act pause mail", "act delete mail job-2 --yes", "act reserve mail",
    "act purge mail --all --yes", "act configure mail --set ttr_ms=1m", "act promote mail late", "act pull mail --yes",
    "act kill mail job-3 --yes", "act reschedule mail late --set delay=1s", "dispatch mail --once", "reap mail --once",
    "work mail --burst -- true",
)  # fmt: skip


def test_every_change_by_a_viewer_is_refused_in_a_sentence_and_writes_nothing(
    users: Users, server_client: Redis
) -> None:
    url = users.become("viewer")
    _furnish(server_client)
    before = dump(server_client)
    for line in _CHANGES:
        ran = shell(url, *line.split())
        text = " ".join((ran.out + ran.err).split())
        assert ran.code in (1, 3) and "+evalsha" in text.replace("'evalsha'", "+evalsha"), (line, ran.code, text)
    assert dump(server_client) == before


@pytest.mark.parametrize("role", acl.ROLES)
def test_another_queue_is_refused_to_every_role_and_keys_are_named(
    role: str, users: Users, server_client: Redis
) -> None:
    url = users.become(role)
    Queue("secret", server_client).put("hidden", id="one")
    before = dump(server_client)
    for line in ("jobs secret ready", "put secret 1", "show secret one", "act delete secret one --yes"):
        ran = shell(url, *line.split())
        assert ran.code in (1, 3) and "hidden" not in ran.out and "key" in ran.err + ran.out, (line, ran)
    with connect(url) as client, pytest.raises(Denied, match=r"~rqtui:\{secret\}:"):
        scripts.run_call(client, registry.create_system("native").build_call("counts", "secret", {}))
    assert dump(server_client) == before


def test_a_worker_is_refused_every_verb_that_calls_what_it_may_not_and_the_command_is_named(
    users: Users, server_client: Redis
) -> None:
    url = users.become("worker")
    _furnish(server_client)
    before = dump(server_client)
    ran = shell(url, "act", "purge", "mail", "--all", "--force", "--yes", "--json")
    assert ran.code == 1 and "+unlink" in ran.out + ran.err.replace("'unlink'", "+unlink"), ran
    ran = shell(url, "check", "mail")
    assert ran.code == 3 and "an ACL rule denies a command" in ran.err, ran
    assert dump(server_client) == before


@pytest.mark.slow
@run_on_event_loop
async def test_a_viewer_on_the_screen_sees_all_and_is_informed_which_rights_are_missing(
    client: Redis, real_server: EmbeddedServer
) -> None:
    users = Users(real_server, client)
    url = users.become("viewer")
    try:
        _furnish(client)
        client.zadd("rqtui:{mail}:scheduled", {"late": 1})  # the dispatcher has something to do
        before = dump(client)
        async with screen(url, (120, 40)) as ui:
            await ui.press("enter")
            await ui.until_shown("job-2")
            await ui.press("2", "down", "D", "y")
            await ui.until_shown("The user lacks +evalsha")
            await ui.press("n", "t")
            await ui.until_shown("dispatch: Redis denies it:")  # why the loops do not run
        assert dump(client) == before
    finally:
        client.execute_command("ACL", "DELUSER", "probe")


@pytest.mark.slow
@pytest.mark.parametrize(
    "role", ["worker", *(pytest.param(more, marks=pytest.mark.matrix) for more in ("viewer", "operator"))]
)
@run_on_event_loop
async def test_a_role_walks_through_all_views_and_is_shown_what_it_may_see(
    role: str, client: Redis, real_server: EmbeddedServer
) -> None:
    users = Users(real_server, client)
    url = users.become(role)
    try:
        _furnish(client)
        before = dump(client)
        async with screen(url, (120, 40)) as ui:
            await ui.until(lambda: ui.app.session.snapshot.cost.rtt_ms, "what is measured once in a while")
            for name, key in VIEW_KEYS.items():
                await ui.press(key)
                await ui.until_shown(*_SHOWN[name])
                await ui.press("escape")
            await ui.press("enter")
            for place, id in enumerate(("", "job-2", "", "", "job-0"), 1):
                await ui.press(str(place))
                await ui.until_shown(id)
            await ui.press("enter")
            await ui.until_shown("boom")
            assert ui.app.session.connection_loss is None
            assert not [toast for toast in ui.toasts if "should not happen" in toast]
            assert {toast for toast in ui.toasts if "lacks" in toast} == set() or role == "worker"
        assert role != "viewer" or dump(client) == before
    finally:
        client.execute_command("ACL", "DELUSER", "probe")


# The content of each view, or the missing right if a role may not see it.
_SHOWN = {
    "workers": ("w1",), "kinds": ("(no kind)",), "errors": ("boom",), "events": ("reject",), "metrics": ("throughput",),
    "loops": ("dispatch",), "redis": ("+slowlog|get",), "operations": ("undoes them",),
    "schedules": ("stores schedules",),
}  # fmt: skip


def test_a_burst_ends_when_its_right_is_taken_away_and_another_worker_waits(users: Users, server_client: Redis) -> None:
    url = users.become("worker")
    Queue("mail", server_client).put_many([1, 2])
    took = []
    with Queue("mail", url) as queue, pytest.raises(Denied):
        for job in queue.consume(burst=True, batch=1):
            with job:
                took.append(job.body)
                server_client.execute_command("ACL", "SETUSER", "probe", "-evalsha", "-eval")
    assert len(took) == 1


def test_an_operator_of_two_queues_moves_jobs_between_them_and_one_of_a_single_queue_cannot(
    users: Users, server_client: Redis
) -> None:
    with Queue("mail", server_client) as mail:
        mail.put_many([{"id": f"job-{number}", "body": number} for number in range(3)])
    url = users.become("operator")
    words = ("act", "move", "mail", "job-1", "--set", "to_queue=slow")
    refused = shell(url, *words)
    assert refused.code == 1 and "move: Redis denies it" in refused.out
    assert server_client.zcard("rqtui:{mail}:ready") == 3 and not server_client.exists("rqtui:{slow}:ready")
    server_client.execute_command(*users.words("operator", "mail", "slow"))
    server_client.execute_command("ACL", "LOG", "RESET")
    moved = shell(url, *words)
    assert moved.code == 0 and server_client.zrange("rqtui:{slow}:ready", 0, -1) == [b"job-1"], moved.err
    assert shell(url, "undo").code == 0 and server_client.zcard("rqtui:{mail}:ready") == 3
    assert not any("rqtui:" in name for _reason, name in users.denied())
