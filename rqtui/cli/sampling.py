"""Show the progress of commands that read many jobs, and print which part of the jobs was read."""

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


def build_with_progress(steps: Iterable[T | None], label: str) -> T:
    """Build a report step by step with a progress bar, and return the finished report, the last item of `steps`."""
    report: T | None = None
    with output.show_progress(label) as bar:
        for step in steps:
            bar.add_steps(1)
            report = step if step is not None else report
    assert report is not None
    return report


def describe_silent_systems(engine: Engine, refs: Iterable[Ref], field: str) -> str:
    """Return the systems of the queues that do not store `field`, as the beginning of a sentence.

    The text is empty if all systems store the field.
    """
    silent = sorted({ref.system for ref in refs if field not in engine.systems[ref.system].known_fields})
    return f"{' and '.join(silent)} {'keeps' if len(silent) == 1 else 'keep'}" if silent else ""


def build_sample_size_document(size: Extent) -> dict[str, Any]:
    """Build the JSON fields that say how many jobs were read of how many, and when."""
    return {"taken_at_ms": size.taken_ms, "looked": size.looked, "of": size.of, "exact": size.is_complete}


def write_sample_size(size: Extent, empty: str) -> None:
    """Print on stderr which jobs and queues were not read, and the sentence `empty` unless it is ""."""
    for line in _yield_sample_size_lines(size, empty):
        output.print_message(line)


def _yield_sample_size_lines(size: Extent, empty: str) -> Iterator[str]:
    """Yield the sentences about jobs and queues that were not read."""
    if size.looked < size.of:
        yield f"{size.looked} of {size.of} jobs were read; the numbers are those of the jobs that were read."
    if size.queues < size.of_queues:
        yield f"{size.queues} of {size.of_queues} queues were read; name those that you mean."
    yield from size.problems
    if empty and not size.problems:
        yield f"{empty}."


def choose_sampling_exit_code(size: Extent) -> int:
    """Return the exit code of a command that reads many jobs: 1 if a queue could not be read, else 0."""
    return REFUSED if size.problems else DONE
