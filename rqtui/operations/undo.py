"""Undo: keeps jobs as they were before a verb changes them, and puts them back where nothing changed them since.

`Keeper` is installed on an engine (`engine.keeper`): before a chunk is sent it reads the jobs and writes them to a file
(`operations/undo_files.py`), then it writes how they were left; `operations/revert.py` takes an operation back. What
has an inverse (`inverse`): what moves jobs or deletes them where a system has the scripts for it, pause and resume, and
in other systems deleting what no worker had yet. `words` says before a verb acts whether all this holds for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rqtui.connection.connect import mask
from rqtui.errors import RqtuiError, WrongType
from rqtui.layout.layout import CHUNK, Layout, heard
from rqtui.model import Job, Outcome, Ref, State
from rqtui.operations import undo_files
from rqtui.operations.journal import IDS, Journal, Operation, who
from rqtui.operations.undo_files import Left, Row
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Call
from rqtui.text.names import to_bytes

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

T = TypeVar("T")
FOLDER = "undo"
LIMIT = 10_000  # jobs of one operation
ANSWER_BYTES = 8 << 20  # of one call; more jobs are asked for in another
COMMAND = "rqtui undo"  # the way back from a shell; on the screen it is `z`
INVERSE = {"pause": "resume", "resume": "pause"}
WHY = {
    "ack": "an acked job is finished",
    "reject": "a worker may have it again by then",
    "release": "a worker may have it again by then",
    "extend": "the lease only became longer",
    "enqueue": "D deletes it",
    "reserve": "L releases it",
    "pull": "a pulled job has left the queue",
    "cancel": "its worker is told at once",
}


def words(layout: Layout, verb: str, count: int = 0, place: str = "", problem: str = "", by: str = "z") -> str:
    """`z undoes it`, or `no undo: …` with the reason; for a question, before anything is done.

    `count` is how many jobs it would take (0: not known), `problem` that of the keeper, `place` where the jobs stand;
    `by` is what undoes it: the key, or COMMAND.
    """
    lacks = problem or _lacks(layout, verb, place)
    if not lacks and count > LIMIT:
        lacks = too_many()
    if lacks:
        return f"no undo: {lacks}"
    if not is_exact(layout) and verb not in INVERSE:
        return f"{by} puts them back, behind those that wait"
    return f"{by} undoes it"


def too_many() -> str:
    """Why a change of more jobs than are kept has none."""
    return f"it is kept for at most {LIMIT:,} jobs".replace(",", " ")


def is_too_large(operation: Operation) -> bool:
    """Whether an operation has no undo since it was about too many jobs; who undoes never means the one before it."""
    return not operation.undo and not operation.undone_at_ms and operation.count > LIMIT


def is_exact(layout: Layout) -> bool:
    return {"records", "revert", "restore"} <= layout.scripts.keys()


def inverse(layout: Layout, verb: str) -> str:
    """The script that takes back what a verb did, by what the headers say of both; empty where there is none.

    `restore` puts back what a verb took out of its places. `revert` puts back jobs that a verb, told their ids, left in
    one of the places that `revert` takes from, if it had them from one that `revert` brings to.
    """
    if verb in INVERSE:
        return INVERSE[verb] if INVERSE[verb] in layout.scripts else ""
    script = layout.scripts.get(verb)
    if script is None:
        return ""
    if not is_exact(layout):
        return "enqueue" if verb == "delete" and "enqueue" in layout.scripts else ""
    if script.moves and not script.targets:
        return "restore"
    if any(move.leaves for move in script.moves) or not {"id", "member"} & {column.name for column in script.each}:
        return ""
    stays = () if script.moves else tuple(place.name for place in layout.places if place.name in script.writes)
    sources, targets = {*script.sources, *stays}, {*script.targets, *stays}
    back = layout.scripts["revert"]
    return "revert" if sources & {*back.targets} and targets <= {*back.sources} else ""


def _lacks(layout: Layout, verb: str, place: str) -> str:
    """Why a verb has no inverse in this system; empty where it has."""
    script = inverse(layout, verb)
    if script == "restore" and verb == "purge" and not place:
        return "the whole queue goes, with its settings"
    if script == "enqueue" and place and layout.place(place).state not in (State.READY, State.SCHEDULED):
        return f"what {layout.name} has in {place} cannot be put back there"
    return "" if script else WHY.get(verb, f"{layout.name} has no inverse of {verb}")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Jobs that are about to be changed; `before` and `after` are sent around the change, in its own round trip."""

    keeper: Keeper
    engine: Engine
    file: undo_files.File
    verb: str
    ref: Ref
    rows: Mapping[bytes, Row]
    told_of: Sequence[Mapping[str, object]] = ()  # how `records` finds each of them
    before: tuple[Call, ...] = ()
    after: tuple[Call, ...] = ()

    def told(self, outcomes: Sequence[Outcome], before: Sequence[Any], after: Sequence[Any]) -> None:
        """Writes down how those jobs were left that the verb changed, and of which no answer came."""
        changed = [outcome for outcome in outcomes if outcome.moved]
        untold = [outcome.id for outcome in outcomes if outcome.word == "unknown"]
        if not self.after or untold:
            corrected = [row for outcome in changed if (row := _row_of(outcome, self.rows))]
            self.file.left({outcome.id: Left() for outcome in changed}, corrected, untold)
            return
        ids = list(self.rows)
        was, now = _rows(ids, before[0]), _rows(ids, after[0])
        if any(one.id in was and one.id in now and was[one.id].is_as(now[one.id]) for one in changed):
            # The server did not know the verb's script, so that it ran after this look: look again.
            now = self.keeper.look(self.engine, self.ref, self.told_of, is_whole=False)
        corrected = [was[id] for id in ids if id in was and not was[id].is_as(self.rows[id])]
        self.file.left({one.id: self._left(one, was, now) for one in changed if one.id in self.rows}, corrected, ())

    def _left(self, outcome: Outcome, was: Mapping[bytes, Row], now: Mapping[bytes, Row]) -> Left:
        """The place and the line of a job, if it is where the verb brings jobs."""
        script = self.engine.layouts[self.ref.layout].scripts[self.verb]
        said = outcome.values.get("place")
        goals = {said} if said else set(script.targets) or {was[outcome.id].place if outcome.id in was else ""}
        found = now.get(outcome.id)
        return Left(found.place, found.line) if found and found.place in goals else Left()


