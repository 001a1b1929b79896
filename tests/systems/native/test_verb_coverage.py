"""Test that each native script which changes jobs is among the random verbs of the three tests that watch all jobs.

These are the model (`test_model.py`), the undo machine (`tests/operations/test_undo_machine.py`) and the processes of a
history under faults (`tests/faults/actors.py`). A new script that they do not call could lose attempts, priorities or
the order of jobs while every test passes.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rqtui.operations.undo import find_inverse_script
from rqtui.systems import registry

ROOT = Path(__file__).parents[3]
NATIVE = registry.create_system("native")
PLACES = [place.name for place in NATIVE.places]
JOB_KEYS = {*PLACES, "jobs", "bodies", "attempts", "errors"}
JOB_SCRIPTS = sorted(
    name
    for name, script in NATIVE.scripts.items()
    if not script.read_only and (script.moves or JOB_KEYS.intersection(script.writes))
)

# Scripts that a file need not call, with the reason.
MODEL_EXCEPTIONS = {"revert": "the undo machine compares each job with its state before the change"}
HISTORY_EXCEPTIONS = {
    "move": "a history follows each job within one queue; the model and the undo machine move jobs between two",
    "pull": "a job that its caller loses is lost, as documented; a history allows no lost job",
    "purge": "its reply does not name the jobs, and a history knows the end of each job",
    "repair": "repairs records that other programs wrote; a history has none",
    "restore": "undo; the undo machine calls it",
    "revert": "undo; the undo machine calls it",
}


def _read_words(path: str) -> set[str]:
    """Return the string constants, method names and attributes in a Python file."""
    words = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
    return words


def test_the_model_calls_each_script_that_changes_jobs() -> None:
    words = _read_words("tests/systems/native/test_model.py")
    assert {name for name in JOB_SCRIPTS if name not in words} == set(MODEL_EXCEPTIONS), (
        "Add a rule to the machine in test_model.py, and a method to the model in tests/support/native_model.py."
    )


def test_the_undo_machine_calls_each_verb_that_can_be_undone() -> None:
    words = _read_words("tests/operations/test_undo_machine.py")
    undoable = [name for name in JOB_SCRIPTS if find_inverse_script(NATIVE, name)]
    assert {"delete", "kill", "promote"} <= set(undoable)
    assert [name for name in undoable if name not in words] == [], "Add the verb to FORMS in test_undo_machine.py."


def test_a_history_under_faults_calls_each_script_that_changes_jobs() -> None:
    words = _read_words("tests/faults/actors.py") | {"enqueue"}  # by `put`
    assert {name for name in JOB_SCRIPTS if name not in words} == set(HISTORY_EXCEPTIONS), (
        "Add the verb to _VERBS in tests/faults/actors.py, or to HISTORY_EXCEPTIONS with the reason."
    )


@pytest.mark.parametrize("name", ["bump", "extend", "reprioritise"])
def test_scripts_that_move_no_job_but_change_it_are_demanded_too(name: str) -> None:
    assert name in JOB_SCRIPTS and not NATIVE.scripts[name].moves
