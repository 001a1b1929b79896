"""Create the environments of the original systems when a run needs them, and keep them for later runs.

The environments are folders in RQTUI_BESIDE, or in the user's cache folder. All packages are pinned; other pins give
another folder. If an environment cannot be created, its tests skip with the reason.

A folder `sidekiq-<version>` with a file `whole` is used as it is. It may hold checkouts of Sidekiq, redis-client,
connection_pool and sidekiq-cron, for machines that cannot reach rubygems.org or have a Ruby before 3.2.
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
ARQ = {"0.28.0": ("arq==0.28.0", "PyJWT==2.15.1", "click==8.5.1", "hiredis==3.5.0", "redis==5.3.1")}
"""Packages by version of arq."""
DEBIAN = "debian"
SIDEKIQ = {
    "8.1.7": ("sidekiq:8.1.7", "redis-client:0.30.0", "connection_pool:3.0.2", "rack:3.2.0", "sidekiq-cron:2.3.1")
}
"""Gems by version of Sidekiq; Debian packages another one."""
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
_TRIED_S = 900  # time until a failed environment is tried again, so that not every test waits for it


def build_rq(version: str) -> Path:
    """Return the folder of an environment with this RQ. Skip the test if it cannot be created."""
    pins = PINS[version]
    return _find_or_create(
        f"rq-{version}-{_compute_digest(pins)}", f"RQ {version}", lambda folder: _create_venv(folder, pins)
    )


def build_celery(version: str) -> Path:
    """Return the folder of an environment with this Celery. Skip the test if it cannot be created."""
    pins = CELERY[version]
    return _find_or_create(
        f"celery-{version}-{_compute_digest(pins)}", f"Celery {version}", lambda folder: _create_venv(folder, pins)
    )


def build_arq(version: str) -> Path:
    """Return the folder of an environment with this arq. Skip the test if it cannot be created."""
    pins = ARQ[version]
    return _find_or_create(
        f"arq-{version}-{_compute_digest(pins)}", f"arq {version}", lambda folder: _create_venv(folder, pins)
    )


def build_bullmq(version: str) -> Path:
    """Return the folder whose `node_modules` has this BullMQ. Skip the test if it cannot be created."""
    if missing := [program for program in ("node", "npm") if shutil.which(program) is None]:
        pytest.skip(f"needs {missing[0]} (apt-get install nodejs npm)")
    pins = BULLMQ[version]
    digest = hashlib.sha256("\n".join(pins).encode()).hexdigest()[:10]
    return _find_or_create(
        f"bullmq-{version}-{digest}", f"BullMQ {version}", lambda folder: _install_packages(folder, pins)
    )


@dataclass(frozen=True, slots=True)
class Ruby:
    """The command of Ruby, the program `sidekiq`, and its environment variables."""

    command: tuple[str, ...]
    program: str
    environ: dict[str, str]


def build_sidekiq(version: str) -> Ruby:
    """Return Sidekiq of this version, or Debian's. Skip the test if it cannot be created."""
    if shutil.which("ruby") is None:
        pytest.skip("needs ruby (apt-get install ruby)")
    if version == DEBIAN:
        return _find_packaged_sidekiq()
    folder = _find_or_create(
        f"sidekiq-{version}", f"Sidekiq {version}", lambda folder: _install_gems(folder, SIDEKIQ[version])
    )
    if (folder / "sidekiq" / "lib").exists():
        paths = [f"-I{path}" for path in sorted(folder.glob("*/lib"))]
        glue = Path(__file__).parent / "sidekiq" / "app" / "checkouts.rb"
        return Ruby(("ruby", "-W0", f"-r{glue}", *paths), str(folder / "sidekiq" / "bin" / "sidekiq"), {})
    return Ruby(("ruby", "-W0"), str(folder / "bin" / "sidekiq"), {"GEM_HOME": str(folder), "GEM_PATH": str(folder)})


def _find_packaged_sidekiq() -> Ruby:
    program = Path("/usr/bin/sidekiq")
    check = subprocess.run(["ruby", "-W0", "-e", "require 'sidekiq'; require 'sidekiq-cron'"], capture_output=True)
    if check.returncode or not program.exists():
        pytest.skip("no Sidekiq of the system's packages (apt-get install ruby-sidekiq ruby-sidekiq-cron)")
    return Ruby(("ruby", "-W0"), str(program), {})


def _find_or_create(name: str, what: str, make: Callable[[Path], None]) -> Path:
    root = Path(os.environ.get(VARIABLE) or Path(platformdirs.user_cache_dir("rqtui")) / "beside")
    folder, failed = root / name, root / f"{name}.failed"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _lock_folder(root / f"{name}.lock"):
            if not (folder / "whole").exists():
                _create_once(folder, failed, make)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no environment with {what} can be made: {_read_last_line(error)}")
    return folder


def _create_once(folder: Path, failed: Path, make: Callable[[Path], None]) -> None:
    """Create the environment. Raises OSError with the earlier reason if creating it failed recently."""
    if failed.exists() and time.time() - failed.stat().st_mtime < _TRIED_S:
        raise OSError(failed.read_text("utf-8"))
    try:
        shutil.rmtree(folder, ignore_errors=True)
        make(folder)
        (folder / "whole").touch()
    except (OSError, subprocess.SubprocessError) as error:
        failed.write_text(_read_last_line(error), "utf-8")
        raise


def _compute_digest(pins: tuple[str, ...]) -> str:
    """Return a hash of the pins and the version of Python."""
    return hashlib.sha256("\n".join((*pins, sys.version)).encode()).hexdigest()[:10]


def _create_venv(folder: Path, pins: tuple[str, ...]) -> None:
    _run(sys.executable, "-m", "venv", str(folder))
    _run(str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *pins)


def _install_gems(folder: Path, pins: tuple[str, ...]) -> None:
    _run("gem", "install", "--no-document", "--install-dir", str(folder), *pins)


def _install_packages(folder: Path, pins: tuple[str, ...]) -> None:
    # By itself npm waits five minutes for a registry that does not answer, three times.
    waits = ("--fetch-timeout=20000", "--fetch-retries=0")
    _run("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", *waits, *pins)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_PATIENCE_S)


def _read_last_line(error: Exception) -> str:
    output = getattr(error, "stderr", "") or str(error)
    lines = (output if isinstance(output, str) else output.decode("utf-8", "replace")).strip().splitlines()
    return next((line for line in reversed(lines) if "complete log" not in line), "no reason was given")


@contextmanager
def _lock_folder(path: Path) -> Iterator[None]:
    """Let one process at a time create the environment, because pytest may run several."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
