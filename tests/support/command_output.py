"""Call functions of the commands, and describe what they print, return and raise, for a kept text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from service_stage import describe


class Output:
    """Runs functions of the commands, and yields what they print and return."""

    def __init__(self, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.capsys, self.patch, self.lines = capsys, patch, list[str]()

    def run(self, title: str, function: Callable[..., Any], *args: Any, **options: Any) -> Iterator[str]:
        self.capsys.readouterr()
        self.lines.clear()
        try:
            result = describe(function(*args, **options))
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        printed = self.capsys.readouterr()
        yield f"== {title}: {result}"
        yield from (f"  {line}" for line in self.lines)
        yield from (f"  {line}" for line in printed.out.splitlines())
        yield from (f"  stderr: {line}" for line in printed.err.splitlines())
