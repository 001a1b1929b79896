"""Implement `undo`: revert a change that `act` or a screen made from this machine.

The changes are stored in local files (`config/state_folder.py`). Redis is asked whether each job is still as the change
left it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import Refused, UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Outcome
    from rqtui.operations.journal import Journal
    from rqtui.operations.undo_files import UndoRecord

    Change = tuple[UndoRecord, ...]  # the records of one operation, one per queue

SCREENFUL = 20
_SUCCESS_WORDS = frozenset({"moved", "same", "resumed", "paused", "already"})


def undo(
    session: Session,
    number: Annotated[int, typer.Argument(metavar="[N]", help="Which: 1 is the last change, 2 the one before.")] = 1,
    is_list: Annotated[bool, typer.Option("--list", help="Only say which changes can be undone.")] = False,
) -> int:
    """Undo a change made from this machine, where the jobs still are as it left them.

    Example: rqtui undo --list
    """
    from rqtui.config.state_folder import find_state_folder
    from rqtui.connection.connect import mask
    from rqtui.operations import undo
    from rqtui.operations.journal import Journal

    folder, url = find_state_folder() / undo.FOLDER, mask(session.settings.url)
    journal = Journal(find_state_folder(), session.settings.url, session.settings.profile)
    for operation in journal.recover_interrupted():
        output.print_message(f"a change {operation.describe_interruption()}; what was done of it can be undone.")
    changes = _read_changes(folder, url)
    if is_list:
        return _list_changes(session, folder, list(changes))
    chosen = _choose_change(changes, number, url)
    session.refuse_if_read_only("undo")
    outcomes = _revert_change(session.create_engine(), folder, chosen, url)
    _record_undo(journal, folder, chosen, outcomes)
    return _write_outcomes(session, chosen, outcomes)


def _choose_change(changes: Iterable[Change], number: int, url: str) -> Change:
    """Return the change with this number among those not undone; 1 is the last one. Raises UsageError or Refused."""
    if number < 1:
        raise UsageError("N is a whole number from 1 on: 1 is the last change.")
    able = list(islice((change for change in changes if not _is_undone(change)), number))
    if len(able) < number:
        raise UsageError(f"changes of {url} that can be undone: {len(able)}. rqtui undo --list names them.")
    first = able[-1][0]
    if first.unsaved_count and not first.name:
        queue, count = documents.format_word(first.queue), f"{first.unsaved_count:,}".replace(",", " ")
        raise Refused(
            f"{first.verb} ({queue}) of {count} jobs has no undo; the change before it is: rqtui undo {number + 1}"
        )
    return able[-1]


def _revert_change(engine: Engine, folder: Path, change: Change, url: str) -> list[Outcome]:
    """Revert the change in all its queues, with a progress bar, and return the outcomes."""
    from rqtui.operations import revert

    names = [record.name for record in change]
    steps = (
        revert.revert_record(engine, folder, names[0])
        if len(names) == 1
        else revert.revert_operation(engine, folder, names, url)
    )
    outcomes: list[Outcome] = []
    with output.show_progress(f"undo {change[0].verb}", sum(len(record.states_after) for record in change)) as bar:
        for chunk in steps:
            outcomes += chunk
            bar.step(len(chunk))
    return outcomes


def _record_undo(journal: Journal, folder: Path, change: Change, outcomes: Sequence[Outcome]) -> None:
    """Record the undo in the journal, and mark the records that were undone whole.

    If a reply was lost, a record stays unmarked, and the same command continues.
    """
    from rqtui.operations import undo_files

    first, *others = change
    journal.record_change(
        "undo",
        first.queue,
        first.system,
        [outcome.id for outcome in outcomes if outcome.id],
        Counter(outcome.text for outcome in outcomes),
        others=[record.queue for record in others],
        other_systems=[record.system for record in others],
    )
    names = [record.name for record in change]
    if undone := [name for name in names if undo_files.read_record(folder, name).undone_at_ms]:
        journal.mark_undone(*undone)


def _read_changes(folder: Path, url: str) -> Iterator[Change]:
    """Yield the changes made to this Redis, newest first. A change of several queues has a record for each queue.

    A change with too many jobs has no record and is yielded with an empty name, so that undo never reverts the change
    before it instead.
    """
    from rqtui.operations import undo_files
    from rqtui.operations.journal import load_operations
    from rqtui.operations.undo import is_too_large_to_undo
    from rqtui.operations.undo_files import UndoRecord

    problems: list[str] = []
    names, operations = undo_files.list_records(folder), load_operations(folder.parent, problems=problems)
    for problem in problems:
        output.print_message(f"{problem} So a change of several queues is listed as one change for each queue.")
    together = {name: each.undo for each in operations for name in each.undo}
    large = [
        (UndoRecord("", each.verb, each.system, each.queue, each.url, each.who, each.at_ms, unsaved_count=each.count),)
        for each in operations
        if each.url == url and is_too_large_to_undo(each)
    ]
    seen: set[str] = set()
    for name in names:
        if name not in seen:
            group = set(together.get(name, ())) | {name}
            seen |= group
            if change := tuple(_read_records(folder, url, [each for each in names if each in group])):
                while large and large[0][0].at_ms > change[0].at_ms:
                    yield large.pop(0)
                yield change[::-1]
    yield from large


def _is_undone(change: Change) -> bool:
    """Return whether all records of the change were undone."""
    return all(one.undone_at_ms for one in change)


def _read_records(folder: Path, url: str, names: Sequence[str]) -> Iterator[UndoRecord]:
    """Yield the records among `names` that belong to this Redis. Report and skip a record that cannot be read."""
    from rqtui.operations import undo_files
    from rqtui.systems import registry

    for name in names:
        try:
            one = undo_files.read_record(folder, name)
        except UsageError as error:
            output.print_message(str(error))
            continue
        if one.url != url or not (one.is_changed or one.unanswered):
            continue
        if one.system in registry.list_names():
            yield one
        else:
            output.print_message(f"the undo record {name} is of a system that is not known here: {one.system}.")


def _write_outcomes(session: Session, chosen: Change, outcomes: list[Outcome]) -> int:
    """Print the outcomes of the undo as JSON or as sentences; return the exit code."""
    moved, verb, queues = sum(one.moved for one in outcomes), chosen[0].verb, _name_queues(chosen, with_system=False)
    is_of_several = len({one.system for one in chosen}) > 1
    if session.as_json:
        document = {"verb": "undo", "of": verb, "queue": queues[0], "others": queues[1:], "moved": moved}
        output.write_json({**document, "results": documents.build_outcomes(outcomes)})
    else:
        words = Counter((one.text, bool(one.id)) for one in outcomes)  # an outcome without an id is about a queue
        parts = [text if count == 1 and not is_job else f"{count} {text}" for (text, is_job), count in words.items()]
        summary = " · ".join(parts) or "nothing was changed"
        output.print_message(
            f"undo of {verb} ({_format_queues(_name_queues(chosen, with_system=is_of_several))}): {summary}"
        )
        refused = [one for one in outcomes if one.word == "refused"]
        for one in refused[:SCREENFUL]:
            output.print_message(f"{documents.encode_text(one.id) or repr('')} was not put back: {one.text}.")
        if len(refused) > SCREENFUL:
            output.print_message(f"… and {len(refused) - SCREENFUL} more; --json has them all.")
    return DONE if all(one.word in _SUCCESS_WORDS for one in outcomes) else REFUSED


def _name_queues(change: Change, *, with_system: bool) -> list[str]:
    """Return the names of the change's queues, with their systems if `with_system`."""
    return [f"{one.system}:" * with_system + documents.format_word(one.queue) for one in change]


