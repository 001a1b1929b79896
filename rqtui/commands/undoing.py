"""`undo` and `operations`: take a change back that `act` or a screen made here, and tell what was changed from here.

Both read the local files of this machine (`operations.state_folder`); `undo` asks Redis whether each job still is as
the change left it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.commands import documents, output
from rqtui.commands.session import DONE, REFUSED, Session, command
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine import Engine
    from rqtui.kept import Kept
    from rqtui.model import Outcome, Ref
    from rqtui.undo import Keeper

_BACK = frozenset({"moved", "same", "resumed", "paused", "already"})


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    command(app, "undo")(undo)
    command(app, "operations")(operations)


def undo(
    session: Session,
    number: Annotated[int, typer.Argument(metavar="[N]", help="Which: 1 is the last change, 2 the one before.")] = 1,
    is_list: Annotated[bool, typer.Option("--list", help="Only say which changes can be undone.")] = False,
) -> int:
    """Take back a change made from this machine, where the jobs still are as it left them.

    Example: rqtui undo --list
    """
    from rqtui import kept, revert, undo
    from rqtui.operations import Journal, state_folder
    from rqtui.server import mask

    folder, url = state_folder() / undo.FOLDER, mask(session.settings.url)
    found = _of(folder, url)
    if is_list:
        return _list(session, folder, list(found))
    if number < 1:
        raise UsageError("N is a whole number from 1 on: 1 is the last change.")
    able = list(islice((one for one in found if not one.undone_at_ms), number))
    if len(able) < number:
        raise UsageError(f"changes of {url} that can be undone: {len(able)}. rqtui undo --list names them.")
    chosen = able[-1]
    session.refuse_if_read_only("undo")
    engine = session.engine()
    outcomes: list[Outcome] = []
    with output.progress(f"undo {chosen.verb}", len(chosen.left)) as bar:
        for chunk in revert.reverted(engine, folder, chosen.name):
            outcomes += chunk
            bar.step(len(chunk))
    answers = Counter(one.text for one in outcomes)
    journal = Journal(state_folder(), session.settings.url, session.settings.profile)
    journal.note("undo", chosen.queue, chosen.layout, [one.id for one in outcomes if one.id], answers)
    if kept.read(folder, chosen.name).undone_at_ms:  # where an answer was lost, the same again goes on
        journal.undone(chosen.name)
    return _write(session, chosen, outcomes)


def _of(folder: Path, url: str) -> Iterator[Kept]:
    """What is kept of changes of this Redis, the newest first; a record that cannot be read is told and left out."""
    from rqtui import kept, layouts

    for name in kept.names(folder):
        try:
            one = kept.read(folder, name)
        except UsageError as error:
            output.say(str(error))
            continue
        if one.url != url or not (one.is_changed or one.untold):
            continue
        if one.layout in layouts.names():
            yield one
        else:
            output.say(f"the undo record {name} is of a system that is not known here: {one.layout}.")


def _write(session: Session, chosen: Kept, outcomes: list[Outcome]) -> int:
    moved = sum(one.moved for one in outcomes)
    if session.as_json:
        told = {"verb": "undo", "of": chosen.verb, "queue": documents.text(chosen.queue), "moved": moved}
        output.write_json({**told, "results": documents.outcomes(outcomes)})
    else:
        words = Counter(one.text for one in outcomes)
        said = " · ".join(f"{count} {text}" for text, count in words.items()) or "nothing was changed"
        output.say(f"undo of {chosen.verb} ({documents.text(chosen.queue)}): {said}")
    return DONE if all(one.word in _BACK for one in outcomes) else REFUSED


def _list(session: Session, folder: Path, found: list[Kept]) -> int:
    from rqtui.operations import clock

    numbers = iter(range(1, len(found) + 1))
    rows: list[dict[str, Any]] = []
    for one in found:
        number = None if one.undone_at_ms else next(numbers)
        queue = f"{one.layout}:{documents.text(one.queue)}"
        rows.append({"n": number, "at_ms": one.at_ms, "verb": one.verb, "queue": queue, "jobs": len(one.left)})
    if session.as_json:
        output.write_json({"undo": rows})
        return DONE
    cells = [
        [
            "undone" if row["n"] is None else str(row["n"]),
            clock(row["at_ms"]),
            row["verb"],
            row["queue"],
            str(row["jobs"]),
        ]
        for row in rows
    ]
    output.write_table(("n", "time", "verb", "queue", "jobs"), cells)
    if not rows:
        output.say("no change was kept here.")
    else:
        output.say(f"records hold the bodies of deleted jobs in clear, readable for you alone: {folder}")
    return DONE


def operations(
    session: Session,
    is_markdown: Annotated[bool, typer.Option("--markdown", help="A page for a post-mortem.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="So many at most, the newest.")] = 50,
) -> int:
    """Tell what was changed from this machine: when, by whom, with which answers.

    Example: rqtui operations --markdown
    """
    from rqtui import operations as journal

    if limit < 1:
        raise UsageError("--limit is a whole number from 1 on.")
    found = journal.past(journal.state_folder())[:limit]
    if session.as_json:
        output.write_json(journal.as_json(found))
    elif is_markdown:
        print(journal.markdown(found), end="")
    else:
        cells = [
            [journal.clock(one.at_ms), one.verb, one.where, str(one.count), one.words(), journal.undo_word(one)]
            for one in found
        ]
        output.write_table(("time", "verb", "queue", "jobs", "answers", "undo"), cells)
    return DONE


def keep(session: Session, engine: Engine) -> Keeper:
    """Installs on the engine of a command what keeps its changes."""
    from rqtui.operations import state_folder
    from rqtui.undo import Keeper

    keeper = Keeper(state_folder(), session.settings.url)
    if keeper.problem:
        output.say(f"nothing can be undone: {keeper.problem}.")
    engine.keeper = keeper
    return keeper


def note(session: Session, keeper: Keeper, ref: Ref, done: Sequence[str] = ()) -> None:
    """Writes down what a command changed, also when it was interrupted; where nothing was counted, what is `done`."""
    from rqtui.operations import Journal, state_folder

    journal = Journal(state_folder(), session.settings.url, session.settings.profile, keeper.close)
    told = keeper.told()
    for (name, where), each in told.items():
        journal.note(name, where.queue, where.layout, each.ids, each.answers, count=each.count)
    for verb in () if told else done:
        journal.note(verb, ref.queue, ref.layout)
    if journal.problem:
        output.say(journal.problem)
