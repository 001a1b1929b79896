"""Plants faults at random, one at a time, and asks the tests: `python tests/mutation/run.py --seed 1 --count 300`.

    --seed N        which faults: the same seed plants the same ones in the same text
    --count N       how many, over all areas by their lines
    --area NAME     only there; may be given again
    --map FILE      which tests run which line: made by a recorded run of the plain pytest where it is not there.
                    Tests that are gone since then are not asked; new ones are, where they mirror the source
    --results FILE  a line of JSON per fault; those that stand there are not planted again, and count
    --again         of those in the results, plant the ones that nobody noticed once more

A fault is noticed when one of the tests of the plain `pytest` that run its line (its script, in Lua) fails or does not
end, in a scratch copy of the repository; cheapest first, and those of the mirrored folder before the others and, of
Python, even if they are not known to run the line. At the
end the tests that noticed are run on an unchanged copy: what fails there had noticed nothing. `without_effect.toml`
lists the faults that change nothing which anybody could see, each with its reason: they are planted no more.

There are libraries for Python (mutmut, cosmic-ray); none of them also plants faults in Lua that Redis runs, samples
both from one seed, and picks the tests by script. This is small because coverage.py and pytest do the work.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import places
import pytest
from coverage_map import ROOT, CoverageMap, copied, environment, options_in, record
from operators import Mutant

for _name in ("hypothesis", "redis", "textual.app", "typer"):
    import_module(_name)  # each run is a fork, and need not import them again

FIRST_S = 15.0  # seconds of tests that are asked first; what they notice costs no more
MOST_S = 240.0  # seconds of tests that are asked in all
PATIENCE_S = 60.0  # a run may take so long, and twice the time of its tests
LISTED = Path(__file__).with_name("without_effect.toml")
KEPT = ROOT / ".pytest_cache" / "mutation"


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant. `by` is the test that noticed it; empty where none did. `asked` counts the tests."""

    mutant: Mutant
    area: str
    outcome: str  # noticed, survived, listed
    by: str = ""
    asked: int = 0
    left_out: int = 0


def key(mutant: Mutant) -> tuple[str, str, int, str]:
    """What tells mutants apart in one text."""
    return mutant.path, mutant.operator, mutant.start, mutant.new


def is_mirrored(path: str, test: str) -> bool:
    """Whether a test stands in the folder or file that mirrors a source."""
    folder, name = path.split("/")[1], Path(path).stem
    if path.startswith("lua/") or folder == "systems":
        system = folder if path.startswith("lua/") else name
        return test.startswith((f"tests/systems/{system}/", f"tests/systems/test_{system}", "tests/systems/test_input"))
    return test.startswith(f"tests/{folder}/")


def asked(found: CoverageMap, mutant: Mutant, changed: Sequence[str]) -> tuple[list[list[str]], int]:
    """The tests to be asked, in three rounds, and how many of those that run the line are too many.

    The last round are those of the mirrored folder that do not run the line as far as is known: what a program did that
    was killed, nobody has recorded. Which scripts a test runs is known of all but the new ones.
    """
    last = mutant.line + mutant.old.count("\n")
    numbers: set[int] = set().union(*(found.of(path, mutant.line, last) for path in changed))
    mirrored = {n for n, test in enumerate(found.tests) if any(is_mirrored(path, test) for path in changed)}
    order = sorted(numbers, key=lambda n: found.seconds[n] * (1 if n in mirrored else 4) * _servers(found.tests[n]))
    rounds: list[list[str]] = [[], [], []]
    spent, left_out = 0.0, 0
    for number in order:
        spent += found.seconds[number]
        at = 0 if not rounds[0] or spent <= FIRST_S else 1
        if spent <= MOST_S or not rounds[0]:
            rounds[at].append(found.tests[number])
        else:
            left_out += 1
    spent = 0.0
    for number in sorted(mirrored - numbers, key=found.seconds.__getitem__):
        spent += found.seconds[number]
        if spent <= MOST_S and (found.is_new(number) or not mutant.path.startswith("lua/")):
            rounds[2].append(found.tests[number])
    return rounds, left_out


