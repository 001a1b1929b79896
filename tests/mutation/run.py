"""Plant faults at random, one at a time, and run the tests: `python tests/mutation/run.py --seed 1 --count 300`.

    --seed N        chooses the faults: the same seed plants the same faults in the same text
    --count N       plants N faults, divided among all areas in proportion to their lines
    --area NAME     plants only in this area; may be repeated
    --under PATH    plants only in the sources under this folder, or in this file; may be repeated
    --map FILE      reads which tests run which line; a missing map is recorded by a run of these tests. Tests that were
                    deleted since are not run; new tests are run if they mirror the source
    --results FILE  adds a line of JSON per fault; faults that are in the file are not planted again, and count
    --limit S       runs tests of S seconds for each fault, by their recorded durations, and counts the others
    --again         plants those faults in the results again that no test noticed

A fault is noticed when a test of the plain `pytest`, or a slow one, that runs its line (its script, in Lua) fails or
does not end, in a scratch copy of the repository. Fast tests run first, and tests of the mirrored folder before the
others. For Python, tests of the mirrored folder run even if the map does not list them for the line. They run in a fork
of a process that has collected all tests (see `forks.py`). What cannot be planted there, was not noticed there, or did
not end there is tested by a new process. At the end the tests that noticed a fault are run on an unchanged copy: a test
that fails there has noticed nothing. `without_effect.toml` lists faults that change nothing that anybody could observe,
each with its reason; they are not planted.

mutmut and cosmic-ray plant faults in Python, but not in Lua that Redis runs, and they do not pick tests by script. This
tool is small because coverage.py and pytest do the work.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import forks
import places
from coverage_map import ROOT, CoverageMap, build_environment, build_pytest_options, copy_repository, record_coverage
from forks import NO_END, CollectedTests
from operators import Mutant

FIRST_ROUND_S = 15.0  # seconds of tests in the first round; most faults are noticed there
ALL_ROUNDS_S = 240.0  # seconds of tests in all rounds, unless `--limit` is given
EXTRA_S = 60.0  # a run may take this long plus twice the time of its tests
LISTED_FILE = Path(__file__).with_name("without_effect.toml")
OF_ALL_SYSTEMS = re.compile(r"tests/systems/test_(?:input|\w+_at_bounds)\.py")
CACHE_FOLDER = ROOT / ".pytest_cache" / "mutation"


@dataclass(frozen=True)
class Verdict:
    """The outcome of one planted fault. The names of the fields are those of the results file.

    `by` is the test that noticed the fault, or empty. `asked` counts the tests that ran, `left_out` those that run the
    line but would take too long.
    """

    mutant: Mutant
    area: str
    outcome: str  # noticed, survived, listed
    by: str = ""
    asked: int = 0
    left_out: int = 0


def build_mutant_key(mutant: Mutant) -> tuple[str, str, int, str]:
    """Return the values that identify a mutant of one text."""
    return mutant.path, mutant.operator, mutant.start, mutant.new


def is_test_of_source(path: str, test: str) -> bool:
    """Return whether a test is in the folder or file that mirrors a source file."""
    folder, stem = path.split("/")[1], Path(path).stem
    if path.startswith("lua/") or folder == "systems":
        system_name = folder if path.startswith("lua/") else path.split("/")[2].removesuffix(".py")
        if test.startswith("tests/systems/test_readings.py"):
            return test.endswith(f"[{system_name}]")
        if test.startswith("tests/systems/test_effects.py"):
            return test.endswith(f"[{folder}/{stem}]")
        own_tests = (f"tests/systems/{system_name}/", f"tests/systems/test_{system_name}")
        return test.startswith(own_tests) or OF_ALL_SYSTEMS.match(test) is not None
    folders = ("aio", "client") if folder == "aio" else (folder,)  # the tests of the client run with both
    return test.startswith((f"tests/test_{stem}.py", *(f"tests/{folder}/" for folder in folders)))


def runs_at_import(source: str, line: int) -> bool:
    """Return whether a line of Python is outside the body of every function, so that it runs at import."""
    functions = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return not any(node.body[0].lineno <= line <= (node.end_lineno or 0) for node in functions)


def choose_tests(
    coverage: CoverageMap,
    mutant: Mutant,
    changed: Sequence[str],
    *,
    is_at_import: bool = False,
    limit_s: float = ALL_ROUNDS_S,
) -> tuple[list[list[str]], int]:
    """Choose the tests to run for a planted fault, in three rounds, and count the tests that would take too long.

    The last round has tests of the mirrored folder that do not run the line according to the map: lines of a program
    that was killed are not recorded. The tests that run a script are complete for all but new tests, so for Lua only
    new tests are added.
    """
    last_line = mutant.line + mutant.old.count("\n")
    numbers: set[int] = set().union(
        *(coverage.find_tests(path, mutant.line, last_line, runs_at_import=is_at_import) for path in changed)
    )
    mirrored = {n for n, test in enumerate(coverage.tests) if any(is_test_of_source(path, test) for path in changed)}
    order = sorted(
        numbers,
        key=lambda n: coverage.seconds[n] * (1 if n in mirrored else 4) * _weigh_test_by_server(coverage.tests[n]),
    )
    rounds: list[list[str]] = [[], [], []]
    spent_s, left_out = 0.0, 0
    for number in order:
        spent_s += coverage.seconds[number]
        round_number = 0 if not rounds[0] or spent_s <= FIRST_ROUND_S else 1
        if spent_s <= limit_s or not rounds[0]:
            rounds[round_number].append(coverage.tests[number])
        else:
            left_out += 1
    spent_s = 0.0
    for number in sorted(mirrored - numbers, key=coverage.seconds.__getitem__):
        spent_s += coverage.seconds[number]
        if spent_s <= limit_s and (coverage.is_new_test(number) or not mutant.path.startswith("lua/")):
            rounds[2].append(coverage.tests[number])
    return rounds, left_out


def _weigh_test_by_server(test: str) -> int:
    """Return a factor for the duration of a test: tests on other servers cost more, and rarely notice more faults."""
    return 5 if re.search(r"\[(?:valkey|redis62|fakeredis)\b", test) else 1


def run_tests(tree: Path, tests: Sequence[str], limit_s: float) -> str:
    """Run tests in a new process until one fails, and return its name or what else ended the run; empty if all pass."""
    list_file = tree.parent / "tests.txt"
    list_file.write_text("\n".join(tests))
    options = build_pytest_options(tree, "-x", "-rf", "--timeout=60", f"@{list_file}")
    with (tree.parent / "output.txt").open("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options], cwd=tree, env=build_environment(tree), stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        code = forks.wait_for_child(process.pid, limit_s)
        output.seek(0)
        printed = output.read()
    if code is None:
        return f"{NO_END} after {limit_s:.0f} s"
    if code == 0:
        return ""
    failure = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", printed, re.MULTILINE)
    return failure[1] if failure else f"pytest ended with {code}"


def try_mutant(
    tree: Path, coverage: CoverageMap, mutant: Mutant, area: str, collected: CollectedTests, limit_s: float
) -> Verdict:
    """Plant a fault in a copy of the repository, run the tests that may notice it, and return the verdict."""
    is_at_import = mutant.path.endswith(".py") and runs_at_import((tree / mutant.path).read_text(), mutant.line)
    new_code = collected.find_new_code(mutant)
    durations = dict(zip(coverage.tests, coverage.seconds, strict=True))
    with places.plant_mutant(tree, mutant) as changed:
        rounds, left_out = choose_tests(coverage, mutant, changed, is_at_import=is_at_import, limit_s=limit_s)
        asked, by = sum(map(len, rounds)), ""
        for tests in filter(None, rounds):
            patience_s = EXTRA_S + 2 * sum(durations[test] for test in tests)
            if new_code is not None:
                by = collected.run(tests, new_code, patience_s)
            if by.startswith(NO_END) or not by and (new_code is None or tests is rounds[0]):
                by = run_tests(tree, tests, patience_s)
            if by:
                return Verdict(mutant, area, "noticed", by, asked, left_out)
    return Verdict(mutant, area, "survived", "", asked, left_out)


def is_listed_without_effect(mutant: Mutant, text: str) -> bool:
    """Return whether `without_effect.toml` lists a fault: by file, operator, the line's text, and the change."""
    return build_row_key(mutant, text) in {_read_row_key(row) for row in read_rows_without_effect()}


