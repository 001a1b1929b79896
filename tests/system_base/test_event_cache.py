"""What was heard is remembered: the last of each job, the newest first, bounded, and counted when it is forgotten."""

from __future__ import annotations

from dataclasses import replace

from rqtui.model import Fact, Job, KindStatistics, State, Worker
from rqtui.system_base import event_cache
from rqtui.system_base.event_cache import EventCache, EventCount


def job(id: str, queue: str = "mail", place: str = "done", **known: object) -> Job:
    state = State.DEAD if place == "failed" else State.DONE
    return replace(Job(id.encode(), queue, "x", place, state, b""), **known)  # type: ignore[arg-type]


def ids(memory: EventCache, queue: str = "mail", place: str = "done", offset: int = 0, limit: int = 100) -> list[str]:
    return [each.id.decode() for each in memory.list_page(queue, place, offset, limit)[2]]


def test_a_page_has_the_newest_first_and_knows_how_many_there_are() -> None:
    memory = EventCache()
    for number in range(10):
        memory.record_job(job(str(number)))
    assert ids(memory, limit=3) == ["9", "8", "7"]
    assert ids(memory, offset=8) == ["1", "0"]
    assert memory.list_page("mail", "done", -1, 4)[:2] == (10, 6)
    assert ids(memory, offset=-1, limit=4) == ["3", "2", "1", "0"]
    assert ids(memory, offset=10) == ids(memory, queue="other") == ids(memory, place="failed") == []
    assert memory.list_page("other", "done", -1, 4) == (0, 0, ())


def test_a_later_event_of_a_job_replaces_an_earlier_one() -> None:
    memory = EventCache()
    memory.record_job(job("a"))
    memory.record_job(job("b"))
    memory.record_job(job("a", place="failed", error="Boom"))
    assert (ids(memory), ids(memory, place="failed")) == (["b"], ["a"])
    assert memory.count("mail", "done") == (1, 1)
    assert memory.count("mail", "failed") == (1, 1)
    found = memory.find(b"a")
    assert found is not None and found.error == "Boom"
    memory.record_job(job("b", name="again"))
    assert memory.count("mail", "done") == (1, 1) and len(memory) == 2
    memory.discard(b"b")
    memory.discard(b"never heard of")
    assert memory.count("mail", "done") == (0, 0) and memory.find(b"b") is None


def test_the_oldest_are_forgotten_and_still_count() -> None:
    memory = EventCache(most=3)
    for number in range(5):
        memory.record_job(job(str(number), queue="mail" if number else "other"))
    assert ids(memory) == ["4", "3", "2"]
    assert memory.count("mail", "done") == (4, 5)
    assert memory.count("other", "done") == (1, 5)
    memory.record_job(job("1"))  # an event of a dropped job arrives: it is unknown that the job was counted
    assert memory.count("mail", "done") == (5, 6)


def test_large_jobs_are_forgotten_before_there_are_many() -> None:
    memory = EventCache(most_bytes=50_000)
    for number in range(20):
        memory.record_job(job(str(number), facts=(Fact("result", "x" * 9_000),)))
    assert ids(memory) == ["19", "18", "17", "16", "15"]
    memory.record_job(job("huge", body=b"x" * 1_000_000))
    assert ids(memory) == ["huge"], "the last thing heard is always there"
    memory.record_job(job("small"))
    assert ids(memory) == ["small"]


def test_jobs_without_a_queue_count_for_all_queues_and_can_be_assigned_to_one() -> None:
    memory = EventCache()
    memory.record_job(job("nobodys", queue=""))
    memory.record_job(job("too", queue=""))
    memory.record_job(job("mine"))
    assert memory.count("mail", "done") == EventCount(1, 3)
    assert memory.find_in_queue("mail", b"nobodys") is None and memory.find(b"nobodys") is not None
    assert [each.id for each in memory.yield_unassigned_jobs()] == [b"nobodys", b"too"]
    memory.assign_queue(b"nobodys", "mail")
    memory.assign_queue(b"mine", "other")  # it has one
    memory.assign_queue(b"never heard of", "mail")
    assert ids(memory) == ["mine", "nobodys"], "in the order in which they were heard of"
    assert memory.count("mail", "done") == EventCount(2, 3)
    assert memory.count("other", "done") == EventCount(0, 3)
    assert [each.id for each in memory.yield_unassigned_jobs()] == [b"too"]
    memory.clear_queue(b"nobodys")
    memory.clear_queue(b"never heard of")
    assert ids(memory) == ["mine"] and memory.count("mail", "done") == EventCount(1, 3)
    assert {each.id for each in memory.yield_unassigned_jobs()} == {b"nobodys", b"too"}


