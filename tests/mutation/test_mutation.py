"""The mutation tool changes one place per fault, and notices a planted fault."""

from __future__ import annotations

import ast
import importlib
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import places
import pytest
import recorder
import run
from coverage_map import DEFAULT_S, ROOT, WRAPPER, CoverageMap
from operators import OPERATORS, Mutant, find_lua_mutants, find_python_mutants

from rqtui.errors import UsageError
from rqtui.scripts.script import Script, load_scripts

TOOL = ROOT / "tests" / "mutation"
PYTHON = """
LIMIT: Annotated[int, 7] = 500
def f(a, b):
    if a < b or b in (1, "x < 2"):
        return f"{a + 1}"
    log(a)  # a == b
    return a if a == b else None
@lru_cache(maxsize=64)
def g(a):
    return lru_cache(32)(a)
"""
IN_PYTHON = {
    "constant: 500 -> 501", "constant: 500 -> 499", "boundary: < -> <=", "comparison: < -> >=", "logic: or -> and",
    "comparison: in -> not in", "constant: 1 -> 2", "constant: 1 -> 0", "call: log(a) -> pass", "comparison: == -> !=",
    'guard: a < b or b in (1, "x < 2") -> False',
    'negated: a < b or b in (1, "x < 2") -> not (a < b or b in (1, "x < 2"))',
    "negated: a == b -> not (a == b)",
}  # fmt: skip
LUA = """-- Take 1.
-- ARGV  id  str
local id, n = ARGV[1], tonumber(ARGV[2]) -- n > 1
redis.call('LLEN', KEYS[1])
if not n or n < 1 then return {'gone < 2'} end
-- include: opening
local found = redis.call('ZSCORE', KEYS[1], id)
redis.call('ZREM', KEYS[1], id)
return found
"""
IN_LUA = {
    "guard: redis.call('LLEN', KEYS[1]) ->", "logic: or -> and", "boundary: < -> <=", "comparison: < -> >=",
    "guard: not n or n < 1 -> false", "negated: not n or n < 1 -> not ( not n or n < 1 )", "constant: 1 -> 2",
    "constant: 1 -> 0", "call: redis.call('ZREM', KEYS[1], id) ->",
}  # fmt: skip


def describe(mutant: Mutant) -> str:
    return " ".join(f"{mutant.operator}: {mutant.old} -> {mutant.new}".split())


def test_a_line_outside_of_functions_is_tested_by_all_tests_of_its_file() -> None:
    """The map names only the first test of a process that imports the module."""
    assert [line for line in range(2, 8) if run.runs_at_import(PYTHON, line)] == [2, 3]
    coverage = CoverageMap(["a", "b", "c"], [1.0] * 3, {"rqtui/x.py": {"2": [0], "4": [1, 2], "5": [1]}}, {})
    assert coverage.find_tests("rqtui/x.py", 2, 2, runs_at_import=True) == {0, 1, 2}
    assert coverage.find_tests("rqtui/x.py", 2, 2) == {0} and coverage.find_tests("rqtui/x.py", 4, 5) == {1, 2}
    assert coverage.find_tests("rqtui/x.py", 7, 7) == {0, 1, 2}
    assert run.is_test_of_source("rqtui/durations.py", "tests/test_durations.py::test_a")
    assert run.is_test_of_source("rqtui/systems/rq/jobs.py", "tests/systems/test_jobs_at_bounds.py::test_a[rq]")
    assert not run.is_test_of_source("rqtui/systems/rq/jobs.py", "tests/systems/test_sidekiq.py::test_a")


@pytest.mark.parametrize(
    ("list_mutants", "text", "expected"), [(find_python_mutants, PYTHON, IN_PYTHON), (find_lua_mutants, LUA, IN_LUA)]
)
def test_an_operator_changes_exactly_one_place_of_the_code(list_mutants, text: str, expected: set[str]) -> None:
    mutants = list_mutants("x", text)
    assert {describe(mutant) for mutant in mutants} == expected and len(mutants) == len(expected)
    for mutant in mutants:
        new = mutant.apply_to(text)
        assert new[: mutant.start] == text[: mutant.start] and text.endswith(new[mutant.start + len(mutant.new) :])
        assert text.splitlines()[mutant.line - 1] != new.splitlines()[mutant.line - 1]
        if list_mutants is find_python_mutants:
            ast.parse(new)
        with pytest.raises(ValueError, match="not in the text any more"):
            mutant.apply_to("#" + text)


