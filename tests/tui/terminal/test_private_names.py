"""Test that only `tui/terminal/` uses private names of Textual and Rich, and that no name of rqtui clashes.

The sources show which names are private: those that begin with one underscore, of modules, of what they define, and of
what objects are given. A class of rqtui that is derived from one of Textual has both kinds, so there each name is
checked.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import rich
import textual

import rqtui

THEIRS = ("textual", "rich")
OURS = Path(rqtui.__file__).parent
TERMINAL = OURS / "tui" / "terminal"
PRIVATE = re.compile(r"_[A-Za-z]\w*")
OF_OTHERS = {
    "_asdict": "the way of a NamedTuple that its documentation names",
    "_replace": "the way of a NamedTuple that its documentation names",
    "_sock": "of redis-py, in cli/signals.py",
    "_writer": "of redis-py, in aio/pool.py",
    "_sanitize_help_text": "of typer, in cli/main.py",
}


@cache
def _their_names() -> frozenset[str]:
    """Return every private name that Textual or Rich gives to a function, a class, a variable or an attribute."""
    private_names = re.compile(r"(?:\b(?:self|cls)\.|\bdef |\bclass |^\s*)(_[A-Za-z]\w*)(?=\s*[:=(,])", re.MULTILINE)
    found: set[str] = set()
    for package in (textual, rich):
        for path in Path(str(package.__file__)).parent.rglob("*.py"):
            found.update(private_names.findall(path.read_text("utf-8")))
    return frozenset(found)


# ── names in a module ────────────────────────────────────────────────────────────────────────────────────────────────


def _modules(root: Path) -> Iterator[Path]:
    return (path for path in sorted(root.rglob("*.py")) if root / "tui" / "terminal" not in path.parents)


def _is_theirs(module: str) -> bool:
    return module.partition(".")[0] in THEIRS


def _is_private(name: str) -> bool:
    return any(PRIVATE.fullmatch(part) for part in name.split("."))


def _is_self(node: ast.expr) -> bool:
    """Return whether a node is `self`, `cls` or `super()`, whose names `_of_a_class` checks."""
    name = node.func if isinstance(node, ast.Call) else node
    return isinstance(name, ast.Name) and name.id in ("self", "cls", "super")


def _uses(nodes: Iterable[ast.AST], own: frozenset[str], theirs: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, name) for each private name of Textual or Rich in a module.

    `own` are the private names that rqtui defines; those that are `theirs`, too, are only for `self`.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names if _is_theirs(each.name)]
        elif isinstance(node, ast.ImportFrom) and node.module and _is_theirs(node.module):
            names = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Attribute) and not _is_self(node.value) and node.attr not in OF_OTHERS:
            names = [node.attr] if node.attr not in own - theirs else []
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # for getattr, setattr, import_module
            is_module = _is_theirs(node.value) and re.fullmatch(r"[\w.]+", node.value)
            names = [node.value] if is_module or node.value in theirs else []
        else:
            continue
        yield from ((node.lineno, name) for name in names if _is_private(name))


def _own_names(modules: Iterable[Iterable[ast.AST]]) -> frozenset[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Attribute, ast.Name)
    return frozenset(
        name for nodes in modules for each in nodes if isinstance(each, kinds) for name in _list_assigned_names(each)
    )


def _list_assigned_names(node: ast.AST) -> Iterator[str]:
    """Return the private names that a node assigns."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            names = [name]
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
            names = [name]
        case ast.Name(id=name, ctx=ast.Store()):
            names = [name]
        case _:
            names = []
    yield from (name for name in names if PRIVATE.fullmatch(name))


def find_private_names(root: Path) -> list[str]:
    """Return every use of a private Textual or Rich name in a package, except in its `tui/terminal`."""
    modules = {path: [*ast.walk(ast.parse(path.read_text("utf-8")))] for path in _modules(root)}
    own = _own_names(modules.values())
    return [
        f"{path.relative_to(root)}:{line}: {name}"
        for path, nodes in modules.items()
        for line, name in _uses(nodes, own, _their_names() if _may_meet_theirs(path, nodes, root) else frozenset())
    ]


