"""What was heard is remembered: the last of each job, the newest first, bounded, and counted when it is forgotten."""

from __future__ import annotations

from dataclasses import replace

from rqtui.layout import overheard
from rqtui.layout.overheard import Counted, Overheard
from rqtui.model import Fact, Figures, Job, State, Worker


def job(id: str, queue: str = "mail", place: str = "done", **known: object) -> Job:
    state = State.DEAD if place == "failed" else State.DONE
    return replace(Job(id.encode(), queue, "x", place, state, b""), **known)  # type: ignore[arg-type]


def ids(memory: Overheard, queue: str = "mail", place: str = "done", offset: int = 0, limit: int = 100) -> list[str]:
    return [each.id.decode() for each in memory.page(queue, place, offset, limit)[2]]


def test_a_page_has_the_newest_first_and_knows_how_many_there_are() -> None:
    memory = Overheard()
    for number in range(10):
        memory.take(job(str(number)))
    assert ids(memory, limit=3) == ["9", "8", "7"]
    assert ids(memory, offset=8) == ["1", "0"]
    assert memory.page("mail", "done", -1, 4)[:2] == (10, 6)
    assert ids(memory, offset=-1, limit=4) == ["3", "2", "1", "0"]
    assert ids(memory, offset=10) == ids(memory, queue="other") == ids(memory, place="failed") == []
    assert memory.page("other", "done", -1, 4) == (0, 0, ())


def test_what_is_heard_later_of_a_job_replaces_what_was_heard_before() -> None:
    memory = Overheard()
    memory.take(job("a"))
    memory.take(job("b"))
    memory.take(job("a", place="failed", error="Boom"))
    assert (ids(memory), ids(memory, place="failed")) == (["b"], ["a"])
    assert memory.count("mail", "done") == (1, 1)
    assert memory.count("mail", "failed") == (1, 1)
    found = memory.find(b"a")
    assert found is not None and found.error == "Boom"
    memory.take(job("b", name="again"))
    assert memory.count("mail", "done") == (1, 1) and len(memory) == 2
    memory.drop(b"b")
    memory.drop(b"never heard of")
    assert memory.count("mail", "done") == (0, 0) and memory.find(b"b") is None


def test_the_oldest_are_forgotten_and_still_count() -> None:
    memory = Overheard(most=3)
    for number in range(5):
        memory.take(job(str(number), queue="mail" if number else "other"))
    assert ids(memory) == ["4", "3", "2"]
    assert memory.count("mail", "done") == (4, 5)
    assert memory.count("other", "done") == (1, 5)
    memory.take(job("1"))  # one that was forgotten is heard of again: nobody can know that it counted
    assert memory.count("mail", "done") == (5, 6)


def test_large_jobs_are_forgotten_before_there_are_many() -> None:
    memory = Overheard(most_bytes=50_000)
    for number in range(20):
        memory.take(job(str(number), facts=(Fact("result", "x" * 9_000),)))
    assert ids(memory) == ["19", "18", "17", "16", "15"]
    memory.take(job("huge", body=b"x" * 1_000_000))
    assert ids(memory) == ["huge"], "the last thing heard is always there"
    memory.take(job("small"))
    assert ids(memory) == ["small"]


def test_jobs_of_nobody_count_for_all_queues_and_can_be_given_to_one() -> None:
    memory = Overheard()
    memory.take(job("nobodys", queue=""))
    memory.take(job("too", queue=""))
    memory.take(job("mine"))
    assert memory.count("mail", "done") == Counted(1, 3)
    assert memory.job("mail", b"nobodys") is None and memory.find(b"nobodys") is not None
    assert [each.id for each in memory.nobodys()] == [b"nobodys", b"too"]
    memory.assign(b"nobodys", "mail")
    memory.assign(b"mine", "other")  # it has one
    memory.assign(b"never heard of", "mail")
    assert ids(memory) == ["mine", "nobodys"], "in the order in which they were heard of"
    assert memory.count("mail", "done") == Counted(2, 3)
    assert memory.count("other", "done") == Counted(0, 3)
    assert [each.id for each in memory.nobodys()] == [b"too"]
    memory.disown(b"nobodys")
    memory.disown(b"never heard of")
    assert ids(memory) == ["mine"] and memory.count("mail", "done") == Counted(1, 3)
    assert {each.id for each in memory.nobodys()} == {b"nobodys", b"too"}


