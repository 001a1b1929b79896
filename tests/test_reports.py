"""Reports: what the views and the commands for workers, errors and kinds say, from a real queue."""

from __future__ import annotations

import string
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from shapes import NONE, fits
from shell import shell

from rqtui import layouts
from rqtui.client import Queue
from rqtui.engine import Engine, with_layouts
from rqtui.model import Ref, State, Worker
from rqtui.names import keys
from rqtui.reports import errors, kinds, sampling, workers
from rqtui.reports.errors import normalise
from rqtui.reports.workers import Standing
from rqtui.tui import display

MAIL, IMAGES = Ref("native", "mail"), Ref("native", "images")
T = TypeVar("T")


@pytest.fixture
def engine(client: Redis) -> Engine:
    """An engine that knows the native layout and the dispatcher's."""
    return with_layouts(client, [layouts.make("native"), layouts.make("dispatcher")])


def last(steps: Iterator[T | None]) -> T:
    """The whole report."""
    *_before, whole = steps
    assert whole is not None
    return whole


def failed(queue: Queue, *messages: str, name: str = "send", final: bool = True, worker: str = "w1") -> None:
    """Jobs that failed once, with these errors."""
    for message in messages:
        queue.put({}, name=name, priority=-9)
        (job,) = queue.reserve(1, worker=worker)
        job.reject(message, final=final, delay=None if final else "10m")


# -- what errors have in common ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ("TimeoutError: 10.0.0.7 after 5.0 s", "TimeoutError: 10.0.0.9 after 12 s", "TimeoutError: # after # s"),
        ("no user 'bob'", 'no user "zoë"', "no user #"),
        ("cannot open /var/lib/a/1.db", "cannot open /srv/b.db", "cannot open #"),
        ("job 0b1e7a52-6d9c-4f5e-9d3c-0123456789ab", "job 01jd8f00dcafe0123456789abcdef", "job #"),
        ("GET https://a.example/x?y=1 gave 500", "GET http://b.example gave 502", "GET # gave #"),
        ("bounced: ann@example.org", "bounced: o.nwosu@mail.example.com", "bounced: #"),
        (
            "'ascii' codec can't encode '\\u2bff' in 3",
            "'ascii' codec can't encode 'ß' in 9",
            "# codec can't encode # in #",
        ),
        ("at 0x7f3a2c", "at 0x01", "at #"),
    ],
)
def test_errors_that_differ_in_data_alone_are_one(one: str, other: str, message: str) -> None:
    assert normalise(one) == normalise(other) == message