def _may_meet_theirs(path: Path, nodes: Iterable[ast.AST], root: Path) -> bool:
    """Return whether a module can get an object of Textual or Rich: it is part of the screen, or imports them."""
    imported = (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    names = {getattr(node, "module", None) or node.names[0].name for node in imported}
    return root / "tui" in path.parents or any(map(_is_theirs, names))


@pytest.mark.slow
def test_no_module_outside_of_terminal_uses_a_private_name_of_textual_or_rich() -> None:
    assert find_private_names(OURS) == []


def test_the_private_names_of_others_are_still_needed() -> None:
    text = "\n".join(path.read_text("utf-8") for path in _modules(OURS))
    assert [name for name in OF_OTHERS if f".{name}" not in text] == []


@pytest.mark.parametrize(
    "line",
    [
        "from textual._compositor import ChopsUpdate",
        "from textual import _compositor",
        "import textual._styles_cache",
        "import rich._log_render",
        "from textual.keys import _character_to_key",
        "from textual.drivers._writer_thread import WriterThread",
        "app.screen._result_callbacks.clear()",
        "def f(widget): widget._size = 1",
        "from textual.app import App; App()._driver",
        "from textual.widget import Widget; setattr(Widget(), '_border_title', 1)",
        "import_module('textual._xterm_parser')",
    ],
)
def test_a_use_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "tui" / "terminal").mkdir(parents=True)
    for place in ("planted.py", "tui/terminal/planted.py"):
        (tmp_path / place).write_text(
            f"{line}\nclass Own:\n    def _own(self): return Own._own\n    def _driver(self): ...\n"
        )
    (found,) = find_private_names(tmp_path)
    assert found.startswith("planted.py:1: ")


# ── what classes have ────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


@cache
def _names(cls: type) -> tuple[frozenset[str], frozenset[str]]:
    """Return the private names that a class defines in its body or on `self`, and those that it uses of `self`."""
    node = _classes(cls.__module__).get(cls.__name__)
    if node is None:
        return frozenset(), frozenset()
    body = [each for each in node.body if not isinstance(each, ast.ClassDef)]
    within = [each for statement in body for each in ast.walk(statement)]
    local = {
        each
        for statement in body
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in statement.body
        for each in ast.walk(inner)
        if not isinstance(each, ast.Attribute)
    }  # variables and functions of a method belong to it alone
    private_names = {name for each in within if each not in local for name in _list_assigned_names(each)}
    used = {
        each.attr
        for each in within
        if isinstance(each, ast.Attribute) and _is_self(each.value) and PRIVATE.fullmatch(each.attr)
    }
    return frozenset(private_names), frozenset(used)


def _list_class_names(cls: type, own: str) -> Iterator[str]:
    """Return the private Textual names of a class: names that both define, and names that it only uses."""
    mine = [each for each in cls.__mro__ if each.__module__.split(".")[0] == own]
    theirs = {name: each for each in reversed(cls.__mro__) if _is_theirs(each.__module__) for name in _names(each)[0]}
    private_names = frozenset().union(*(_names(each)[0] for each in mine))
    for each in mine:
        gives, uses = _names(each)
        yield from (f"{each.__qualname__}.{name} is also {theirs[name].__name__}'s" for name in gives & theirs.keys())
        yield from (
            f"{each.__qualname__} uses {name} of {theirs[name].__name__}"
            for name in (uses - private_names) & theirs.keys()
        )


def clashes(modules: Iterable[ModuleType]) -> list[str]:
    """Return every private name that classes of these modules share with the Textual classes they derive from."""
    found: set[str] = set()
    for module in modules:
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == module.__name__ and any(_is_theirs(each.__module__) for each in cls.__mro__):
                found.update(_list_class_names(cls, module.__name__.split(".")[0]))
    return sorted(found)


@pytest.mark.slow
def test_no_class_uses_a_private_name_of_its_base_class_of_textual() -> None:
    paths = [path.relative_to(OURS.parent).with_suffix("") for path in _modules(OURS / "tui")]
    paths = [path for path in paths if path.parts[2:3] != ("terminal",)]
    modules = [import_module(".".join(path.parts).removesuffix(".__init__")) for path in paths]
    assert len(modules) > 40
    assert clashes(modules) == []


def test_a_clash_is_found_by_name_by_override_and_through_a_mixin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted_clash.py").write_text(
        "from textual.app import App\n"
        "from textual.widget import Widget\n"
        "class Part:\n"
        "    def put(self): self._driver = 1\n"
        "class Planted(Part, App):\n"
        "    def _display(self, *given): super()._display(*given)\n"
        "    def own(self): return self._own\n"
        "    def _own(self): return [_size for _size in ()]\n"
        "class Shown(Widget):\n"
        "    _size = 1\n"
        "    def scroll(self): self._scroll_update(self._mine)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert clashes([import_module("planted_clash")]) == [
        "Part._driver is also App's",
        "Planted._display is also App's",
        "Shown uses _scroll_update of Widget",
        "Shown._size is also Widget's",
    ]