@pytest.mark.slow
@pytest.mark.parametrize("area", ["lua", pytest.param("text", marks=pytest.mark.matrix)])
def test_a_sample_is_made_of_other_programs_and_the_same_for_the_same_seed(area: str) -> None:
    mutants = places.draw_mutants(ROOT, area, 30, seed=1)
    assert mutants[:10] == places.draw_mutants(ROOT, area, 10, seed=1) != places.draw_mutants(ROOT, area, 10, seed=2)
    assert len(set(mutants)) == 30 and len({mutant.operator for mutant in mutants}) >= 5
    assert {mutant.operator for mutant in mutants} <= set(OPERATORS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "folders"),
    [
        ("rqtui/engine/health/", {"rqtui/engine/health"}),
        ("./rqtui/files.py", {"rqtui"}),
        ("lua/rq", {"lua/rq", "lua/rq/blocks"}),
    ],
)
def test_faults_can_be_planted_only_under_one_folder_or_in_one_file(path: str, folders: set[str]) -> None:
    options = run.parse_options(["--under", path, "--count", "12", "--seed", "3"])
    drawn = [mutant for mutant, _ in run.draw_all_mutants(ROOT, options)]
    assert 1 < len(drawn) <= 12
    assert {Path(mutant.path).parent.as_posix() for mutant in drawn} <= folders
    assert {area for _, area in run.draw_all_mutants(ROOT, options)} == {Path(path).as_posix()}


def test_each_module_but_the_demos_is_in_one_area() -> None:
    """The demos are not planted with faults: what they simulate is compared with the programs of the queue systems."""
    modules = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("rqtui/**/*.py")]
    expected = {path for path in modules if not path.startswith(("rqtui/scenarios/", "rqtui/scaffold/"))}
    assert Counter(
        path for area in places.AREAS for path in places.read_sources(ROOT, area) if area != "lua"
    ) == Counter(expected)


def test_a_folder_without_sources_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.parse_options(["--under", "rqtui/nowhere"])
    assert "no .py or .lua file under 'rqtui/nowhere'" in capsys.readouterr().err


def test_a_fault_in_a_block_is_one_of_all_scripts_that_include_it_and_is_undone(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "lua", tmp_path / "lua")
    originals = {path: path.read_bytes() for path in tmp_path.rglob("*.lua")}
    block = "lua/shared/blocks/limit.lua"
    text = (tmp_path / block).read_text()
    mutant = next(mutant for mutant in find_lua_mutants(block, text) if mutant.operator == "boundary")
    with places.plant_mutant(tmp_path, mutant) as changed:
        assert {block, "lua/native/reap.lua", "lua/dispatcher/dispatch.lua"} < {*changed}
        assert [path for path, content in originals.items() if path.read_bytes() != content] == [tmp_path / block]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.lua")} == originals


def test_a_script_that_includes_a_block_through_another_one_is_checked() -> None:
    assert {"lua/rq/requeue.lua", "lua/rq/delete.lua"} <= {
        *places.list_scripts_with(ROOT, "lua/shared/blocks/find_in_list.lua")
    }
    assert "listed" not in (ROOT / "lua/rq/requeue.lua").read_text()
    assert places.list_scripts_with(ROOT, "lua/rq/requeue.lua") == []


