"""Which errors have the same cause: pure groups, the same ones in any order, and one group for each error."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from families import run_in_one_test
from hypothesis import given
from hypothesis import strategies as st

from rqtui.scenarios.incident import INCIDENT
from rqtui.scenarios.scenario import fill_placeholders
from rqtui.text.causes import (
    MIN_DATA_VALUES,
    Grouping,
    Key,
    ParsedError,
    build_group_title,
    find_short_error_cause,
    parse_error,
)
from rqtui.text.widths import Width

NAMES = ("ada", "bob", "cyd", "dan", "eve", "fay", "gil", "hal", "ida", "jim", "kay", "lou")


def keys(errors: list[str], width: Width = Width.CAUSE) -> dict[Key, list[str]]:
    """Return the errors by group."""
    grouping = Grouping(map(parse_error, errors), width)
    found: dict[Key, list[str]] = {}
    for error in errors:
        found.setdefault(grouping.find_group_key(parse_error(error)), []).append(error)
    return found


def ident(rng: random.Random, length: int) -> str:
    """Build an id of random letters and digits."""
    return "".join(rng.choices("0123456789abcdefghijABCDEFGHIJKLMNOPQRSTUVWXYZ", k=length))


def test_thousands_of_failures_of_three_causes_are_three_groups() -> None:
    rng = random.Random(7)
    hashes = ["".join(rng.choices("0123456789abcdef", k=7)) for _ in range(3_000)]
    items = [
        lambda n: f"CardDeclined: customer cus_{ident(rng, 10)} was declined, request req_{hashes[n][:4]}",
        lambda n: f"TimeoutError: shard-{n}.db.internal did not answer {ident(rng, 6).lower()}9@example.com in {n} ms",
        lambda n: f"ValueError: no release {hashes[n]} for '{ident(rng, 5)}'",
    ]
    errors = [items[n % 3](n) for n in range(2_500)]
    assert Counter(map(len, keys(errors).values())) == Counter([834, 833, 833])


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES[:4]), st.booleans()), max_size=80), st.randoms()
)
def test_the_groups_do_not_depend_on_the_order(parts: list[tuple[str, str, bool]], rng: random.Random) -> None:
    errors = [f"no {b} for {a}" if plain else f"{a} may not read {b} at {len(a)}" for a, b, plain in parts]
    shuffled = rng.sample(errors, len(errors))
    assert {key: sorted(group) for key, group in keys(errors).items()} == {
        key: sorted(group) for key, group in keys(shuffled).items()
    }


def test_a_word_with_many_values_is_data_and_one_with_few_is_not() -> None:
    many = [f"no such user {name}" for name in NAMES]
    assert len(keys(many)) == 1
    assert len(keys(many[: MIN_DATA_VALUES - 1])) == MIN_DATA_VALUES - 1
    assert len(keys([f"{name} refused by {who}" for name in NAMES for who in ("peer", "server")])) == 2


def test_an_error_that_was_not_in_the_sample_has_exactly_one_group() -> None:
    sample = [*(f"no such user {name}" for name in NAMES), "no such team red", "no such thing red"]
    grouping = Grouping(map(parse_error, sample))
    users, team = (
        grouping.find_group_key(parse_error(sample[0])),
        grouping.find_group_key(parse_error("no such team red")),
    )
    assert grouping.find_group_key(parse_error("no such user zoe")) == users
    others = ["no such team blue", "no such user was found", "no such user", "some such user ada", "no such users ada"]
    assert not {users, team} & {grouping.find_group_key(parse_error(other)) for other in others}


def build_traceback(statement: str, message: str, line: int = 88, path: str = "/app/charge.py") -> str:
    """Build the traceback of a job."""
    return f'Traceback (most recent call last):\n  File "{path}", line {line}, in charge\n    {statement}\n{message}'


def test_a_statement_that_raises_is_one_cause_wherever_a_release_moved_it() -> None:
    statement = 'raise Declined(f"card of {name} was declined by {bank}")'
    errors = [
        build_traceback(
            statement, "charge.Declined: card of ada was declined by First Bank", 88, "/srv/20240101/app/charge.py"
        ),
        build_traceback(
            statement, "charge.Declined: card of a long name was declined by X", 91, "/srv/20240102/app/charge.py"
        ),
    ]
    assert len(keys(errors)) == 1
    assert (
        len(keys([*errors, build_traceback('raise Declined("no card at all")', "charge.Declined: no card at all")]))
        == 2
    )


def test_errors_passed_on_by_one_frame_are_several_causes_and_one_frame() -> None:
    errors = [
        build_traceback("raise Failed(answer)", f"a.Failed: {why}") for why in ("no funds left", "the card has expired")
    ]
    assert [len(keys(errors, width)) for width in Width] == [1, 1, 2, 2]


def test_wider_groups_are_never_more() -> None:
    rng = random.Random(1)
    errors = [
        build_traceback(f"x = {rng.randint(0, 2)}", f"{rng.choice('AB')}Error: {rng.choice(NAMES)} is bad")
        for _ in range(90)
    ]
    numbers = [len(keys(errors, width)) for width in Width]
    assert numbers == sorted(numbers)


def test_thirty_megabytes_are_read_as_their_ends() -> None:
    assert parse_error("Error: " + "x1 " * 10_000_000).kind == "Error"


@run_in_one_test(
    ("error", "cause"),
    [
        (build_traceback("raise Declined(a)", "billing.charge.Declined: cus_1"), "Declined"),
        ("httpx.HTTPStatusError: Client error '410 Gone' for url 'https://a/1'", "HTTPStatusError 410"),
        ("Net::ReadTimeout: Net::ReadTimeout with #<TCPSocket:(closed)>", "Net::ReadTimeout"),
        ("App\\Jobs\\Declined: no funds", "Declined"),
        ("Error: connect ECONNREFUSED 127.0.0.1:6379", "connect ECONNREFUSED #"),
        ("job stalled more than allowable limit", "job stalled more than allowable limit"),
        ("Work-horse process was terminated unexpectedly (waitpid)", "Work-horse process was terminated…"),
        ("", ""),
    ],
)
def test_a_cause_is_reported_in_a_few_words(error: str, cause: str) -> None:
    assert find_short_error_cause(error) == cause


def test_a_title_reports_what_the_messages_have_in_common() -> None:
    some = [parse_error(f"Failed: no such user {name}") for name in NAMES]
    assert build_group_title(some) == build_group_title(some[::-1]) == "Failed: no such user #"
    assert build_group_title(some, Width.CLASS) == "Failed"
    assert (
        build_group_title([*some, *some[:1], parse_error("Failed: it is all different here")])
        == "Failed: no such user ada …"
    )


@pytest.mark.slow
def test_the_demo_incident_has_its_three_causes() -> None:
    special = [kind.special for kind in INCIDENT.kinds.values() if kind.special]
    kinds = {error for kind in (*INCIDENT.kinds.values(), *special) for error in kind.errors}
    errors = [fill_placeholders(error, number) for number in range(1_700) for error in kinds]
    groups = keys(errors)
    assert len(groups) == 3
    assert {find_short_error_cause(group[0]) for group in groups.values()} == {
        "CardDeclined",
        "TimeoutError",
        "IntegrityError",
    }


@run_in_one_test(
    "width, kind, place, statement, is_by_wording",
    [
        (Width.CAUSE, "E", "", "", True), (Width.CAUSE, "E", "a.py:f", "", True), (Width.FRAME, "E", "", "", True),
        (Width.FRAME, "E", "a.py:f", "", False), (Width.CAUSE, "E", "", "raise E", False),
        (Width.FRAME, "E", "", "raise E", False), (Width.CLASS, "E", "", "", False),
        (Width.CLASS, "", "a.py:f", "raise E", True),
    ],
)  # fmt: skip
def test_an_error_is_grouped_by_its_wording_where_nothing_more_certain_is_known(
    width: Width, kind: str, place: str, statement: str, is_by_wording: bool
) -> None:
    error = ParsedError(kind, "", None, place, statement, "text")
    assert Grouping(width=width)._is_grouped_by_wording(error) is is_by_wording
