"""Runs a sample of the screen's tests on the newest Textual that pip offers, whatever bound pyproject.toml sets.

    python .ci/newest_textual.py

Prints one sentence, and below it the tests that failed; 1 when any did, or when nothing could be tried. The sample is
the files that are marked `newest_textual`. That Textual, with all it needs, lies in a folder that is gone afterwards
and that stands before the installed one on the path, so the environment stays as it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "newest_textual"
INSTALL_S = 120
TESTS_S = 180
VERSION = "from importlib.metadata import version; print(version('textual'))"


def sample() -> list[str]:
    """The files of tests with the mark: to collect the others too would take longer than these run."""
    return sorted(
        str(path) for path in (ROOT / "tests").rglob("test_*.py") if f"mark.{MARK}" in path.read_text("utf-8")
    )


def tried(folder: str) -> tuple[str, list[str], int]:
    """Installs Textual into `folder` and runs the sample: a sentence, the failed tests, the exit code."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", folder, "textual"]
    try:
        subprocess.run(pip, capture_output=True, timeout=INSTALL_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"The newest Textual was not tried: pip could not install it ({type(error).__name__}).", [], 1
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))}
    version = subprocess.run(
        [sys.executable, "-c", VERSION], capture_output=True, text=True, env=environ
    ).stdout.strip()
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", "-m", MARK, *sample()]
    try:
        ran = subprocess.run(pytest, cwd=ROOT, capture_output=True, text=True, timeout=TESTS_S, env=environ)
    except subprocess.TimeoutExpired:
        return f"The newest Textual, {version}: the sample of the screen's tests did not end in {TESTS_S} s.", [], 1
    lines = ran.stdout.strip().splitlines() or ran.stderr.strip().splitlines() or ["pytest said nothing"]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return (
        f"The newest Textual, {version}, and a sample of the screen's tests: {lines[-1]}.",
        failed,
        int(ran.returncode != 0),
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sentence, failed, code = tried(folder)
    print("\n".join((sentence, *failed)))
    sys.exit(code)
