"""The headless twin: what a view shows a command prints, with the same numbers, and what a key does the shell does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from families import name_case
from redis import Redis
from screens import WIDE, Seeded, return_to_overview, run_on_event_loop, screen
from shell import shell

from rqtui.config.settings import Settings
from rqtui.systems import registry
from rqtui.tui.screens.registry import VIEWS
from rqtui.verbs import VERBS, Verb

Words = tuple[str, ...]


@pytest.fixture
def mail(client: Redis, url: str) -> Seeded:
    """Plant a queue with different numbers in each place, a worker with heartbeats, counted minutes, and a change."""
    seeded = Seeded(client)
    seeded.put("held", max_attempts=4)
    seeded.reserve(ttr_ms=3_600_000)
    seeded.bury("dead-1", "dead-2", "dead-3")
    seeded.put("ready-1", "ready-2")
    for n in range(4):
        seeded.put(f"later-{n}", delay_ms=1_800_000 + n)
    seeded.engine.apply_verb("beat", seeded.ref, (), {"worker": "w1", "ttl_ms": 3_600_000})
    shell(url, "events", "mail", "--record")
    shell(url, "act", "kill", "mail", "ready-1", "--yes")
    return seeded


def overview(document: Any) -> Iterator[Words]:
    for queue in document["queues"]:
        yield (queue["queue"], *(str(one["count"]) for one in queue["places"] if one["count"]))


def jobs(document: Any) -> Iterator[Words]:
    yield from ((job["id"],) for job in document["jobs"])


def job(document: Any) -> Iterator[Words]:
    yield (document["id"],)
    yield (document["error"],)
    yield (document["name"],)


def workers(document: Any) -> Iterator[Words]:
    yield from ((one["worker"], one["state"], *(held["id"] for held in one["held"])) for one in document)


def kinds(document: Any) -> Iterator[Words]:
    for one in document["kinds"]:
        yield (one["name"], *(str(number) for number in one["counts"].values() if number))


def errors(document: Any) -> Iterator[Words]:
    yield from ((str(one["dead"]), one["error"]) for one in document["errors"])


def events(document: Any) -> Iterator[Words]:
    yield from ((one["verb"], one["id"]) for one in document)


def stats(document: Any) -> Iterator[Words]:
    for one in document:
        yield (str(one["waiting"]),)


def loops(document: Any) -> Iterator[Words]:
    yield from ((one["loop"], one["queue"], one["id"], one["becomes"]) for one in document["next"])
    yield from ((one["loop"],) for one in document["loops"])


def redis(document: Any) -> Iterator[Words]:
    yield (document["server"]["version"],)
    yield from ((str(each["keys"]),) for each in document["keyspace"])


def operations(document: Any) -> Iterator[Words]:
    yield from ((one["verb"], one["queue"], str(one["count"])) for one in document["operations"])


# view: the keys that open it, the command, and which of its words are together on a line
TWINS: dict[str, tuple[Words, Words, Callable[[Any], Iterator[Words]]]] = {
    "overview": ((), ("snapshot",), overview),
    "board": (("enter", "5"), ("jobs", "mail", "dead"), jobs),
    "job": (("enter", "5", "end", "enter"), ("show", "mail", "dead-1"), job),
    "workers": (("w",), ("workers",), workers),
    "kinds": (("b",), ("kinds",), kinds),
    "errors": (("e",), ("errors",), errors),
    "events": (("f",), ("events",), events),
    "metrics": (("m",), ("stats",), stats),
    "loops": (("t",), ("loops",), loops),
    "redis": (("i",), ("redis",), redis),
    "operations": (("o",), ("operations",), operations),
}


def test_every_view_has_its_command() -> None:
    of_others = {
        "schedules"
    }  # no native queue has any: tests/cli/test_full_system.py, tests/tui/screens/test_schedules.py
    assert set(TWINS) == {"overview", "board", "job", *VIEWS} - of_others


def printed(url: str, view: str) -> list[Words]:
    """Return what the command of a view prints."""
    _keys, command, actual = TWINS[view]
    ran = shell(url, *command, "--json")
    assert ran.code == 0, ran.err
    rows = list(actual(ran.lines if view == "events" else ran.json))
    assert rows, "the command told nothing"
    return rows


@pytest.mark.slow
def test_a_command_prints_what_the_view_shows(mail: Seeded, url: str) -> None:
    rows_of: dict[str, list[Words]] = {}
    for view in TWINS:
        with name_case(view):
            rows_of[view] = printed(url, view)

    @run_on_event_loop
    async def compare() -> None:
        async with screen(url, WIDE) as ui:
            for view, (keys, _command, _told) in TWINS.items():
                with name_case(view):
                    await return_to_overview(ui)
                    await ui.press(*keys)

                    def missing(rows: list[Words]) -> list[Words]:
                        lines = ui.text().splitlines()
                        return [row for row in rows if not any(all(word in line for word in row) for line in lines)]

                    rows = rows_of[view]
                    await ui.until(lambda rows=rows: not missing(rows), f"{rows} on the screen")

    compare()


OWN_WAYS: dict[str, tuple[Words, str]] = {  # verb: the command line, and the place where the job is afterwards
    "enqueue": (("put", "mail", "1", "--id", "new"), "new in ready"),
    "ack": (("act", "ack", "mail", "held", "--yes"), "held in "),
    "release": (("act", "release", "mail", "held"), "held in ready"),
    "reject": (("act", "reject", "mail", "held", "--set", "final=yes", "--yes"), "held in dead"),
    "kill": (("act", "kill", "mail", "ready-2", "--yes"), "ready-2 in dead"),
    "requeue": (("act", "requeue", "mail", "dead-1"), "dead-1 in ready"),
    "delete": (("act", "delete", "mail", "dead-1", "--yes"), "dead-1 in "),
    "reschedule": (("act", "reschedule", "mail", "ready-2", "--set", "delay=1h"), "ready-2 in scheduled"),
    "reprioritise": (("act", "reprioritise", "mail", "ready-2", "--set", "priority=3"), "ready-2 in ready"),
    "move": (("act", "move", "mail", "ready-2", "--set", "to_queue=slow"), "ready-2 in "),
    "extend": (("act", "extend", "mail", "held", "--set", "ttr=1h"), "held in reserved"),
    "cancel": (("act", "cancel", "mail", "held"), "held in reserved"),
    "duplicate": (("act", "duplicate", "mail", "dead-1", "--set", "id=copy"), "copy in ready"),
    "edit and retry": (("act", "edit-and-retry", "mail", "dead-1", "--set", "id=copy"), "copy in ready"),
    "drip requeue": (("act", "drip-requeue", "mail", "dead-1", "--rate", "100/s"), "dead-1 in ready"),
    "pause": (("act", "pause", "mail"), "ready-2 in ready"),
    "resume": (("act", "resume", "mail"), "ready-2 in ready"),
    "purge": (("act", "purge", "mail", "--place", "dead", "--yes"), "dead-1 in "),
    "reserve": (("act", "reserve", "mail"), "ready-2 in reserved"),
    "dispatch": (("dispatch", "mail", "--once"), "later-0 in scheduled"),
    "reap": (("reap", "mail", "--once"), "held in reserved"),
    "quiet": (("act", "quiet", "mail", "w1"), "held in reserved"),
    "stop": (("act", "stop", "mail", "w1"), "held in reserved"),
    "repair": (("check", "mail", "--repair"), "dead-1 in dead"),
    "configure": (("act", "configure", "mail", "--set", "ttr_ms=1m"), "dead-1 in dead"),
    "pull": (("act", "pull", "mail", "--yes"), "ready-2 in "),
}
JOBS = {"scheduled": "later-0", "ready": "ready-2", "reserved": "held", "dead": "dead-1"}
NOT_OFFERED = {"park", "forget", "restore", "revert", "beat"}  # by migrate, undo and work, never by a person
NOT_NATIVE = {  # of other systems alone, and run in their tests
    "limit", "unschedule", "inspect", "collect", "grow", "shrink", "rate_limit", "time_limit",
}  # fmt: skip


def usual(verb: Verb) -> tuple[Words, str]:
    """Build the effect of a verb that takes only ids: its jobs move where its header says, or stay."""
    job = JOBS[verb.takes[0]]
    targets = registry.create_system("native").script(verb.name).targets or verb.takes
    return ("act", verb.name, "mail", job, *(["--yes"] if verb.is_dangerous else [])), f"{job} in {targets[0]}"


SCREEN = OWN_WAYS | {
    verb.name: usual(verb)
    for verb in VERBS
    if verb.name not in (*OWN_WAYS, *NOT_OFFERED, *NOT_NATIVE) and not verb.form
}


def test_every_verb_of_the_screen_has_its_way_in_the_shell() -> None:
    assert set(SCREEN) == {verb.name for verb in VERBS} - NOT_OFFERED - NOT_NATIVE


@pytest.mark.parametrize("verb", SCREEN)
def test_the_shell_does_what_each_key_does(mail: Seeded, url: str, verb: str) -> None:
    words, then = SCREEN[verb]
    ran = shell(url, *words)
    assert ran.code == 0, ran.err
    id, _in, place = then.partition(" in ")
    job = mail.job(id)
    assert (job.place if job else "") == place


@run_on_event_loop
async def test_the_dispatcher_of_a_screen_leaves_denied_queues_alone(url: str, client: Redis) -> None:
    here, there = Seeded(client, "mail"), Seeded(client, "images")
    for seeded in (here, there):
        seeded.put("later", delay_ms=1)
    async with screen(Settings(url, denied=(("mail*", ("dispatch",)),))) as ui:
        await ui.until(lambda: there.ids("ready") == ["later"], "the other queue is served")
        await ui.press("<")
        await ui.until_refreshed()
        assert here.ids("scheduled") == ["later"]
