"""Provide what commands share whose reports read many jobs: a progress bar, the sample size and missing data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from rqtui.cli import output
from rqtui.cli.session import DONE, REFUSED

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Ref
    from rqtui.reports.sampling import Extent

T = TypeVar("T")


def run_to_end(steps: Iterable[T | None], what: str) -> T:
    """Return the finished report, the last item of `steps`, with a progress bar while it is built."""
    report: T | None = None
    with output.show_progress(what) as bar:
        for step in steps:
            bar.step(1)
            report = step if step is not None else report
    assert report is not None
    return report


def describe_silent_systems(engine: Engine, refs: Iterable[Ref], what: str) -> str:
    """Return the systems of these queues that do not know the field `what`, as the beginning of a sentence.

    Empty if all systems know it.
    """
    silent = sorted({ref.system for ref in refs if what not in engine.systems[ref.system].known_fields})
    return f"{' and '.join(silent)} {'keeps' if len(silent) == 1 else 'keep'}" if silent else ""


def build_size_document(size: Extent) -> dict[str, Any]:
    """Return as JSON how many jobs were read of how many, and when."""
    return {"taken_at_ms": size.taken_ms, "looked": size.looked, "of": size.of, "exact": size.is_complete}


def write_size(size: Extent, empty: str) -> None:
    """Report on stderr which jobs and queues were left out, and print the sentence `empty` if it is not empty."""
    for line in _iterate_size_lines(size, empty):
        output.print_message(line)


def _iterate_size_lines(size: Extent, empty: str) -> Iterator[str]:
    if size.looked < size.of:
        yield f"a sample: {size.looked} of {size.of} jobs were looked at."
    if size.queues < size.of_queues:
        yield f"{size.queues} of {size.of_queues} queues were looked at; name those that you mean."
    yield from size.problems
    if empty and not size.problems:
        yield f"{empty}."


def choose_exit_code(size: Extent) -> int:
    """Return the exit code of a sampling command: 1 if a queue could not be read, else 0."""
    return REFUSED if size.problems else DONE