@pytest.mark.slow
def test_a_planted_fault_is_noticed_and_one_without_a_test_is_not(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "rqtui" / "text").mkdir(parents=True)
    (tree / "rqtui" / "text" / "sign.py").write_text(
        "def sign(n):\n    return n > 0\n\n\ndef unwatched(n):\n    return n > 1\n\n\nMOST = 3\n"
    )
    (tree / "test_sign.py").write_text(
        "import sys\nsys.path.insert(0, 'rqtui/text')\nimport sign\n"
        "def test_sign(): assert sign.sign(1) and not sign.sign(0) and sign.MOST == 3\n"
        "def test_unwatched(): sign.unwatched(5)\n"
    )
    program = """
import sys
from pathlib import Path
import forks
import run
from coverage_map import CoverageMap
from operators import find_python_mutants
tree, path = Path(sys.argv[1]), "rqtui/text/sign.py"
tests = ["test_sign.py::test_gone", "test_sign.py::test_sign", "test_sign.py::test_unwatched"]
recorded = CoverageMap(tests, [0.1, 0.1, 0.1], {path: {"2": [0, 1], "6": [0, 2], "9": [1]}}, {})
text = (tree / path).read_text()
def use(collected):
    coverage = recorded.update_tests(collected.names)
    for mutant in find_python_mutants(path, text):
        if mutant.new in (">=", "4"):
            verdict = run.try_mutant(tree, coverage, mutant, "text", collected, 10.0)
            has_code = collected.find_new_code(mutant) is not None
            print("line", mutant.line, mutant.new, verdict.outcome, verdict.by, "in a fork" * has_code)
            collected.run = lambda *_: "no end after 1 s"
            if has_code:
                again = run.try_mutant(tree, coverage, mutant, "text", collected, 10.0)
                print("line", mutant.line, mutant.new, again.outcome, again.by, "after no end in a fork")
            del collected.run
forks.use_collected_tests(tree, use)
assert (tree / path).read_text() == text
"""
    completed = subprocess.run(
        [sys.executable, "-c", program, str(tree)], cwd=TOOL, capture_output=True, text=True, timeout=100
    )
    assert [line for line in completed.stdout.splitlines() if line.startswith("line")] == [
        "line 2 >= noticed test_sign.py::test_sign in a fork",
        "line 2 >= noticed test_sign.py::test_sign after no end in a fork",
        "line 6 >= survived  in a fork",
        "line 6 >= survived  after no end in a fork",
        "line 9 4 noticed test_sign.py::test_sign ",
    ], completed.stderr


def test_a_deleted_test_is_not_run_and_a_new_one_is_added() -> None:
    recorded = CoverageMap(["gone", "kept"], [0.1, 0.2], {"x.py": {"1": [0, 1], "2": [0]}}, {"x.lua": [1]})
    assert recorded.update_tests(["new", "kept"]) == CoverageMap(
        ["new", "kept"], [DEFAULT_S, 0.2], {"x.py": {"1": [1], "2": []}}, {"x.lua": [1]}
    )


@pytest.mark.slow
def test_each_row_of_the_list_matches_a_fault_of_its_file() -> None:
    rows = run.read_rows_without_effect()
    assert run.find_unbound_rows(ROOT, rows) == []
    assert [row for row in rows if not row["reason"]] == []


def test_a_row_for_a_deleted_file_or_a_changed_line_is_reported() -> None:
    row = run.read_rows_without_effect()[0]
    stale = [{**row, "file": "rqtui/deleted.py"}, {**row, "text": row["text"] + " "}, {**row, "change": "a -> b"}]
    assert len(run.find_unbound_rows(ROOT, [row, *stale])) == len(stale)


def test_the_recorder_writes_down_each_script_that_a_test_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "sitecustomize", recorder)
    monkeypatch.setenv(recorder.FOLDER, str(tmp_path))
    monkeypatch.setenv(recorder.TEST, "test_x")
    monkeypatch.setattr(Script, "build_call", Script.build_call)
    exec(WRAPPER, {"Script": Script})  # noqa: S102 - the text that is appended to the copy's script.py
    script = load_scripts("shared")["walk"]
    for _ in range(2):
        with pytest.raises(UsageError, match="is missing"):
            script.build_call({}, {})
    lines = [line for path in tmp_path.iterdir() for line in path.read_text("utf-8").splitlines()]
    assert lines == [f"{script.path}\ttest_x"]


def test_the_recorder_starts_only_as_sitecustomize(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(recorder.FOLDER, str(tmp_path))
    importlib.reload(recorder)
    assert recorder._coverage is None and not [*tmp_path.iterdir()]
