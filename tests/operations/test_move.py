"""Test `move`: jobs go to another queue in one step, with all their data, and an undo brings them back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from proxy import Proxy
from redis import Redis
from screens import Seeded

from rqtui.client import Queue
from rqtui.connection.connect import connect
from rqtui.engine.engine import build_engine
from rqtui.errors import Refused, UsageError
from rqtui.model import Job, Outcome, Ref
from rqtui.operations import revert
from rqtui.operations.journal import Circumstances, Journal
from rqtui.operations.undo import SavedChunk, UndoRecorder
from rqtui.systems import registry

MAIL, SLOW = Ref("native", "mail"), Ref("native", "slow")
LONG = b"\x00\xff" * 4000
HOUR = 3_600_000


class TwoQueues(Seeded):
    """The queue `mail` with jobs in each place, the queue `slow` with some, and an engine that records changes."""

    def __init__(self, client: Redis, folder: Path) -> None:
        super().__init__(client)
        self.bury("dead-1", "dead-2")
        self.put("a", "b", priority=3)
        self.put("c")
        self.put("long", body=LONG, name="two words")
        self.put("later", delay_ms=HOUR)
        self.slow = Queue("slow", client)
        self.slow.put({"n": 1}, id="first", priority=3)
        self.slow.put({"n": 2}, id="b")
        self.engine.change_recorder = self.keeper = UndoRecorder(folder, journal=Journal(folder))

    def list_jobs(self, ref: Ref) -> list[tuple[object, ...]]:
        """Return what a person sees of each job of a queue, place by place in the order of the place."""
        found = []
        for place in ("scheduled", "ready", "dead"):
            for job in self.engine.fetch_page(ref, place, 0, 100).jobs:
                shown = self.engine.fetch_job(ref, job.id, -1)
                assert shown is not None
                found.append(
                    (place, job.id, shown.body, job.name, job.priority, job.since_ms, job.due_ms, job.attempts)
                    + (shown.error, shown.history)
                )
        return found

    def move(self, jobs: list[Job], to_queue: str = "slow") -> list[Outcome]:
        return self.engine.apply_verb("move", MAIL, jobs, {"to_queue": to_queue})

    def undo(self) -> list[Outcome]:
        name = self.keeper.end_change("move", "native", "mail")
        return [outcome for step in revert.revert_record(self.engine, self.keeper.folder, name) for outcome in step]


@pytest.fixture
def it(client: Redis, tmp_path: Path) -> TwoQueues:
    return TwoQueues(client, tmp_path)


def test_jobs_move_with_all_their_data_and_keep_place_priority_order_and_age(it: TwoQueues) -> None:
    before = it.list_jobs(MAIL)
    jobs = [job for place in ("dead", "ready", "scheduled") for job in it.jobs(place)]
    outcomes = {outcome.id: (outcome.word, outcome.values.get("place")) for outcome in it.move(jobs[::-1])}
    assert outcomes.pop(b"b") == ("exists", None)
    assert outcomes == {job.id: ("moved", job.place) for job in jobs if job.id != b"b"}
    assert [row[1] for row in it.list_jobs(MAIL)] == [b"b"]
    moved = {row[1]: row for row in it.list_jobs(SLOW)}
    assert {id: moved[id] for id in outcomes} == {row[1]: row for row in before if row[1] != b"b"}
    ready = [row[1] for row in it.list_jobs(SLOW) if row[0] == "ready"]
    assert ready == [b"b", b"c", b"long", b"first", b"a"], "behind those of their priority, in their order"


def test_a_worker_of_the_other_queue_runs_a_moved_job_and_a_waiting_one_is_woken(it: TwoQueues) -> None:
    it.client.delete("rqtui:{slow}:wake")
    it.move(it.jobs("ready"))
    assert it.client.zcard("rqtui:{slow}:wake") == 1
    assert {job.id: job.raw for job in it.slow.reserve(10)}["long"] == LONG


@pytest.mark.parametrize("place", ["ready", "scheduled", "dead"])
def test_an_undo_brings_the_jobs_back_to_their_positions(it: TwoQueues, place: str) -> None:
    before = it.list_jobs(MAIL), it.list_jobs(SLOW)
    scores = it.client.zrange(f"rqtui:{{mail}}:{place}", 0, -1, withscores=True)
    moved = [outcome for outcome in it.move(it.jobs(place)) if outcome.moved]
    it.put("newer")
    assert [outcome.text for outcome in it.undo()] == ["restored"] * len(moved)
    after = [row for row in it.list_jobs(MAIL) if row[1] != b"newer"], it.list_jobs(SLOW)
    assert after == before
    now = it.client.zrange(f"rqtui:{{mail}}:{place}", 0, -1, withscores=True)
    assert [pair for pair in now if pair[0] != b"newer"] == scores


def test_an_undo_leaves_jobs_alone_that_changed_in_the_other_queue(it: TwoQueues) -> None:
    it.move([job for job in it.jobs("ready") if job.id != b"b"])
    taken = it.slow.reserve(2)
    assert [job.id for job in taken] == ["b", "c"]
    assert {outcome.id: outcome.word for outcome in it.undo()} == {b"a": "moved", b"c": "wrong_place", b"long": "moved"}
    assert {row[1] for row in it.list_jobs(MAIL) if row[0] == "ready"} == {b"a", b"b", b"long"}
    assert taken[1].ack() == "moved"


def test_an_undo_leaves_a_newer_job_of_the_same_id_where_it_is(it: TwoQueues) -> None:
    it.move([job for job in it.jobs("ready") if job.id == b"c"])
    it.put("newer")
    it.put("c", body=b"another")
    before = it.list_jobs(MAIL), it.list_jobs(SLOW)
    assert [(outcome.id, outcome.word) for outcome in it.undo()] == [(b"c", "exists")]
    assert (it.list_jobs(MAIL), it.list_jobs(SLOW)) == before


def test_jobs_whose_reply_was_lost_are_moved_back_if_they_are_in_the_other_queue(
    client: Redis, url: str, tmp_path: Path
) -> None:
    it = TwoQueues(client, tmp_path)
    before, jobs, save = it.list_jobs(MAIL), it.jobs("scheduled"), it.keeper.save_jobs
    with Proxy(url) as proxy, connect(proxy.url) as link:
        engine = build_engine(link, [registry.create_system("native")])
        client.script_load(engine.systems["native"].scripts["move"].source)  # else NOSCRIPT is the lost reply

        def save_and_cut(*arguments: Any) -> SavedChunk | None:
            saved = save(*arguments)
            proxy.fail("lose reply", "EVALSHA ")
            return saved

        it.keeper.save_jobs, engine.change_recorder = save_and_cut, it.keeper  # type: ignore[method-assign]
        assert [one.word for one in engine.apply_verb("move", MAIL, jobs, {"to_queue": "slow"})] == ["unknown"]
    assert it.ids("scheduled") == []
    assert [outcome.word for outcome in it.undo()] == ["moved"]
    assert it.list_jobs(MAIL) == before


def test_a_move_is_refused_where_it_cannot_be_made_and_nothing_changes(it: TwoQueues) -> None:
    before = it.list_jobs(MAIL), it.list_jobs(SLOW)
    jobs = it.jobs("ready")
    for to_queue, text in (
        ("mail", "the jobs are in mail already"),
        ("native:mail", "the jobs are in mail already"),
        ("", "move needs the name of another queue of native"),
        ("two words", "is no queue name"),
    ):
        with pytest.raises(UsageError, match=text):
            it.move(jobs, to_queue)
    for denied in ((("slow", ("enqueue",)),), (("native:slow", ("move",)),), (("mail", ("move",)),)):
        it.engine.denied = denied
        with pytest.raises(Refused, match="denied on queues"):
            it.move(jobs)
    it.engine.denied = ()
    client, it.engine.client = it.engine.client, SimpleNamespace(is_cluster=True)
    with pytest.raises(UsageError, match="in a Cluster they can be on two servers"):
        it.move(jobs)
    it.engine.client = client
    assert (it.list_jobs(MAIL), it.list_jobs(SLOW)) == before


def test_jobs_of_one_queue_move_to_one_queue_at_a_time(it: TwoQueues) -> None:
    """An undo record names one target."""
    ready = it.jobs("ready")
    it.move(ready[:1])
    with pytest.raises(Refused, match="are being moved to slow; nothing more was changed"):
        it.move(ready[1:], "other")
    assert it.engine.fetch_page(Ref("native", "other"), "ready").jobs == ()
    assert [outcome.word for outcome in it.undo()] == ["moved"]


def test_the_name_may_be_typed_with_its_system_and_the_new_queue_is_listed(it: TwoQueues) -> None:
    it.move(it.jobs("scheduled"), "native:bulk")
    assert [row[1] for row in it.list_jobs(Ref("native", "bulk"))] == [b"later"]
    assert b"bulk" in it.client.smembers("rqtui:queues")


def test_a_whole_place_is_moved_in_its_order(it: TwoQueues) -> None:
    it.put(*(f"n{number:04}" for number in range(1200)))
    order = it.client.zrange("rqtui:{mail}:ready", 0, -1)
    for _step in it.engine.apply_verb_to_place("move", MAIL, "ready", {"to_queue": "bulk"}):
        pass
    assert it.client.zrange("rqtui:{bulk}:ready", 0, -1) == order and it.ids("ready") == []


def test_the_journal_names_the_queue_to_which_the_jobs_went() -> None:
    assert Circumstances(chosen="all of ready").add_form({"to_queue": "slow"}).chosen == "all of ready to slow"
    assert Circumstances().add_form({"to_queue": "slow"}).chosen == "to slow"
    assert Circumstances(chosen="x").add_form({"delay_ms": 5}).chosen == "x"
