"""Python under libfaketime 0.9.10, whose `clock_nanosleep` cannot sleep until an absolute time: sleep by select."""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep
