"""Revert: undoes an operation that `undo.Keeper` kept, where the jobs still are as the operation left them.

A round trip per step, an outcome per job. What was deleted comes back by `restore`, what was moved by `revert`, a pause
by `resume`; of other systems what was deleted, by their own `enqueue`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rqtui.errors import ReadOnly, Refused, RqtuiError, Unknown, UsageError
from rqtui.layout.layout import CHUNK, typed
from rqtui.model import Outcome, Ref
from rqtui.operations import undo_files
from rqtui.operations.undo import ANSWER_BYTES, INVERSE, inverse, is_exact, looks
from rqtui.operations.undo_files import Kept, Left, Row
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine


def all_reverted(engine: Engine, folder: Path, names: Sequence[str], url: str) -> Iterator[list[Outcome]]:
    """Takes the records of one operation back, the last first; a record that cannot be is told, and the others go on.

    `url` is the Redis of `engine`, masked.
    """
    for name in reversed(names):
        try:
            if len(names) > 1 and undo_files.read(folder, name).undone_at_ms:
                continue  # by an undo that was ended before the others
            yield from reverted(engine, folder, name, url)
        except UsageError as error:
            yield [Outcome("undo", b"", "no record", str(error))]


def reverted(engine: Engine, folder: Path, name: str, url: str = "") -> Iterator[list[Outcome]]:
    """Undoes an operation, a round trip per step, an outcome per job that the operation changed or may have changed.

    Raises UsageError where there is nothing to undo, or on another Redis than that of the operation; ReadOnly.
    """
    was = undo_files.read(folder, name)
    ref = Ref(was.layout, was.queue)
    if engine.read_only:
        raise ReadOnly("undo changes the queue, and this session is read-only.")
    if url and was.url != url:
        raise UsageError(f"this was done on {was.url}, and this is {url}.")
    if was.layout not in engine.layouts:
        raise UsageError(f"this was done to a queue of {was.layout}: say --layout {was.layout}.")
    if was.spec != engine.layouts[was.layout].spec(was.queue):  # under other keys
        how = f"say --layout {typed(was.spec)}" if was.spec else f"say {was.layout} without options"
        raise UsageError(f"this was done to a queue of {was.layout} under other options: {how}.")
    if was.undone_at_ms:
        raise UsageError("this was undone already.")
    if denial := engine.denial("undo", ref):
        raise Refused(denial)
    is_whole, is_named = True, False
    for outcomes in _steps(engine, ref, was):
        is_whole = is_whole and not any(outcome.is_lost for outcome in outcomes)
        back = [outcome.id for outcome in outcomes if outcome.moved and outcome.id]
        if back:
            undo_files.mark_back(folder, name, back)
        if back and not is_named:
            is_named = True
            with suppress(RqtuiError):  # over maxmemory what was moved comes back, and this does not
                engine.announce(ref)  # the queue may have been purged meanwhile, with its name
        yield outcomes
        if engine.read_only:
            raise ReadOnly("locked: the rest was not undone.")
    if is_whole:
        undo_files.mark_undone(folder, name)


def _steps(engine: Engine, ref: Ref, was: Kept) -> Iterator[list[Outcome]]:
    if was.verb in INVERSE:
        if was.is_changed:
            asks = engine.layouts[ref.layout].act_asks(INVERSE[was.verb], ref.queue, (), {})
            yield [one for ask in asks for one in ask.read(scripts.run_all(engine.client, ask.calls))]
        return
    yield from _untold(engine, ref, was)
    layout = engine.layouts[ref.layout]
    changed = [(was.rows[id], left) for id, left in was.left.items() if id in was.rows]
    script = inverse(layout, was.verb)
    moved_on = [row for row, left in changed if script == "revert" and not left.place]
    if moved_on:
        yield [Outcome("undo", row.id, "changed", "it changed since") for row in moved_on]
    able = [(row, left) for row, left in changed if script != "revert" or left.place]
    waiting = [*_by_size(able)][::-1]
    while waiting:
        chunk = waiting.pop()
        answer = _sent(engine, ref, script, chunk)
        if isinstance(answer, Refused) and len(chunk) > 1:  # whole, for one row of it: the others can go
            half = len(chunk) // 2
            waiting += [chunk[half:], chunk[:half]]
            continue
        outcomes = _outcomes([row.id for row, _left in chunk], answer)
        yield outcomes
        if outcomes[-1].is_lost:
            return
    if was.missed:
        yield [Outcome("undo", b"", "missed", f"{was.missed} more were changed; they did not fit into the undo")]


def _sent(engine: Engine, ref: Ref, script: str, chunk: Sequence[tuple[Row, Left]]) -> Answer | Exception:
    """The answer to a call that brings these jobs back, in which a fault in one row refuses them all."""
    columns = [_columns(script, row, left) for row, left in chunk]
    try:
        call = engine.layouts[ref.layout].call(script, ref.queue, {}, columns)
    except UsageError as error:
        return Refused(str(error))
    [answer] = scripts.run_all(engine.client, [call])
    return answer


_BACK = {"moved": "restored", "exists": "the id is taken", "changed": "it changed since", "gone": "it is gone since"}


def _outcomes(ids: Sequence[bytes], answer: Answer | Exception) -> list[Outcome]:
    if isinstance(answer, Exception) and not isinstance(answer, RqtuiError):
        raise answer
    if isinstance(answer, Exception):
        word = "unknown" if isinstance(answer, Unknown) else "refused" if isinstance(answer, Refused) else "error"
        return [Outcome("undo", id, word, str(answer)) for id in ids]
    return [
        Outcome("undo", id, each.word, _BACK.get(each.word, each.text), int(each.word == "moved"), dict(each.values))
        for id, each in zip(ids, answer.each, strict=True)
    ]


def _columns(script: str, row: Row, left: Left) -> Mapping[str, object]:
    """A row of the script that brings a job back."""
    if script == "enqueue":
        return row.put
    same = {"id": row.id, "place": row.place, "score": row.score, "line": row.line, "errors": row.errors}
    if script == "restore":
        return {**same, "record": row.record, "body": row.body}
    return {**same, "left": left.place, "known": left.line}


def _untold(engine: Engine, ref: Ref, was: Kept) -> Iterator[list[Outcome]]:
    """Jobs whose answer never came: those that are as they were need nothing, of the rest the truth is not known.

    What was deleted where no worker takes jobs from can only have gone by this: it is restored.
    """
    if not was.untold:
        return
    layout = engine.layouts[ref.layout]
    exact = is_exact(layout)
    ids = list(was.untold)
    told = [{"id": id, "member": was.rows[id].body or was.rows[id].line} for id in ids]
    now = {row.id: row for rows in looks(engine, ref, told, False) for row in rows} if exact else {}
    outcomes = []
    for id in ids:
        row = was.rows[id]
        if id in now and now[id].is_as(row):
            outcomes.append(Outcome("undo", id, "same", "nothing changed"))
        elif inverse(layout, was.verb) == "restore" and id not in now and row.place in ("scheduled", "done", "dead"):
            was.left[id] = Left()
        else:
            outcomes.append(Outcome("undo", id, "untold", "the answer was lost, so nobody knows what became of it"))
    yield outcomes


def _by_size(rows: Sequence[tuple[Row, Left]]) -> Iterator[list[tuple[Row, Left]]]:
    """Chunks that one call can take: so many jobs, and not too many bytes."""
    chunk: list[tuple[Row, Left]] = []
    size = 0
    for row, left in rows:
        if chunk and (len(chunk) == CHUNK or size + row.size > ANSWER_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append((row, left))
        size += row.size
    if chunk:
        yield chunk
