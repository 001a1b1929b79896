"""Run a family of small cases as one test, which names each case that fails.

    @in_one("text, expected", [("1 s", 1000), ("2 s", 2000)])
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


def in_one(
    names: str | Sequence[str], cases: Iterable[Any], ids: Callable[[Any], str] | Iterable[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run the decorated test with each case. Report all failed cases together, by their ids or values."""
    parts = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [case.values if isinstance(case, _PARAM) else (case,) if len(parts) == 1 else tuple(case) for case in cases]
    assert rows and all(len(row) == len(parts) for row in rows), "every case needs a value for each name"
    titles_of = _format_value if ids is None else ids
    titles = [", ".join(map(titles_of, row)) for row in rows] if callable(titles_of) else list(titles_of)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            clients = [value for value in fixtures.values() if isinstance(value, Redis)]

            def attempt(row: tuple[Any, ...]) -> None:
                for client in clients:
                    client.flushall()
                test(**fixtures, **dict(zip(parts, row, strict=True)))

            run_cases(zip(titles, (functools.partial(attempt, row) for row in rows), strict=True))

        signature = inspect.signature(test)
        parameters = [each for name, each in signature.parameters.items() if name not in parts]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def run_cases(cases: Iterable[tuple[str, Callable[[], object]]]) -> None:
    """Run each case. Fail with the names of all failed cases, and skip if every case was skipped."""
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
    """Add the name of the case to an error that the block raises, where one app runs several cases."""
    try:
        yield name
    except Exception as error:
        error.add_note(f"in the case {name}")
        raise


def _format_value(value: Any) -> str:
    """Format a value for one line."""
    text = value if isinstance(value, str) and value.isprintable() and value else repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
