"""One test for a family of small cases: a loop that goes through all of them and names each that fails.

    @in_one("text, expected", [("1 s", 1000), ("2 s", 2000)])
    def test_a_duration_is_read(text, expected): …

It reads as `pytest.mark.parametrize` does, and costs one test. No fixture is made again between the cases, but the
databases of the clients that the test was given are emptied. A case that skips is left out.
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
    """Runs the decorated test with each of the cases; those that fail are told together, by their ids or values."""
    parts = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [case.values if isinstance(case, _PARAM) else (case,) if len(parts) == 1 else tuple(case) for case in cases]
    assert rows and all(len(row) == len(parts) for row in rows), "as many values as names"
    named = _brief if ids is None else ids
    titles = [", ".join(map(named, row)) for row in rows] if callable(named) else list(named)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            clients = [value for value in fixtures.values() if isinstance(value, Redis)]

            def attempt(row: tuple[Any, ...]) -> None:
                for client in clients:
                    client.flushall()
                test(**fixtures, **dict(zip(parts, row, strict=True)))

            all_hold(zip(titles, (functools.partial(attempt, row) for row in rows), strict=True))

        signature = inspect.signature(test)
        rest = [each for name, each in signature.parameters.items() if name not in parts]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return run

    return decorate


def all_hold(cases: Iterable[tuple[str, Callable[[], object]]]) -> None:
    """Runs each case; fails with all that failed, by their names. Skips if every case did."""
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
def case(name: str) -> Iterator[str]:
    """Names the case in which something fails, where the cases of a family follow one another in one app."""
    try:
        yield name
    except Exception as error:
        error.add_note(f"in the case {name}")
        raise


def _brief(value: Any) -> str:
    """A value in a line."""
    text = value if isinstance(value, str) and value.isprintable() and value else repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
