"""The tool that plants faults: an operator changes one place, and a fault that is planted is noticed."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import places
import pytest
from coverage_map import ROOT, UNKNOWN_S, CoverageMap
from operators import OPERATORS, Mutant, of_lua, of_python

TOOL = ROOT / "tests" / "mutation"
PYTHON = """
LIMIT: Annotated[int, 7] = 500
def f(a, b):
    if a < b or b in (1, "x < 2"):
        return f"{a + 1}"
    log(a)  # a == b
    return a if a == b else None
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
-- block: opening
if n > 3 then return end
-- end
local found = redis.call('ZSCORE', KEYS[1], id)
redis.call('ZREM', KEYS[1], id)
return found
"""
IN_LUA = {
    "guard: redis.call('LLEN', KEYS[1]) ->", "logic: or -> and", "boundary: < -> <=", "comparison: < -> >=",
    "guard: not n or n < 1 -> false", "negated: not n or n < 1 -> not ( not n or n < 1 )", "constant: 1 -> 2",
    "constant: 1 -> 0", "call: redis.call('ZREM', KEYS[1], id) ->",
}  # fmt: skip


def told(mutant: Mutant) -> str:
    return " ".join(f"{mutant.operator}: {mutant.old} -> {mutant.new}".split())


@pytest.mark.parametrize(("make", "text", "expected"), [(of_python, PYTHON, IN_PYTHON), (of_lua, LUA, IN_LUA)])
def test_an_operator_changes_exactly_one_place_of_the_code(make, text: str, expected: set[str]) -> None:
    found = make("x", text)
    assert {told(mutant) for mutant in found} == expected and len(found) == len(expected)
    for mutant in found:
        new = mutant.applied(text)
        assert new[: mutant.start] == text[: mutant.start] and text.endswith(new[mutant.start + len(mutant.new) :])
        assert text.splitlines()[mutant.line - 1] != new.splitlines()[mutant.line - 1]
        if make is of_python:
            ast.parse(new)
        with pytest.raises(ValueError, match="not there any more"):
            mutant.applied("#" + text)


@pytest.mark.parametrize("area", ["lua", pytest.param("text", marks=pytest.mark.matrix)])
def test_a_sample_is_made_of_other_programs_and_the_same_for_the_same_seed(area: str) -> None:
    found = places.sample(ROOT, area, 30, seed=1)
    assert found[:10] == places.sample(ROOT, area, 10, seed=1) != places.sample(ROOT, area, 10, seed=2)
    assert len(set(found)) == 30 and len({mutant.operator for mutant in found}) >= 5
    assert {mutant.operator for mutant in found} <= set(OPERATORS)


def test_a_fault_in_a_block_stands_in_all_its_copies_and_is_taken_back(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "lua", tmp_path / "lua")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.lua")}
    block = "lua/shared/blocks/limit.lua"
    text = (tmp_path / block).read_text()
    mutant = next(mutant for mutant in of_lua(block, text) if mutant.operator == "boundary")
    with places.planted(tmp_path, mutant) as changed:
        assert {block, "lua/native/reap.lua"} < {*changed}
        assert {path for path, was in before.items() if path.read_bytes() != was} == {tmp_path / c for c in changed}
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.lua")} == before


def test_a_planted_fault_is_noticed_and_one_that_nobody_watches_is_not(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "rqtui" / "text").mkdir(parents=True)
    (tree / "rqtui" / "text" / "sign.py").write_text(
        "def sign(n):\n    return n > 0\n\n\ndef unwatched(n):\n    return n > 1\n"
    )
    (tree / "test_sign.py").write_text(
        "import sys\nsys.path.insert(0, 'rqtui/text')\nimport sign\n"
        "def test_sign(): assert sign.sign(1) and not sign.sign(0)\ndef test_unwatched(): sign.unwatched(5)\n"
    )
    asked = """
import sys
from pathlib import Path
import run
from coverage_map import CoverageMap
from operators import of_python
tree, path = Path(sys.argv[1]), "rqtui/text/sign.py"
tests = ["test_sign.py::test_gone", "test_sign.py::test_sign", "test_sign.py::test_unwatched"]
known = CoverageMap(tests, [0.1, 0.1, 0.1], {path: {"2": [0, 1], "6": [0, 2]}}, {}).of_tests(run.collected(tree))
text = (tree / path).read_text()
for mutant in of_python(path, text):
    if mutant.operator == "boundary":
        verdict = run.ask(tree, known, mutant, "text")
        print(mutant.line, verdict.outcome, verdict.by)
assert (tree / path).read_text() == text
"""
    ran = subprocess.run(
        [sys.executable, "-c", asked, str(tree)], cwd=TOOL, capture_output=True, text=True, timeout=100
    )
    assert ran.stdout.splitlines() == ["2 noticed test_sign.py::test_sign", "6 survived "], ran.stderr


def test_a_test_that_is_gone_is_not_asked_and_a_new_one_is_known() -> None:
    before = CoverageMap(["gone", "kept"], [0.1, 0.2], {"x.py": {"1": [0, 1], "2": [0]}}, {"x.lua": [1]})
    assert before.of_tests(["new", "kept"]) == CoverageMap(
        ["new", "kept"], [UNKNOWN_S, 0.2], {"x.py": {"1": [1], "2": []}}, {"x.lua": [1]}
    )
