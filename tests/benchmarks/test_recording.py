"""The benchmark of the recording measures what it says: a file that grew, and both parts with their targets."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))

import recording  # noqa: E402

sys.path.remove(str(FOLDER))


def test_the_hour_is_recorded_in_a_file_whose_size_is_measured() -> None:
    size, share = recording.measure_hour(4, 0, polls=40)
    assert size.unit == "MB" and size.target == "≤ 20" and size.value is not None and 0 < size.value < 1
    assert share.unit == "%" and share.value is not None and share.value > 0