def _format_queues(queues: Sequence[str]) -> str:
    """Return the queue's name; for several queues `mail and 2 more`."""
    return queues[0] if len(queues) == 1 else f"{queues[0]} and {len(queues) - 1} more"


def _list_changes(session: Session, folder: Path, changes: list[Change]) -> int:
    """Print the changes that can be undone, numbered from the newest; return the exit code."""
    from rqtui.operations.journal import format_clock

    numbers = iter(range(1, len(changes) + 1))
    rows: list[dict[str, Any]] = []
    for change in changes:
        number = None if _is_undone(change) else next(numbers)
        queue, *others = _name_queues(change, with_system=True)
        jobs = sum(len(one.states_after) if one.name else one.unsaved_count for one in change)
        row = {"n": number, "at_ms": change[0].at_ms, "verb": change[0].verb, "queue": queue, "others": others}
        rows.append({**row, "jobs": jobs, "can_be_undone": bool(change[0].name)})
    if session.as_json:
        output.write_json({"undo": rows})
        return DONE
    cells = [
        [
            "undone" if row["n"] is None else str(row["n"]),
            format_clock(row["at_ms"]),
            row["verb"],
            _format_queues([row["queue"], *row["others"]]),
            str(row["jobs"]) + ("" if row["can_be_undone"] else " (no undo)"),
        ]
        for row in rows
    ]
    output.write_table(("n", "time", "verb", "queue", "jobs"), cells)
    if not rows:
        output.print_message("no change was kept here.")
    else:
        output.print_message(f"records hold the bodies of deleted jobs in clear, readable for you alone: {folder}")
    return DONE
