"""Undo: keeps how jobs were before a verb changes them, and puts them back where nothing changed since.

`Keeper` is installed on an engine (`engine.keeper`): before a chunk is sent it reads the jobs and writes them to a file
(`undo_files.py`), then it writes how they were left; `revert.py` takes an operation back. What has an inverse: what
moves jobs or deletes them in native queues, pause and resume, and in other systems deleting what no worker had yet.
`words` says before a verb acts whether all this holds for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rqtui import scripts, undo_files
from rqtui.errors import RqtuiError
from rqtui.layout import CHUNK, Layout, heard
from rqtui.model import Job, Outcome, Ref, State
from rqtui.operations import IDS, who
from rqtui.scripts import Answer, Call
from rqtui.server import mask
from rqtui.undo_files import Left, Row

if TYPE_CHECKING:
    from rqtui.engine import Engine

T = TypeVar("T")
FOLDER = "undo"
LIMIT = 10_000  # jobs of one operation
ANSWER_BYTES = 8 << 20  # of one call; more jobs are asked for in another
MOVED = ("kill", "requeue", "promote", "reschedule", "reprioritise")  # `revert` is their inverse
TAKEN = ("delete", "purge")  # `restore` is theirs
COMMAND = "rqtui undo"  # the way back from a shell; on the screen it is `z`
INVERSE = {"pause": "resume", "resume": "pause"}
WHY = {
    "ack": "finished is finished",
    "reject": "a worker may have it again by then",
    "release": "a worker may have it again by then",
    "extend": "the lease is longer, and that is all",
    "enqueue": "D deletes it",
    "reserve": "L gives it back",
    "pull": "it leaves the queue for good",
    "cancel": "its worker is told at once",
}
LOST = ("unknown", "not sent", "error")


def words(layout: Layout, verb: str, count: int = 0, place: str = "", problem: str = "", by: str = "z") -> str:
    """`z undoes it`, or `no undo: …` with the reason; for a question, before anything is done.

    `count` is how many jobs it would take (0: not known), `problem` that of the keeper, `place` where the jobs stand;
    `by` is what undoes it: the key, or COMMAND.
    """
    lacks = problem or _lacks(layout, verb, place)
    if not lacks and count > LIMIT:
        lacks = f"it is kept for at most {LIMIT:,} jobs".replace(",", " ")
    if lacks:
        return f"no undo: {lacks}"
    if not is_exact(layout) and verb not in INVERSE:
        return f"{by} puts them back, behind those that wait"
    return f"{by} undoes it" if by != COMMAND else f"{by} takes it back"


def is_exact(layout: Layout) -> bool:
    return {"records", "revert", "restore"} <= layout.scripts.keys()


def _lacks(layout: Layout, verb: str, place: str) -> str:
    """Why a verb has no inverse in this system; empty where it has."""
    if verb in INVERSE and INVERSE[verb] in layout.scripts:
        return ""
    if verb == "purge" and not place and is_exact(layout):
        return "the whole queue goes, with its settings"
    if is_exact(layout) and verb in (*MOVED, *TAKEN):
        return ""
    if not is_exact(layout) and verb == "delete" and "enqueue" in layout.scripts:
        if not place or layout.place(place).state in (State.READY, State.SCHEDULED):
            return ""
        return f"what {layout.name} has in {place} cannot be put back there"
    return WHY.get(verb, f"{layout.name} has no inverse of {verb}")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Jobs that are about to be changed; `before` and `after` are sent around the change, in its own round trip."""

    keeper: Keeper
    engine: Engine
    file: undo_files.File
    verb: str
    ref: Ref
    rows: Mapping[bytes, Row]
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
            now = self.keeper.look(self.engine, self.ref, ids, is_whole=False)
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

    def __init__(self, folder: Path, url: str = "") -> None:
        self.folder, self.url, self.who = folder / FOLDER, mask(url), who()
        self.problem, self._room = undo_files.problem_of(self.folder), undo_files.PROBE_BYTES
        self._lock = threading.Lock()
        self._open: dict[tuple[str, Ref], undo_files.File | None] = {}
        self._told: dict[tuple[str, Ref], Told] = {}

    def checked(self) -> str:
        """`problem` as it is now: for a question, so that the person knows before anything is done."""
        self.problem = undo_files.problem_of(self.folder, self._room)
        return self.problem

    def expect(self, verb: str, ref: Ref, total: int) -> None:
        """So many jobs will be asked for: of too many, none is kept, as `words` has said."""
        if total > LIMIT:
            with self._lock:
                self._open.setdefault((verb, ref), None)

    def close(self, verb: str, layout: str, queue: str) -> str:
        """The operation is over; the name of its record, empty where nothing was kept, or nothing was changed."""
        with self._lock:
            file = self._open.pop((verb, Ref(layout, queue)), None)
            self._told.pop((verb, Ref(layout, queue)), None)
        return file.name if file and file.can_be_undone else ""

    def changed(self, verb: str, ref: Ref, outcomes: Sequence[Outcome]) -> None:
        """Answers came: counted until the operation is closed."""
        with self._lock:
            told = self._told.setdefault((verb, ref), Told())
            told.count += sum(1 if one.id else one.moved * ("moved" in one.values) for one in outcomes)
            told.ids += [one.id for one in outcomes[: max(0, IDS - len(told.ids))] if one.id]
            for one in outcomes:
                told.answers[one.text or one.word] += one.moved or 1

    def told(self) -> dict[tuple[str, Ref], Told]:
        """The operations that nobody has closed yet, and their answers."""
        with self._lock:
            return dict(self._told)

    def keep(self, engine: Engine, verb: str, ref: Ref, jobs: Sequence[Job]) -> Chunk | None:
        """Reads these jobs and writes them down; None where this verb has no undo here. Raises what went wrong."""
        layout = engine.layouts[ref.layout]
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
        ids = list(dict.fromkeys(job.id for job in jobs))
        if not is_exact(layout):
            rows = _whole_entries(engine, ref, jobs)
        else:
            rows = self.look(engine, ref, ids, is_whole=verb in TAKEN) if ids else {}
        if file is _NEW:
            named = (verb, ref.layout, ref.queue, self.url, self.who)
            file = self._written(lambda: undo_files.File(self.folder, *named), undo_files.PROBE_BYTES)
            with self._lock:
                self._open[(verb, ref)] = file
        size = max(undo_files.PROBE_BYTES, 2 * sum(row.size for row in rows.values()))
        self._written(lambda: file.rows(list(rows.values())), size)
        look = (_records(layout, ref, list(rows), is_whole=False),) if rows and verb in MOVED else ()
        return Chunk(self, engine, file, verb, ref, rows, look, look)

    def _written(self, write: Callable[[], T], size: int) -> T:
        """What cannot be written is a problem from now on, until there is room for about `size` bytes."""
        try:
            return write()
        except RqtuiError as error:
            self._room = size
            self.problem = self.checked() or str(error)
            raise

    def look(self, engine: Engine, ref: Ref, ids: Sequence[bytes], is_whole: bool) -> dict[bytes, Row]:
        """The jobs as they are now, in as many calls as their size takes; those that are not there are left out."""
        return {row.id: row for rows in looks(engine, ref, ids, is_whole) for row in rows}

    def instead(
        self, engine: Engine, verb: str, ref: Ref, form: Mapping[str, object]
    ) -> Iterator[list[Outcome]] | None:
        """A purge of a place that can be undone: by id, so that nothing goes that was not kept. None: as ever."""
        layout, place = engine.layouts[ref.layout], str(form.get("place") or "")
        if verb != "purge" or not place or not is_exact(layout) or self.problem:
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


