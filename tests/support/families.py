"""Run a family of small cases as one test, which names each case that fails.

    @run_in_one_test("text, expected", [("1 s", 1000), ("2 s", 2000)])
    def test_a_duration_is_read(text, expected): …

The arguments are those of `pytest.mark.parametrize`. Fixtures are created once for all cases, but the databases of the
test's clients are flushed before each case. A case that skips is left out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from redis import Redis

_PARAM = type(pytest.param())


def run_in_one_test(
    names: str | Sequence[str], cases: Iterable[Any], ids: Callable[[Any], str] | Iterable[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run the decorated test with each case as one test, as a decorator. Failed cases are reported together.

    A failed case is named by its id or its values.
    """
    argument_names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [
        case.values if isinstance(case, _PARAM) else (case,) if len(argument_names) == 1 else tuple(case)
        for case in cases
    ]
    assert rows and all(len(row) == len(argument_names) for row in rows), "every case needs a value for each name"
    titles_of = _format_value if ids is None else ids
    titles = [", ".join(map(titles_of, row)) for row in rows] if callable(titles_of) else list(titles_of)

    def decorate_test(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run_all_cases(**fixtures: Any) -> None:
            clients = [value for value in fixtures.values() if isinstance(value, Redis)]

            def run_one_case(row: tuple[Any, ...]) -> None:
                for client in clients:
                    client.flushall()
                test(**fixtures, **dict(zip(argument_names, row, strict=True)))

            run_cases(zip(titles, (functools.partial(run_one_case, row) for row in rows), strict=True))

        signature = inspect.signature(test)
        parameters = [each for name, each in signature.parameters.items() if name not in argument_names]
        run_all_cases.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run_all_cases

    return decorate_test


def run_cases(cases: Iterable[tuple[str, Callable[[], object]]]) -> None:
    """Run each case of a test. Fail with the names of all failed cases; skip if every case was skipped."""
    failed: list[Exception] = []
    names: list[str] = []
    skipped: list[BaseException] = []
    passed = 0
    for name, case in cases:
        try:
            case()
            passed += 1
        except pytest.skip.Exception as reason:
            skipped.append(reason)
        except (Exception, pytest.fail.Exception) as error:
            failed.append(error if isinstance(error, Exception) else AssertionError(str(error)))
            failed[-1].add_note(f"in the case {name}")
            names.append(name)
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {passed + len(failed)} cases: {'; '.join(names)}", failed)
    if skipped and not passed:
        raise skipped[0]


@contextmanager
def name_case(name: str) -> Iterator[str]:
    """Add a case's name to an error raised in a `with` block, for tests that run several cases in one app."""
    try:
        yield name
    except Exception as error:
        error.add_note(f"in the case {name}")
        raise


def _format_value(value: Any) -> str:
    """Format a value of a case for one line of text."""
    text = value if isinstance(value, str) and value.isprintable() and value else repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