def test_jobs_of_nobody_stand_at_home_and_say_so() -> None:
    memory = Overheard()
    memory.home = "mail"
    for id, queue in (("n1", ""), ("mine", "mail"), ("n2", ""), ("others", "other"), ("late", "")):
        memory.take(job(id, queue=queue))
    assert ids(memory) == ["late", "n2", "mine", "n1"], "the newest first, whosever they are"
    assert memory.count("mail", "done") == Counted(4, 5) and memory.count("other", "done") == Counted(1, 5)
    total, first, jobs = memory.page("mail", "done", 1, 2)
    assert (total, first) == (4, 1) and [each.queue for each in jobs] == ["mail", "mail"]
    assert [each.facts[-1:] for each in jobs] == [(overheard.NOBODYS,), ()]
    assert memory.job("mail", b"n1") is not None and memory.job("other", b"n1") is None
    assert {each.id for each in memory.nobodys()} == {b"n1", b"n2", b"late"}
    memory.assign(b"n1", "other")
    assert ids(memory) == ["late", "n2", "mine"]
    memory.disown(b"mine")
    assert ids(memory) == ["late", "n2", "mine"] and memory.count("mail", "done") == Counted(3, 5)


def test_of_each_queue_is_known_how_many_jobs_it_was_given_later() -> None:
    memory = Overheard()

    def first_counted(queue: str) -> int:
        return memory.count(queue, "done").of_queue - memory.given(queue, "done")

    def all_first_counted() -> tuple[int, ...]:
        return tuple(map(first_counted, ("mail", "other", "third")))

    memory.home = "mail"
    for id, queue in (("n1", ""), ("mine", "mail"), ("n2", ""), ("others", "other")):
        memory.take(job(id, queue=queue))
    assert all_first_counted() == (3, 1, 0) and memory.given("mail", "done") == 0
    memory.assign(b"n1", "other")
    assert all_first_counted() == (3, 1, 0) and memory.given("other", "done") == 1 == -memory.given("mail", "done")
    memory.home = "third"
    assert all_first_counted() == (3, 1, 0) and memory.count("third", "done") == Counted(1, 4)
    memory.disown(b"n1")
    memory.assign(b"n2", "mail")
    assert all_first_counted() == (3, 1, 0)
    memory.take(job("later", queue=""))
    assert all_first_counted() == (3, 1, 1) and memory.count("third", "done") == Counted(2, 5)


def test_runs_make_figures_of_a_kind() -> None:
    memory = Overheard()
    memory.ran("mail", "send", failed=False, took_ms=100)
    memory.ran("mail", "send", failed=True, took_ms=300)
    memory.ran("mail", "send", failed=True)
    memory.ran("other", "send", failed=False)
    assert memory.figures(60_000) == (
        Figures("send", 3, 2, 200, 60_000, "mail"),
        Figures("send", 1, 0, None, 60_000, "other"),
    )
    for number in range(overheard.MOST_KINDS):
        memory.ran("mail", f"kind {number}", failed=False)
    assert len(memory.figures()) == overheard.MOST_KINDS
    assert "send" not in {each.kind for each in memory.figures()}


def test_workers_are_those_that_beat_and_did_not_leave() -> None:
    memory = Overheard()
    memory.beat(Worker("b", "", 1, 10))
    memory.beat(Worker("a", "", 2, 10))
    memory.beat(Worker("b", "", 3, 10))
    assert [(each.name, each.beat_ms) for each in memory.workers()] == [("a", 2), ("b", 3)]
    memory.left("a")
    memory.left("nobody")
    assert memory.worker("a") is None and memory.worker("b") == Worker("b", "", 3, 10)
    for number in range(overheard.MOST_WORKERS):
        memory.beat(Worker(f"w{number}", "", 4, 10))
    assert len(memory.workers()) == overheard.MOST_WORKERS and memory.worker("b") is None
