"""The state folder: where a program keeps local files for itself, and how it keeps them from others.

The journal and the undo records (`operations/`) stand there, and how far walks over all keys are
(`engine/walk_file.py`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

STATE_VARIABLE = "RQTUI_STATE_DIR"


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """RQTUI_STATE_DIR, else the platform's folder for a program's state."""
    if environ.get(STATE_VARIABLE):
        return Path(environ[STATE_VARIABLE])
    from platformdirs import user_state_path

    return user_state_path("rqtui", appauthor=False)


def own_folder(path: Path) -> None:
    """Makes a folder that only its owner may enter, or makes it so. Raises OSError where it belongs to others too."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "It is not a folder of this user alone", str(path))
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