def find_unbound_rows(tree: Path, rows: Sequence[dict[str, str]]) -> list[str]:
    """Return a sentence for each row of `without_effect.toml` that matches no possible fault of the sources."""
    keys = set()
    for path in {row["file"] for row in rows if (tree / row["file"]).is_file()}:
        text = (tree / path).read_text("utf-8")
        keys |= {build_row_key(mutant, text) for mutant in places.find_mutants(path, text)}
    return [
        f"{row['file']} has no {row['operator']} {row['change']!r} in the line {row['text']!r}"
        for row in rows
        if _read_row_key(row) not in keys
    ]


def read_rows_without_effect() -> list[dict[str, str]]:
    return tomllib.loads(LISTED_FILE.read_text("utf-8"))["fault"]


def build_row_key(mutant: Mutant, text: str) -> tuple[str, ...]:
    """Return the values by which `without_effect.toml` identifies a mutant: they survive changes of other lines."""
    return mutant.path, mutant.operator, text.splitlines()[mutant.line - 1].strip(), format_mutant_change(mutant)


def _read_row_key(row: dict[str, str]) -> tuple[str, ...]:
    return row["file"], row["operator"], row["text"], row["change"]


def format_mutant_change(mutant: Mutant) -> str:
    """Format the change of a planted fault in a line."""
    return f"{' '.join(mutant.old.split())} -> {' '.join(mutant.new.split())}"