def collected(tree: Path) -> list[str]:
    """The tests of the plain `pytest` in the copy: one that is gone would end a run as if it had noticed something."""
    said = tree.parent / "collected.txt"
    child = os.fork()
    if not child:
        _run_pytest(tree, ["--collect-only"], said)
    if _ended(child, 300 + PATIENCE_S) != 0:
        raise SystemExit(f"pytest finds no tests:\n{said.read_text(errors='replace')[-2000:]}")
    return [line for line in said.read_text(errors="replace").splitlines() if "::" in line]


def _servers(test: str) -> int:
    """A test that starts a server of its own kind costs more than its seconds, and seldom tells more."""
    return 5 if re.search(r"\[(?:valkey|redis62|fakeredis)\b", test) else 1


def failed(tree: Path, tests: Sequence[str], seconds: float) -> str:
    """The first of these tests that fails in the copy, or what else ended the run; empty where all pass."""
    names, said = tree.parent / "tests.txt", tree.parent / "said.txt"
    names.write_text("\n".join(tests))
    child = os.fork()
    if not child:
        _run_pytest(tree, ["-x", "-rf", "--timeout=60", f"@{names}"], said)
    limit_s = PATIENCE_S + 2 * seconds
    code = _ended(child, limit_s)
    if code is None:
        return f"no end after {limit_s:.0f} s"
    if code == 0:
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", said.read_text(errors="replace"), re.MULTILINE)
    return found[1] if found else f"pytest ended with {code}"


def _run_pytest(tree: Path, words: Sequence[str], said: Path) -> None:
    """In a child: it has imported what takes long already, and nothing of the project."""
    os.setsid()
    os.chdir(tree)
    os.environ.update(environment(tree))
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"]
    sys.path.insert(0, str(tree))
    with said.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code = 3
    try:
        code = int(pytest.main(options_in(tree, *words)))
    finally:
        sys.stdout.flush()
        os._exit(code)


def _ended(child: int, limit_s: float) -> int | None:
    """The exit code of the child; None where it had to be killed, with all that it started."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def ask(tree: Path, found: CoverageMap, mutant: Mutant, area: str) -> Verdict:
    """Plants a mutant in the copy and runs the tests that may notice it."""
    with places.planted(tree, mutant) as changed:
        rounds, left_out = asked(found, mutant, changed)
        cost = dict(zip(found.tests, found.seconds, strict=True))
        for tests in rounds:
            if tests and (by := failed(tree, tests, sum(cost[test] for test in tests))):
                return Verdict(mutant, area, "noticed", by, len(tests), left_out)
    return Verdict(mutant, area, "survived", "", sum(map(len, rounds)), left_out)


def listed(mutant: Mutant, text: str) -> bool:
    """Whether `without_effect.toml` has it: by file, operator, the line's text, and the change."""
    line = text.splitlines()[mutant.line - 1].strip()
    return any(
        (row["file"], row["operator"], row["text"], row["change"])
        == (mutant.path, mutant.operator, line, change_of(mutant))
        for row in tomllib.loads(LISTED.read_text())["fault"]
    )


def change_of(mutant: Mutant) -> str:
    """The change in a line."""
    return f"{' '.join(mutant.old.split())} -> {' '.join(mutant.new.split())}"


