"""Which tests run a line of Python or a Lua script, and how long each takes: one recorded run of the plain `pytest`.

`record` runs it in a scratch copy of the repository; `CoverageMap` is what it found, and is kept as JSON, because it
takes minutes. `copied` makes a scratch copy.
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
UNKNOWN_S = 0.5005  # what a new test is taken to cost; no recorded time has so many digits
_WRAP = "\nimport sitecustomize as _recorder\n\nScript.call = _recorder.noted(Script.call)\n"


def copied(to: Path) -> Path:
    """The files of the repository as they are now, but for those that git ignores."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


def options_in(tree: Path, *words: str) -> list[str]:
    """The options with which pytest runs on a copy, started there and with `environment(tree)`."""
    return ["-q", "--no-header", "-p", "no:cacheprovider", f"--rootdir={tree}", *words]


def environment(tree: Path) -> dict[str, str]:
    """Variables under which every Python imports the copy, and not what is installed."""
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": str(tree / ".bytecode")}


@dataclass(frozen=True)
class CoverageMap:
    """Tests are numbers: their places in `tests`. Only tests that passed are in it."""

    tests: list[str]
    seconds: list[float]
    lines: dict[str, dict[str, list[int]]]  # by file, by line
    scripts: dict[str, list[int]]  # by file

    def of(self, path: str, first: int, last: int) -> set[int]:
        """The tests that run one of these lines; those that run any line of the file, for what runs at its import."""
        if path.endswith(".lua"):
            return set(self.scripts.get(path, ()))
        lines = self.lines.get(path, {})
        found = {test for line in range(first, last + 1) for test in lines.get(str(line), ())}
        return found or {test for tests in lines.values() for test in tests}

    def of_tests(self, tests: Sequence[str]) -> CoverageMap:
        """The map for the tests that there are now: without those that are gone, and with new ones that run no line."""
        numbers = {test: number for number, test in enumerate(tests)}
        to = {old: numbers[test] for old, test in enumerate(self.tests) if test in numbers}
        cost = dict(zip(self.tests, self.seconds, strict=True))

        def moved(found: Iterable[int]) -> list[int]:
            return sorted(to[test] for test in found if test in to)

        lines = {path: {line: moved(of) for line, of in each.items()} for path, each in self.lines.items()}
        seconds = [cost.get(test, UNKNOWN_S) for test in tests]
        return CoverageMap([*tests], seconds, lines, {path: moved(of) for path, of in self.scripts.items()})

    def is_new(self, number: int) -> bool:
        """Whether a test came after the recording."""
        return self.seconds[number] == UNKNOWN_S

    @classmethod
    def read(cls, path: Path) -> CoverageMap:
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)))


def record(scratch: Path, words: Iterable[str]) -> CoverageMap:
    """Runs pytest with `words` in a copy at `scratch`, and reads what the recorder wrote."""
    tree, folder = copied(scratch / "tree"), scratch / "recorded"
    folder.mkdir()
    shutil.copy(Path(recorder.__file__), tree / "sitecustomize.py")
    with (tree / "rqtui" / "scripts" / "script.py").open("a") as file:
        file.write(_WRAP)
    environ = {**environment(tree), recorder.FOLDER: str(folder)}
    command = [sys.executable, "-m", "pytest", *options_in(tree, "-p", "sitecustomize", *words)]
    subprocess.run(command, cwd=tree, env=environ)
    return _read(tree, folder)


def _read(tree: Path, folder: Path) -> CoverageMap:
    seconds: dict[str, float] = {}
    for time, outcome, test in _rows(folder, "tests", 2):
        if outcome == "passed":
            seconds[test] = float(time)
    numbers = {test: number for number, test in enumerate(seconds)}
    scripts: dict[str, set[int]] = defaultdict(set)
    for path, test in _rows(folder, "scripts", 1):
        if test in numbers:
            scripts[path].add(numbers[test])
    return CoverageMap(
        list(seconds),
        list(seconds.values()),
        _lines(tree, folder, numbers),
        {path: sorted(of) for path, of in scripts.items()},
    )


def _rows(folder: Path, kind: str, tabs: int) -> Iterable[list[str]]:
    for path in sorted(folder.glob(f"{kind}-*.txt")):
        for line in path.read_text("utf-8").splitlines():
            if len(row := line.split("\t", tabs)) == tabs + 1:
                yield row


def _lines(tree: Path, folder: Path, numbers: dict[str, int]) -> dict[str, dict[str, list[int]]]:
    from coverage import Coverage

    whole = Coverage(data_file=str(folder / "coverage"), config_file=False, messages=False)
    whole.combine([str(path) for path in folder.glob("coverage.*")], strict=False)
    data = whole.get_data()
    found: dict[str, dict[str, list[int]]] = {}
    for file in data.measured_files():
        path = Path(file).relative_to(tree).as_posix()
        by_line = {
            str(line): sorted({numbers[test] for test in tests if test in numbers})
            for line, tests in data.contexts_by_lineno(file).items()
        }
        found[path] = {line: tests for line, tests in by_line.items() if tests}
    return found