def format_report(verdicts: Iterable[Verdict], seed: int, false_alarms: Sequence[str]) -> str:
    """Format a table of verdicts by area, the unnoticed faults, and which verdicts are not reliable."""
    counts: dict[str, Counter[str]] = {}
    verdicts = list(verdicts)
    for verdict in verdicts:
        counts.setdefault(verdict.area, Counter())[verdict.outcome] += 1
    counts["in all"] = sum((Counter(each) for each in [*counts.values()]), Counter())
    width = max(map(len, counts)) + 1
    lines = [
        f"seed {seed}",
        f"{'area':<{width}}{'planted':>8}{'without effect':>16}{'noticed':>9}{'unnoticed':>11}{'':>8}",
    ]
    for area, count in counts.items():
        effective = count["noticed"] + count["survived"]
        share = f"{count['noticed'] / effective:>7.1%}" if effective else ""
        lines.append(
            f"{area:<{width}}{count.total():>8}{count['listed']:>16}{count['noticed']:>9}{count['survived']:>11}{share:>8}"
        )
    lines += [f"unnoticed: {v.mutant} ({v.asked} tests ran)" for v in verdicts if v.outcome == "survived"]
    if incomplete := sum(v.left_out > 0 and v.outcome == "survived" for v in verdicts):
        lines.append(f"for {incomplete} of these only a part of the tests ran: all of them take longer than the limit")
    lines += [f"noticed nothing, since it fails without a fault too: {test}" for test in false_alarms]
    return "\n".join(lines)


def find_false_alarms(verdicts: Iterable[Verdict], scratch: Path) -> list[str]:
    """Return the tests that noticed a fault but also fail in an unchanged copy of the repository."""
    tests = sorted({verdict.by for verdict in verdicts if "::" in verdict.by})
    tree, failing = copy_repository(scratch / "unchanged"), []
    while tests and (failure := run_tests(tree, tests, 7200)):
        if failure not in tests:
            return [*failing, failure]
        failing.append(failure)
        tests.remove(failure)
    return failing


def read_results(path: Path | None) -> list[Verdict]:
    if path is None or not path.is_file():
        return []
    rows = map(json.loads, path.read_text().splitlines())
    newest = {}
    for row in rows:
        verdict = Verdict(**{**row, "mutant": Mutant(**row["mutant"])})
        newest[build_mutant_key(verdict.mutant)] = verdict
    return list(newest.values())


def main(arguments: Sequence[str]) -> int:
    options = parse_options(arguments)
    with tempfile.TemporaryDirectory(prefix="rqtui-mutation-") as folder:
        scratch = Path(folder)
        if not options.map.is_file():
            print("recording which tests run which lines; this takes as long as the tests do, and more", flush=True)
            (scratch / "recording").mkdir()
            record_coverage(scratch / "recording", []).write(options.map)
        tree = copy_repository(scratch / "tree")
        verdicts: list[Verdict] = []
        forks.use_collected_tests(tree, lambda collected: verdicts.extend(try_all_mutants(tree, collected, options)))
        print(format_report(verdicts, options.seed, find_false_alarms(verdicts, scratch)))
    return int(any(verdict.outcome == "survived" for verdict in verdicts))


def try_all_mutants(tree: Path, collected: CollectedTests, options: argparse.Namespace) -> Iterable[Verdict]:
    """Try the faults that the options choose, one after the other, and store and yield their verdicts."""
    coverage = CoverageMap.read(options.map).update_tests(collected.names)
    stored = {build_mutant_key(verdict.mutant): verdict for verdict in read_results(options.results)}
    survivors = [verdict.mutant for verdict in stored.values() if verdict.outcome == "survived"]
    drawn = [] if options.again else [*draw_all_mutants(tree, options)]
    todo = [(each, stored[build_mutant_key(each)].area) for each in survivors] if options.again else drawn
    for number, (mutant, area) in enumerate(todo, 1):
        previous = stored.get(build_mutant_key(mutant))
        if is_listed_without_effect(mutant, (tree / mutant.path).read_text()):
            verdict = Verdict(mutant, area, "listed")
        elif previous and not options.again and previous.outcome != "listed":
            verdict = previous
        else:
            verdict = try_mutant(tree, coverage, mutant, area, collected, options.limit)
        print(f"{number}/{len(todo)} {verdict.outcome:<9}{mutant}  {verdict.by}", flush=True)
        if options.results and verdict is not previous:
            with options.results.open("a") as file:
                file.write(json.dumps(asdict(verdict)) + "\n")
        yield verdict


def draw_all_mutants(tree: Path, options: argparse.Namespace) -> Iterable[tuple[Mutant, str]]:
    areas = [*options.area, *options.under] or list(places.AREAS)
    for area, count in places.divide_mutants_by_lines(tree, options.count, areas).items():
        for mutant in places.draw_mutants(tree, area, count, options.seed):
            yield mutant, area


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--area", action="append", choices=list(places.AREAS), default=[])
    parser.add_argument("--under", action="append", type=_parse_folder, default=[])
    parser.add_argument("--map", type=Path, default=CACHE_FOLDER / "map.json")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--limit", type=float, default=ALL_ROUNDS_S)
    parser.add_argument("--again", action="store_true")
    return parser.parse_args(arguments)


def _parse_folder(text: str) -> str:
    path = os.path.relpath(ROOT / text, ROOT)
    if not places.read_sources(ROOT, path):
        raise argparse.ArgumentTypeError(f"no .py or .lua file under {text!r}, seen from {ROOT}")
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
