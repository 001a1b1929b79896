"""No module above the systems names one of them: what differs between two systems, a system says.

The names are those of the table, and their titles. They are looked for in the code: identifiers, imports, texts; not in
docstrings and comments, which may explain. `client` is the native queue's own, and scenarios play systems by name. The
one name that is left is `DEFAULT_SYSTEM` in the settings: to which system a new queue belongs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rqtui
from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.systems.registry import SYSTEMS

ROOT = Path(rqtui.__file__).parent
ROOMS = ("engine", "system_base", "operations", "reports", "cli", "tui")
FILES = [ROOT / "session.py", *(path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))]
NAMES = {word.lower() for row in SYSTEMS for word in (row.name, row.title)} - {"rqtui"}
# `dispatcher` is also what rqtui calls a loop of its own; as the name of a system it follows `system`, or before
# a colon, a queue and its options.
_NAMED = re.compile(
    r"(?<![a-z0-9])(?:{})(?![a-z0-9])".format("|".join(re.escape(name) for name in sorted(NAMES - {"dispatcher"})))
    + r"|system[ =:'\"]+dispatcher|(?<![a-z])dispatcher:(?=[a-z])",
    re.IGNORECASE,
)


def words(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Return every identifier and every text of the code with its line, without docstrings."""
    docs = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docs.add(first.value)
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and node not in docs and isinstance(node.value, str | bytes):
            yield line, node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        for field in ("id", "attr", "arg", "name", "module", "asname", "rest"):
            if isinstance(word := getattr(node, field, None), str):
                yield line, word


def list_named_systems(source: str) -> list[str]:
    """Return the systems that some code names, with their lines."""
    found = ((line, _NAMED.search(word)) for line, word in words(ast.parse(source)))
    return [f"{line}: {match[0]}" for line, match in found if match]


@pytest.mark.slow
def test_no_module_above_the_systems_names_one() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{each}" for path in FILES for each in list_named_systems(path.read_text("utf-8"))
    ]
    assert len(FILES) > 100 and not found, "\n".join(found)


def test_the_only_remaining_name_is_listed_once() -> None:
    assert DEFAULT_SYSTEM in NAMES
    assert [
        each.partition(": ")[2] for each in list_named_systems((ROOT / "config" / "settings.py").read_text("utf-8"))
    ] == [DEFAULT_SYSTEM]


@pytest.mark.parametrize(
    "code",
    [
        "if ref.system == 'native': pass",
        "from rqtui.client.native_keys import keys",
        "from rqtui.systems import orizuru",
        "def native_lines(): pass",
        "self._redisched = 1",
        "f'--system safe_pop:queue={queue}'",
        "print(b'timeout_sets')",
        "help = 'System dispatcher.'",
        "spec = 'dispatcher:ready=mail'",
        "def f(celery): pass",
        "title = 'BullMQ'",
    ],
)
def test_a_name_is_found(code: str) -> None:
    assert list_named_systems(code)


@pytest.mark.parametrize(
    "code",
    [
        '"""Moves jobs to a native queue."""',
        "def f():\n    '''As orizuru does.'''\n    # and redisched",
        "loops = {'dispatch': 'dispatcher'}",
        "alternative = 'rqtui:queues'",
        "marquee = 'the dispatcher: off'",
    ],
)
def test_other_strings_are_no_system_names(code: str) -> None:
    assert not list_named_systems(code)
