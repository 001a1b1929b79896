"""Test undo as a promise: undoing everything in reverse order restores each job as it was at the beginning.

Random verbs run on random jobs and are undone now and then; another operator and a worker act in between. In the end
every job that no other process touched is the same to the byte: place, score, record, body, line of attempts, errors.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from redis import Redis
from screens import Seeded

from rqtui.errors import UsageError
from rqtui.model import Job
from rqtui.operations import revert, undo_files
from rqtui.operations.undo import UndoRecorder, read_jobs
from rqtui.scripts import script as scripts

NAMES = [b"j%02d" % number for number in range(30)]
SOME = st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True)
HOUR = 3_600_000
FORMS: dict[str, list[dict[str, object]]] = {
    "delete": [{}, {"force": True}],
    "kill": [{}, {"reason": b"why \xff\n"}],
    "requeue": [{}, {"keep_attempts": True}],
    "promote": [{}],
    "reschedule": [{"delay_ms": HOUR}, {"delay_ms": 9 * HOUR}],
    "bump": [{}],
    "move": [{"to_queue": "slow"}],
    "reprioritise": [{"priority": -3}, {"priority": 0}, {"priority": 77}],
}
VERBS = st.sampled_from([(verb, form) for verb, forms in FORMS.items() for form in forms])


class Machine(RuleBasedStateMachine):
    """A queue of 30 jobs, and who changes it."""

    client: Redis

    def __init__(self) -> None:
        super().__init__()
        self.client.flushall()
        self.folder = tempfile.TemporaryDirectory(prefix="rqtui-")
        self.here, self.other = Seeded(self.client), Seeded(self.client)
        self.here.engine.change_recorder = self.keeper = UndoRecorder(Path(self.folder.name))
        self.done: list[str] = []
        self.touched: set[bytes] = set()

    def teardown(self) -> None:
        """Undo all changes, the last first, then compare the jobs."""
        try:
            for name in reversed(self.done):
                self._take_back(name)
            now, was = self._rows(), self.before
            mine = [id for id in NAMES if id not in self.touched]
            assert {id: now.get(id) for id in mine} == {id: was.get(id) for id in mine}
            if not self.touched:
                assert self._order() == self.order
            self.nothing_is_wrong()
        finally:
            self.folder.cleanup()

    @initialize()
    def seed(self) -> None:
        """Plant jobs in every place, some with long bodies, some with a history."""
        ids = [name.decode() for name in NAMES]
        self.here.bury(*ids[:8])
        self.here.engine.apply_verb("requeue", self.here.ref, self.here.jobs("dead")[:3], {"keep_attempts": True})
        self.here.put(*ids[8:16])
        self.here.put(*ids[16:18], body=b"\x00\xff" * 3000, priority=5, name="two words")
        self.here.put(*ids[18:24], delay_ms=HOUR)
        self.here.put(*ids[24:30], priority=-200)
        held = self.here.reserve(6)
        self.here.engine.apply_verb("ack", self.here.ref, held[:3], {"keep_ms": HOUR})
        for name in list(self.keeper.open_changes()):
            self.keeper.end_change(name[0], name[1].system, name[1].queue)
        self.before, self.order = self._rows(), self._order()
        assert len(self.before) == 30

    @rule(ids=SOME, chosen=VERBS)
    def do(self, ids: list[bytes], chosen: tuple[str, dict[str, object]]) -> None:
        verb, form = chosen
        jobs = [job for job in self._jobs(ids) if not (job.token and form.get("force"))]
        if jobs:
            self.here.engine.apply_verb(verb, self.here.ref, jobs, form)
            self._close(verb)

    @rule(place=st.sampled_from(["ready", "scheduled", "dead", "done"]), verb=st.sampled_from(["delete", "purge"]))
    def do_to_all(self, place: str, verb: str) -> None:
        engine, ref = self.here.engine, self.here.ref
        if verb == "purge":
            engine.apply_verb("purge", ref, (), {"place": place, "limit": 1000})
        else:
            for _chunk in engine.apply_verb_to_place(verb, ref, place):
                pass
        self._close(verb)

    @rule()
    def take_the_last_back(self) -> None:
        if self.done:
            self._take_back(self.done.pop())

    @rule(ids=SOME, chosen=VERBS)
    def apply_another_verb(self, ids: list[bytes], chosen: tuple[str, dict[str, object]]) -> None:
        verb, form = chosen
        jobs = self._jobs(ids)
        outcomes = self.other.engine.apply_verb(verb, self.other.ref, jobs, form) if jobs else []
        self.touched.update(one.id for one in outcomes if one.moved)

    @rule(ids=SOME)
    def enqueue_them_again(self, ids: list[bytes]) -> None:
        for id in ids:
            outcomes = self.other.engine.apply_verb("enqueue", self.other.ref, (), {"id": id, "body": b"another"})
            self.touched.update(id for one in outcomes if one.moved)

    @rule(number=st.integers(1, 4), ends=st.sampled_from(["ack", "release", "reject", ""]))
    def a_worker_works(self, number: int, ends: str) -> None:
        before = {job.id for job in self.other.jobs("reserved")}
        held = [job for job in self.other.reserve(number) if job.id not in before]
        self.touched.update(job.id for job in held)
        if ends and held:
            self.other.engine.apply_verb(ends, self.other.ref, held)

    @invariant()
    def nothing_is_wrong(self) -> None:
        """Check that `check` finds no problem."""
        system, found, word = self.here.engine.systems["native"], [], ""
        form: dict[str, object] = {"walk": "scheduled", "cursor": "0", "limit": 1000}
        while word != "end":
            answer = scripts.run_call(self.client, system.build_call("check", "mail", form))
            found, word, form = [*found, *answer.rows], answer.word, {**form, **_cursor(answer)}
        assert found == []

    def _close(self, verb: str) -> None:
        name = self.keeper.end_change(verb, "native", "mail")
        if name:
            self.done.append(name)

    def _take_back(self, name: str) -> None:
        for outcomes in revert.revert_record(self.here.engine, self.keeper.folder, name):
            assert {one.word for one in outcomes} <= {"moved", "changed", "gone", "exists"}
        with pytest.raises(UsageError, match="undone already"):
            list(revert.revert_record(self.here.engine, self.keeper.folder, name))

    def _jobs(self, ids: list[bytes]) -> list[Job]:
        found = [self.here.engine.fetch_job(self.here.ref, id, 0) for id in ids]
        return [job for job in found if job is not None]

    def _rows(self) -> dict[bytes, undo_files.SavedJob]:
        engine, ref = self.here.engine, self.here.ref
        return {
            row.id: row
            for rows in read_jobs(engine, ref, [{"id": name} for name in NAMES], is_whole=True)
            for row in rows
        }

    def _order(self) -> dict[str, list[str]]:
        return {place: self.here.ids(place) for place in ("scheduled", "ready", "reserved", "done", "dead")}


def _cursor(answer: scripts.Reply) -> dict[str, object]:
    return {name: answer.values[name] for name in ("walk", "cursor")}


def run_machine(client: Redis, examples: int, steps: int) -> None:
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        database=None,
    )
    run_state_machine_as_test(type("UndoneQueue", (Machine,), {"client": client}), settings=how)


@pytest.mark.slow
@pytest.mark.parametrize("examples", [12, pytest.param(50, marks=pytest.mark.matrix)])
def test_taking_everything_back_leaves_each_job_as_it_was(client: Redis, examples: int) -> None:
    run_machine(client, examples, 25)


@pytest.mark.timeout(1800)
@pytest.mark.long
def test_taking_everything_back_leaves_each_job_as_it_was_on_many_ways(client: Redis) -> None:
    run_machine(client, 600, 60)
