"""The judge itself: it accepts a history in which all went well, and names what is wrong in each that went badly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from families import run_in_one_test
from faults.history_checker import Dump, check_history, find_errors


@dataclass
class WrittenHistory:
    """A history that a test writes: each line is a tenth of a second after the one before."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    def record_line(self, by: str, op: str, **fields: Any) -> None:
        self.lines.append({"t": len(self.lines) / 10, "by": by, "op": op, "queue": "mail", **fields})

    def call(self, by: str, op: str, how: str = "answer", ask: Any = None, **told: Any) -> None:
        number = len(self.lines)
        self.record_line(by, op, n=number, **{"is": "ask"}, **(ask or {}))
        if how != "killed":
            self.record_line(by, op, n=number, **{"is": how}, **told)

    def put(self, *ids: str, how: str = "answer") -> None:
        self.call("producer", "put", how, {"ids": list(ids)}, words=["moved"] * len(ids))

    def reserve(self, by: str, *leases: tuple[str, int, int]) -> None:
        history = [[id, str(token), attempt, 4] for id, token, attempt in leases]
        self.call(by, "reserve", leases=history)

    def begin(self, by: str, id: str, token: int, attempt: int = 1) -> None:
        self.record_line(by, "begin", id=id, token=str(token), attempt=attempt, most=4)

    def end(self, by: str, id: str, token: int, attempt: int = 1, verb: str = "ack") -> None:
        self.record_line(by, "end", id=id, token=str(token), attempt=attempt, verb=verb)

    def settled(self, by: str, id: str, token: int, attempt: int = 1, verb: str = "ack", word: str = "moved") -> None:
        self.record_line(by, "settled", id=id, token=str(token), attempt=attempt, verb=verb, word=word)

    def run(self, by: str, id: str, token: int, attempt: int = 1) -> None:
        self.begin(by, id, token, attempt)
        self.end(by, id, token, attempt)
        self.settled(by, id, token, attempt)


def events(*words: str) -> Sequence[tuple[str, str]]:
    """Build the events of jobs from words, for example `events("a enqueue reserve ack", "b enqueue")`."""
    return [(verb, line.split()[0]) for line in words for verb in line.split()[1:]]


def well() -> tuple[WrittenHistory, Dump]:
    """Build a correct history: two jobs put, one done at its second attempt, one still ready; a third was deleted."""
    history = WrittenHistory()
    history.put("a", "b", "c")
    history.reserve("w1", ("a", 100, 1))
    history.begin("w1", "a", 100)
    history.run("w2", "a", 200, 2)
    history.call("operator", "act", ask={"verb": "delete", "ids": ["c"]}, words=["moved"])
    dump = Dump(
        {"ready": {"b": 2.0}, "done": {"a": 1.0}},
        {"a": "2 200 1 0 - - w2"},
        200,
        events("a enqueue", "b enqueue", "c enqueue", "a reserve reap reserve ack", "c delete"),
    )
    return history, dump


def test_a_history_in_which_all_went_well_is_accepted() -> None:
    history, dump = well()
    assert check_history(history.lines, {"mail": dump}) == []


def without_b(told: WrittenHistory, dump: Dump) -> Dump:
    return replace(dump, places={"done": dump.places["done"]}, events=events("a enqueue reserve reap reserve ack"))


def lost_though_its_last_event_says_ready(told: WrittenHistory, dump: Dump) -> Dump:
    return replace(dump, places={"done": dump.places["done"]})


def acked_by_both(told: WrittenHistory, dump: Dump) -> Dump:
    told.end("w1", "a", 100)
    told.settled("w1", "a", 100)
    return dump


def acked_twice_in_the_events(told: WrittenHistory, dump: Dump) -> Dump:
    return replace(dump, events=[*(dump.events or ()), ("ack", "a")])


def acked_and_back_in_ready(told: WrittenHistory, dump: Dump) -> Dump:
    return replace(dump, places={"ready": {"b": 2.0, "a": 1.0}}, events=None)


def done_without_a_run(told: WrittenHistory, dump: Dump) -> Dump:
    told.lines = [line for line in told.lines if line["op"] not in ("end", "settled")]
    return dump


def in_two_places(told: WrittenHistory, dump: Dump) -> Dump:
    return replace(dump, places={**dump.places, "dead": {"b": 3.0}})


