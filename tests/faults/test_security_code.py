"""Nothing out of Redis is executed: no unpickling, no eval, no shell; shown by reading the code, and by trying."""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from families import run_in_one_test
from redis import Redis
from shell import ROOT, shell

from rqtui.client.queue import Queue

PACKAGE = ROOT / "rqtui"
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "yaml"}
FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "os.execl", "os.execle", "os.execlp", "os.execv",
    "os.execve", "os.execvp", "os.execvpe", "os.spawnl", "os.spawnv", "subprocess.getoutput", "builtins.eval",
    "subprocess.getstatusoutput", "asyncio.create_subprocess_shell", "tempfile.mktemp", "pickle.loads", "yaml.load",
}  # fmt: skip
# What talks to another machine. redis-py does, to the server that is named, and `rqtui metrics` is talked to.
ELSEWHERE = {"urllib.request", "http.client", "requests", "httpx", "aiohttp", "webbrowser", "smtplib", "ftplib"}
EVAL_HOMES = {"script.py", "transport.py"}  # Lua goes out here alone, from files of the package


def _name(node: ast.expr) -> str:
    """Return the dotted name of an attribute or a name, such as `os.system`; empty for other nodes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _name(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def findings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the calls in a module that could execute data."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (f"import {each.name}" for each in node.names if each.name.split(".")[0] in FORBIDDEN_MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FORBIDDEN_MODULES:
            yield f"import {node.module}"
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "subprocess", "builtins", "tempfile"):
            taken = {f"{node.module}.{each.name}" for each in node.names}
            yield from sorted(taken & FORBIDDEN_CALLS)
        elif isinstance(node, ast.Call):
            called = _name(node.func)
            is_literal = all(isinstance(each, ast.Constant) for each in node.args)  # no data is executed: `exec("")`
            if called in FORBIDDEN_CALLS and not (called == "exec" and is_literal and node.args):
                yield called
            for word in node.keywords:
                if word.arg == "shell" and not (isinstance(word.value, ast.Constant) and word.value.value is False):
                    yield f"{called}(shell=…)"


def list_imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Return the modules that a module imports, at its top or later, by their full names."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


class Read(NamedTuple):
    """What was looked for in a module; it is parsed once for all tests, since that takes most of their time."""

    findings: tuple[str, ...]
    imported: frozenset[str]
    sends_lua: bool  # by a method of a client
    says_eval: bool


@functools.cache
def read(path: Path) -> Read:
    nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
    calls = (node.func for node in nodes if isinstance(node, ast.Call))
    sent = {each.attr for each in calls if isinstance(each, ast.Attribute)}
    constants = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)}
    return Read(
        tuple(findings(nodes)),
        frozenset(list_imports(nodes)),
        bool(sent & {"eval", "eval_ro", "script_load", "register_script"}),
        bool(constants & {"EVAL", "EVAL_RO", b"EVAL", b"EVAL_RO"}),
    )


@pytest.mark.slow
@run_in_one_test("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_talks_to_anybody_but_redis(path: Path) -> None:
    assert ELSEWHERE.isdisjoint(read(path).imported)


def test_a_way_to_another_machine_is_seen_however_it_is_imported() -> None:
    for line in (
        "import httpx",
        "from urllib.request import urlopen",
        "from urllib import request",
        "import http.client",
    ):
        assert not ELSEWHERE.isdisjoint(list_imports(ast.walk(ast.parse(f"def later():\n    {line}\n")))), line


@pytest.mark.slow
@run_in_one_test("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_can_execute_what_it_reads(path: Path) -> None:
    assert read(path).findings == ()


@run_in_one_test(
    "planted",
    [
        "import pickle", "from marshal import loads", "eval(body)", "import os\nos.system(x)", "from os import system",
        "import subprocess\nsubprocess.run(x, shell=True)", "import subprocess\nsubprocess.Popen(x, shell=flag)",
        "exec(compile(x, '', 'exec'))", "import yaml\nyaml.load(x)", "f = lambda: __import__(name)",
    ],
)  # fmt: skip
def test_the_reader_of_the_code_finds_what_is_planted(planted: str) -> None:
    assert list(findings(ast.walk(ast.parse(planted))))


@pytest.mark.slow
def test_no_lua_is_put_together_from_data() -> None:
    """EVAL gets a file of the package unchanged: no other code sends EVAL, and no text is added to the file."""
    # What other systems send, by the demo, in their own words; and what is sent by who tests a system of his own.
    constants = {PACKAGE / "scenarios" / "originals", PACKAGE / "testing"}
    for path in (each for each in PACKAGE.rglob("*.py") if not constants & set(each.parents)):
        assert not read(path).sends_lua, path
        assert not read(path).says_eval or path.name in EVAL_HOMES, path


ODD = (
    "; touch {0}",
    "$(touch {0})",
    "`touch {0}`",
    "| touch {0}",
    "\n touch {0}",
    "&& touch {0} #",
    "a b  c",
    "-n",
    "'\"",
)


def test_a_worker_hands_bodies_and_ids_to_its_command_as_they_are(client: Redis, url: str, tmp_path: Path) -> None:
    trap, out = tmp_path / "trap", tmp_path / "out"
    queue = Queue("mail", client)
    sent = {}
    for number, text in enumerate(ODD):
        body = text.format(trap)
        queue.put(body.encode(), id=f"{number} {body}", name=body.strip() or "x")
        sent[f"{number} {body}"] = body
    program = (
        "import json, os, sys; open(sys.argv[2], 'a').write(json.dumps("
        "[os.environ['RQTUI_ID'], sys.stdin.read(), sys.argv[1:]]) + '\\n')"
    )
    argument = "$(touch nothing); {} * $HOME"
    ran = shell(url, "work", "mail", "--burst", "--", sys.executable, "-c", program, argument, str(out))
    assert ran.code == 0, ran.err
    documents = [json.loads(line) for line in out.read_text().splitlines()]
    assert {id: body for id, body, _ in documents} == sent
    assert all(words == [argument, str(out)] for _, _, words in documents)
    assert not trap.exists() and not (Path.cwd() / "nothing").exists()


def test_a_pickled_body_is_shown_and_never_opened(client: Redis, url: str, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    result = subprocess.run(
        [sys.executable, "-c", "import pickle, os, sys\nclass T:\n  def __reduce__(self):\n    return os.mkdir, "
         "(sys.argv[1],)\nsys.stdout.buffer.write(pickle.dumps(T()))", str(trap)],
        capture_output=True, check=True,
    )  # fmt: skip
    queue = Queue("mail", client)
    queue.put(result.stdout, id="one")
    for words in (("jobs", "mail", "ready"), ("show", "mail", "one"), ("show", "mail", "one", "--json", "--body")):
        assert shell(url, *words).code == 0
    assert not trap.exists()
