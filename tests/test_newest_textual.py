"""`.ci/newest_textual.py`: it has a sample to run, and says in a sentence that nothing could be tried."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / ".ci" / "newest_textual.py"


@pytest.mark.slow
def test_a_missing_index_is_reported_in_one_sentence() -> None:
    environ = {**os.environ, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""}
    ran = subprocess.run([sys.executable, str(SCRIPT)], env=environ, capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stderr == ""
    assert ran.stdout == "The newest Textual was not tried: pip could not install it (CalledProcessError).\n"


def test_the_run_continues_whatever_the_newest_textual_brings() -> None:
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert [line for line in lines if "newest_textual" in line] == ["python .ci/newest_textual.py || true"]


def test_the_sample_is_of_the_screen() -> None:
    line = "\npytestmark = pytest.mark.newest_textual\n"
    marked = [path for path in (ROOT / "tests").rglob("test_*.py") if line in path.read_text("utf-8")]
    assert len(marked) >= 5 and all(ROOT / "tests" / "tui" in path.parents for path in marked)
