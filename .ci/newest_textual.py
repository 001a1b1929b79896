"""Run a sample of the screen's tests on the newest Textual that pip offers, whatever bound pyproject.toml sets.

    python .ci/newest_textual.py

Prints one sentence, and below it the tests that failed. The exit code is 1 if a test failed or if nothing could be run.
The sample is the test files that are marked `newest_textual`. Textual and its dependencies are installed into a
temporary folder that comes before the installed packages on the path, so the environment is not changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "newest_textual"
INSTALL_TIMEOUT_S = 120
TESTS_TIMEOUT_S = 180
PRINT_VERSION = "from importlib.metadata import version; print(version('textual'))"


def find_marked_test_files() -> list[str]:
    """Return the test files that are marked `newest_textual`. Collecting all other files would take too long."""
    return sorted(
        str(path) for path in (ROOT / "tests").rglob("test_*.py") if f"mark.{MARK}" in path.read_text("utf-8")
    )


def run_tests_on_newest_textual(folder: str) -> tuple[str, list[str], int]:
    """Install the newest Textual into `folder` and run the marked tests with it.

    Returns a sentence, the failed tests and the exit code.
    """
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", folder, "textual"]
    try:
        subprocess.run(pip, capture_output=True, timeout=INSTALL_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"The newest Textual was not tried: pip could not install it ({type(error).__name__}).", [], 1
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))}
    version = subprocess.run(
        [sys.executable, "-c", PRINT_VERSION], capture_output=True, text=True, env=environ
    ).stdout.strip()
    pytest = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "auto",
        "-p",
        "no:cacheprovider",
        "-m",
        MARK,
        *find_marked_test_files(),
    ]
    try:
        completed = subprocess.run(
            pytest, cwd=ROOT, capture_output=True, text=True, timeout=TESTS_TIMEOUT_S, env=environ
        )
    except subprocess.TimeoutExpired:
        return (
            f"The newest Textual, {version}: the sample of the screen's tests did not end in {TESTS_TIMEOUT_S} s.",
            [],
            1,
        )
    lines = completed.stdout.strip().splitlines() or completed.stderr.strip().splitlines() or ["pytest printed nothing"]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return (
        f"The newest Textual, {version}, and a sample of the screen's tests: {lines[-1]}.",
        failed,
        int(completed.returncode != 0),
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sentence, failed, code = run_tests_on_newest_textual(folder)
    print("\n".join((sentence, *failed)))
    sys.exit(code)
