"""Find the recording of a Redis in the state folder: one file per server and database, whatever user connects."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from rqtui.connection.connect import hide_url_passwords
from rqtui.connection.urls import find_database

FOLDER = "recordings"
SUFFIX = ".rqt"
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


def find_recording_path(state_folder: Path, url: str) -> Path:
    """Return the path of the recording of the Redis at `url`. The file may not exist."""
    address = normalise_address(url)
    label = _UNSAFE.sub("-", address).strip("-.")[:60]
    return state_folder / FOLDER / f"{label}-{hashlib.sha256(address.encode()).hexdigest()[:8]}{SUFFIX}"


def list_recordings(state_folder: Path) -> list[Path]:
    """Return the recordings in the state folder, the one that was written last first."""
    found = []
    for path in (state_folder / FOLDER).glob(f"*{SUFFIX}"):
        with suppress(OSError):  # another process may have deleted the file
            found.append((path.stat().st_mtime, path))
    return [path for _written, path in sorted(found, reverse=True)]


def normalise_address(url: str) -> str:
    """Return the host, port and database of a Redis URL, without its login and its options: `localhost:6379/0`.

    URLs of sentinels and Clusters keep their scheme and all hosts, a socket its path.
    """
    masked = hide_url_passwords(url)
    try:
        parts = urlsplit(masked)
        hosts, database = parts.netloc.rpartition("@")[2], find_database(masked)
        if parts.scheme == "unix":
            return f"unix:{hosts}{parts.path}/{database}"
        if parts.scheme not in ("redis", "rediss"):
            return f"{parts.scheme}://{hosts}{parts.path}"
        host, port = (parts.hostname or "localhost"), parts.port or 6379
        return f"{f'[{host}]' if ':' in host else host}:{port}/{database}"
    except ValueError:  # The engine reports an invalid URL; until then it has a name, too.
        return masked