def report(verdicts: Iterable[Verdict], seed: int, false: Sequence[str]) -> str:
    """A table by area, what was left, and what it means."""
    counted: dict[str, Counter[str]] = {}
    verdicts = list(verdicts)
    for verdict in verdicts:
        counted.setdefault(verdict.area, Counter())[verdict.outcome] += 1
    counted["in all"] = sum((Counter(each) for each in [*counted.values()]), Counter())
    lines = [f"seed {seed}", f"{'area':<12}{'planted':>8}{'without effect':>16}{'noticed':>9}{'unnoticed':>11}{'':>8}"]
    for area, found in counted.items():
        effective = found["noticed"] + found["survived"]
        share = f"{found['noticed'] / effective:>7.1%}" if effective else ""
        lines.append(
            f"{area:<12}{found.total():>8}{found['listed']:>16}{found['noticed']:>9}{found['survived']:>11}{share:>8}"
        )
    lines += [f"unnoticed: {v.mutant} ({v.asked} tests asked)" for v in verdicts if v.outcome == "survived"]
    if cut := sum(v.left_out > 0 and v.outcome == "survived" for v in verdicts):
        lines.append(
            f"of {cut} of these not all tests that run the line were asked: they take more than {MOST_S:.0f} s"
        )
    lines += [f"noticed nothing, since it fails without a fault too: {test}" for test in false]
    return "\n".join(lines)


def false_alarms(verdicts: Iterable[Verdict], scratch: Path) -> list[str]:
    """Of the tests that noticed, those that fail in an unchanged copy, too."""
    tests = sorted({verdict.by for verdict in verdicts if "::" in verdict.by})
    tree, found = copied(scratch / "unchanged"), []
    while tests and (by := failed(tree, tests, 3600)):
        if by not in tests:
            return [*found, by]
        found.append(by)
        tests.remove(by)
    return found


def read_results(path: Path | None) -> list[Verdict]:
    if path is None or not path.is_file():
        return []
    rows = map(json.loads, path.read_text().splitlines())
    newest = {}
    for row in rows:
        verdict = Verdict(**{**row, "mutant": Mutant(**row["mutant"])})
        newest[key(verdict.mutant)] = verdict
    return list(newest.values())


def main(words: Sequence[str]) -> int:
    options = _options(words)
    with tempfile.TemporaryDirectory(prefix="rqtui-mutation-") as folder:
        scratch = Path(folder)
        if not options.map.is_file():
            print("recording which tests run which lines; this takes as long as the tests do, and more", flush=True)
            (scratch / "recording").mkdir()
            record(scratch / "recording", []).write(options.map)
        tree = copied(scratch / "tree")
        found = CoverageMap.read(options.map).of_tests(collected(tree))
        done = {key(verdict.mutant): verdict for verdict in read_results(options.results)}
        chosen = [verdict.mutant for verdict in done.values() if verdict.outcome == "survived"] if options.again else []
        verdicts = [] if options.again else [*_sampled(tree, options)]
        todo = [(mutant, done[key(mutant)].area) for mutant in chosen] or verdicts
        told: list[Verdict] = []
        for number, (mutant, area) in enumerate(todo, 1):
            known = done.get(key(mutant))
            if listed(mutant, (tree / mutant.path).read_text()):
                verdict = Verdict(mutant, area, "listed")
            elif known and not options.again and known.outcome != "listed":
                verdict = known
            else:
                verdict = ask(tree, found, mutant, area)
            told.append(verdict)
            done[key(mutant)] = verdict
            print(f"{number}/{len(todo)} {verdict.outcome:<9}{mutant}  {verdict.by}", flush=True)
            if options.results and verdict is not known:
                with options.results.open("a") as file:
                    file.write(json.dumps(asdict(verdict)) + "\n")
        print(report(told, options.seed, false_alarms(told, scratch)))
    return int(any(verdict.outcome == "survived" for verdict in told))


def _sampled(tree: Path, options: argparse.Namespace) -> Iterable[tuple[Mutant, str]]:
    for area, number in places.shares(tree, options.count, options.area or list(places.AREAS)).items():
        for mutant in places.sample(tree, area, number, options.seed):
            yield mutant, area


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--area", action="append", choices=list(places.AREAS))
    parser.add_argument("--map", type=Path, default=KEPT / "map.json")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--again", action="store_true")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