def from_nowhere(told: WrittenHistory, dump: Dump) -> Dump:
    return replace(dump, places={**dump.places, "dead": {"x": 3.0}})


def refused_and_yet_there(told: WrittenHistory, dump: Dump) -> Dump:
    told.put("d", how="nothing")
    return replace(dump, places={"ready": {"b": 2.0, "d": 3.0}, "done": dump.places["done"]}, events=None)


def one_attempt_too_few(told: WrittenHistory, dump: Dump) -> Dump:
    return replace(dump, attempts={"a": "1 200 1 0 - - w2"})


def an_attempt_counted_twice(told: WrittenHistory, dump: Dump) -> Dump:
    told.begin("w3", "b", 300, 3)
    return replace(dump, token=300)


def more_attempts_than_allowed(told: WrittenHistory, dump: Dump) -> Dump:
    told.begin("w3", "b", 300, 5)
    return replace(dump, token=300, events=None)


def the_same_token_twice(told: WrittenHistory, dump: Dump) -> Dump:
    told.begin("w3", "b", 200)
    return replace(dump, events=None)


def a_lower_token_for_the_same_worker(told: WrittenHistory, dump: Dump) -> Dump:
    told.begin("w2", "b", 150)
    return replace(dump, events=None)


def a_lower_token_for_another_worker(told: WrittenHistory, dump: Dump) -> Dump:
    told.reserve("w3", ("b", 150, 1))
    return replace(dump, events=None)


def handed_out_while_it_was_held(told: WrittenHistory, dump: Dump) -> Dump:
    told.begin("w3", "b", 300)
    told.lines[-1]["ttr_s"] = 60
    told.begin("w4", "b", 400, 2)
    return replace(dump, token=400, events=None)


def settled_after_it_went_to_another(told: WrittenHistory, dump: Dump) -> Dump:
    told.end("w1", "a", 100, verb="reject")
    told.settled("w1", "a", 100, verb="reject")
    return dump


def pulled_twice(told: WrittenHistory, dump: Dump) -> Dump:
    for _ in range(2):
        told.call("puller", "pull", ask={"count": 1}, ids=["d"])
    return dump


def more_pulled_than_asked_for(told: WrittenHistory, dump: Dump) -> Dump:
    told.put("d", "e")
    told.call("puller", "pull", "unknown", ask={"count": 1})
    return replace(dump, events=[*(dump.events or ()), *events("d enqueue pull", "e enqueue pull")])


def a_token_that_the_queue_forgot(told: WrittenHistory, dump: Dump) -> Dump:
    return replace(dump, token=199)


def reaped_without_a_lease(told: WrittenHistory, dump: Dump) -> Dump:
    return replace(dump, events=[*(dump.events or ()), ("reap", "b")])


def found_by_check(told: WrittenHistory, dump: Dump) -> Dump:
    return replace(dump, found=["orphan_line a"])


def a_dead_thread(told: WrittenHistory, dump: Dump) -> Dump:
    told.record_line("screen", "look", alive=False)
    return dump


def a_process_that_ended(told: WrittenHistory, dump: Dump) -> Dump:
    told.record_line("conductor", "ended", name="reaper.1", code=1, error="ConnectionError")
    return dump


BAD: Sequence[tuple[Callable[[WrittenHistory, Dump], Dump], str]] = (
    (without_b, "job b was acknowledged and is nowhere"),
    (lost_though_its_last_event_says_ready, "job b is in nowhere; its events end in ready or scheduled"),
    (acked_by_both, "job a was finished by w2 (200) and w1 (100)"),
    (acked_twice_in_the_events, "job a: ack while it was in done or nowhere"),
    (acked_and_back_in_ready, "job a was finished, and is in ['ready']"),
    (done_without_a_run, "job a is done by 200 (attempt 2), which never ran it to its end"),
    (in_two_places, "job b is in ready and dead"),
    (from_nowhere, "job x is in dead, and nobody put it"),
    (refused_and_yet_there, "job d is in ready, though its put was said to have done nothing"),
    (one_attempt_too_few, "job a has 1 attempts; its events tell of 2"),
    (an_attempt_counted_twice, "job b was handed out for attempts [3]; its events tell of []"),
    (more_attempts_than_allowed, "job b was handed out for attempt 5 of 4"),
    (the_same_token_twice, "token 200 went to w2 for a and to w3 for b"),
    (a_lower_token_for_the_same_worker, "w2 got token 150 for b after 200"),
    (a_lower_token_for_another_worker, "token 150 was given out after 200"),
    (handed_out_while_it_was_held, "w4 got job b while w3 held it"),
    (settled_after_it_went_to_another, "w1 settled job a (reject) after w2 had got it"),
    (pulled_twice, "job d was pulled 2 times and is in no place"),
    (more_pulled_than_asked_for, "1 jobs were asked for by pull, and 2 left"),
    (a_token_that_the_queue_forgot, "token 200 was given out, the queue remembers 199"),
    (reaped_without_a_lease, "job b: reap while it was in ready or scheduled"),
    (found_by_check, "check found orphan_line a"),
    (a_dead_thread, "screen: a thread of the screen is dead"),
    (a_process_that_ended, "reaper.1 ended by itself with 1: ConnectionError"),
)


