"""Read the Redis password from the environment or a file, so that it need not be part of the URL on a command line.

Every user of a machine can read command lines (`ps`). The password of a URL without one is read from the environment
variable RQTUI_PASSWORD, from the file named by RQTUI_PASSWORD_FILE, or from the file named in a profile.
`text/masking.py` keeps passwords out of everything that a person or a log reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from rqtui import files
from rqtui.errors import UsageError

VARIABLE, FILE_VARIABLE = "RQTUI_PASSWORD", "RQTUI_PASSWORD_FILE"
FILE_BYTES = 1 << 20


def has_url_password(url: str) -> bool:
    """Return whether a Redis URL contains a password."""
    authority, tail = _split_redis_url(url)[1:]
    return ":" in authority.rpartition("@")[0] or re.search(r"[?&]password=", tail) is not None


def add_url_password(url: str, password: str) -> str:
    """Return a Redis URL with a password added, unless it already has one."""
    scheme, authority, tail = _split_redis_url(url)
    if not password or has_url_password(url):
        return url
    login, _, hosts = authority.rpartition("@")
    return f"{scheme}{login}:{quote(password, safe='')}@{hosts}{tail}"


def _split_redis_url(url: str) -> tuple[str, str, str]:
    """Split a Redis URL into its scheme with `://`, the part before the first `/`, `?` or `#`, and the rest."""
    scheme, separator, after_scheme = url.partition("://")
    delimiter = re.search(r"[/?#]", after_scheme)
    end = delimiter.start() if delimiter else len(after_scheme)
    return scheme + separator, after_scheme[:end], after_scheme[end:]


def read_password_from_environment(environ: Mapping[str, str]) -> str:
    """Return the Redis password from RQTUI_PASSWORD, or from the file that RQTUI_PASSWORD_FILE names.

    Empty if neither is set.
    """
    if environ.get(FILE_VARIABLE):
        return read_password_from_file(environ[FILE_VARIABLE], FILE_VARIABLE)
    return environ.get(VARIABLE, "")


def read_password_from_file(path: str, source: str) -> str:
    """Return the first line of a password file.

    Raises UsageError, whose text begins with `source`, if the file is unreadable or its first line is empty.
    """
    try:
        content = files.read_small_file(Path(path).expanduser(), FILE_BYTES, is_pipe_allowed=True)
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"{source}: the file {path} is no text in UTF-8.") from None
    except OSError as error:
        raise UsageError(f"{source}: the file {path} cannot be read: {error.strerror or error}.") from None
    if not lines or not lines[0]:
        raise UsageError(f"{source}: the first line of {path} is empty; it must contain the password.")
    return lines[0]
