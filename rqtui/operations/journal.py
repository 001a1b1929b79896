"""The journal: every change made from here, with its author, its reason and its answers, and what was found meanwhile.

A `Journal` takes a note of every change that a screen or a command made (`note`), and of findings as they come and go
(`found`), keeps the newest in memory and adds each to a file of JSON lines (0600, bounded) in the state folder, so that
`rqtui operations` tells of past ones too. `reports/postmortem.py` makes the pages of it. It knows nothing of Redis.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rqtui.config.state_folder import own_folder
from rqtui.connection.connect import mask
from rqtui.durations import LATEST_MS
from rqtui.text.names import to_bytes, to_text

FILE = "operations.jsonl"
REMEMBERED = 500  # operations in memory, and on a screen
IDS = 1000  # of one operation that are written down; how many there were is told all the same
SILENT_MS = 600_000  # of a change on another machine, until it counts as cut short
FILE_BYTES = 4 << 20  # then the file becomes `.1`, and what was `.1` goes
_FINDING = b'{"finding":'  # how the line of one begins


Counts = Mapping[str, Mapping[str, int]]
"""By queue and place, how many jobs stood there."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How a change came about.

    Since when it goes on, why, which jobs were `chosen` (`/err:timeout`, `all of dead`), how fast (`5/s`), who or what
    `stopped` it after how many, and the counts `before` it, as last seen.
    """

    began_ms: int = 0
    why: str = ""
    chosen: str = ""
    rate: str = ""
    stopped: str = ""
    before: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One change as it was asked for, and what became of it.

    `queue` is the first of them, `others` the rest where it was done to several. `ids` are the first of `count` jobs
    that it was about; `answers` how many of which words. `undo` are the names of the records in the undo folder, one
    per queue, empty where there is none; `undone_at_ms` when it was undone, 0: not. `at_ms` is when it was over; what
    follows are its `Circumstances`, and the counts `after` it, where somebody counted.
    """

    at_ms: int
    who: str
    verb: str
    queue: str
    layout: str
    ids: tuple[bytes, ...] = ()
    count: int = 0
    answers: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    undo: tuple[str, ...] = ()
    undone_at_ms: int = 0
    url: str = ""
    profile: str = ""
    others: tuple[str, ...] = ()
    began_ms: int = 0
    why: str = ""
    chosen: str = ""
    rate: str = ""
    stopped: str = ""
    before: Counts = field(default_factory=dict)
    after: Counts = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The queue; of several `mail and 2 more`."""
        return f"{self.queue} and {len(self.others)} more" if self.others else self.queue

    @property
    def where_in_full(self) -> str:
        """The same with the system before it: `rq:mail`, `rq:mail and 2 more`; empty without a queue."""
        return f"{self.layout}:{self.where}" if self.queue else ""

    def cut_words(self) -> str:
        """`was cut short: requeue (mail), 4000 of 5000`, of one that its program did not live to tell."""
        how = self.error.removeprefix("cut short: ") if self.error.startswith("cut short: ") else self.error
        return f"was cut short: {self.verb} ({self.where}), {how}"

    def words(self) -> str:
        """`37 × ready again · 3 × it is not dead`, or why nothing was done."""
        told = [f"{number} × {text}" if number > 1 else text for text, number in self.answers.items()]
        return " · ".join(filter(None, [*told, self.error]))


@dataclass(frozen=True, slots=True)
class Sighting:
    """A finding of a queue as it came (`is_over` False) or went, with the words it had then."""

    at_ms: int
    queue: str
    layout: str
    kind: str
    severity: str
    text: str
    is_over: bool = False


class Journal:
    """The operations of one session. `folder` None: nothing is written to a file (a demo's Redis is gone tomorrow).

    `closes` gives, for the verb and the queue of a finished change, the name of its undo record. Safe to call from any
    thread. A file that cannot be written is told once, by `problem`; the change itself goes on.
    """

    def __init__(
        self,
        folder: Path | None,
        url: str = "",
        profile: str = "",
        closes: Callable[[str, str, str], str] = lambda _verb, _layout, _queue: "",
    ) -> None:
        self.url, self.profile, self.who = mask(url), profile, who()
        self.problem = ""
        self.why = ""  # of the changes made here, as a person said it
        self._path = folder / FILE if folder else None
        self._closes = closes
        self._lock = threading.Lock()
        self._kept: deque[Operation] = deque(maxlen=REMEMBERED)
        self._sightings: deque[Sighting] = deque(maxlen=REMEMBERED)
        self._ending: list[str] = []  # changes that the next note tells of
        self._coming: dict[tuple[str, str, str], Circumstances] = {}  # by verb, layout and queue

    @property
    def operations(self) -> list[Operation]:
        """The operations of this session, the newest first."""
        with self._lock:
            return list(self._kept)[::-1]

    @property
    def sightings(self) -> list[Sighting]:
        """What was found in this session, the oldest first."""
        with self._lock:
            return list(self._sightings)

    def coming(self, verb: str, queue: str, layout: str, how: Circumstances) -> None:
        """The next note of this verb on this queue is of a change that came about so."""
        with self._lock:
            self._coming[verb, layout, queue] = how

    def stopped(self, verb: str, queue: str, layout: str, words: str) -> None:
        """The change that is coming was stopped; `words` say by what, after how many."""
        with self._lock:
            if how := self._coming.get((verb, layout, queue)):
                self._coming[verb, layout, queue] = replace(how, stopped=words)

    def explain(self, why: str) -> None:
        """Why the changes of this session were made, those that come too; what was said of one stays."""
        with self._lock:
            self.why, told = why, [_key(each) for each in self._kept if not each.why]
            for at, each in enumerate(self._kept):
                self._kept[at] = replace(each, why=each.why or why)
            self._write({"why": why, "of": [list(key) for key in told]})

    def found(self, sighting: Sighting) -> None:
        """Writes down that a finding came or went."""
        with self._lock:
            self._sightings.append(sighting)
            self._write({"finding": asdict(sighting), "url": self.url}, is_change=False)

    def begin(self, verb: str, queue: str, layout: str, total: int) -> str:
        """Writes down that so many jobs are about to be changed; the id of this change, until a note ends it.

        What becomes of a program that is killed on the way is then known: `settle`.
        """
        id = os.urandom(8).hex()  # `secrets` would load OpenSSL, before the first picture
        told = {"who": self.who, "process": _process(os.getpid()), "url": self.url, "profile": self.profile}
        named = {"verb": verb, "queue": queue, "layout": layout, "total": total}
        with self._lock:
            how = self._coming.get((verb, layout, queue), Circumstances())
            about = {
                "why": how.why or self.why,
                "chosen": how.chosen,
                "rate": how.rate,
                "before": _plain_counts(how.before),
            }
            self._write({"begun": id, "at_ms": int(time.time() * 1000), **named, **told, **about})
        return id

    def went_on(self, id: str, done: int, answers: Mapping[str, int], undo: str) -> None:
        """So many jobs of a change have been answered by now, in these words."""
        line = {"went": id, "at_ms": int(time.time() * 1000), "done": done, "answers": dict(answers), "undo": undo}
        with self._lock:
            self._write(line)

    def end(self, id: str) -> None:
        """A change is over: the note that follows tells of it, or nothing was changed and none follows."""
        with self._lock:
            self._ending.append(id)

    def flush(self) -> None:
        """Nothing was changed by those that ended: nobody needs a note of them."""
        with self._lock:
            if self._ending:
                self._write({"ended": self._ending})
            self._ending = []

    def settle(self) -> list[Operation]:
        """The changes of this Redis that their programs did not live to tell; from now on they are operations."""
        if self._path is None:
            return []
        found = [(id, cut) for id, cut in _cut_short(self._path.parent) if cut.url == self.url]
        with self._lock:
            for id, cut in found:
                self._write({**document(cut), "ends": [id]})
        return [cut for _id, cut in found]

    def note(
        self,
        verb: str,
        queue: str,
        layout: str,
        ids: Sequence[bytes] = (),
        answers: Mapping[str, int] | None = None,
        error: str = "",
        undo: Sequence[str] = (),
        count: int = 0,
        others: Sequence[str] = (),
    ) -> Operation:
        """Writes down one finished change; `answers` are how many of which words, `count` the jobs if `ids` are cut."""
        closed = tuple(undo) or (self._closes(verb, layout, queue),)
        with self._lock:
            hows = [self._coming.pop((verb, layout, name), Circumstances()) for name in (queue, *others)]
        made = Operation(
            int(time.time() * 1000),
            self.who,
            verb,
            queue,
            layout,
            tuple(ids[:IDS]),
            max(count, len(ids)),
            dict(answers or {}),
            error,
            tuple(filter(None, closed)),
            0,
            self.url,
            self.profile,
            tuple(others),
            **_fields(hows, self.why),
        )
        with self._lock:
            self._kept.append(made)
            self._write({**document(made), **({"ends": self._ending} if self._ending else {})})
            self._ending = []
        return made

    def counted(self, operation: Operation, after: Counts) -> None:
        """So many jobs stood there after that change."""
        with self._lock:
            for at, each in enumerate(self._kept):
                if _key(each) == _key(operation):
                    self._kept[at] = replace(each, after=after)
            self._write({"counted": list(_key(operation)), "after": _plain_counts(after)})

    def undone(self, *names: str) -> None:
        """The operation with these undo records was undone now."""
        now_ms = int(time.time() * 1000)
        with self._lock:
            for at, each in enumerate(self._kept):
                if each.undo and set(each.undo) <= set(names):
                    self._kept[at] = replace(each, undone_at_ms=now_ms)
            for name in names:
                self._write({"undone": name, "at_ms": now_ms})

    def without_undo(self, names: Sequence[str]) -> None:
        """The operation with these records cannot be undone: they are gone, or cannot be read."""
        with self._lock:
            for at, each in enumerate(self._kept):
                if each.undo and set(each.undo) <= set(names):
                    self._kept[at] = replace(each, undo=())

    def earlier(self) -> list[Operation]:
        """The operations of other sessions on the same Redis, the newest first."""
        if self._path is None:
            return []
        mine = {_key(each) for each in self.operations}
        found = past(self._path.parent)
        return [each for each in found if each.url == self.url and _key(each) not in mine]

    def _write(self, line: Mapping[str, Any], *, is_change: bool = True) -> None:
        if self._path is None:
            return
        try:
            own_folder(self._path.parent)
            if self._path.exists() and self._path.stat().st_size > FILE_BYTES:
                self._path.replace(self._path.with_name(FILE + ".1"))
            add(self._path, json.dumps(line).encode() + b"\n")
        except OSError as error:
            if is_change:
                self.problem = f"The journal {self._path} cannot be written: {error.strerror or error}."


def add(path: Path, line: bytes, *, is_new: bool = False, is_synced: bool = False) -> None:
    """Adds to a file that only its owner may read; with `is_new` it must not be there yet. OSError where not all fits.

    At once, so that the lines of two programs do not mix; a disk that is nearly full takes a part without an error.
    What somebody else put in its place (a link, a pipe, a file of theirs) is refused.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_EXCL if is_new else 0)
    with os.fdopen(os.open(path, flags, 0o600), "ab", buffering=0) as file:
        _keep_to_ourselves(file.fileno(), path)
        rest = memoryview(line)
        while rest:
            rest = rest[file.write(rest) :]
        if is_synced:
            os.fsync(file.fileno())


