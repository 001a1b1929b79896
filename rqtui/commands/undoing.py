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
    from rqtui.model import Outcome, Ref
    from rqtui.undo import Keeper
    from rqtui.undo_files import Kept

    Change = tuple[Kept, ...]  # of one operation: a record per queue

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
    from rqtui import revert, undo, undo_files
    from rqtui.operations import Journal, state_folder
    from rqtui.server import mask

    folder, url = state_folder() / undo.FOLDER, mask(session.settings.url)
    found = _changes(folder, url)
    if is_list:
        return _list(session, folder, list(found))
    if number < 1:
        raise UsageError("N is a whole number from 1 on: 1 is the last change.")
    able = list(islice((change for change in found if not _is_undone(change)), number))
    if len(able) < number:
        raise UsageError(f"changes of {url} that can be undone: {len(able)}. rqtui undo --list names them.")
    chosen = able[-1]
    session.refuse_if_read_only("undo")
    engine = session.engine()
    outcomes: list[Outcome] = []
    first, names = chosen[0], [one.name for one in chosen]
    is_one = len(names) == 1
    steps = revert.reverted(engine, folder, first.name) if is_one else revert.all_reverted(engine, folder, names, url)
    with output.progress(f"undo {first.verb}", sum(len(one.left) for one in chosen)) as bar:
        for chunk in steps:
            outcomes += chunk
            bar.step(len(chunk))
    answers = Counter(one.text for one in outcomes)
    journal = Journal(state_folder(), session.settings.url, session.settings.profile)
    ids, others = [one.id for one in outcomes if one.id], [one.queue for one in chosen[1:]]
    journal.note("undo", first.queue, first.layout, ids, answers, others=others)
    if undone := [name for name in names if undo_files.read(folder, name).undone_at_ms]:
        journal.undone(*undone)  # where an answer was lost, the same again goes on
    return _write(session, chosen, outcomes)


def _changes(folder: Path, url: str) -> Iterator[Change]:
    """The changes of this Redis, the newest first: what was done to several queues at once has a record for each."""
    from rqtui import undo_files
    from rqtui.operations import past

    names = undo_files.names(folder)
    together = {name: each.undo for each in past(folder.parent) for name in each.undo}
    told: set[str] = set()
    for name in names:
        if name not in told:
            those = set(together.get(name, ())) | {name}
            told |= those
            if change := tuple(_of(folder, url, [each for each in names if each in those])):
                yield change[::-1]


def _is_undone(change: Change) -> bool:
    return all(one.undone_at_ms for one in change)


def _of(folder: Path, url: str, names: Sequence[str]) -> Iterator[Kept]:
    """Those of these records that are of this Redis; one that cannot be read is told and left out."""
    from rqtui import layouts, undo_files

    for name in names:
        try:
            one = undo_files.read(folder, name)
        except UsageError as error:
            output.say(str(error))
            continue
        if one.url != url or not (one.is_changed or one.untold):
            continue
        if one.layout in layouts.names():
            yield one
        else:
            output.say(f"the undo record {name} is of a system that is not known here: {one.layout}.")


def _write(session: Session, chosen: Change, outcomes: list[Outcome]) -> int:
    moved, verb, queues = sum(one.moved for one in outcomes), chosen[0].verb, _queues(chosen, with_layout=False)
    if session.as_json:
        told = {"verb": "undo", "of": verb, "queue": queues[0], "others": queues[1:], "moved": moved}
        output.write_json({**told, "results": documents.outcomes(outcomes)})
    else:
        words = Counter(one.text for one in outcomes)
        said = " · ".join(f"{count} {text}" for text, count in words.items()) or "nothing was changed"
        output.say(f"undo of {verb} ({_where(queues)}): {said}")
    return DONE if all(one.word in _BACK for one in outcomes) else REFUSED


def _queues(change: Change, *, with_layout: bool) -> list[str]:
    return [f"{one.layout}:" * with_layout + documents.text(one.queue) for one in change]


def _where(queues: Sequence[str]) -> str:
    """The queue; of several `mail and 2 more`."""
    return queues[0] if len(queues) == 1 else f"{queues[0]} and {len(queues) - 1} more"


def _list(session: Session, folder: Path, found: list[Change]) -> int:
    from rqtui.operations import clock

    numbers = iter(range(1, len(found) + 1))
    rows: list[dict[str, Any]] = []
    for change in found:
        number = None if _is_undone(change) else next(numbers)
        queue, *others = _queues(change, with_layout=True)
        jobs = sum(len(one.left) for one in change)
        named = {"n": number, "at_ms": change[0].at_ms, "verb": change[0].verb, "queue": queue, "others": others}
        rows.append({**named, "jobs": jobs})
    if session.as_json:
        output.write_json({"undo": rows})
        return DONE
    cells = [
        [
            "undone" if row["n"] is None else str(row["n"]),
            clock(row["at_ms"]),
            row["verb"],
            _where([row["queue"], *row["others"]]),
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