@dataclass
class Told:
    """The answers to an operation that is going on."""

    ids: list[bytes] = field(default_factory=list)  # the first of them
    count: int = 0
    answers: Counter[str] = field(default_factory=Counter)


class Keeper:
    """Keeps what an engine changes. One operation is what is done between two calls of `close` for its verb and queue.

    `problem` says in words why nothing can be kept, as the person was told: while it stands there, changes go on
    without. What cannot be written though no problem was told stops the change. Safe to call from any thread.
    """

    def __init__(self, folder: Path, url: str = "", journal: Journal | None = None) -> None:
        self.folder, self.url, self.who = folder / FOLDER, mask(url), who()
        self.problem, self._room = undo_files.problem_of(self.folder), undo_files.PROBE_BYTES
        self._lock = threading.Lock()
        self._open: dict[tuple[str, Ref], undo_files.File | None] = {}
        self._told: dict[tuple[str, Ref], Told] = {}
        self._journal = journal  # is told of a change of several jobs before its first chunk, and after each
        self._expected: dict[tuple[str, Ref], int] = {}
        self._begun: dict[tuple[str, Ref], str] = {}

    def checked(self) -> str:
        """`problem` as it is now: for a question, so that the person knows before anything is done."""
        self.problem = undo_files.problem_of(self.folder, self._room)
        return self.problem

    def expect(self, verb: str, ref: Ref, total: int) -> None:
        """Takes note that a change of `total` jobs begins: of too many none is kept, as `words` has said."""
        with self._lock:
            self._expected[verb, ref] = max(total, self._expected.get((verb, ref), 0))
            if total > LIMIT:
                self._open.setdefault((verb, ref), None)

    def close(self, verb: str, layout: str, queue: str) -> str:
        """The operation is over; the name of its record, empty where nothing was kept, or nothing was changed."""
        with self._lock:
            file = self._open.pop((verb, Ref(layout, queue)), None)
            self._told.pop((verb, Ref(layout, queue)), None)
            self._end((verb, Ref(layout, queue)))
        return file.name if file and file.can_be_undone else ""

    def stopped(self, verb: str, ref: Ref, words: str) -> None:
        """The change under way was stopped; `words` say by what, after how many."""
        if self._journal is not None:
            self._journal.stopped(verb, ref.queue, ref.layout, words)

    def abandon(self, is_over: Callable[[str, Ref], bool]) -> None:
        """Changes that were begun, and of which nothing came: there is nothing to tell of them."""
        with self._lock:
            for key in [key for key in self._begun if is_over(*key)]:
                self._end(key)
        if self._journal is not None:
            self._journal.flush()

    def _end(self, key: tuple[str, Ref]) -> None:
        self._expected.pop(key, None)
        id = self._begun.pop(key, "")
        if id and self._journal is not None:
            self._journal.end(id)

    def _begin(self, engine: Engine, verb: str, ref: Ref, count: int) -> None:
        """Writes down what is about to be done, where it is more than one call can tell of."""
        key, total = (verb, ref), max(count, self._expected.get((verb, ref), 0))
        is_long = total > 1 or (
            not count and any(arg.name == "limit" for arg in engine.layouts[ref.layout].scripts[verb].args)
        )
        if self._journal is None or key in self._begun or not is_long:
            return
        self._begun[key] = self._journal.begin(verb, ref.queue, ref.layout, total)

    def changed(self, verb: str, ref: Ref, outcomes: Sequence[Outcome]) -> None:
        """Answers came: counted until the operation is closed."""
        with self._lock:
            told = self._told.setdefault((verb, ref), Told())
            told.count += sum(1 if one.id else one.moved * ("moved" in one.values) for one in outcomes)
            told.ids += [one.id for one in outcomes[: max(0, IDS - len(told.ids))] if one.id]
            for one in outcomes:
                told.answers[one.text or one.word] += one.moved or 1
            id, file = self._begun.get((verb, ref)), self._open.get((verb, ref))
            if id and self._journal is not None:
                self._journal.went_on(id, told.count, told.answers, file.name if file else "")

    def told(self) -> dict[tuple[str, Ref], Told]:
        """The operations that nobody has closed yet, and their answers."""
        with self._lock:
            return dict(self._told)

    def keep(
        self, engine: Engine, verb: str, ref: Ref, jobs: Sequence[Job], rows_of: Sequence[Mapping[str, object]] = ()
    ) -> Chunk | None:
        """Reads these jobs and writes them down; None where this verb has no undo here. Raises what went wrong.

        `rows_of` is what the verb's script will be told of each.
        """
        layout = engine.layouts[ref.layout]
        with self._lock:
            self._begin(engine, verb, ref, len(jobs))
        if _lacks(layout, verb, jobs[0].place if jobs else "") or bool(jobs) == (verb in INVERSE):
            return None
        if self.problem and self.checked():
            return None
        with self._lock:
            file = self._open.get((verb, ref), _NEW)
        if file is None:
            return None
        if file is not _NEW and (file.jobs + len(jobs) > LIMIT or file.bytes > undo_files.OPERATION_BYTES):
            self._written(lambda: file.missed(len(jobs)), undo_files.PROBE_BYTES)
            return None
        told: dict[bytes, Mapping[str, object]] = {job.id: {"id": job.id, "member": job.member} for job in jobs}
        told |= {job.id: {**row, "id": job.id} for job, row in zip(jobs, rows_of, strict=False)}
        script = inverse(layout, verb)
        if script == "enqueue":
            rows = _whole_entries(engine, ref, jobs)
        else:
            try:
                rows = self.look(engine, ref, list(told.values()), is_whole=script == "restore") if told else {}
            except WrongType as error:  # whoever reads it asked for a change
                raise WrongType(f"{error}. Nothing was changed.") from error
        if file is _NEW:
            named = (verb, ref.layout, ref.queue, self.url, self.who, layout.spec(ref.queue))
            file = self._written(lambda: undo_files.File(self.folder, *named), undo_files.PROBE_BYTES)
            with self._lock:
                self._open[(verb, ref)] = file
        size = max(undo_files.PROBE_BYTES, 2 * sum(row.size for row in rows.values()))
        self._written(lambda: file.rows(list(rows.values())), size)
        here = [told[id] for id in rows]
        look = (_records(layout, ref, here, is_whole=False),) if rows and script == "revert" else ()
        return Chunk(self, engine, file, verb, ref, rows, here, look, look)

    def _written(self, write: Callable[[], T], size: int) -> T:
        """What cannot be written is a problem from now on, until there is room for about `size` bytes."""
        try:
            return write()
        except RqtuiError as error:
            self._room = size
            self.problem = self.checked() or str(error)
            raise

    def look(self, engine: Engine, ref: Ref, told: Sequence[Mapping[str, object]], is_whole: bool) -> dict[bytes, Row]:
        """The jobs as they are now, in as many calls as their size takes; those that are not there are left out."""
        return {row.id: row for rows in looks(engine, ref, told, is_whole) for row in rows}

    def instead(
        self, engine: Engine, verb: str, ref: Ref, form: Mapping[str, object]
    ) -> Iterator[list[Outcome]] | None:
        """A purge of a place that can be undone: by id, so that nothing goes that was not kept. None: as ever."""
        layout, place = engine.layouts[ref.layout], str(form.get("place") or "")
        if verb != "purge" or not place or not is_exact(layout) or self.problem or layout.purges_by_job(place):
            return None
        if layout.place(place).state is State.RESERVED and not form.get("force"):
            queue = engine.ask(layout.queue_ask(ref.queue))
            if queue.expired < queue.count(place):  # leases are live: that is the script's to refuse
                return None
        limit = form.get("limit")
        page = engine.page(ref, place, 0, min(limit if isinstance(limit, int) else CHUNK, CHUNK))
        self.expect(verb, ref, page.total)
        with self._lock:
            if page.error or self._open.get((verb, ref), _NEW) is None:
                return None
        return _purged(engine, ref, place, page.jobs, page.total)


