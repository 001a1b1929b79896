"""What the original systems need to run: made by the run that needs it, and kept for the next.

The folders stand in the one that RQTUI_BESIDE names, else in the user's folder for caches. What is installed is pinned
to the last package; an environment of other pins is another folder. Where one cannot be made, the tests skip and say
why.

`sidekiq-<version>` is also taken as somebody left it, with a file `whole` in it: a folder with checkouts of Sidekiq,
redis-client, connection_pool and sidekiq-cron serves where rubygems.org cannot be reached or Ruby is older than 3.2.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import pytest

VARIABLE = "RQTUI_BESIDE"
_WITH_RQ = ("click==8.5.1", "croniter==7.0.0", "python-dateutil==4.0.0", "redis==8.1.0", "tzdata==2026.6")
PINS = {version: (f"rq=={version}", *_WITH_RQ) for version in ("2.6.0", "3.0.0")}
"""By version of RQ."""
_WITH_CELERY = (
    "amqp==5.4.2",
    "billiard==4.3.2",
    "click-didyoumean==0.3.1",
    "click-plugins==1.1.1.2",
    "click-repl==0.4.1",
    "click==8.5.1",
    "flower==2.2.0",
    "humanize==4.17.0",
    "packaging==26.3",
    "prometheus_client==0.26.0",
    "prompt_toolkit==3.0.53",
    "python-dateutil==2.9.0.post0",
    "pytz==2026.6",
    "redis==8.1.0",
    "six==1.17.0",
    "tornado==6.6.1",
    "typing_extensions==4.16.0",
    "tzlocal==5.4.5",
    "vine==5.1.0",
    "wcwidth==0.9.4",
)
CELERY = {"5.7.0": ("celery==5.7.0", "kombu==5.7.0", *_WITH_CELERY)}
"""Packages by version of Celery, with Flower."""
DEBIAN = "debian"
SIDEKIQ = {
    "8.1.7": ("sidekiq:8.1.7", "redis-client:0.30.0", "connection_pool:3.0.2", "rack:3.2.0", "sidekiq-cron:2.3.1")
}
"""Gems by version of Sidekiq; beside these there is the one that Debian packages."""
_WITH_BULLMQ = {
    "ioredis": "5.11.1",
    "luxon": "3.7.2",
    "msgpackr-extract": "3.0.7",
    "node-abort-controller": "3.1.1",
    "semver": "7.8.5",
}
_NPM = {
    "5.81.5": {"cron-parser": "4.9.0", "msgpackr": "2.0.5", "tslib": "2.8.1"},
    "6.7.0": {"cron-parser": "5.10.3", "msgpackr": "2.1.3", "tslib": "2.9.1"},
}
BULLMQ = {
    version: tuple(f"{name}@{of}" for name, of in sorted({"bullmq": version, **_WITH_BULLMQ, **own}.items()))
    for version, own in _NPM.items()
}
"""Packages of npm by version of BullMQ."""
_PATIENCE_S = 120
_TRIED_S = 900  # what could not be made is not tried again so soon: each test would wait for it anew


def environment(version: str) -> Path:
    """The folder of the environment with that RQ; skips the test where there is none and none can be made."""
    pins = PINS[version]
    return _kept(f"rq-{version}-{_digest(pins)}", f"RQ {version}", lambda folder: _make(folder, pins))


def celery(version: str) -> Path:
    """The folder of the environment with that Celery; skips the test where there is none and none can be made."""
    pins = CELERY[version]
    return _kept(f"celery-{version}-{_digest(pins)}", f"Celery {version}", lambda folder: _make(folder, pins))


def bullmq(version: str) -> Path:
    """The folder whose `node_modules` has that BullMQ; skips the test where there is none and none can be made."""
    if missing := [program for program in ("node", "npm") if shutil.which(program) is None]:
        pytest.skip(f"needs {missing[0]} (apt-get install nodejs npm)")
    pins = BULLMQ[version]
    digest = hashlib.sha256("\n".join(pins).encode()).hexdigest()[:10]
    return _kept(f"bullmq-{version}-{digest}", f"BullMQ {version}", lambda folder: _packages(folder, pins))


@dataclass(frozen=True, slots=True)
class Ruby:
    """How a Sidekiq is run: `ruby` with its options, the program `sidekiq`, and what else its environment holds."""

    command: tuple[str, ...]
    program: str
    environ: dict[str, str]


def sidekiq(version: str) -> Ruby:
    """Sidekiq of that version, or Debian's; skips the test where there is none and none can be made."""
    if shutil.which("ruby") is None:
        pytest.skip("needs ruby (apt-get install ruby)")
    if version == DEBIAN:
        return _packaged()
    folder = _kept(f"sidekiq-{version}", f"Sidekiq {version}", lambda folder: _gems(folder, SIDEKIQ[version]))
    if (folder / "sidekiq" / "lib").exists():
        paths = [f"-I{path}" for path in sorted(folder.glob("*/lib"))]
        glue = Path(__file__).parent / "sidekiq" / "app" / "checkouts.rb"
        return Ruby(("ruby", "-W0", f"-r{glue}", *paths), str(folder / "sidekiq" / "bin" / "sidekiq"), {})
    return Ruby(("ruby", "-W0"), str(folder / "bin" / "sidekiq"), {"GEM_HOME": str(folder), "GEM_PATH": str(folder)})