def forgetful() -> tuple[WrittenHistory, Dump]:
    """Build the history of a queue that forgets done jobs: a producer without a reply put one job again."""
    history = WrittenHistory()
    history.put("a", how="unknown")
    history.put("b")
    history.run("w1", "a", 100)
    history.put("a")
    history.run("w2", "a", 200)
    history.run("w1", "b", 300)
    told_events = events("a enqueue reserve ack enqueue reserve ack", "b enqueue reserve ack")
    return history, Dump({}, {}, 300, told_events, remembers=False)


def test_a_queue_may_forget_what_is_done() -> None:
    history, dump = forgetful()
    assert check_history(history.lines, {"mail": dump}) == []


def test_a_queue_that_forgets_loses_and_repeats_nothing_all_the_same() -> None:
    history, dump = forgetful()
    lost = replace(dump, events=events("a enqueue reserve ack enqueue reserve ack", "b enqueue reserve"))
    assert any("job b was acknowledged and is nowhere" in one for one in check_history(history.lines, {"mail": lost}))
    once = replace(dump, events=events("a enqueue reserve ack", "b enqueue reserve ack"))
    assert any(
        "job a was finished by w1 (100) and w2 (200)" in one for one in check_history(history.lines, {"mail": once})
    )
    history.lines = [line for line in history.lines if line["op"] in ("put", "begin")]
    assert any("job b is done and forgotten, and nobody" in one for one in check_history(history.lines, {"mail": dump}))


@run_in_one_test(("spoil", "sentence"), BAD, ids=[spoil.__name__ for spoil, _ in BAD])
def test_the_judge_names(spoil: Callable[[WrittenHistory, Dump], Dump], sentence: str) -> None:
    history, dump = well()
    dump = spoil(history, dump)
    assert any(sentence in one for one in check_history(history.lines, {"mail": dump})), check_history(
        history.lines, {"mail": dump}
    )


@pytest.mark.parametrize("seconds_later", [0.0, 2.0, 5.0])
def test_only_jobs_acknowledged_shortly_before_the_server_died_may_be_lost(seconds_later: float) -> None:
    history = WrittenHistory()
    history.put("a")
    history.lines.append({"t": 0.1 + seconds_later, "by": "conductor", "op": "server", "event": "killed"})
    empty = {"mail": Dump({}, {}, 0, [])}
    assert check_history(history.lines, empty), "always: nothing is forgiven"
    broken, forgiven = find_errors(history.lines, empty, tail_s=2.5)
    assert (len(broken), forgiven) == ((0, 1) if seconds_later < 2.5 else (1, 0))


def test_a_job_that_was_there_after_the_server_came_back_was_not_in_the_lost_tail() -> None:
    history = WrittenHistory()
    history.put("a")
    history.lines.append({"t": 0.15, "by": "conductor", "op": "server", "event": "killed"})
    history.put("a")
    assert check_history(history.lines, {"mail": Dump({}, {}, 0, [])}, tail_s=2.5)


def test_a_put_without_an_answer_promises_nothing() -> None:
    history = WrittenHistory()
    history.put("a", how="killed")
    history.put("b", how="unknown")
    assert check_history(history.lines, {"mail": Dump({}, {}, 0, [])}) == []
    there = Dump({"ready": {"a": 1.0, "b": 2.0}}, {}, 0, events("a enqueue", "b enqueue"))
    assert check_history(history.lines, {"mail": there}) == []
