"""Run tests in forks of one pytest session that has collected all tests, with a fault in its functions.

To start pytest and collect the tests takes longer than most tests. A fork of a process that has done both begins at
once: it gives the functions of a changed module their new code. A fork cannot have a fault in code that runs when its
module is imported, or in a script.
"""

from __future__ import annotations

import gc
import inspect
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from coverage_map import build_environment, build_pytest_options
from operators import Mutant

NewCode = list[tuple[FunctionType, CodeType]]
NO_END = "no end"


class CollectedTests:
    """The tests that pytest collected in a copy of the repository, which this process has imported.

    `use` is called with them, instead of running them. `names` are their names, in the order of a run.
    """

    names: list[str]

    def __init__(self, tree: Path, use: Callable[[CollectedTests], None]) -> None:
        self._tree, self._use = tree, use
        self._failed = ""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Call `use` in the place of pytest's loop, which runs all tests."""
        self._session = session
        self._items = {item.nodeid: item for item in session.items}
        self.names = [*self._items]
        self._functions = self._find_functions()
        self._use(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the first failure in a fork."""
        if report.failed:
            self._failed = self._failed or report.nodeid

    def _find_functions(self) -> dict[str, list[FunctionType]]:
        """Find the imported functions of the copy's modules, by file. Later forks share their memory."""
        gc.unfreeze()  # What was frozen is not listed.
        functions = defaultdict(list)
        for each in gc.get_objects():
            if isinstance(each, FunctionType):
                functions[each.__code__.co_filename].append(each)
        gc.freeze()
        return functions

    def find_new_code(self, mutant: Mutant) -> NewCode | None:
        """Return the functions that a fault changes, with their new code; None if a fork cannot have this fault."""
        path = self._tree / mutant.path
        if not mutant.path.endswith(".py"):
            return None
        text = path.read_text()
        old, new = (
            list(_yield_codes(compile(source, str(path), "exec", dont_inherit=True)))
            for source in (text, mutant.apply_to(text))
        )
        if [code.co_qualname for code in old] != [code.co_qualname for code in new]:
            return None
        if any(_has_own_change(*codes) for codes in zip(old, new, strict=True) if not _is_of_function(codes[0])):
            return None
        new_codes = dict(zip(old, new, strict=True))  # equal codes have the same lines and columns
        functions = [each for each in self._functions[str(path)] if each.__code__ in new_codes]
        new_code = [(each, new_codes[each.__code__]) for each in functions]
        return None if any(each.__code__.co_freevars != code.co_freevars for each, code in new_code) else new_code

    def run(self, tests: Sequence[str], new_code: NewCode, limit_s: float) -> str:
        """Run tests in a fork, with new code in some functions, until one fails.

        Return its name, or what else ended the run; empty if all tests pass.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            self._run_as_child([self._items[name] for name in tests], new_code, writer)
        os.close(writer)
        has_ended = wait_for_child(child, limit_s) is not None
        os.set_blocking(reader, False)
        try:
            said = os.read(reader, 10_000).decode()
        except BlockingIOError:  # a program that a test has started has the pipe
            said = ""
        os.close(reader)
        if said == _ALL_PASSED:
            return ""
        return said or ("pytest ended without a result" if has_ended else f"{NO_END} after {limit_s:.0f} s")

    def _run_as_child(self, items: Sequence[pytest.Item], new_code: NewCode, writer: int) -> None:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        try:
            for function, code in new_code:
                function.__code__ = code
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._failed:
                    break
            os.write(writer, (self._failed or _ALL_PASSED).encode())
            self._session._setupstate.teardown_exact(None)  # ends the servers of the tests
        finally:
            os._exit(0)


def use_collected_tests(tree: Path, use: Callable[[CollectedTests], None]) -> None:
    """Collect the tests of a copy of the repository in this process, and call `use` with them.

    The process must not have imported the project before. Exits with a message if the tests cannot be collected.
    """
    os.chdir(tree)
    os.environ.update(build_environment(tree))
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"]
    sys.path.insert(0, str(tree))
    tests = CollectedTests(tree, use)
    options = build_pytest_options(tree, "--timeout=60", "--capture=no", f"--basetemp={tree.parent / 'temporary'}")
    if code := pytest.main(options, plugins=[tests]):
        raise SystemExit(f"pytest ended with {code!r}")


def wait_for_child(child: int, limit_s: float) -> int | None:
    """Return the exit code of a child process, or None if it did not end in time. Kill the rest of its session."""
    deadline = time.monotonic() + limit_s
    code = None
    while code is None and time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if code is None:
        os.waitpid(child, 0)
    return code


_ALL_PASSED = "all passed"


def _yield_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _yield_codes(constant)


def _is_of_function(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_OPTIMIZED)  # not of a module or the body of a class


def _has_own_change(old: CodeType, new: CodeType) -> bool:
    """Return whether two code objects differ in more than the functions inside them."""
    return _describe_code(old) != _describe_code(new)


def _describe_code(code: CodeType) -> tuple[Any, ...]:
    constants = [(type(each), each) for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_code, constants, code.co_names, code.co_varnames