def test_jobs_without_a_known_queue_are_in_the_home_queue_with_a_note() -> None:
    memory = EventCache()
    memory.home = "mail"
    for id, queue in (("n1", ""), ("mine", "mail"), ("n2", ""), ("others", "other"), ("late", "")):
        memory.record_job(job(id, queue=queue))
    assert ids(memory) == ["late", "n2", "mine", "n1"], "the newest first, whosever they are"
    assert memory.count("mail", "done") == EventCount(4, 5) and memory.count("other", "done") == EventCount(1, 5)
    total, first, jobs = memory.list_page("mail", "done", 1, 2)
    assert (total, first) == (4, 1) and [each.queue for each in jobs] == ["mail", "mail"]
    assert [each.facts[-1:] for each in jobs] == [(event_cache.UNKNOWN_QUEUE,), ()]
    assert memory.find_in_queue("mail", b"n1") is not None and memory.find_in_queue("other", b"n1") is None
    assert {each.id for each in memory.yield_unassigned_jobs()} == {b"n1", b"n2", b"late"}
    memory.assign_queue(b"n1", "other")
    assert ids(memory) == ["late", "n2", "mine"]
    memory.clear_queue(b"mine")
    assert ids(memory) == ["late", "n2", "mine"] and memory.count("mail", "done") == EventCount(3, 5)


def test_of_each_queue_is_known_how_many_jobs_it_was_given_later() -> None:
    memory = EventCache()

    def first_counted(queue: str) -> int:
        return memory.count(queue, "done").of_queue - memory.count_reassigned(queue, "done")

    def all_first_counted() -> tuple[int, ...]:
        return tuple(map(first_counted, ("mail", "other", "third")))

    memory.home = "mail"
    for id, queue in (("n1", ""), ("mine", "mail"), ("n2", ""), ("others", "other")):
        memory.record_job(job(id, queue=queue))
    assert all_first_counted() == (3, 1, 0) and memory.count_reassigned("mail", "done") == 0
    memory.assign_queue(b"n1", "other")
    assert all_first_counted() == (3, 1, 0) and memory.count_reassigned(
        "other", "done"
    ) == 1 == -memory.count_reassigned("mail", "done")
    memory.home = "third"
    assert all_first_counted() == (3, 1, 0) and memory.count("third", "done") == EventCount(1, 4)
    memory.clear_queue(b"n1")
    memory.assign_queue(b"n2", "mail")
    assert all_first_counted() == (3, 1, 0)
    memory.record_job(job("later", queue=""))
    assert all_first_counted() == (3, 1, 1) and memory.count("third", "done") == EventCount(2, 5)


def test_runs_make_figures_of_a_kind() -> None:
    memory = EventCache()
    memory.record_run("mail", "send", failed=False, took_ms=100)
    memory.record_run("mail", "send", failed=True, took_ms=300)
    memory.record_run("mail", "send", failed=True)
    memory.record_run("other", "send", failed=False)
    assert memory.build_kind_statistics(60_000) == (
        KindStatistics("send", 3, 2, 200, 60_000, "mail"),
        KindStatistics("send", 1, 0, None, 60_000, "other"),
    )
    for number in range(event_cache.MOST_KINDS):
        memory.record_run("mail", f"kind {number}", failed=False)
    assert len(memory.build_kind_statistics()) == event_cache.MOST_KINDS
    assert "send" not in {each.kind for each in memory.build_kind_statistics()}


def test_workers_are_those_that_send_heartbeats_and_did_not_leave() -> None:
    memory = EventCache()
    memory.record_heartbeat(Worker("b", "", 1, 10))
    memory.record_heartbeat(Worker("a", "", 2, 10))
    memory.record_heartbeat(Worker("b", "", 3, 10))
    assert [(each.name, each.heartbeat_ms) for each in memory.list_workers()] == [("a", 2), ("b", 3)]
    memory.remove_worker("a")
    memory.remove_worker("nobody")
    assert memory.find_worker("a") is None and memory.find_worker("b") == Worker("b", "", 3, 10)
    for number in range(event_cache.MOST_WORKERS):
        memory.record_heartbeat(Worker(f"w{number}", "", 4, 10))
    assert len(memory.list_workers()) == event_cache.MOST_WORKERS and memory.find_worker("b") is None
