"""Record which tests run which lines of Python and which Lua scripts, in each process of a test run.

`coverage_map.py` copies this file as `sitecustomize.py` into the root of a scratch copy of the repository, where every
Python of the run imports it first: pytest itself, and each program that a test starts. Without the variable FOLDER it
does nothing. It writes to that folder: coverage's data with a context per test, `scripts-PID.txt` with lines of path
and test, and `tests-PID.txt` with lines of seconds, outcome and test, separated by tabs.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER, TEST = "RQTUI_MUTATION_FOLDER", "RQTUI_MUTATION_TEST"

_seen: set[tuple[str, str]] = set()
_seconds: dict[str, float] = {}
_failed: set[str] = set()
_coverage: Any = None


def wrap_script_call(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `Script.build_call` so that each call also records its script and the running test.

    A line at the end of the copy's `script.py` calls this function.
    """

    def record_and_call(script: Any, *args: Any, **options: Any) -> Any:
        key = (script.path, os.environ.get(TEST, ""))
        if key not in _seen:
            _seen.add(key)
            _append_record("scripts", "\t".join(key))
        return call(script, *args, **options)

    return record_and_call


def _append_record(kind: str, line: str) -> None:
    with Path(os.environ[FOLDER], f"{kind}-{os.getpid()}.txt").open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _start_recording() -> None:
    global _coverage  # noqa: PLW0603 - one per process, as in coverage itself
    import coverage

    _coverage = coverage.Coverage(
        data_file=str(Path(os.environ[FOLDER], "coverage")),
        data_suffix=True,
        config_file=False,
        source=[str(Path(__file__).parent / "rqtui")],
        context=os.environ.get(TEST),
        messages=False,
    )
    _coverage._warn_no_data = False
    _coverage.start()
    atexit.register(_stop_recording)


def _stop_recording() -> None:
    _coverage.stop()
    _coverage.save()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    os.environ[TEST] = item.nodeid
    _coverage.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        outcome = "failed" if item.nodeid in _failed else "passed"
        _append_record("tests", f"{_seconds.pop(item.nodeid, 0.0):.3f}\t{outcome}\t{item.nodeid}")
        _coverage.switch_context("")
        os.environ.pop(TEST, None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if not report.passed:  # a skipped test notices nothing, either
        _failed.add(report.nodeid)


if __name__ == "sitecustomize" and FOLDER in os.environ:  # a test imports this module under its own name
    _start_recording()