_NEW: Any = object()  # of an operation that has no file yet


_AS_PURGE = {"force": True, "sparing": True}  # of delete, where it asks for them: as the purge of that system goes


def _purged(engine: Engine, ref: Ref, place: str, jobs: Sequence[Job], total: int) -> Iterator[list[Outcome]]:
    """Deletes these jobs, and answers as the script of purge does."""
    layout = engine.layouts[ref.layout]
    returns = layout.scripts["purge"].returns
    if not jobs:
        yield [Outcome("purge", b"", "empty", returns["empty"].text)]
        return
    form = layout.fitting("delete", {**_AS_PURGE, "place": place})
    outcomes = [one for chunk in engine.acts_on_whole("purge", ref, jobs, form, "delete") for one in chunk]
    lost = next((one for one in outcomes if one.is_lost), None)
    if lost:
        yield [Outcome("purge", b"", lost.word, lost.text)]
        return
    moved = sum(one.moved for one in outcomes)
    if not moved and "kept" in returns:
        yield [Outcome("purge", b"", "kept", returns["kept"].text, 0, {"kept": len(jobs)})]
        return
    yield [Outcome("purge", b"", "moved", returns["moved"].text, moved, {"moved": moved, "left": total - len(jobs)})]


def looks(engine: Engine, ref: Ref, told: Sequence[Mapping[str, object]], is_whole: bool) -> Iterator[list[Row]]:
    """The jobs as they are now, a round trip per step; those that are not there are left out.

    `told` is for each what `records` finds it by: its `id`, and where a system has no more of it than its bytes, those.
    """
    layout, wanted = engine.layouts[ref.layout], list(told)
    while wanted:
        asked = wanted[: layout.at_once]
        [answer] = heard(scripts.run_all(engine.client, [_records(layout, ref, asked, is_whole)]))
        if isinstance(answer, Exception):
            raise answer
        yield list(_rows([_id(row) for row in asked], answer).values())
        later = [row for row, each in zip(asked, answer.each, strict=True) if each.word == "later"]
        wanted = later + wanted[len(asked) :]


