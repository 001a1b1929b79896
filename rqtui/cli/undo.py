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
    number: Annotated[
        int, typer.Argument(metavar="[N]", help="The change: 1 is the last one, 2 the one before it.")
    ] = 1,
    is_list: Annotated[bool, typer.Option("--list", help="Only list the changes that can be undone.")] = False,
) -> int:
    """Undo a change made from this machine, for each job that did not change since.

    Example: rqtui undo --list
    """
    from rqtui.config.state_folder import find_state_folder
    from rqtui.connection.connect import hide_url_passwords
    from rqtui.operations import undo
    from rqtui.operations.journal import Journal

    folder, url = find_state_folder() / undo.FOLDER, hide_url_passwords(session.settings.url)
    journal = Journal(find_state_folder(), session.settings.url, session.settings.profile)
    for operation in journal.recover_interrupted():
        output.print_message(f"a change {operation.describe_interruption()}; what was done of it can be undone.")
    changes = _read_changes(folder, url)
    if is_list:
        return _print_undoable_changes(session, folder, list(changes))
    chosen = _choose_change_by_number(changes, number, url)
    session.refuse_if_read_only("undo")
    outcomes = _revert_change_with_progress(session.create_engine(), folder, chosen, url)
    _record_undo(journal, folder, chosen, outcomes)
    return _write_undo_outcomes(session, chosen, outcomes)


def _choose_change_by_number(changes: Iterable[Change], number: int, url: str) -> Change:
    """Return the change with the given number among those not undone; 1 is the newest. Raises UsageError or Refused."""
    if number < 1:
        raise UsageError("N is a whole number from 1 on: 1 is the last change.")
    able = list(islice((change for change in changes if not _is_undone(change)), number))
    if len(able) < number:
        raise UsageError(f"changes of {url} that can be undone: {len(able)}. rqtui undo --list names them.")
    first = able[-1][0]
    if first.unsaved_count and not first.name:
        queue, count = documents.format_command_line_word(first.queue), f"{first.unsaved_count:,}".replace(",", " ")
        raise Refused(
            f"{first.verb} ({queue}) of {count} jobs has no undo; the change before it is: rqtui undo {number + 1}"
        )
    return able[-1]


def _revert_change_with_progress(engine: Engine, folder: Path, change: Change, url: str) -> list[Outcome]:
    """Revert a change in all its queues, with a progress bar, and return the outcomes."""
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
            bar.add_steps(len(chunk))
    return outcomes


def _record_undo(journal: Journal, folder: Path, change: Change, outcomes: Sequence[Outcome]) -> None:
    """Record an undo in the journal, and mark the undo records that were reverted completely.

    If a reply was lost, a record stays unmarked, and the same command continues.
    """
    from rqtui.operations import undo_files

    first, *other_records = change
    journal.record_change(
        "undo",
        first.queue,
        first.system,
        [outcome.id for outcome in outcomes if outcome.id],
        Counter(outcome.text for outcome in outcomes),
        others=[record.queue for record in other_records],
        other_systems=[record.system for record in other_records],
    )
    names = [record.name for record in change]
    if undone := [name for name in names if undo_files.read_record(folder, name).undone_at_ms]:
        journal.mark_undone(*undone)


def _read_changes(folder: Path, url: str) -> Iterator[Change]:
    """Read the changes made to this Redis from their undo records, newest first.

    A change of several queues has a record for each queue. A change with too many jobs has no record and is yielded
    with an empty name, so that undo never reverts the change before it instead.
    """
    from rqtui.operations import undo_files
    from rqtui.operations.journal import load_operations
    from rqtui.operations.undo import is_too_large_to_undo
    from rqtui.operations.undo_files import UndoRecord

    problems: list[str] = []
    names, operations = undo_files.list_records(folder), load_operations(folder.parent, problems=problems)
    for problem in problems:
        output.print_message(f"{problem} So a change of several queues is listed as one change for each queue.")
    together = {name: operation.undo for operation in operations for name in operation.undo}
    large = [
        (
            UndoRecord(
                "",
                operation.verb,
                operation.system,
                operation.queue,
                operation.url,
                operation.who,
                operation.at_ms,
                unsaved_count=operation.count,
            ),
        )
        for operation in operations
        if operation.url == url and is_too_large_to_undo(operation)
    ]
    seen_names: set[str] = set()
    for name in names:
        if name not in seen_names:
            group = set(together.get(name, ())) | {name}
            seen_names |= group
            if change := tuple(
                _read_undo_records(folder, url, [operation for operation in names if operation in group])
            ):
                while large and large[0][0].at_ms > change[0].at_ms:
                    yield large.pop(0)
                yield change[::-1]
    yield from large


