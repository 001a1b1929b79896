"""`operations`: the changes made from this machine, as its local journal has them. It asks no Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import output
from rqtui.cli.session import DONE, Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.operations.journal import Operation


def operations(
    session: Session,
    is_markdown: Annotated[bool, typer.Option("--markdown", help="A page for a post-mortem.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="So many at most, the newest.")] = 50,
    everywhere: Annotated[bool, typer.Option("--all", help="The changes of all servers, each with its own.")] = False,
) -> int:
    """The changes made from this machine: time, author, answers.

    Example: rqtui operations --markdown
    """
    from rqtui.connection.connect import mask
    from rqtui.operations import journal

    if limit < 1:
        raise UsageError("--limit is a whole number from 1 on.")
    noted, here = journal.past(journal.state_folder()), mask(session.settings.url)
    found = [one for one in noted if everywhere or one.url == here][:limit]
    if session.as_json:
        output.write_json(journal.as_json(found))
    elif is_markdown:
        output.write_lines(journal.markdown(found).splitlines())
    elif found:
        _write(found, everywhere)
    else:
        output.say("no change was made from here.")
    if others := 0 if everywhere else sum(one.url != here for one in noted):
        many = f"{others} changes of other servers are left out; --all tells them"
        output.say("1 change of other servers is left out; --all tells it." if others == 1 else f"{many}.")
    return DONE


def _write(found: Sequence[Operation], everywhere: bool) -> None:
    from rqtui.operations import journal

    titles = ("time", *(["server"] if everywhere else ()), "verb", "queue", "jobs", "answers", "undo")
    cells = [
        [
            journal.clock(one.at_ms),
            *([one.url] if everywhere else ()),
            one.verb,
            one.where,
            str(one.count),
            one.words(),
            journal.undo_word(one),
        ]
        for one in found
    ]
    output.write_table(titles, cells)
