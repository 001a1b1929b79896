"""Python under libfaketime 0.9.10, whose `clock_nanosleep` cannot sleep until an absolute time: sleep by select."""

import select
import time


def _sleep(seconds: float) -> None:
    """Sleep with `select`, which libfaketime supports, in place of `time.sleep`."""
    select.select([], [], [], seconds)


time.sleep = _sleep