def _keep_to_ourselves(number: int, path: Path) -> None:
    """A file that was there with wider rights loses them. Raises OSError where it is not ours alone."""
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
        raise PermissionError(errno.EPERM, "It is not a file of this user alone", str(path))
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.fchmod(number, 0o600)


def who() -> str:
    """user@host, as the operating system has them."""
    import getpass  # with the first change

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        user = str(os.getuid()) if hasattr(os, "getuid") else "?"
    return f"{user}@{socket.gethostname()}"


def _process(number: int) -> str:
    """A process that runs, by its number and when it began, as far as that can be known; empty where none does."""
    try:
        os.kill(number, 0)
    except PermissionError:
        pass  # it runs, as somebody else's
    except (OSError, OverflowError):
        return ""
    with suppress(OSError, IndexError):
        return f"{number}:{Path(f'/proc/{number}/stat').read_text('utf-8').rpartition(')')[2].split()[19]}"
    return str(number)


@dataclass
class _Begun:
    """A change of which the journal tells the beginning, and how far it came."""

    told: Mapping[str, Any]
    last_ms: int
    done: int = 0
    answers: Mapping[str, int] = field(default_factory=dict)
    undo: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether the program may still be at it; of one on another machine nobody can know, but by its silence."""
        who_, process = str(self.told["who"]), str(self.told["process"])
        if who_.rpartition("@")[2] != socket.gethostname():
            return time.time() * 1000 - self.last_ms < SILENT_MS
        return bool(process) and _process(int(process.partition(":")[0])) == process

    def operation(self) -> Operation:
        """As far as it came."""
        total = _number(self.told["total"])
        error = f"cut short: {self.done} of {total}" if self.done < total else "its program ended before it told of it"
        about: dict[str, Any] = {name: str(self.told[name]) for name in ("who", "verb", "queue", "layout", "url")}
        about |= {name: str(self.told.get(name, "")) for name in ("why", "chosen", "rate")}
        about |= {"before": _counts(self.told.get("before", {})), "began_ms": _number(self.told["at_ms"])}
        about |= {"profile": str(self.told["profile"]), "undo": (self.undo,) if self.undo else ()}
        return Operation(
            max(self.last_ms, _number(self.told["at_ms"])), count=self.done, answers=self.answers, error=error, **about
        )


def _cut_short(folder: Path) -> list[tuple[str, Operation]]:
    """Changes that were begun and never told, by programs that are gone, with their ids."""
    return [(each[0], each[1]) for each in _entries(folder) if each[0]]


def past(folder: Path, most: int = REMEMBERED) -> list[Operation]:
    """The newest operations that any session wrote down, the newest first; lines that cannot be read are left out."""
    return [operation for _id, operation in _entries(folder)[-most:]][::-1]


def sightings(folder: Path, url: str) -> list[Sighting]:
    """What sessions on the Redis at `url` (masked) found and wrote down, the oldest first."""
    found = []
    for line in _lines(folder):
        with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            told = json.loads(line)
            if told.get("url") == url and "finding" in told:
                one = told["finding"]
                words = {name: str(one[name]) for name in ("queue", "layout", "kind", "severity", "text")}
                found.append(Sighting(_number(one["at_ms"]), **words, is_over=bool(one["is_over"])))
    return found[-REMEMBERED:]


def _lines(folder: Path) -> Iterator[bytes]:
    for name in (FILE + ".1", FILE):
        with suppress(OSError), (folder / name).open("rb") as file:
            yield from file


def _entries(folder: Path) -> list[tuple[str, Operation]]:
    """All operations in their order; with an id those that nobody has told, as far as they came."""
    found: list[tuple[str, Operation | None]] = []  # None: one that was begun
    begun: dict[str, _Begun] = {}
    ended: set[str] = set()
    undone: dict[str, int] = {}
    after: dict[tuple[int, str, str], Counts] = {}
    why: dict[tuple[int, str, str], str] = {}
    for line in _lines(folder):
        if line.startswith(_FINDING):
            continue  # most of a journal: a thousand queues without workers are as many lines
        with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            told = json.loads(line)
            if "undone" in told:
                undone[str(told["undone"])] = _number(told["at_ms"])
            elif "counted" in told:
                at_ms, verb, queue = told["counted"]
                after[_number(at_ms), str(verb), str(queue)] = _counts(told["after"])
            elif "of" in told:
                why |= {(_number(at_ms), str(verb), str(queue)): str(told["why"]) for at_ms, verb, queue in told["of"]}
            elif "begun" in told:
                begun[str(told["begun"])] = _Begun(told, _number(told["at_ms"]))
                found.append((str(told["begun"]), None))
            elif "went" in told:
                one = begun[str(told["went"])]
                one.last_ms, one.done, one.undo = _number(told["at_ms"]), _number(told["done"]), str(told["undo"])
                one.answers = _numbers(told["answers"])
            elif "ended" in told:
                ended |= set(map(str, told["ended"]))
            else:
                ends = set(map(str, told.pop("ends", ())))
                if not ends or not ends <= ended:  # two programs may have found the same one cut short
                    found.append(("", _read(told)))
                ended |= ends
    made: list[tuple[str, Operation]] = []
    for id, told_of in found:
        with suppress(ValueError, TypeError, KeyError, OverflowError):
            is_cut = told_of is None and id not in ended and not begun[id].is_alive
            operation = begun[id].operation() if is_cut else told_of
            if operation is not None:
                undone_ms = _undone_ms(operation, undone) if operation.undo else operation.undone_at_ms
                key = _key(operation)
                counted, said = after.get(key, operation.after), why.get(key, operation.why)
                made.append((id, replace(operation, undone_at_ms=undone_ms, after=counted, why=said)))
    return made


def _key(operation: Operation) -> tuple[int, str, str]:
    """What tells an operation from every other."""
    return operation.at_ms, operation.verb, operation.queue


def _undone_ms(operation: Operation, undone: Mapping[str, int]) -> int:
    """When the last of its records was undone; 0: not all were."""
    return max(undone[name] for name in operation.undo) if undone.keys() >= set(operation.undo) else 0


def document(operation: Operation) -> dict[str, Any]:
    """An operation as JSON: bytes that are no UTF-8 become surrogates, from which the same bytes come back."""
    made = asdict(operation)
    made["ids"] = [to_text(id) for id in operation.ids]
    return made


def _read(told: dict[str, Any]) -> Operation:
    """An operation from its document."""
    ids = tuple(to_bytes(str(id)) for id in told.pop("ids"))
    undo, others = told.pop("undo", ()), told.pop("others", ())
    kept: dict[str, Any] = {name: read(told[name]) for name, read in _READERS.items() if name in told}
    names = (undo,) if isinstance(undo, str) else undo
    return Operation(**kept, ids=ids, undo=tuple(filter(None, map(str, names))), others=tuple(map(str, others)))


def _number(value: Any) -> int:
    """A count, or an instant. Raises ValueError for what is neither: nobody can show it as a date."""
    number = int(value)
    if not 0 <= number <= LATEST_MS:
        raise ValueError(f"{value} is no instant")
    return number


def _numbers(value: Mapping[Any, Any]) -> dict[str, int]:
    return {str(name): _number(number) for name, number in value.items()}


def _counts(value: Mapping[Any, Mapping[Any, Any]]) -> dict[str, dict[str, int]]:
    return {str(queue): _numbers(places) for queue, places in value.items()}


def _plain_counts(counts: Counts) -> dict[str, dict[str, int]]:
    """As JSON takes it."""
    return {queue: dict(places) for queue, places in counts.items()}


def _fields(hows: Sequence[Circumstances], why: str) -> dict[str, Any]:
    """The circumstances of one operation, on one queue or on several: the counts are of all of them."""
    told = {name: getattr(hows[0], name) for name in ("began_ms", "chosen", "rate", "stopped")}
    return {
        **told,
        "why": hows[0].why or why,
        "before": {queue: places for how in hows for queue, places in how.before.items()},
    }


_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("who", "verb", "queue", "layout", "error", "url", "profile"), str),
    **dict.fromkeys(("why", "chosen", "rate", "stopped"), str),
    **dict.fromkeys(("at_ms", "count", "undone_at_ms", "began_ms"), _number),
    "answers": _numbers,
    **dict.fromkeys(("before", "after"), _counts),
}


def clock(at_ms: int) -> str:
    """`2026-11-21 03:12:09 +01:00`: local time with its zone."""
    at = datetime.fromtimestamp(at_ms / 1000).astimezone()
    zone = at.strftime("%z")
    return f"{at:%Y-%m-%d %H:%M:%S} {zone[:3]}:{zone[3:5]}"


def undo_word(operation: Operation) -> str:
    """Whether the operation can be undone, in a word or two."""
    if operation.undone_at_ms:
        return "undone " + clock(operation.undone_at_ms)[11:16]
    return "can be undone" if operation.undo else "no undo"
