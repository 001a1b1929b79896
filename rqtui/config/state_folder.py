"""Find the folder for rqtui's own local files, and keep other users out of it.

The folder contains the journal and the undo records (`operations/`), and the progress of key walks
(`engine/walk_file.py`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

STATE_VARIABLE = "RQTUI_STATE_DIR"


def find_state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for rqtui's own local files.

    RQTUI_STATE_DIR names it, or else the platform's folder for program state is used.
    """
    if environ.get(STATE_VARIABLE):
        return Path(environ[STATE_VARIABLE])
    from platformdirs import user_state_path

    return user_state_path("rqtui", appauthor=False)


PRIVATE_FILE_MODE = stat.S_IRUSR | stat.S_IWUSR  # 0600: only the owner may read and write the file


def create_private_folder(path: Path) -> None:
    """Create a folder that only its owner may enter, or remove the rights of others from an existing one.

    Raises OSError with the reason: the disk is full, the folder belongs to another user, or other users may write to it
    as to `/tmp` (sticky and writable, like the root of a new tmpfs).
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    reason = ""
    if status.st_uid != os.geteuid():
        reason = f"It belongs to user {status.st_uid}, not to user {os.geteuid()} alone"
    elif mode & stat.S_ISVTX and mode & 0o022:
        reason = f"It is not a folder of this user alone: other users may write to it (mode {mode:o})"
    if reason:
        full = os.statvfs(path).f_bavail == 0
        raise PermissionError(errno.EPERM, f"{reason}, and its disk is full" if full else reason, str(path))
    if mode & 0o077:
        path.chmod(0o700)
