"""Shared by commands whose reports look at many jobs: bar, size of the sample, which systems tell nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from rqtui.cli import output
from rqtui.cli.session import DONE, REFUSED

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Ref
    from rqtui.reports.sampling import Size

T = TypeVar("T")


def last(steps: Iterable[T | None], what: str) -> T:
    """The whole report, with a bar while it is made; the last step is never None."""
    found: T | None = None
    with output.progress(what) as bar:
        for step in steps:
            bar.step(1)
            found = step if step is not None else found
    assert found is not None
    return found


def silent_systems(engine: Engine, refs: Iterable[Ref], what: str) -> str:
    """The systems among these queues that do not tell it, as the beginning of a sentence; empty where all do."""
    silent = sorted({ref.layout for ref in refs if what not in engine.layouts[ref.layout].tells})
    return f"{' and '.join(silent)} {'keeps' if len(silent) == 1 else 'keep'}" if silent else ""


def size_document(size: Size) -> dict[str, Any]:
    """How much of what there is was looked at, and when."""
    return {"taken_at_ms": size.taken_ms, "looked": size.looked, "of": size.of, "exact": size.is_whole}


def write_size(size: Size, empty: str) -> None:
    """Says what was left out; where nothing was found, the sentence `empty`."""
    for line in _size_lines(size, empty):
        output.say(line)


def _size_lines(size: Size, empty: str) -> Iterator[str]:
    if size.looked < size.of:
        yield f"a sample: {size.looked} of {size.of} jobs were looked at."
    if size.queues < size.of_queues:
        yield f"{size.queues} of {size.of_queues} queues were looked at; name those that you mean."
    yield from size.problems
    if empty and not size.problems:
        yield f"{empty}."


def exit_code(size: Size) -> int:
    """The exit code of such a command: queues that could not be read make it partly done."""
    return REFUSED if size.problems else DONE
