"""Implement `operations`: list the changes made from this machine, from its local journal. Redis is not needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import output
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.operations.journal import Operation, Sighting


def operations(
    session: Session,
    is_markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown page for a post-mortem.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="List the newest N changes at most.")] = 50,
    everywhere: Annotated[
        bool, typer.Option("--all", help="List the changes of all servers, with the server of each.")
    ] = False,
) -> int:
    """List the changes made from this machine: time, author and outcomes.

    Example: rqtui operations --markdown
    """
    from rqtui.config.state_folder import find_state_folder
    from rqtui.connection.connect import hide_url_passwords
    from rqtui.operations import journal
    from rqtui.reports import postmortem

    if limit < 1:
        raise UsageError("--limit is a whole number from 1 on.")
    problems: list[str] = []
    recorded_operations, server_url = (
        journal.load_operations(find_state_folder(), problems=problems),
        hide_url_passwords(session.settings.url),
    )
    shown_operations = [operation for operation in recorded_operations if everywhere or operation.url == server_url][
        :limit
    ]
    if session.as_json:
        output.write_json(postmortem.build_document(shown_operations))
    elif is_markdown:
        output.write_lines(
            postmortem.build_markdown(
                shown_operations, _load_sightings(shown_operations, server_url), problems=problems
            ).splitlines()
        )
    elif shown_operations:
        _write_operation_table(shown_operations, everywhere)
    elif not problems:
        output.print_message("no change was made from here.")
    for problem in problems:
        output.print_message(problem)
    if other_count := 0 if everywhere else sum(operation.url != server_url for operation in recorded_operations):
        hint = f"{other_count} changes of other servers are left out; --all lists them"
        output.print_message(
            "1 change of other servers is left out; --all lists it." if other_count == 1 else f"{hint}."
        )
    return REFUSED if problems else DONE


def _load_sightings(operations: Sequence[Operation], url: str) -> list[Sighting]:
    """Load the findings that screens recorded on this server since an hour before the first of the operations."""
    from rqtui.config.state_folder import find_state_folder
    from rqtui.operations import journal
    from rqtui.reports.postmortem import HOUR_MS

    since_ms = min((operation.began_ms or operation.at_ms for operation in operations), default=-math.inf) - HOUR_MS
    return [sighting for sighting in journal.load_sightings(find_state_folder(), url) if sighting.at_ms >= since_ms]


def _write_operation_table(shown_operations: Sequence[Operation], everywhere: bool) -> None:
    """Print operations of the journal as a table."""
    from rqtui.operations import journal

    titles = ("time", *(["server"] if everywhere else ()), "verb", "queue", "jobs", "answers", "undo", "who")
    cells = [
        [
            journal.format_clock(operation.at_ms),
            *([operation.url] if everywhere else ()),
            operation.verb,
            operation.full_queue_label,
            str(operation.count),
            operation.describe_outcomes(),
            journal.describe_undo(operation),
            operation.who,
        ]
        for operation in shown_operations
    ]
    output.write_table(titles, cells)
