"""Read files named by a person or an environment variable. No read blocks forever or fills the memory.

A path may lead to a named pipe, which blocks when it is opened, or to a device such as `/dev/zero`, which never ends.
`open_regular_file` refuses both before it reads a byte. `read_small_file` reads a complete small file. With
`is_pipe_allowed` a pipe created by the shell (`<(…)`, `/dev/stdin`) is accepted, because its writer already runs.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

_INHERITED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


def open_regular_file(path: str | os.PathLike[str], *, is_pipe_allowed: bool = False) -> BinaryIO:
    """Open a regular file or `/dev/null` for reading. Raises OSError, also for a named pipe, a socket or a device.

    With `is_pipe_allowed` a pipe that this process inherited, as the shell's `<(…)`, is opened too.
    """
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(number)
        mode = status.st_mode
        is_inherited = is_pipe_allowed and stat.S_ISFIFO(mode) and os.fspath(path).startswith(_INHERITED)
        if not stat.S_ISREG(mode) and not is_inherited and not _is_null_device(status):
            raise OSError(
                errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, _explain_refused_file_type(mode), os.fspath(path)
            )
        os.set_blocking(number, True)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def open_file_or_pipe(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file, a pipe, a terminal or `/dev/null` for reading line by line. Raises OSError for other devices.

    Opening a named pipe waits for its writer, as `<` in a shell does.
    """
    status = os.stat(path)
    if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
        with open(path, "rb") as device:
            if not device.isatty() and not _is_null_device(status):
                raise OSError(errno.EINVAL, _explain_refused_file_type(status.st_mode), os.fspath(path))
    return open(path, "rb")


def read_small_file(path: str | os.PathLike[str], max_bytes: int, *, is_pipe_allowed: bool = False) -> bytes:
    """Read a complete file of at most `max_bytes`.

    Raises OSError if the file is longer, or if `open_regular_file` refuses it.
    """
    with open_regular_file(path, is_pipe_allowed=is_pipe_allowed) as file:
        content = read_limited_bytes(file, max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"It has more than {max_bytes} bytes", os.fspath(path))
    return content


def read_limited_bytes(file: BinaryIO, max_bytes: int) -> bytes:
    """Read an open file until its end, or until `max_bytes` were read. Memory grows only with the bytes that arrive."""
    content = bytearray()
    while chunk := file.read(min(max_bytes - len(content), 1 << 20)):
        content += chunk
    return bytes(content)


def require_regular_file(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless a regular file can be opened at `path`.

    Called before a library opens the file by itself, for example a TLS certificate.
    """
    open_regular_file(path).close()


def _is_null_device(status: os.stat_result) -> bool:
    """Return whether an opened file is `/dev/null`, which people name when they want no file.

    `/dev/null` reads as empty.
    """
    return os.path.samestat(status, os.stat(os.devnull))


def _explain_refused_file_type(mode: int) -> str:
    """Return why a folder, a pipe, a socket or a device is not read; `mode` is its `st_mode`."""
    if stat.S_ISDIR(mode):
        return os.strerror(errno.EISDIR)
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    return f"It is {kind}, not a regular file"
