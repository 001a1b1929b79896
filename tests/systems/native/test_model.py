"""Random verbs against a plain Python model of the queue: after each step every key of Redis means what the model says.

The short profile runs each time; `pytest -m matrix` and `pytest -m long` try many more and longer ways.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from native_jobs import NOW, PLACES, build_key, run_script
from native_model import Model, Outcome
from native_state import read_parsed_keys
from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.systems import registry

NATIVE = registry.create_system("native")
POOL = [b"a", b"b", b"c", b"d d", b"\xff\n\x00", b"-", b"f" * 512]
IDS = st.sampled_from(POOL)
TOKENS = st.sampled_from(["current", "current", "current", "old", "-"])
PLACE = st.sampled_from(PLACES)
SPANS = st.sampled_from([0, 1, 10, 500, 6000, 30_000, 60_000])
LIMITS = st.sampled_from([1, 2, 5, 1000])
SETTINGS = st.one_of(
    st.tuples(st.sampled_from(["ttr_ms", "backoff_ms", "backoff_cap_ms", "keep_ms", "unique_ms", "dead_ttl_ms"]),
              st.sampled_from(["", "1", "500", "5000", "40000"])),
    st.tuples(st.sampled_from(["dead_max", "done_max"]), st.sampled_from(["", "0", "1", "3"])),
    st.tuples(st.just("max_attempts"), st.sampled_from(["", "1", "2"])),
    st.tuples(st.just("events"), st.sampled_from(["on", "on", "off", "", str(NOW + 5000)])),
)  # fmt: skip


@st.composite
def new_jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a row for enqueue; fields that are not drawn have the queue's default."""
    row: dict[str, Any] = {"id": draw(IDS), "body": draw(st.sampled_from([b"", b"{}", b"\n\x00 -", b"y" * 4097]))}
    optional = {
        "name": st.sampled_from(["", "send", "two words"]),
        "delay_ms": SPANS,
        "due_ms": SPANS.map(lambda span: NOW + span),
        "priority": st.sampled_from([-4096, -1, 0, 1, 4095]),
        "ttr_ms": st.sampled_from([1, 1000, 20_000]),
        "max_attempts": st.integers(1, 3),
        "backoff_ms": st.sampled_from([0, 10, 1000]),
        "backoff_cap_ms": st.sampled_from([0, 15, 100_000]),
        "keep_ms": st.sampled_from([0, 1, 50_000]),
    }
    for name in draw(st.sets(st.sampled_from(sorted(optional)), max_size=3)):
        row[name] = draw(optional[name])
    return row


PICKS = st.lists(st.integers(0, 400), min_size=1, max_size=4)  # which jobs: `Machine.pick` makes ids of them
ROWS = st.lists(st.tuples(st.integers(0, 400), TOKENS), min_size=1, max_size=4)


READ = st.sampled_from(["", "now", "before"])  # when the line was read that goes along with a delete


def read_outcomes(answer: Reply) -> list[Outcome]:
    """Convert the outcomes of a reply to the model's form: the word, or the word and its first value."""
    return [(row.word, *list(row.values.values())[:1]) if row.values else row.word for row in answer.each]