def _purged(engine: Engine, ref: Ref, place: str, jobs: Sequence[Job], total: int) -> Iterator[list[Outcome]]:
    """Deletes these jobs, and answers as the script of purge does."""
    layout = engine.layouts[ref.layout]
    returns = layout.scripts["purge"].returns
    if not jobs:
        yield [Outcome("purge", b"", "empty", returns["empty"].text)]
        return
    asks = layout.act_asks("delete", ref.queue, jobs, {"force": True, "place": place})
    outcomes = [one for chunk in engine.send("purge", ref, asks) for one in chunk]
    lost = next((one for one in outcomes if one.word in LOST), None)
    if lost:
        yield [Outcome("purge", b"", lost.word, lost.text)]
        return
    moved = sum(one.moved for one in outcomes)
    yield [Outcome("purge", b"", "moved", returns["moved"].text, moved, {"moved": moved, "left": total - len(jobs)})]


def looks(engine: Engine, ref: Ref, ids: Sequence[bytes], is_whole: bool) -> Iterator[list[Row]]:
    """The jobs as they are now, a round trip per step; those that are not there are left out."""
    layout, wanted = engine.layouts[ref.layout], list(ids)
    while wanted:
        asked = wanted[:CHUNK]
        [answer] = heard(scripts.run_all(engine.client, [_records(layout, ref, asked, is_whole)]))
        if isinstance(answer, Exception):
            raise answer
        yield list(_rows(asked, answer).values())
        later = [id for id, each in zip(asked, answer.each, strict=True) if each.word == "later"]
        wanted = later + wanted[CHUNK:]


def _records(layout: Layout, ref: Ref, ids: Sequence[bytes], is_whole: bool) -> Call:
    rows = [{"id": id} for id in ids]
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