def _id(row: Mapping[str, object]) -> bytes:
    id = row["id"]
    return id if isinstance(id, bytes) else to_bytes(str(id))


def _records(layout: Layout, ref: Ref, rows: Sequence[Mapping[str, object]], is_whole: bool) -> Call:
    return layout.call("records", ref.queue, {"whole": is_whole, "most": ANSWER_BYTES}, rows)


def _rows(ids: Iterable[bytes], answer: Answer | Exception) -> dict[bytes, Row]:
    if isinstance(answer, Exception):
        return {}
    told = zip(ids, answer.each, strict=True)
    return {id: Row(id, **each.values) for id, each in told if each.word == "here"}


def _row_of(outcome: Outcome, rows: Mapping[bytes, Row]) -> Row | None:
    """What a delete says that it took, where that is not what was kept."""
    values: Mapping[str, Any] = outcome.values
    if "record" not in values:
        return None
    row = Row(outcome.id, **{name: values[name] for name in ("place", "score", "record", "body", "line", "errors")})
    was = rows.get(outcome.id)
    return None if was and was.is_as(row) else row


def _whole_entries(engine: Engine, ref: Ref, jobs: Sequence[Job]) -> dict[bytes, Row]:
    """Jobs of another system as its `enqueue` takes them: whole bodies, and where it has them ids and due times."""
    layout = engine.layouts[ref.layout]
    columns = {column.name for column in layout.scripts["enqueue"].each}
    found = engine.ask_all([layout.job_ask(ref.queue, job.id, -1) for job in jobs])
    rows = {}
    for job, whole in zip(jobs, found, strict=True):
        if whole is None or whole.body is None or whole.place != job.place:
            continue
        put: dict[str, bytes | int] = {"body": whole.body}
        if "id" in columns:
            put["id"] = whole.id
        if job.state is State.SCHEDULED and whole.due_ms is not None:
            put["due_ms"] = whole.due_ms
        rows[job.id] = Row(job.id, job.place, "0", put=put)
    return rows