class Machine(RuleBasedStateMachine):
    """One queue in Redis and one in Python; `act` does the same to both."""

    client: Redis

    def __init__(self) -> None:
        super().__init__()
        self.client.flushall()
        self.model = Model(NOW)
        self.tokens: dict[bytes, list[str]] = {}
        self.trash: list[tuple[bytes, tuple[Any, ...], Model]] = []

    def run_verb(self, verb: str, rows: Any = (), **args: Any) -> Reply:
        return run_script(self.client, verb, rows, now_ms=self.model.now_ms, **args)

    def pick(self, number: int, *places: str) -> bytes:
        """Pick a job, mostly from one of `places`, sometimes any id: a random id would rarely exist."""
        there = [id for place in places for id in self.model.sort_ids(place)]
        return there[number % len(there)] if there and number % 5 else POOL[number % len(POOL)]

    def proven(self, rows: list[tuple[int, str]], *places: str) -> list[tuple[bytes, str]]:
        """Return rows with ids and real tokens: the current one, or an earlier one of that job."""
        ids = [self.pick(number, *(places or ("reserved",))) for number, _ in rows]
        return [(id, self.token(id, which)) for id, (_, which) in zip(ids, rows, strict=True)]

    def token(self, id: bytes, which: str) -> str:
        if which == "current" and id in self.model.lines:
            return self.model.lines[id].token
        earlier = self.tokens.get(id, [])[:-1]
        return which if which == "-" else (earlier[-1] if earlier else "1")

    @initialize(
        rows=st.lists(new_jobs(), min_size=3, max_size=6),
        limit=st.integers(1, 4),
        keep_ms=st.sampled_from(["", "500", "40000"]),
        seq=st.sampled_from([0, 2**39]),
        has_expired_leases=st.booleans(),
    )
    def begin(self, rows: list[dict[str, Any]], limit: int, keep_ms: str, seq: int, has_expired_leases: bool) -> None:
        """Put jobs of which some are leased or were leased, where numbers are small or as large as they get."""
        self.client.hset(build_key("meta"), "seq", seq)
        self.model.meta["seq"] = seq
        self.configure(("keep_ms", keep_ms))
        self.enqueue(rows)
        if has_expired_leases:  # Ready jobs have attempts, which every verb must keep or reset.
            self.reserve(1000, "w0", 1)
            self.model.now_ms += 1
            self.reap(1000)
        self.reserve(limit, "w1", None)

    @rule(ms=st.sampled_from([1, 400, 1000, 29_000, 30_000, 61_000, 3_600_000, -1500]))
    def time_passes(self, ms: int) -> None:
        self.model.now_ms += ms

    @rule(rows=st.lists(new_jobs(), min_size=1, max_size=4))
    def enqueue(self, rows: list[dict[str, Any]]) -> None:
        assert read_outcomes(self.run_verb("enqueue", rows)) == self.model.enqueue(rows)

    @rule(limit=LIMITS, worker=st.sampled_from(["", "w1", "two words"]), ttr_ms=st.sampled_from([None, 1, 9000]))
    def reserve(self, limit: int, worker: str, ttr_ms: int | None) -> None:
        answer = self.run_verb("reserve", limit=limit, worker=worker, ttr_ms=ttr_ms)
        bodies = {row[0]: row[6] or row[5].partition(b"\n")[2] for row in answer.rows}
        assert (answer.word, answer.values["next_ms"], [row[:5] for row in answer.rows]) == self.model.reserve(
            limit, worker, ttr_ms
        )
        for id, token, *_ in answer.rows:
            self.tokens.setdefault(id, []).append(token)
            assert bodies[id] == self.model.records[id]["body"]

    @rule(limit=LIMITS)
    def pull(self, limit: int) -> None:
        answer = self.run_verb("pull", limit=limit)
        assert (answer.word, [row[0] for row in answer.rows]) == self.model.pull(limit)

    @rule(rows=ROWS, keep_ms=st.sampled_from([None, None, 0, 20_000]))
    def ack(self, rows: Any, keep_ms: int | None) -> None:
        rows = self.proven(rows)
        assert read_outcomes(self.run_verb("ack", rows, keep_ms=keep_ms)) == self.model.ack(rows, keep_ms)

    @rule(
        rows=ROWS,
        final=st.booleans(),
        delay_ms=st.one_of(st.none(), SPANS),
        why=st.sampled_from(["", "boom", 'q"\\\n']),
    )
    def reject(self, rows: Any, final: bool, delay_ms: int | None, why: str) -> None:
        rows = [(*row, why) for row in self.proven(rows)]
        assert read_outcomes(self.run_verb("reject", rows, final=final, delay_ms=delay_ms)) == self.model.reject(
            rows, final, delay_ms
        )

    @rule(rows=ROWS, delay_ms=SPANS)
    def release(self, rows: Any, delay_ms: int) -> None:
        rows = self.proven(rows)
        assert read_outcomes(self.run_verb("release", rows, delay_ms=delay_ms)) == self.model.release(rows, delay_ms)

    @rule(rows=ROWS, ttr_ms=st.sampled_from([None, 5, 90_000]))
    def extend(self, rows: Any, ttr_ms: int | None) -> None:
        rows = self.proven(rows)
        assert read_outcomes(self.run_verb("extend", rows, ttr_ms=ttr_ms)) == self.model.extend(rows, ttr_ms)

    @rule(limit=LIMITS)
    def dispatch(self, limit: int) -> None:
        answer = self.run_verb("dispatch", limit=limit)
        assert (answer.word, *answer.values.values()) == self.model.dispatch(limit)

    @rule(limit=LIMITS)
    def reap(self, limit: int) -> None:
        answer = self.run_verb("reap", limit=limit)
        assert (answer.word, *answer.values.values()) == self.model.reap(limit)

    @rule(picks=PICKS)
    def promote(self, picks: list[int]) -> None:
        ids = [self.pick(number, "scheduled") for number in picks]
        assert read_outcomes(self.run_verb("promote", [(id,) for id in ids])) == self.model.promote(ids)

    @rule(picks=PICKS, span=SPANS, absolute=st.booleans())
    def reschedule(self, picks: list[int], span: int, absolute: bool) -> None:
        ids = [self.pick(number, "scheduled", "ready") for number in picks]
        due_ms = (NOW if absolute else self.model.now_ms) + span
        when = {"due_ms": due_ms} if absolute else {"delay_ms": span}
        assert read_outcomes(self.run_verb("reschedule", [(id,) for id in ids], **when)) == self.model.reschedule(
            ids, due_ms
        )

    @rule(picks=PICKS, priority=st.sampled_from([-4096, -2, 0, 4095]))
    def reprioritise(self, picks: list[int], priority: int) -> None:
        ids = [self.pick(number, "scheduled", "ready") for number in picks]
        answer = self.run_verb("reprioritise", [(id,) for id in ids], priority=priority)
        assert read_outcomes(answer) == self.model.reprioritise(ids, priority)

    @rule(picks=PICKS)
    def bump(self, picks: list[int]) -> None:
        ids = [self.pick(number, "ready") for number in picks]
        assert read_outcomes(self.run_verb("bump", [(id,) for id in ids])) == self.model.bump(ids)

    @rule(picks=PICKS, keep=st.booleans())
    def requeue(self, picks: list[int], keep: bool) -> None:
        ids = [self.pick(number, "dead", "done") for number in picks]
        assert read_outcomes(self.run_verb("requeue", [(id,) for id in ids], keep_attempts=keep)) == self.model.requeue(
            ids, keep
        )

    @rule(rows=ROWS, place=st.one_of(st.just(""), PLACE), with_token=st.booleans(), force=st.booleans())
    def kill(self, rows: Any, place: str, with_token: bool, force: bool) -> None:
        rows = [(id, token if with_token else "") for id, token in self.proven(rows, *PLACES)]
        answer = self.run_verb("kill", rows, place=place, reason=b"why", force=force)
        assert read_outcomes(answer) == self.model.kill(rows, place, "why", force)

    def line_of(self, id: bytes) -> bytes:
        """Return a job's stored line of attempts, `-` for none."""
        return self.client.hget(build_key("attempts"), id) or b"-"

    @rule(rows=ROWS, place=st.one_of(st.just(""), PLACE), with_token=st.booleans(), force=st.booleans(), read=READ)
    def delete(self, rows: Any, place: str, with_token: bool, force: bool, read: str) -> None:
        rows = [(id, token if with_token else "") for id, token in self.proven(rows, *PLACES)]
        before = copy.deepcopy(self.model)
        lines = {"": lambda id: b"", "now": self.line_of, "before": lambda id: b"before " + self.line_of(id)}
        asked = [(id, token, lines[read](id)) for id, token in rows]
        answer = self.run_verb("delete", asked, place=place, force=force)
        assert read_outcomes(answer) == self.model.delete(rows, place, force, read != "before")
        for (id, _), row in zip(rows, answer.each, strict=True):
            if row.word == "moved":
                self.trash.append((id, tuple(row.values.values()), before))

    @rule(picks=PICKS, place=st.one_of(st.just(""), PLACE), read=READ)
    def move_there_and_back(self, picks: list[int], place: str, read: str) -> None:
        ids = [self.pick(number, "scheduled", "ready", "dead") for number in picks]
        lines = {"": lambda id: b"", "now": self.line_of, "before": lambda id: b"before " + self.line_of(id)}
        form = {"now_ms": self.model.now_ms, "place": place}
        there = NATIVE.build_call(
            "move", "mail", {**form, "to_queue": "other"}, [{"id": id, "line": lines[read](id)} for id in ids]
        )
        answer = scripts.run_call(self.client, there)
        moved = [{"id": id} for id, row in zip(ids, answer.each, strict=True) if row.word == "moved"]
        if moved:
            assert self.client.smembers("rqtui:queues") == {b"other"}
            back = scripts.run_call(
                self.client, NATIVE.build_call("move", "other", {**form, "to_queue": "mail"}, moved[::-1])
            )
            assert {row.word for row in back.each} == {"moved"}
        self.client.delete("rqtui:queues", *NATIVE.keys("other").values())
        assert read_outcomes(answer) == self.model.move_there_and_back(ids, place, read != "before")

    @precondition(lambda self: self.trash)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        id, values, was = data.draw(st.sampled_from(self.trash))
        assert read_outcomes(self.run_verb("restore", [(id, *values)])) == self.model.restore(id, was)

    @precondition(lambda self: len(self.model.records) > 4)
    @rule(place=PLACE, limit=st.sampled_from([1, 3]), force=st.booleans())
    def purge(self, place: str, limit: int, force: bool) -> None:
        answer = self.run_verb("purge", place=place, limit=limit, force=force)
        assert self.flat(answer) == self.model.purge(place, limit, force)

    @precondition(lambda self: len(self.model.records) > 5)
    @rule(force=st.booleans())
    def purge_all(self, force: bool) -> None:
        assert self.flat(self.run_verb("purge", place="", limit=1, force=force)) == self.model.purge("", 1, force)

    @rule()
    def pause(self) -> None:
        assert self.flat(self.run_verb("pause")) == self.model.pause()

    @rule()
    def resume(self) -> None:
        assert self.flat(self.run_verb("resume")) == self.model.resume()

    @rule(setting=SETTINGS)
    def configure(self, setting: tuple[str, str]) -> None:
        assert self.flat(run_script(self.client, "configure", [setting])) == self.model.configure(*setting)

    @rule(rows=ROWS, with_token=st.booleans())
    def cancel(self, rows: Any, with_token: bool) -> None:
        rows = [(id, token if with_token else "") for id, token in self.proven(rows)]
        assert read_outcomes(self.run_verb("cancel", rows)) == self.model.cancel(rows)

    @rule(worker=st.sampled_from([b"w1", b"w 2"]), job=st.sampled_from([b"", b"a b"]), leave=st.booleans())
    def beat(self, worker: bytes, job: bytes, leave: bool) -> None:
        answer = self.run_verb("beat", worker=worker, ttl_ms=10**12, job=job, leave=leave)
        assert answer.word == self.model.beat(worker, job, leave)

    @rule(worker=st.sampled_from([b"w1", b"w 2"]), order=st.sampled_from(["quiet", "stop"]))
    def send_order(self, worker: bytes, order: str) -> None:
        assert read_outcomes(self.run_verb(order, [(worker,)])) == self.model.send_order(worker, order)

    @rule(picks=PICKS)
    def repair(self, picks: list[int]) -> None:
        ids = [self.pick(number, "ready") for number in picks]
        expected = ["fine" if self.model.find_job_place(id) else "gone" for id in ids]
        assert read_outcomes(self.run_verb("repair", [(id,) for id in ids])) == expected

    @rule()
    def marker_is_taken(self) -> None:
        self.client.delete(build_key("wake"))
        self.model.wake = False

    @rule(place=PLACE)
    def readers_agree(self, place: str) -> None:
        counts = self.run_verb("counts").values
        assert {name: counts[name] for name in PLACES} == {name: len(ids) for name, ids in self.model.places.items()}
        assert counts["overdue"] == sum(due <= self.model.now_ms for due in self.model.places["scheduled"].values())
        assert counts["expired"] == sum(due <= self.model.now_ms for due in self.model.places["reserved"].values())
        page = run_script(self.client, "page", place=place, offset=0, limit=100, body_bytes=10)
        assert [row[0] for row in page.rows] == self.model.sort_ids(place)
        for walk in ("scheduled", "ready", "reserved", "done", "dead", "jobs", "bodies", "attempts", "errors"):
            assert run_script(self.client, "check", walk=walk, cursor="0", limit=1000).rows == []

    @staticmethod
    def flat(answer: Reply) -> Outcome:
        return (answer.word, *answer.values.values()) if answer.values else answer.word

    @invariant()
    def every_key_means_what_the_model_says(self) -> None:
        found = read_parsed_keys(self.client)
        expected = self.model.build_keyspace()
        assert found == expected
        for place in PLACES:
            assert list(found.get(place, {})) == self.model.sort_ids(place)


def profile(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        print_blob=True,
        database=None,
    )


def run_machine(client: Redis, how: settings) -> None:
    run_state_machine_as_test(type("NativeQueue", (Machine,), {"client": client}), settings=how)


@pytest.mark.slow
@pytest.mark.parametrize("examples", [10, pytest.param(100, marks=pytest.mark.matrix)])
def test_random_verbs_do_what_the_model_says(any_client: Redis, examples: int) -> None:
    run_machine(any_client, profile(examples, 60))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_random_verbs_do_what_the_model_says(server_client: Redis) -> None:
    run_machine(server_client, profile(1500, 100))
