"""Call functions of the commands, and describe what they print, return and raise, for a kept text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from service_stage import describe

from rqtui.cli import output


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

    def describe_progress(self) -> None:
        """Describe each progress bar by a line at its end, until the patches of this object are undone."""

        @contextmanager
        def show_progress(label: str, total: int | None = None) -> Iterator[Any]:
            bar = SimpleNamespace(total=total, steps=[])
            bar.add_steps = bar.steps.append
            try:
                yield bar
            finally:
                self.lines.append(f"progress of {label}: {sum(bar.steps)} of {bar.total}")

        self.patch.setattr(output, "show_progress", show_progress)
