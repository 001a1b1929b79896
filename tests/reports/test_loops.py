"""The loops as Redis shows them: how late each is, who runs it, and which jobs it takes next."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from redis import Redis
from shell import shell

from rqtui.client.native_keys import build_queue_keys
from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.model import Job, Page, Ref, Snapshot, State
from rqtui.model import Queue as Counted
from rqtui.reports import loops
from rqtui.systems import registry

MAIL, IMAGES = Ref("native", "mail"), Ref("native", "images")
HOUR_MS = 3_600_000
SLACK_MS = 600_000  # a busy machine is slow


@pytest.fixture
def engine(client: Redis) -> Engine:
    return build_engine(client, [registry.create_system("native")])


def server_ms(client: Redis) -> int:
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def due(client: Redis, name: str, **due_ms: int) -> None:
    """Delayed jobs of a queue, each with its due time."""
    for id, at_ms in due_ms.items():
        Queue(name, client).put({}, id=id, delay="1d")
        client.zadd(build_queue_keys(name)["scheduled"], {id: at_ms})


def add_leased_jobs(client: Redis, name: str, **until_ms: int) -> None:
    """Add jobs that a worker holds, each with the end of its lease."""
    queue = Queue(name, client)
    for id, at_ms in until_ms.items():
        queue.put({}, id=id, priority=-9)
        queue.reserve(1, worker="w1", ttr="1d")
        client.zadd(build_queue_keys(name)["reserved"], {id: at_ms})


def test_lateness_is_counted_over_the_queues_and_the_next_is_the_first_of_all(client: Redis, engine: Engine) -> None:
    now_ms = server_ms(client)
    due(client, "mail", a=now_ms - 2 * HOUR_MS, b=now_ms - HOUR_MS, c=now_ms + HOUR_MS)
    due(client, "images", d=now_ms - 3 * HOUR_MS)
    add_leased_jobs(client, "images", e=now_ms + 5 * HOUR_MS, f=now_ms - HOUR_MS)
    found = loops.build_loop_report(engine, [MAIL, IMAGES], 10)
    dispatch, reap = found.loops
    assert (dispatch.verb, dispatch.late, reap.verb, reap.late) == ("dispatch", 3, "reap", 1)
    for standing, hours in ((dispatch, -3), (reap, -1)):
        assert standing.next_ms is not None
        assert hours * HOUR_MS - SLACK_MS < standing.next_ms <= hours * HOUR_MS
    assert [each.job.id for each in found.coming] == [b"d", b"a", b"b", b"f", b"c", b"e"]
    assert [each.verb for each in found.coming] == ["dispatch"] * 3 + ["reap", "dispatch", "reap"]
    assert [each.in_ms < 0 for each in found.coming] == [True] * 4 + [False] * 2
    assert [each.job.id for each in loops.build_loop_report(engine, [MAIL, IMAGES], 2).coming] == [b"d", b"a"]


def test_the_instant_at_which_a_job_is_taken_is_that_of_the_job(client: Redis, url: str) -> None:
    now_ms = server_ms(client)
    due(client, "mail", a=now_ms - HOUR_MS, c=now_ms + HOUR_MS)
    add_leased_jobs(client, "mail", e=now_ms + 2 * HOUR_MS)
    found = shell(url, "loops", "mail", "--json").json
    at_ms = {each["id"]: each["at_ms"] for each in found["next"]}
    assert at_ms == {"a": now_ms - HOUR_MS, "c": now_ms + HOUR_MS, "e": now_ms + 2 * HOUR_MS}
    assert all(each["in_ms"] == each["at_ms"] - found["taken_at_ms"] for each in found["next"])
    assert now_ms <= found["taken_at_ms"] <= server_ms(client)


def test_where_nothing_waits_nothing_is_next(client: Redis, engine: Engine) -> None:
    Queue("mail", client).put({}, id="ready")
    found = loops.build_loop_report(engine, [MAIL], 10)
    assert [(one.late, one.next_ms, one.elsewhere) for one in found.loops] == [(0, None, 0)] * 2
    assert found.coming == ()


def test_connections_that_run_a_loop_are_counted_by_their_name(client: Redis, engine: Engine, url: str) -> None:
    with connect(url) as one, connect(url) as two, connect(url) as three:
        for other, name in ((one, "rqtui-dispatcher"), (two, "rqtui-dispatcher"), (three, "rqtui-reaper")):
            other.client_setname(name)
            dispatch, reap = loops.build_loop_report(engine, [MAIL], 1).loops
        assert (dispatch.elsewhere, reap.elsewhere) == (2, 1)


def test_the_nearest_queues_are_looked_at_and_before_them_those_on_the_screen(client: Redis, engine: Engine) -> None:
    now_ms = server_ms(client)
    for number in range(4):
        due(client, f"q{number}", a=now_ms + (number + 1) * HOUR_MS)
    due(client, "idle")
    refs = [Ref("native", f"q{number}") for number in range(4)]
    list(engine.discover())
    queues = {Ref(queue.system, queue.name): queue for queue in engine.take_snapshot().queues}
    heads = [ref for ref, place in loops.select_places("dispatch", queues, engine.systems, 2) if place == "scheduled"]
    assert heads == refs[:2]
    first = [refs[3], Ref("native", "idle")]
    heads = [ref for ref, _place in loops.select_places("dispatch", queues, engine.systems, 2, first)]
    assert heads == [refs[3], *refs[:2]]
    assert list(loops.select_places("reap", queues, engine.systems, 2)) == []


@pytest.mark.parametrize(
    ("verb", "attempts", "most", "cancelled", "place"),
    [
        ("reap", 2, 3, False, "ready"),
        ("reap", 3, 3, False, "dead"),
        ("reap", 4, 3, False, "dead"),
        ("reap", 9, None, False, "ready"),
        ("reap", 1, 3, True, "dead"),
        ("dispatch", 3, 3, False, "ready"),
    ],
)
def test_a_job_whose_attempts_are_used_up_becomes_dead_when_its_lease_ends(
    verb: str, attempts: int, most: int | None, cancelled: bool, place: str
) -> None:
    system = registry.create_system("native")
    job = Job(
        b"a",
        "mail",
        "native",
        "reserved",
        State.RESERVED,
        b"a",
        attempts=attempts,
        max_attempts=most,
        is_cancelled=cancelled,
    )
    assert loops.format_target_places(verb, job, system) == place


def test_a_system_without_such_a_loop_has_nothing_late_on_any_page() -> None:
    systems = {name: registry.create_system(name) for name in ("sidekiq", "rq")}
    queues = [Counted("default", name, overdue=4, next_due_ms=-60_000) for name in systems]
    assert [loops.compute_ms_until_work("dispatch", queue, systems) for queue in queues] == [None, -60_000]
    assert loops.count_late_jobs("dispatch", queues, systems) == 4
    due = [Job(b"a", "default", name, "retry", State.SCHEDULED, b"a", due_ms=1) for name in systems]
    pages = tuple(Page("default", job.system, job.place, (job,), 1) for job in due)
    found = list(loops.yield_upcoming_jobs(Snapshot(2, pages=pages), systems))
    assert [each.ref.system for each in found] == ["rq"]


def test_a_queue_with_late_jobs_of_unknown_times_is_as_urgent_as_one_that_is_late_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left_ms = {"a": 1, "b": None, "c": -1, "d": 0, "e": None}
    monkeypatch.setattr(loops, "compute_ms_until_work", lambda _verb, queue, _systems: left_ms[queue.name])
    monkeypatch.setattr(loops, "count_late_jobs", lambda _verb, queues, _systems: int(queues[0].name == "b"))
    queues = {Ref("native", name): Counted(name, "native") for name in left_ms}
    systems = {"native": registry.create_system("native")}
    for most, expected in ((1, "c"), (2, "cb"), (3, "cbd"), (4, "cbda"), (5, "cbda")):
        found = loops.select_places("dispatch", queues, systems, most)
        assert "".join(ref.queue for ref, place in found if place == "scheduled") == expected


def test_the_first_jobs_of_the_places_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    focuses: list[Any] = []

    def take_snapshot(focus: Any) -> Snapshot:
        focuses.append(focus)
        return Snapshot(0, (Counted("mail", "native", next_due_ms=5, next_expiry_ms=None),))

    monkeypatch.setattr(loops, "count_loop_connections", lambda _engine: {"dispatch": 2})
    engine: Any = SimpleNamespace(systems={"native": registry.create_system("native")}, take_snapshot=take_snapshot)
    report = loops.build_loop_report(engine, [Ref("native", "mail")], 7)
    assert [(page.place, page.offset, page.limit) for page in focuses[1].pages] == [("scheduled", 0, 7)]
    assert [(loop.verb, loop.elsewhere) for loop in report.loops] == [("dispatch", 2), ("reap", 0)]