def _is_undone(change: Change) -> bool:
    """Return whether all undo records of a change were reverted already."""
    return all(record.undone_at_ms for record in change)


def _read_undo_records(folder: Path, url: str, names: Sequence[str]) -> Iterator[UndoRecord]:
    """Yield the undo records of the Redis at `url`. Report and skip a record that cannot be read."""
    from rqtui.operations import undo_files
    from rqtui.systems import registry

    for name in names:
        try:
            record = undo_files.read_record(folder, name)
        except UsageError as error:
            output.print_message(str(error))
            continue
        if record.url != url or not (record.is_changed or record.unanswered):
            continue
        if registry.parse_system_name(record.system) in registry.list_system_names():
            yield record
        else:
            output.print_message(f"the undo record {name} is of a system that is not known here: {record.system}.")


def _write_undo_outcomes(session: Session, chosen: Change, outcomes: list[Outcome]) -> int:
    """Print the outcomes of an undo as JSON or as sentences, and return the exit code."""
    moved, verb, queues = (
        sum(outcome.moved for outcome in outcomes),
        chosen[0].verb,
        _list_queue_names(chosen, with_system=False),
    )
    is_of_several = len({outcome.system for outcome in chosen}) > 1
    if session.as_json:
        document = {"verb": "undo", "of": verb, "queue": queues[0], "others": queues[1:], "moved": moved}
        output.write_json({**document, "results": documents.build_outcome_documents(outcomes)})
    else:
        counts_by_text = Counter(
            (outcome.text, bool(outcome.id)) for outcome in outcomes
        )  # an outcome without an id is about a queue
        summary_parts = [
            text if count == 1 and not is_job else f"{count} {text}" for (text, is_job), count in counts_by_text.items()
        ]
        summary = " · ".join(summary_parts) or "nothing was changed"
        output.print_message(
            f"undo of {verb} ({_format_queue_names(_list_queue_names(chosen, with_system=is_of_several))}): {summary}"
        )
        refused = [outcome for outcome in outcomes if outcome.word == "refused"]
        for outcome in refused[:SCREENFUL]:
            output.print_message(f"{documents.encode_text(outcome.id) or repr('')} was not put back: {outcome.text}.")
        if len(refused) > SCREENFUL:
            output.print_message(f"… and {len(refused) - SCREENFUL} more; --json has them all.")
    return DONE if all(outcome.word in _SUCCESS_WORDS for outcome in outcomes) else REFUSED


def _list_queue_names(change: Change, *, with_system: bool) -> list[str]:
    """Return the names of a change's queues, with their systems if `with_system`."""
    return [f"{record.system}:" * with_system + documents.format_command_line_word(record.queue) for record in change]


def _format_queue_names(queues: Sequence[str]) -> str:
    """Return the only queue's name; for several queues `mail and 2 more`."""
    return queues[0] if len(queues) == 1 else f"{queues[0]} and {len(queues) - 1} more"


def _print_undoable_changes(session: Session, folder: Path, changes: list[Change]) -> int:
    """Print the changes that can be undone, numbered from the newest; return the exit code."""
    from rqtui.operations.journal import format_clock

    numbers = iter(range(1, len(changes) + 1))
    rows: list[dict[str, Any]] = []
    for change in changes:
        number = None if _is_undone(change) else next(numbers)
        queue, *other_queues = _list_queue_names(change, with_system=True)
        jobs = sum(len(record.states_after) if record.name else record.unsaved_count for record in change)
        row = {"n": number, "at_ms": change[0].at_ms, "verb": change[0].verb, "queue": queue, "others": other_queues}
        rows.append({**row, "jobs": jobs, "can_be_undone": bool(change[0].name)})
    if session.as_json:
        output.write_json({"undo": rows})
        return DONE
    cells = [
        [
            "undone" if row["n"] is None else str(row["n"]),
            format_clock(row["at_ms"]),
            row["verb"],
            _format_queue_names([row["queue"], *row["others"]]),
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
