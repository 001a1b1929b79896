"""Virtual environments of the original systems: made by the run that needs one, and kept for the next.

They stand in the folder that RQTUI_BESIDE names, else in the user's folder for caches. What is installed is pinned to
the last package; an environment of other pins is another folder. Where none can be made, the tests skip and say why.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
import pytest

VARIABLE = "RQTUI_BESIDE"
_WITH_RQ = ("click==8.5.1", "croniter==7.0.0", "python-dateutil==4.0.0", "redis==8.1.0", "tzdata==2026.6")
PINS = {version: (f"rq=={version}", *_WITH_RQ) for version in ("2.6.0", "3.0.0")}
"""By version of RQ."""
_PATIENCE_S = 120


def environment(version: str) -> Path:
    """The folder of the environment with that RQ; skips the test where there is none and none can be made."""
    pins = PINS[version]
    digest = hashlib.sha256("\n".join((*pins, sys.version)).encode()).hexdigest()[:10]
    root = Path(os.environ.get(VARIABLE) or Path(platformdirs.user_cache_dir("rqtui")) / "beside")
    folder = root / f"rq-{version}-{digest}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _alone(root / f"{folder.name}.lock"):
            if not (folder / "whole").exists():
                _make(folder, pins)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no environment with RQ {version} can be made: {_last_line(error)}")
    return folder


def _make(folder: Path, pins: tuple[str, ...]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *pins],
    ):
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_PATIENCE_S)
    (folder / "whole").touch()


def _last_line(error: Exception) -> str:
    said = getattr(error, "stderr", "") or str(error)
    return (said if isinstance(said, str) else said.decode("utf-8", "replace")).strip().splitlines()[-1]


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time: pytest may run several."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
