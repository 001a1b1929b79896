"""Record the history of a run under faults: each process writes its request before a call and the reply after it.

One JSON object per line, appended by one write each, so that a killed process leaves whole lines. `t` is the monotonic
clock of the machine in seconds, `by` the writer, `op` the operation (see the table in `history_checker`). A call has
two lines of the same `op` and `n`: `is` = `ask`, then `answer`, `nothing` (it says that nothing was done) or `unknown`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rqtui.errors import Refused, RqtuiError, Unreachable, UsageError

T = TypeVar("T")
Line = Mapping[str, Any]


class History:
    """A writer that appends lines to the history in the name of one process."""

    def __init__(self, path: Path, by: str) -> None:
        self.by = by
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._calls = 0

    def note(self, op: str, **fields: Any) -> None:
        """Write one line."""
        line = {"t": time.monotonic(), "by": self.by, "op": op, **fields}
        os.write(self._fd, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def call(self, op: str, ask: Callable[[], T], told: Callable[[T], Mapping[str, Any]], **fields: Any) -> T | None:
        """Run `ask` between its two lines. Returns None if it raised an error of rqtui, which is recorded."""
        self._calls += 1
        number = self._calls
        self.note(op, n=number, **{"is": "ask"}, **fields)
        try:
            result = ask()
        except RqtuiError as error:
            nothing = isinstance(error, Unreachable | Refused | UsageError)
            self.note(op, n=number, **{"is": "nothing" if nothing else "unknown"}, error=str(error)[:200])
            return None
        self.note(op, n=number, **{"is": "answer"}, **told(result))
        return result


def read_lines(path: Path) -> Iterator[Line]:
    """Return the lines of a history, in the order of their times within what one process can see."""
    with path.open("rb") as file:
        found = [json.loads(line) for line in file if line.endswith(b"\n")]
    return iter(sorted(found, key=lambda line: line["t"]))
