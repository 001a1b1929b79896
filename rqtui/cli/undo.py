"""`undo`: undoes a change that `act` or a screen made from this machine.

The changes stand in local files (`config/state_folder.py`); Redis is asked whether each job still is as the change left
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import Refused, UsageError

if TYPE_CHECKING:
    from rqtui.model import Outcome
    from rqtui.operations.undo_files import Kept

    Change = tuple[Kept, ...]  # of one operation: a record per queue

SCREENFUL = 20
_BACK = frozenset({"moved", "same", "resumed", "paused", "already"})


def undo(
    session: Session,
    number: Annotated[int, typer.Argument(metavar="[N]", help="Which: 1 is the last change, 2 the one before.")] = 1,
    is_list: Annotated[bool, typer.Option("--list", help="Only say which changes can be undone.")] = False,
) -> int:
    """Undo a change made from this machine, where the jobs still are as it left them.

    Example: rqtui undo --list
    """
    from rqtui.config.state_folder import state_folder
    from rqtui.connection.connect import mask
    from rqtui.operations import revert, undo, undo_files
    from rqtui.operations.journal import Journal

    folder, url = state_folder() / undo.FOLDER, mask(session.settings.url)
    for cut in Journal(state_folder(), session.settings.url, session.settings.profile).settle():
        output.say(f"a change {cut.cut_words()}; what was done of it can be undone.")
    found = _changes(folder, url)
    if is_list:
        return _list(session, folder, list(found))
    if number < 1:
        raise UsageError("N is a whole number from 1 on: 1 is the last change.")
    able = list(islice((change for change in found if not _is_undone(change)), number))
    if len(able) < number:
        raise UsageError(f"changes of {url} that can be undone: {len(able)}. rqtui undo --list names them.")
    chosen = able[-1]
    if chosen[0].missed and not chosen[0].name:
        where, jobs = f"{chosen[0].verb} ({documents.word(chosen[0].queue)})", f"{chosen[0].missed:,}".replace(",", " ")
        raise Refused(f"{where} of {jobs} jobs has no undo; the change before it is: rqtui undo {number + 1}")
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
    """The changes of this Redis, the newest first: what was done to several queues at once has a record for each.

    One of too many jobs has none, and stands there without a name: an undo never means the change before it instead.
    """
    from rqtui.operations import undo_files
    from rqtui.operations.journal import past
    from rqtui.operations.undo import is_too_large
    from rqtui.operations.undo_files import Kept

    names, operations = undo_files.names(folder), past(folder.parent)
    together = {name: each.undo for each in operations for name in each.undo}
    large = [
        (Kept("", each.verb, each.layout, each.queue, each.url, each.who, each.at_ms, missed=each.count),)
        for each in operations
        if each.url == url and is_too_large(each)
    ]
    told: set[str] = set()
    for name in names:
        if name not in told:
            those = set(together.get(name, ())) | {name}
            told |= those
            if change := tuple(_of(folder, url, [each for each in names if each in those])):
                while large and large[0][0].at_ms > change[0].at_ms:
                    yield large.pop(0)
                yield change[::-1]
    yield from large


def _is_undone(change: Change) -> bool:
    return all(one.undone_at_ms for one in change)


def _of(folder: Path, url: str, names: Sequence[str]) -> Iterator[Kept]:
    """The records of this Redis among `names`; a record that cannot be read is told and left out."""
    from rqtui.operations import undo_files
    from rqtui.systems import registry

    for name in names:
        try:
            one = undo_files.read(folder, name)
        except UsageError as error:
            output.say(str(error))
            continue
        if one.url != url or not (one.is_changed or one.untold):
            continue
        if one.layout in registry.names():
            yield one
        else:
            output.say(f"the undo record {name} is of a system that is not known here: {one.layout}.")


def _write(session: Session, chosen: Change, outcomes: list[Outcome]) -> int:
    moved, verb, queues = sum(one.moved for one in outcomes), chosen[0].verb, _queues(chosen, with_layout=False)
    if session.as_json:
        told = {"verb": "undo", "of": verb, "queue": queues[0], "others": queues[1:], "moved": moved}
        output.write_json({**told, "results": documents.outcomes(outcomes)})
    else:
        words = Counter((one.text, bool(one.id)) for one in outcomes)  # what has no id is said of a queue
        parts = [text if count == 1 and not is_job else f"{count} {text}" for (text, is_job), count in words.items()]
        said = " · ".join(parts) or "nothing was changed"
        output.say(f"undo of {verb} ({_where(queues)}): {said}")
        refused = [one for one in outcomes if one.word == "refused"]
        for one in refused[:SCREENFUL]:
            output.say(f"{documents.text(one.id) or repr('')} was not put back: {one.text}.")
        if len(refused) > SCREENFUL:
            output.say(f"… and {len(refused) - SCREENFUL} more; --json has them all.")
    return DONE if all(one.word in _BACK for one in outcomes) else REFUSED


def _queues(change: Change, *, with_layout: bool) -> list[str]:
    return [f"{one.layout}:" * with_layout + documents.word(one.queue) for one in change]


def _where(queues: Sequence[str]) -> str:
    """The queue; of several `mail and 2 more`."""
    return queues[0] if len(queues) == 1 else f"{queues[0]} and {len(queues) - 1} more"


def _list(session: Session, folder: Path, found: list[Change]) -> int:
    from rqtui.operations.journal import clock

    numbers = iter(range(1, len(found) + 1))
    rows: list[dict[str, Any]] = []
    for change in found:
        number = None if _is_undone(change) else next(numbers)
        queue, *others = _queues(change, with_layout=True)
        jobs = sum(len(one.left) if one.name else one.missed for one in change)
        named = {"n": number, "at_ms": change[0].at_ms, "verb": change[0].verb, "queue": queue, "others": others}
        rows.append({**named, "jobs": jobs, "can_be_undone": bool(change[0].name)})
    if session.as_json:
        output.write_json({"undo": rows})
        return DONE
    cells = [
        [
            "undone" if row["n"] is None else str(row["n"]),
            clock(row["at_ms"]),
            row["verb"],
            _where([row["queue"], *row["others"]]),
            str(row["jobs"]) + ("" if row["can_be_undone"] else " (no undo)"),
        ]
        for row in rows
    ]
    output.write_table(("n", "time", "verb", "queue", "jobs"), cells)
    if not rows:
        output.say("no change was kept here.")
    else:
        output.say(f"records hold the bodies of deleted jobs in clear, readable for you alone: {folder}")
    return DONE
