"""`operations`: the changes made from this machine, as its local journal has them. It asks no Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import output
from rqtui.cli.session import DONE, Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.operations.journal import Operation, Sighting


def operations(
    session: Session,
    is_markdown: Annotated[bool, typer.Option("--markdown", help="A page for a post-mortem.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="So many at most, the newest.")] = 50,
    everywhere: Annotated[bool, typer.Option("--all", help="The changes of all servers, each with its own.")] = False,
) -> int:
    """The changes made from this machine: time, author, answers.

    Example: rqtui operations --markdown
    """
    from rqtui.config.state_folder import state_folder
    from rqtui.connection.connect import mask
    from rqtui.operations import journal
    from rqtui.reports import postmortem

    if limit < 1:
        raise UsageError("--limit is a whole number from 1 on.")
    noted, here = journal.past(state_folder()), mask(session.settings.url)
    found = [one for one in noted if everywhere or one.url == here][:limit]
    if session.as_json:
        output.write_json(postmortem.as_json(found))
    elif is_markdown:
        output.write_lines(postmortem.markdown(found, _seen(found, here)).splitlines())
    elif found:
        _write(found, everywhere)
    else:
        output.say("no change was made from here.")
    if others := 0 if everywhere else sum(one.url != here for one in noted):
        many = f"{others} changes of other servers are left out; --all tells them"
        output.say("1 change of other servers is left out; --all tells it." if others == 1 else f"{many}.")
    return DONE


def _seen(operations: Sequence[Operation], url: str) -> list[Sighting]:
    """What screens on this server found since an hour before the first of the changes."""
    from rqtui.config.state_folder import state_folder
    from rqtui.operations import journal
    from rqtui.reports.postmortem import HOUR_MS

    since_ms = min((each.began_ms or each.at_ms for each in operations), default=0) - HOUR_MS
    return [one for one in journal.sightings(state_folder(), url) if one.at_ms >= since_ms]


def _write(found: Sequence[Operation], everywhere: bool) -> None:
    from rqtui.operations import journal

    titles = ("time", *(["server"] if everywhere else ()), "verb", "queue", "jobs", "answers", "undo")
    cells = [
        [
            journal.clock(one.at_ms),
            *([one.url] if everywhere else ()),
            one.verb,
            one.where_in_full,
            str(one.count),
            one.words(),
            journal.undo_word(one),
        ]
        for one in found
    ]
    output.write_table(titles, cells)