@pytest.mark.parametrize(
    ("one", "other"),
    [("KeyError: 'vat_id'", "KeyError: 'name'"), ("Http2Error: x", "Http3Error: x"), ("no disk", "no route")],
)
def test_errors_that_differ_in_kind_stay_apart(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_of_a_traceback_the_line_behind_the_last_frame_counts() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    x()\nValueError: no 7\nand more'
    assert normalise(text) == "ValueError: no #"


def test_of_a_cut_traceback_too() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n  ... in g\n    x()\nValueError: no 7'
    assert normalise(text) == "ValueError: no #"


def test_of_a_stack_below_its_message_the_message_counts() -> None:
    assert normalise("Error: no 7\n    at f (a.js:3)\n    at g (a.js:9)") == "Error: no #"


def test_of_what_a_command_said_the_end_counts() -> None:
    assert normalise("warning: old config\ncurl: (28) timed out\n") == "curl: (#) timed out"


tokens = st.sampled_from([*"'\"`/\\#-:.@ \n\x1b\x85é1", "0x", "77", "deadbeef", "e1", "KeyError"])
texts = st.one_of(st.text(max_size=400), st.lists(tokens, max_size=60).map("".join), st.text(string.printable))


@given(texts)
def test_a_message_is_short_and_stands_still_and_can_be_shown(error: str) -> None:
    message = normalise(error)
    assert normalise(message) == message
    assert len(message) <= errors.LONGEST
    shown = display.safe(message)
    assert shown.isprintable()
    assert "\n" not in message


# -- errors ------------------------------------------------------------------------------------------------------------


def test_dead_and_retrying_jobs_are_grouped_over_queues(client: Redis, engine: Engine) -> None:
    mail, images = Queue("mail", client), Queue("images", client)
    failed(mail, "TimeoutError: 1 s", "TimeoutError: 2 s", "KeyError: 'x'")
    failed(mail, "TimeoutError: 3 s", name="digest", final=False)
    failed(images, "TimeoutError: 4 s")
    mail.put({}, id="never-failed", delay="1h")
    found = last(errors.report(engine, [MAIL, IMAGES]))
    told = [(g.message, g.dead, g.retrying, g.kinds, set(g.refs)) for g in found.groups]
    assert told == [
        ("TimeoutError: # s", 3, 1, ("digest", "send"), {MAIL, IMAGES}),
        ("KeyError: 'x'", 1, 0, ("send",), {MAIL}),
    ]
    assert found.size.is_whole
    assert found.groups[0].example.state is State.DEAD


def test_a_group_that_only_waits_says_when_it_failed(client: Redis, engine: Engine) -> None:
    before_ms = int(time.time() * 1000)
    failed(Queue("mail", client), "TimeoutError: 1 s", final=False)
    (group,) = last(errors.report(engine, [MAIL])).groups
    assert group.last_ms is not None
    assert before_ms - 5 <= group.last_ms <= time.time() * 1000 + 5


def test_a_sample_is_of_the_newest_and_says_so(client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "PER_PLACE", 3)
    failed(Queue("mail", client), *["Old: x"] * 4, *["New: x"] * 3)
    found = last(errors.report(engine, [MAIL]))
    assert [(g.message, g.dead) for g in found.groups] == [("New: x", 3)]
    assert (found.size.looked, found.size.of, found.size.is_whole) == (3, 7, False)


def test_the_members_of_a_group_are_looked_for_in_the_whole_place(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "PER_PLACE", 1)
    monkeypatch.setattr(sampling, "STEP", 2)
    failed(Queue("mail", client), *[f"TimeoutError: {n} s" for n in range(5)], "KeyError: 'x'")
    steps = list(errors.members(engine, [MAIL], "TimeoutError: # s", (State.DEAD,)))
    assert sum(len(step.jobs) for step in steps) == 5
    assert (steps[-1].looked, steps[-1].of) == (6, 6)


def test_a_long_traceback_is_grouped_by_what_it_ends_with(client: Redis, engine: Engine) -> None:
    frames = "".join(f'  File "a{n}.py", line {n}, in f\n    x()\n' for n in range(30))
    failed(Queue("mail", client), f"Traceback (most recent call last):\n{frames}ValueError: no 7")
    (group,) = last(errors.report(engine, [MAIL])).groups
    assert group.message == "ValueError: no #"
    assert errors.whole(engine, group.example).error.count("File") == 30


def test_a_system_without_errors_is_named(client: Redis, engine: Engine) -> None:
    client.rpush("readytasklist", "a")
    found = last(errors.report(engine, [Ref("dispatcher", "readytasklist")]))
    assert (found.groups, found.silent) == ((), ("dispatcher",))


# -- kinds -------------------------------------------------------------------------------------------------------------


def test_kinds_are_counted_by_place_with_failures_and_times(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    failed(mail, "X: 1", name="digest")
    for number in range(3):
        mail.put({}, id=f"r{number}", name="send", keep="1h")
    mail.put({}, name="send", delay="1h")
    done, _held = mail.reserve(2, worker="w1")
    done.ack()
    send, digest = last(kinds.report(engine, [MAIL])).kinds
    assert (send.name, dict(send.counts), send.failed) == (
        "send",
        {State.SCHEDULED: 1, State.READY: 1, State.RESERVED: 1, State.DONE: 1},
        0,
    )
    assert send.run_ms is not None and send.run_ms < 5000
    assert send.oldest_ready_ms is not None
    assert (digest.name, dict(digest.counts), digest.failed) == ("digest", {State.DEAD: 1}, 1)


def test_kinds_are_told_from_a_sample(client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "PER_PLACE", 2)
    for number in range(5):
        Queue("mail", client).put({}, id=str(number), name="send")
    found = last(kinds.report(engine, [MAIL]))
    assert (found.kinds[0].count, found.size.looked, found.size.of) == (2, 2, 5)


def test_a_report_about_many_queues_looks_at_fewer_jobs_of_each(client: Redis, engine: Engine) -> None:
    for number in range(sampling.MOST_QUEUES + 1):
        Queue(f"q{number}", client).put({}, name="send")
    refs = [Ref("native", f"q{number}") for number in range(sampling.MOST_QUEUES + 1)]
    found = last(kinds.report(engine, refs))
    assert (found.size.queues, found.size.of_queues, found.size.is_whole) == (50, 51, False)


# -- workers -----------------------------------------------------------------------------------------------------------


def beat(client: Redis, queue: str, name: str, ago_s: float, order: str = "run", job: str = "") -> None:
    """A worker whose last sign of life was so long ago."""
    now_ms = int(time.time() * 1000)
    client.hset(keys(queue)["workers"], name, f"{now_ms - int(ago_s * 1000)} 60000 {order} {now_ms} 42 host {job}")


def test_workers_stand_as_their_beats_and_leases_tell(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    for number in range(4):
        mail.put({}, id=f"j{number}", name="send")
    for worker in ("late", "busy", "unseen"):
        mail.reserve(1, worker=worker, ttr="1h")
    for name, ago_s in (("gone", 601), ("late", 61), ("busy", 1), ("idle", 1)):
        beat(client, "mail", name, ago_s)
    beat(client, "mail", "q", 1, "quiet")
    beat(client, "mail", "s", 1, "stop")
    seats, _now_ms, problems = workers.report(engine, [MAIL])
    assert [(seat.name, seat.standing.value, [job.id for job in seat.jobs]) for seat in seats] == [
        ("late", "late", [b"j0"]),
        ("gone", "gone", []),
        ("busy", "running", [b"j1"]),
        ("idle", "idle", []),
        ("q", "quiet asked", []),
        ("s", "stop asked", []),
        ("unseen", "no beat", [b"j2"]),
    ]
    assert not problems


def test_who_never_beats_and_let_a_lease_pass_is_in_trouble(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    mail.put({}, id="j")
    mail.reserve(1, worker="w", ttr="1h")
    client.zadd(keys("mail")["reserved"], {"j": 1000})
    ((seat,), _now_ms, _problems) = workers.report(engine, [MAIL])
    assert seat.standing is Standing.EXPIRED


def test_a_worker_does_what_it_says_it_does(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    mail.put({}, id="a")
    mail.put({}, id="b")
    mail.reserve(2, worker="w", ttr="1h")
    beat(client, "mail", "w", 1, job="b")
    ((seat,), _now_ms, _problems) = workers.report(engine, [MAIL])
    assert seat.job is not None and seat.job.id == b"b"
    assert len(seat.jobs) == 2


def test_a_key_of_another_type_is_said_and_the_rest_is_shown(client: Redis, engine: Engine) -> None:
    client.set(keys("images")["workers"], "x")
    Queue("images", client).put({})
    beat(client, "mail", "w", 1)
    seats, _now_ms, problems = workers.report(engine, [IMAGES, MAIL])
    assert [seat.name for seat in seats] == ["w"]
    assert problems and "workers" in problems[0]


def test_of_many_queues_the_busy_ones_are_asked() -> None:
    refs = [Ref("native", f"q{number:03}") for number in range(150)]
    asked = workers.chosen(refs, {"native": layouts.make("native")}, frozenset(refs[-5:]))
    assert len(asked) == workers.MOST_QUEUES
    assert set(refs[-5:]) <= set(asked)


def test_an_order_is_no_trouble_while_it_beats() -> None:
    worker = Worker("w", "mail", 1000, 60_000, "stop")
    assert workers.standing(worker, (), 2000) is Standing.STOPPING
    assert workers.standing(worker, (), 62_000) is Standing.LATE


# -- the commands ------------------------------------------------------------------------------------------------------

SIZE = {"taken_at_ms": int, "looked": int, "of": int, "exact": bool}
WORKERS = [
    {
        "worker": str,
        "queue": str,
        "layout": str,
        "state": str,
        "beat_at_ms": (int, NONE),
        "ttl_ms": (int, NONE),
        "late": bool,
        "order": (str, NONE),
        "started_at_ms": (int, NONE),
        "pid": (str, NONE),
        "host": (str, NONE),
        "job": (str, NONE),
        "held": [{"id": str, "name": (str, NONE), "reserved_at_ms": (int, NONE), "deadline_at_ms": (int, NONE)}],
        "exact": bool,
    }
]
ERRORS = {
    **SIZE,
    "errors": [
        {
            "error": (str, NONE),
            "dead": int,
            "retrying": int,
            "exact": bool,
            "first_at_ms": (int, NONE),
            "last_at_ms": (int, NONE),
            "names": [str],
            "queues": [{"queue": str, "layout": str}],
            "example": {"id": str, "queue": str, "layout": str, "place": str, "error": (str, NONE)},
        }
    ],
}
KINDS = {
    **SIZE,
    "kinds": [
        {
            "name": (str, NONE),
            "queue": str,
            "layout": str,
            "counts": {state.value: int for state in State},
            "exact": bool,
            "failed": int,
            "wait_ms": (int, NONE),
            "run_ms": (int, NONE),
            "oldest_ready_ms": (int, NONE),
        }
    ],
}
LINES = [
    (words, shape)
    for name, shape in (("workers", WORKERS), ("errors", ERRORS), ("kinds", KINDS))
    for words in ((name,), (name, "mail"), (name, "native:mail", "images"))
]


@pytest.fixture
def troubled(client: Redis) -> Queue:
    """A queue with something for each report."""
    mail = Queue("mail", client)
    failed(mail, "TimeoutError: 1 s", "\x1b[31mred\x07")
    failed(mail, "TimeoutError: 2 s", final=False)
    mail.put({}, name="send", id="held")
    mail.reserve(1, worker="w1", ttr="1h")
    beat(client, "mail", "w2", 70)
    return mail


@pytest.mark.parametrize(
    ("words", "shape"), LINES, ids=lambda given: " ".join(given) if isinstance(given, tuple) else ""
)
def test_a_documented_line_keeps_its_shape(troubled: Queue, url: str, words: tuple[str, ...], shape: Any) -> None:
    ran = shell(url, *words, "--json")
    assert ran.code == 0, ran.err
    fits(ran.json, shape)
    assert ran.out.isascii()
    found = ran.json if words[0] == "workers" else ran.json[words[0]]
    assert found


@pytest.mark.parametrize("words", [line[0] for line in LINES], ids=" ".join)
def test_without_json_it_is_a_table_for_people(troubled: Queue, url: str, words: tuple[str, ...]) -> None:
    ran = shell(url, *words)
    assert ran.code == 0, ran.err
    expected = {"workers": "w1", "errors": "TimeoutError: # s", "kinds": "send"}[words[0]]
    assert expected in ran.out
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("name", ["workers", "errors", "kinds"])
def test_an_empty_redis_is_said_in_words(client: Redis, url: str, name: str) -> None:
    ran = shell(url, name)
    assert (ran.code, ran.out) == (0, "")
    assert "no " in ran.err


def test_systems_that_keep_no_names_say_so(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "a")
    for name, words in (("workers", "no names of workers"), ("errors", "no errors"), ("kinds", "no kinds of jobs")):
        ran = shell(url, "--layout", "dispatcher", name, "readytasklist")
        assert ran.code == 0
        assert f"dispatcher keeps {words}" in ran.err


def test_a_key_of_another_type_is_told_and_the_exit_code_says_so(client: Redis, url: str) -> None:
    client.set(keys("mail")["workers"], "x")
    client.hset(keys("mail")["meta"], "version", 1)
    ran = shell(url, "workers", "mail", "--json")
    assert (ran.code, ran.json) == (1, [])
    assert "workers" in ran.err


@pytest.mark.parametrize("name", ["errors", "kinds"])
def test_a_queue_that_cannot_be_counted_is_told_and_the_others_are_shown(
    troubled: Queue, client: Redis, url: str, name: str
) -> None:
    client.set(keys("images")["dead"], "x")
    ran = shell(url, name, "mail", "images")
    assert ran.code == 1
    assert "send" in ran.out
    assert keys("images")["dead"] in ran.err


def test_example_and_help_are_there(url: str) -> None:
    for name in ("workers", "errors", "kinds"):
        assert f"Example: rqtui {name}" in " ".join(shell(url, name, "--help").out.split())
