"""A family of cases in one test runs all of them, names each that fails, and flushes Redis between them."""

from __future__ import annotations

import inspect

import pytest
from families import run_in_one_test
from redis import Redis


def test_every_case_runs_and_each_that_fails_is_named() -> None:
    ran = []

    @run_in_one_test("number, half", [(2, 1), (3, 1), (4, 2), (5, 2)])
    def halves(number: int, half: int) -> None:
        ran.append(number)
        if number == 4:
            pytest.skip("not today")
        assert number == 2 * half

    with pytest.raises(ExceptionGroup, match="2 of 3 cases: 3, 1; 5, 2") as raised:
        halves()
    assert ran == [2, 3, 4, 5]
    assert [error.__notes__ for error in raised.value.exceptions] == [["in the case 3, 1"], ["in the case 5, 2"]]


def test_a_failure_by_pytest_fail_counts_as_one() -> None:
    @run_in_one_test("word", ["a"], ids=lambda word: f"the word {word}")
    def fails(word: str) -> None:
        pytest.fail("no reason")

    with pytest.raises(ExceptionGroup, match="1 of 1 cases: the word a"):
        fails()


def test_a_family_of_which_every_case_skips_is_skipped() -> None:
    @run_in_one_test("number", [1, 2])
    def skips(number: int) -> None:
        pytest.skip("it has no rows")

    with pytest.raises(pytest.skip.Exception, match="it has no rows"):
        skips()


def test_each_case_finds_an_empty_redis(client: Redis) -> None:
    @run_in_one_test("key", ["a", "b"])
    def plants(client: Redis, key: str) -> None:
        assert client.dbsize() == 0
        client.set(key, 1)

    assert list(inspect.signature(plants).parameters) == ["client"]
    plants(client=client)


def test_two_families_cross() -> None:
    seen = set()

    @run_in_one_test("a", [1, 2])
    @run_in_one_test("b", "xy")
    def both(a: int, b: str) -> None:
        seen.add((a, b))

    both()
    assert seen == {(1, "x"), (1, "y"), (2, "x"), (2, "y")}
