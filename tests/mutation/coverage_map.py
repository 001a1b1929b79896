"""Record which tests run which lines of Python and which Lua scripts, and how long each test takes.

`record_coverage` runs the plain and the slow tests once in a scratch copy of the repository. A `CoverageMap` is the
result. The map is stored as JSON, because recording takes minutes. `copy_repository` creates a scratch copy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import recorder

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_S = 0.5005  # the assumed duration of a new test; no recorded duration has so many digits
WRAPPER = "\nimport sitecustomize as _recorder\n\nScript.build_call = _recorder.wrap_script_call(Script.build_call)\n"


def copy_repository(to: Path) -> Path:
    """Copy the files of the repository that git does not ignore to the folder `to`, and return the folder."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


def build_pytest_options(tree: Path, *options: str) -> list[str]:
    """Return the pytest options for a test run in a copy of the repository.

    Start pytest in the copy, with `build_environment(tree)`. It selects the tests of a plain run, and the slow ones.
    """
    selection = "not packaging and not long and not matrix and not beside"
    return ["-q", "--no-header", "-p", "no:cacheprovider", f"--rootdir={tree}", "-m", selection, *options]


def build_environment(tree: Path) -> dict[str, str]:
    """Build environment variables under which every Python imports the copy instead of the installed package."""
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": str(tree / ".bytecode")}


@dataclass(frozen=True)
class CoverageMap:
    """A record of the tests that run each line and each script.

    A test is a number: its index in `tests`. Only passed tests are included. The fields are those of the stored map.
    """

    tests: list[str]
    seconds: list[float]
    lines: dict[str, dict[str, list[int]]]  # by file, by line
    scripts: dict[str, list[int]]  # by file

    def find_tests(self, path: str, first: int, last: int, *, runs_at_import: bool = False) -> set[int]:
        """Return the tests that run one of these lines of a file.

        If no test runs one, or if the lines run when the module is imported, return those that run any line of the
        file: code that runs at import is recorded for the first importing test of a process only.
        """
        if path.endswith(".lua"):
            return set(self.scripts.get(path, ()))
        lines = self.lines.get(path, {})
        tests_of_lines = {test for line in range(first, last + 1) for test in lines.get(str(line), ())}
        if tests_of_lines and not runs_at_import:
            return tests_of_lines
        return {test for numbers in lines.values() for test in numbers}

    def update_tests(self, tests: Sequence[str]) -> CoverageMap:
        """Return the map for a new list of tests: without deleted tests, and with new tests that run no line."""
        numbers = {test: number for number, test in enumerate(tests)}
        new_numbers = {old: numbers[test] for old, test in enumerate(self.tests) if test in numbers}
        durations = dict(zip(self.tests, self.seconds, strict=True))

        def renumber_tests(old_numbers: Iterable[int]) -> list[int]:
            return sorted(new_numbers[test] for test in old_numbers if test in new_numbers)

        lines = {
            path: {line: renumber_tests(users) for line, users in lines_of_file.items()}
            for path, lines_of_file in self.lines.items()
        }
        seconds = [durations.get(test, DEFAULT_S) for test in tests]
        return CoverageMap(
            [*tests], seconds, lines, {path: renumber_tests(users) for path, users in self.scripts.items()}
        )

    def is_new_test(self, number: int) -> bool:
        """Return whether a test was added after the map was recorded."""
        return self.seconds[number] == DEFAULT_S

    @classmethod
    def read(cls, path: Path) -> CoverageMap:
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)))


def record_coverage(scratch: Path, options: Iterable[str]) -> CoverageMap:
    """Run pytest with `options` in a copy at `scratch`, and return the recorded coverage map."""
    tree, folder = copy_repository(scratch / "tree"), scratch / "recorded"
    folder.mkdir()
    shutil.copy(Path(recorder.__file__), tree / "sitecustomize.py")
    with (tree / "rqtui" / "scripts" / "script.py").open("a") as file:
        file.write(WRAPPER)
    variables = {**build_environment(tree), recorder.FOLDER: str(folder)}
    command = [sys.executable, "-m", "pytest", *build_pytest_options(tree, "-p", "sitecustomize", *options)]
    subprocess.run(command, cwd=tree, env=variables)
    return _read_recording(tree, folder)


def _read_recording(tree: Path, folder: Path) -> CoverageMap:
    seconds: dict[str, float] = {}
    for duration, outcome, test in _read_recorded_rows(folder, "tests", 2):
        if outcome == "passed":
            seconds[test] = float(duration)
    numbers = {test: number for number, test in enumerate(seconds)}
    scripts: dict[str, set[int]] = defaultdict(set)
    for path, test in _read_recorded_rows(folder, "scripts", 1):
        if test in numbers:
            scripts[path].add(numbers[test])
    return CoverageMap(
        list(seconds),
        list(seconds.values()),
        _read_covered_lines(tree, folder, numbers),
        {path: sorted(users) for path, users in scripts.items()},
    )


def _read_recorded_rows(folder: Path, kind: str, tabs: int) -> Iterable[list[str]]:
    for path in sorted(folder.glob(f"{kind}-*.txt")):
        for line in path.read_text("utf-8").splitlines():
            if len(row := line.split("\t", tabs)) == tabs + 1:
                yield row


def _read_covered_lines(tree: Path, folder: Path, numbers: dict[str, int]) -> dict[str, dict[str, list[int]]]:
    from coverage import Coverage

    coverage = Coverage(data_file=str(folder / "coverage"), config_file=False, messages=False)
    coverage.combine([str(path) for path in folder.glob("coverage.*")], strict=False)
    data = coverage.get_data()
    lines: dict[str, dict[str, list[int]]] = {}
    for file in data.measured_files():
        path = Path(file).relative_to(tree).as_posix()
        by_line = {
            str(line): sorted({numbers[test] for test in tests if test in numbers})
            for line, tests in data.contexts_by_lineno(file).items()
        }
        lines[path] = {line: tests for line, tests in by_line.items() if tests}
    return lines
