"""`errors`: dead jobs and those that wait for another try, grouped by their cause.

Nothing here changes anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output, sampling
from rqtui.cli.arguments import QUEUES, engine_for, note_if_unheard
from rqtui.cli.session import Session
from rqtui.text.widths import Width

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rqtui.model import Ref
    from rqtui.reports.errors import Errors, Group


BY = Annotated[
    Width,
    typer.Option(
        "--by",
        help="How wide the groups are: the class of the exception; the class and the frame that raised it; the cause, "
        "which is those and what the messages have in common; or each message.",
    ),
]


def errors(session: Session, queues: QUEUES = None, by: BY = Width.CAUSE) -> int:
    """Dead jobs and those that wait for another try, grouped by their cause.

    Example: rqtui errors mail --by class
    """
    from rqtui.reports import errors as report

    engine, refs = engine_for(session, queues)
    found = sampling.last(report.report(engine, refs, by), "looking")
    if session.as_json:
        groups = [_group(group, found.size.is_whole) for group in found.groups]
        output.write_json({**sampling.size_document(found.size), "by": by.value, "errors": groups})
    else:
        _write_errors(found, engine.refs)
        note_if_unheard(engine, refs)
        if silent := sampling.silent_systems(engine, refs, "error"):
            output.say(f"{silent} no errors.")
        sampling.write_size(found.size, "no job has died, and none waits for another try" if not found.groups else "")
    return sampling.exit_code(found.size)


def _group(group: Group, is_exact: bool) -> dict[str, Any]:
    example = group.example
    return {
        "error": documents.text(group.message) or None,
        "cause": documents.text(group.cause) or None,
        "frame": documents.text(group.frame) or None,
        "messages": group.messages,
        "dead": group.dead,
        "retrying": group.retrying,
        "exact": is_exact,
        "first_at_ms": group.first_ms,
        "last_at_ms": group.last_ms,
        "names": [documents.text(name) for name in group.kinds],
        "queues": [{**documents.queue_fields(ref.queue), "layout": ref.layout} for ref in group.refs],
        "example": {
            **documents.id_fields(example.id),
            **documents.queue_fields(example.queue),
            "layout": example.layout,
            "place": example.place,
            "error": documents.text(example.error) or None,
        },
    }


def _write_errors(found: Errors, known: Iterable[Ref]) -> None:
    """`known`: all queues that are there."""
    from rqtui.text import formats
    from rqtui.text.body import mask_text
    from rqtui.text.names import named, twins

    now_ms, both = found.size.taken_ms, twins(known)

    def ago(at_ms: int | None) -> str:
        return "" if at_ms is None else formats.age(max(0, now_ms - at_ms))

    rows = [
        [
            str(group.dead),
            str(group.retrying),
            formats.share(group.count, found.count),
            mask_text(group.short_message) or "(no error is kept)",
            group.frame,
            ", ".join(group.kinds[:3]) + (f" +{len(group.kinds) - 3}" if len(group.kinds) > 3 else ""),
            ", ".join(named(ref, both) for ref in group.refs[:3])
            + (f" +{len(group.refs) - 3}" if len(group.refs) > 3 else ""),
            ago(group.first_ms),
            ago(group.last_ms),
        ]
        for group in found.groups
    ]
    titles = ("dead", "retry", "share", "error", "raised at", "job", "queue", "first", "last")
    if rows:
        output.write_table(titles, rows, right=("dead", "retry", "share", "first", "last"))