def _packaged() -> Ruby:
    program = Path("/usr/bin/sidekiq")
    asked = subprocess.run(["ruby", "-W0", "-e", "require 'sidekiq'; require 'sidekiq-cron'"], capture_output=True)
    if asked.returncode or not program.exists():
        pytest.skip("no Sidekiq of the system's packages (apt-get install ruby-sidekiq ruby-sidekiq-cron)")
    return Ruby(("ruby", "-W0"), str(program), {})


def _kept(name: str, what: str, make: Callable[[Path], None]) -> Path:
    root = Path(os.environ.get(VARIABLE) or Path(platformdirs.user_cache_dir("rqtui")) / "beside")
    folder, failed = root / name, root / f"{name}.failed"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _alone(root / f"{name}.lock"):
            if not (folder / "whole").exists():
                _made_once(folder, failed, make)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no environment with {what} can be made: {_last_line(error)}")
    return folder


def _made_once(folder: Path, failed: Path, make: Callable[[Path], None]) -> None:
    """Makes it; where that failed lately, raises OSError with the reason again."""
    if failed.exists() and time.time() - failed.stat().st_mtime < _TRIED_S:
        raise OSError(failed.read_text("utf-8"))
    try:
        shutil.rmtree(folder, ignore_errors=True)
        make(folder)
        (folder / "whole").touch()
    except (OSError, subprocess.SubprocessError) as error:
        failed.write_text(_last_line(error), "utf-8")
        raise


def _digest(pins: tuple[str, ...]) -> str:
    """Of an environment of this Python."""
    return hashlib.sha256("\n".join((*pins, sys.version)).encode()).hexdigest()[:10]


def _make(folder: Path, pins: tuple[str, ...]) -> None:
    _run(sys.executable, "-m", "venv", str(folder))
    _run(str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *pins)


def _gems(folder: Path, pins: tuple[str, ...]) -> None:
    _run("gem", "install", "--no-document", "--install-dir", str(folder), *pins)


def _packages(folder: Path, pins: tuple[str, ...]) -> None:
    # By itself npm waits five minutes for a registry that does not answer, three times.
    waits = ("--fetch-timeout=20000", "--fetch-retries=0")
    _run("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", *waits, *pins)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_PATIENCE_S)


def _last_line(error: Exception) -> str:
    said = getattr(error, "stderr", "") or str(error)
    lines = (said if isinstance(said, str) else said.decode("utf-8", "replace")).strip().splitlines()
    return next((line for line in reversed(lines) if "complete log" not in line), "no reason was given")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time: pytest may run several."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
