"""Compare long results of tests with stored text files, which are reviewed like code.

`RQTUI_WRITE_SNAPSHOTS=1 pytest PATH` writes the file from what the test computes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def utc_time_zone() -> Iterator[None]:
    """Make UTC the local time zone inside a `with` block, so that times are the same text on every machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def assert_lines_match_file(lines: Iterable[str], file: Path) -> None:
    """Fail unless lines equal those of a stored text file, or write the file. Trailing spaces are ignored."""
    text = "".join(f"{line.rstrip(' ')}\n" for line in lines)
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        file.write_text(text, "utf-8")
    kept = file.read_text("utf-8").splitlines()
    assert text.splitlines() == kept, "\n".join(diff_lines(kept, text.splitlines()))


def diff_lines(usual: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines that only one of two texts has: `-` marks the lines of `usual`, `+` those of `lines`."""
    yield from (f"- {line}" for line in usual if line not in lines)
    yield from (f"+ {line}" for line in lines if line not in usual)
