"""Long results that a test compares with a text file: the file is reviewed like code.

`RQTUI_WRITE_SNAPSHOTS=1 pytest PATH` writes the file from what the test computes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path


def assert_kept(lines: Iterable[str], file: Path) -> None:
    """Compare lines with those of the file, or write the file. Spaces at the end of a line are left out."""
    text = "".join(f"{line.rstrip(' ')}\n" for line in lines)
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        file.write_text(text, "utf-8")
    assert text.splitlines() == file.read_text("utf-8").splitlines()


def yield_changes(usual: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines that only one of two texts has: `-` marks those of the usual one."""
    yield from (f"- {line}" for line in usual if line not in lines)
    yield from (f"+ {line}" for line in lines if line not in usual)
