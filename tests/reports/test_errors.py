"""Test groups of errors: what their messages have in common, and the groups of a real queue."""

from __future__ import annotations

import string
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from families import run_in_one_test
from hypothesis import given
from hypothesis import strategies as st
from planted_jobs import add_failed_jobs
from redis import Redis

from rqtui.client.queue import Queue
from rqtui.engine.engine import Engine, build_engine
from rqtui.model import Ref, State
from rqtui.reports import errors, sampling
from rqtui.reports.errors import normalise_error
from rqtui.systems import registry
from rqtui.text.sanitise import safe
from rqtui.text.widths import Width

MAIL, IMAGES = Ref("native", "mail"), Ref("native", "images")


T = TypeVar("T")


@pytest.fixture
def engine(client: Redis) -> Engine:
    """Create an engine with the systems native and dispatcher."""
    return build_engine(client, [registry.create_system("native"), registry.create_system("dispatcher")])


def last(steps: Iterator[T | None]) -> T:
    """Return the complete report, the last item of `steps`."""
    *_before, whole = steps
    assert whole is not None
    return whole


@run_in_one_test(
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
    assert normalise_error(one) == normalise_error(other) == message


@pytest.mark.parametrize(
    ("one", "other"),
    [("KeyError: 'vat_id'", "KeyError: 'name'"), ("Http2Error: x", "Http3Error: x"), ("no disk", "no route")],
)
def test_errors_that_differ_in_kind_stay_apart(one: str, other: str) -> None:
    assert normalise_error(one) != normalise_error(other)


def test_the_line_after_the_last_frame_of_a_traceback_is_the_cause() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    x()\nValueError: no 7\nand more'
    assert normalise_error(text) == "ValueError: no #"


def test_the_message_of_a_cut_traceback_is_the_cause() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n  ... in g\n    x()\nValueError: no 7'
    assert normalise_error(text) == "ValueError: no #"


def test_the_message_above_a_stack_is_the_cause() -> None:
    assert normalise_error("Error: no 7\n    at f (a.js:3)\n    at g (a.js:9)") == "Error: no #"


def test_the_end_of_a_commands_output_is_its_error() -> None:
    assert normalise_error("warning: old config\ncurl: (28) timed out\n") == "curl: (#) timed out"


tokens = st.sampled_from([*"'\"`/\\#-:.@ \n\x1b\x85é1", "0x", "77", "deadbeef", "e1", "KeyError"])


texts = st.one_of(st.text(max_size=400), st.lists(tokens, max_size=60).map("".join), st.text(string.printable))


@given(texts)
def test_a_message_is_short_and_does_not_move_and_can_be_shown(error: str) -> None:
    message = normalise_error(error)
    assert normalise_error(message) == message
    assert len(message) <= errors.MAX_MESSAGE_LENGTH
    shown = safe(message)
    assert shown.isprintable()
    assert "\n" not in message


def test_dead_and_retrying_jobs_are_grouped_over_queues(client: Redis, engine: Engine) -> None:
    mail, images = Queue("mail", client), Queue("images", client)
    add_failed_jobs(mail, "TimeoutError: 1 s", "TimeoutError: 2 s", "KeyError: 'x'")
    add_failed_jobs(mail, "TimeoutError: 3 s", name="digest", final=False)
    add_failed_jobs(images, "TimeoutError: 4 s")
    mail.put({}, id="never-failed", delay="1h")
    found = last(errors.yield_error_reports(engine, [MAIL, IMAGES]))
    rows = [(g.message, g.dead, g.retrying, g.kinds, set(g.refs)) for g in found.groups]
    assert rows == [
        ("TimeoutError: # s", 3, 1, ("digest", "send"), {MAIL, IMAGES}),
        ("KeyError: 'x'", 1, 0, ("send",), {MAIL}),
    ]
    assert found.size.is_complete
    assert found.groups[0].example.state is State.DEAD


def test_a_group_that_only_waits_reports_when_it_failed(client: Redis, engine: Engine) -> None:
    before_ms = int(time.time() * 1000)
    add_failed_jobs(Queue("mail", client), "TimeoutError: 1 s", final=False)
    (group,) = last(errors.yield_error_reports(engine, [MAIL])).groups
    assert group.last_ms is not None
    assert before_ms - 5 <= group.last_ms <= time.time() * 1000 + 5


def test_a_sample_is_of_the_newest_and_reports_it(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "MAX_PER_PLACE", 3)
    add_failed_jobs(Queue("mail", client), *["Old: x"] * 4, *["New: x"] * 3)
    found = last(errors.yield_error_reports(engine, [MAIL]))
    assert [(g.message, g.dead) for g in found.groups] == [("New: x", 3)]
    assert (found.size.looked, found.size.of, found.size.is_complete) == (3, 7, False)


def test_the_members_of_an_error_group_are_searched_in_the_whole_place(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "MAX_PER_PLACE", 1)
    monkeypatch.setattr(sampling, "JOBS_PER_PAGE", 2)
    add_failed_jobs(Queue("mail", client), "KeyError: 'x'", *[f"TimeoutError: {n} s" for n in range(5)])
    found = last(errors.yield_error_reports(engine, [MAIL]))
    steps = list(errors.yield_group_members(engine, [MAIL], found.groups[0].key, found.grouping, (State.DEAD,)))
    assert sum(len(step.jobs) for step in steps) == 5
    assert (steps[-1].looked, steps[-1].of) == (6, 6)


def test_a_long_traceback_is_grouped_by_what_it_ends_with(client: Redis, engine: Engine) -> None:
    frames = "".join(f'  File "a{n}.py", line {n}, in f\n    x()\n' for n in range(30))
    add_failed_jobs(Queue("mail", client), f"Traceback (most recent call last):\n{frames}ValueError: no 7")
    (group,) = last(errors.yield_error_reports(engine, [MAIL])).groups
    assert group.message == "ValueError: no #"
    assert errors.load_full_error(engine, group.example).error.count("File") == 30


def test_a_system_without_errors_is_named(client: Redis, engine: Engine) -> None:
    client.rpush("readytasklist", "a")
    found = last(errors.yield_error_reports(engine, [Ref("dispatcher", "readytasklist")]))
    assert (found.groups, found.silent) == ((), ("dispatcher",))


def test_a_traceback_of_many_frames_shows_the_jobs_own_frame(client: Redis, engine: Engine) -> None:
    below = '  File "/usr/lib/python3.12/site-packages/orm/layer{n}.py", line {n}, in run\n    return below(row)\n'
    library = "".join(below.replace("{n}", str(n)) for n in range(9))
    frames = f'  File "/srv/shop/orders.py", line 12, in store\n    rows.insert(row)\n{library}'
    outer = "".join(f'  File "/srv/shop/worker{n}.py", line {n}, in run\n    task()\n' for n in range(20))
    traceback = f"Traceback (most recent call last):\n{outer}{frames}orm.Refused: row "
    add_failed_jobs(Queue("mail", client), *[f"{traceback}{n} of {'x' * n}" for n in range(1, 91, 9)])
    (group,) = last(errors.yield_error_reports(engine, [MAIL])).groups
    assert (group.frame, group.cause, group.dead) == ("orders.py:12", "Refused", 10)


def test_groups_of_jobs_at_hand_and_their_summary(client: Redis, engine: Engine) -> None:
    add_failed_jobs(
        Queue("mail", client), *[f"Declined: cus_{n}a" for n in range(3)], "TimeoutError: 1 s", "KeyError: 'x'"
    )
    jobs = engine.fetch_page(MAIL, "dead", 0, 50).jobs
    groups = errors.group_jobs(jobs)
    assert [(group.cause, group.count) for group in groups] == [("Declined", 3), ("KeyError", 1), ("TimeoutError", 1)]
    assert errors.format_summary(groups) == "3 Declined · 1 KeyError · 1 more"
    assert errors.format_summary(groups, max_groups=3) == "3 Declined · 1 KeyError · 1 TimeoutError"
    assert [group.key for group in errors.group_jobs(jobs[::-1])] == [group.key for group in groups]


def test_the_same_report_in_other_widths_asks_nothing(client: Redis, engine: Engine) -> None:
    add_failed_jobs(Queue("mail", client), "Declined: no funds", "Declined: card has expired", "KeyError: 'x'")
    found = last(errors.yield_error_reports(engine, [MAIL]))
    assert {width: len(found.regroup(width).groups) for width in Width} == {
        Width.CLASS: 2,
        Width.FRAME: 3,
        Width.CAUSE: 3,
        Width.MESSAGE: 3,
    }
    assert found.regroup(Width.CLASS).regroup(Width.CAUSE).groups == found.groups


def test_members_of_a_group_are_of_no_other(client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wordings overlap but for a word, and each job has one group, also one that the sample had not."""
    names = ("ada", "bob", "cyd", "dan", "eve", "fay", "gil", "hal", "ida")
    sample = [*(f"user {name} is not known" for name in names), "user ada is not active", "team red is not known"]
    add_failed_jobs(
        Queue("mail", client), "user zoe is not known", "user bob is not active", "team blue is not known", *sample
    )
    monkeypatch.setattr(errors, "MAX_PER_PLACE", len(sample))
    found = last(errors.yield_error_reports(engine, [MAIL]))
    whole = {
        group.message: {
            job.id
            for step in errors.yield_group_members(engine, [MAIL], group.key, found.grouping)
            for job in step.jobs
        }
        for group in found.groups
    }
    assert {message: len(ids) for message, ids in whole.items()} == {
        "user # is not known": len(names) + 1,
        "user ada is not active": 1,
        "team red is not known": 1,
    }
    assert len(set().union(*whole.values())) == sum(map(len, whole.values()))
    for group in found.groups:
        assert {job.id for job in group.jobs} <= whole[group.message]


def test_the_class_of_a_group_is_short_where_there_is_little_space(client: Redis, engine: Engine) -> None:
    add_failed_jobs(Queue("mail", client), "shop.errors.Declined: no funds", "App\\Jobs\\Late: by 3 s", "just words")
    groups = last(errors.yield_error_reports(engine, [MAIL])).groups
    assert {group.message: group.short_message for group in groups} == {
        "shop.errors.Declined: no funds": "Declined: no funds",
        "App\\Jobs\\Late: by # s": "Late: by # s",
        "just words": "just words",
    }


def test_a_group_is_found_again_when_more_jobs_were_looked_at(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    for number in range(40):
        add_failed_jobs(mail, f"CardDeclined: charge ch_{number}x of ann{number} was declined", final=True)
    half = errors.group_jobs(list(engine.fetch_page(MAIL, "dead", 0, 20).jobs))
    whole = last(errors.yield_error_reports(engine, [MAIL]))
    example = half[0].example
    (again,) = [group for group in whole.groups if group.id == errors.find_group_id(whole, example)]
    assert example.id in {job.id for job in again.jobs}


def test_the_docs_name_how_many_jobs_a_report_reads() -> None:
    limit = f"{errors.MAX_PER_PLACE:_}".replace("_", " ")
    docs = Path(__file__).parents[2] / "docs" / "health.md"
    assert f"up to {limit} in each place" in docs.read_text("utf-8")
