"""Read files named by a person or an environment variable. No read blocks forever or fills the memory.

A path may lead to a named pipe, which blocks when it is opened, or to a device such as `/dev/zero`, which never ends.
`open_regular` refuses both before it reads a byte. `read_named` reads a complete small file. A pipe created by the
shell (`<(…)`, `/dev/stdin`) is accepted with `is_pipe_allowed`, because its writer already runs.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

_INHERITED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


def open_regular(path: str | os.PathLike[str], *, is_pipe_allowed: bool = False) -> BinaryIO:
    """Open a regular file or `/dev/null` for reading. Raises OSError, also for a named pipe, a socket or a device.

    With `is_pipe_allowed` a pipe that this process inherited, as the shell's `<(…)`, is opened too.
    """
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(number)
        mode = status.st_mode
        is_inherited = is_pipe_allowed and stat.S_ISFIFO(mode) and os.fspath(path).startswith(_INHERITED)
        if not stat.S_ISREG(mode) and not is_inherited and not _is_null(status):
            raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, _explain_refusal(mode), os.fspath(path))
        os.set_blocking(number, True)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def open_stream(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file, a pipe, a terminal or `/dev/null` for reading line by line. Raises OSError for other devices.

    Opening a named pipe waits for its writer, as `<` in a shell does.
    """
    status = os.stat(path)
    if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
        with open(path, "rb", buffering=0) as device:
            if not device.isatty() and not _is_null(status):
                raise OSError(errno.EINVAL, _explain_refusal(status.st_mode), os.fspath(path))
    return open(path, "rb")


def read_named(path: str | os.PathLike[str], max_bytes: int, *, is_pipe_allowed: bool = False) -> bytes:
    """Read a complete file of at most `most` bytes. Raises OSError if it is longer, or if `open_regular` refuses it."""
    with open_regular(path, is_pipe_allowed=is_pipe_allowed) as file:
        content = read_up_to(file, max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"It has more than {max_bytes} bytes", os.fspath(path))
    return content


def read_up_to(file: BinaryIO, max_bytes: int) -> bytes:
    """Read `file` until its end or up to `most` bytes. Memory grows with the bytes that arrive."""
    content = bytearray()
    while len(content) < max_bytes and (chunk := file.read(min(max_bytes - len(content), 1 << 20))):
        content += chunk
    return bytes(content)


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless a regular file can be opened at `path`. For files that a library reads itself."""
    open_regular(path).close()


def _is_null(status: os.stat_result) -> bool:
    """Return whether this is `/dev/null`, which reads as empty. People name it when they want no file."""
    return os.path.samestat(status, os.stat(os.devnull))


def _explain_refusal(mode: int) -> str:
    """Return why a file of this type is not read."""
    if stat.S_ISDIR(mode):
        return os.strerror(errno.EISDIR)
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    return f"It is {kind}, not a regular file"
