"""Lua files as functions that are called by names: load, call, run, answer.

A script's header is its whole signature (`lua/README.md`); nothing here, and nobody who calls it, lists one a
second time. `load` finds a folder of scripts, `Script.call` makes a `Call` from named keys and arguments, `run` and
`run_all` send calls and give `Answer`s. Nothing is ever sent twice, whatever retries the client is set to.
Layouts, the engine and the client use it; the grammar stands in `header.py`, the types in `values.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, partial
from importlib.resources import files
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rqtui.errors import ScriptError, UsageError
from rqtui.scripts.header import Arg, Header, Key, Move, Word, parse_header
from rqtui.scripts.values import Wire, filled, read, read_table, tail_to_argv, to_argv
from rqtui.text.names import to_bytes

if TYPE_CHECKING:
    from redis import Redis

    from rqtui.connection.cluster import Cluster

__all__ = [
    "Answer",
    "Arg",
    "Call",
    "Command",
    "Key",
    "Move",
    "Reads",
    "Script",
    "Word",
    "command",
    "load",
    "packed",
    "parse",
    "reads",
    "run",
    "run_all",
]

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_COUNTED = re.compile(r"'HINCRBY', meta, '([a-z_]+)'")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a script said: a declared word, the header's words for it, its values by name, its table.

    `rows` are tuples in the order of the header. Of a script that `returns each`, `word` is empty and `each` holds one
    answer per row of the call, in its order. Answers without values are shared: do not change their lists.
    """

    word: str
    text: str = ""
    values: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    each: list[Answer] = field(default_factory=list)
    columns: tuple[str, ...] = field(default=(), compare=False)  # of `rows`


@dataclass(frozen=True, eq=False)
class Script(Header):
    """One Lua file: all that its header says, and how to call it. Equal only to itself."""

    name: str
    path: str
    source: str
    sha: str

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The places it can take jobs from, each once."""
        return tuple(dict.fromkeys(place for move in self.moves for place in move.sources))

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The places it can bring jobs to, each once."""
        return tuple(dict.fromkeys(place for move in self.moves for place in move.targets))

    @cached_property
    def counters(self) -> frozenset[str]:
        """What it counts in its key `meta`, as its Lua says: every word that is added to there."""
        return frozenset(_COUNTED.findall(self.source))

    @cached_property
    def read_only(self) -> bool:
        """Whether it changes nothing; then the server is asked to enforce that."""
        return not (self.moves or self.forgets or self.writes)

    @cached_property
    def done_word(self) -> str:
        """The first word of the header: it happened."""
        return next(iter(self.returns))

    def call(
        self,
        keys: Mapping[str, str | bytes],
        args: Mapping[str, object] = _NOTHING,
        rows: Iterable[Mapping[str, object] | Sequence[object]] = (),
        each_keys: Iterable[Mapping[str, str | bytes] | Sequence[str | bytes]] = (),
    ) -> Call:
        """Make a call; nothing is sent yet.

        `keys` may hold more than the script declares (all keys of a queue), `args` may not. `rows` fill the tail of
        ARGV, `each_keys` that of KEYS: mappings by name, or sequences in the header's order (faster). A script that
        takes `columns` gets those up to the last that some row fills; sequences may end there, all at the same.
        Raises UsageError, which names the script and what is missing, unknown or of a wrong type.
        """
        opening = keys.opening if isinstance(keys, KeysOf) and keys.script is self else None
        key_list = opening.keys if opening else self._key_list(keys)
        if each_keys:
            if not self.keys_each:
                raise UsageError(f"{self.name}: it takes no keys beyond {', '.join(self._key_names)}")
            key_list = [*key_list, *tail_to_argv(each_keys, self._each_key_columns, self.name)]
        if len(args) > len(self.args) or not self._arg_names.issuperset(args):
            unknown = next(name for name in args if name not in self._arg_names)
            taken = " ".join(arg.name for arg in self.args) or "none"
            raise UsageError(f"{self.name}: it has no argument {unknown}; it takes: {taken}")
        columns: Sequence[Arg] = self.each
        if self.cuts_rows:
            columns, rows = filled(list(rows), columns, self.name)
            args = {**args, "columns": len(columns)}
        argv = [to_argv(args.get(arg.name), arg, self.name) for arg in self.args]
        scalars = len(argv)
        tail = tail_to_argv(rows, columns, self.name) if self.each else list(rows)
        if tail and not self.each:
            raise UsageError(f"{self.name}: it takes no rows")
        argv += tail  # type: ignore[arg-type]  # without `each` the tail is empty here
        row_count = (len(argv) - scalars) // len(columns) if self.each else 0
        return Call(self, key_list, argv, row_count, None if each_keys else opening)

    def on(self, keys: Mapping[str, str | bytes]) -> KeysOf:
        """`keys` for many calls of this script: looked up, checked and packed once."""
        return KeysOf(self, keys)

    def done_answer(self, row_count: int) -> tuple[bytes, Answer] | None:
        """What the server sends when it happened, with all rows of a call, and what that means; None where there is
        more to say than the first word of the header, and where nothing happens."""
        if row_count == 1 or not self.per_row:
            return self._done_once
        if not self._done_bytes:
            return None
        return b"*%d\r\n%b" % (row_count, self._done_bytes * row_count), Answer("", each=[self._done] * row_count)

    @cached_property
    def _done_once(self) -> tuple[bytes, Answer] | None:
        if not self._done_bytes:
            return None
        word = self.done_word.encode()
        return (b"*1\r\n" + self._done_bytes, self._alone[word]) if self.per_row else (self._done_bytes, self._done)

    @cached_property
    def _done_bytes(self) -> bytes:
        """The first word of the header, as it comes over the wire; empty where that is not all there is to say."""
        word = self.done_word.encode()
        return b"$%d\r\n%b\r\n" % (len(word), word) if word in self._bare and not self.read_only else b""

    @cached_property
    def _done(self) -> Answer:
        return self._bare[self.done_word.encode()]

    def _key_list(self, keys: Mapping[str, str | bytes]) -> list[Wire]:
        try:
            return [to_bytes(keys[name]) for name in self._key_names]
        except KeyError as error:
            raise UsageError(f"{self.name}: the key {error.args[0]} is missing") from None

    @cached_property
    def cuts_rows(self) -> bool:
        """Whether a call says how many columns its rows have, from the left, in `columns` (`lua/README.md`)."""
        return bool(self.each) and any(arg.name == "columns" and arg.optional for arg in self.args)

    def _argv_of_shortest_rows(self) -> list[Wire]:
        needed = sum(not column.optional for column in self.each)
        args = {"columns": needed} if self.cuts_rows and needed < len(self.each) else {}
        return [to_argv(args.get(arg.name), arg, self.name) for arg in self.args]

    @cached_property
    def _key_names(self) -> tuple[str, ...]:
        return tuple(key.name for key in self.keys)

    @cached_property
    def _each_key_columns(self) -> tuple[Arg, ...]:
        return tuple(Arg(key.name, "bytes") for key in self.keys_each)

    @cached_property
    def _arg_names(self) -> frozenset[str]:
        return frozenset(arg.name for arg in self.args)

    @cached_property
    def _bare(self) -> Mapping[bytes, Answer]:
        """Answers that are a word and nothing else, by the bytes of the reply: made once."""
        plain = [word for word in self.returns.values() if not word.values and not word.rows]
        return {word.word.encode(): Answer(word.word, word.text) for word in plain}

    @cached_property
    def _alone(self) -> Mapping[bytes, Answer]:
        """The same for a call of one row."""
        return {word: Answer("", each=[answer]) for word, answer in self._bare.items()}

    def _answer(self, reply: Any) -> Answer:
        """One reply, `word` or `{word, value, …, rows}`, as an Answer."""
        if isinstance(reply, bytes):
            reply = [reply]
        elif not isinstance(reply, list) or not reply or not isinstance(reply[0], bytes):
            raise ScriptError(f"{self.path}:1: it returned {reply!r:.80}, which does not begin with a word")
        if len(reply) == 1 and reply[0] in self._bare:
            return self._bare[reply[0]]
        word = self.returns.get(reply[0].decode("utf-8", "replace"))
        if word is None:
            declared = " ".join(self.returns)
            raise ScriptError(f"{self.path}:1: it returned {reply[0]!r:.80}; the header declares: {declared}")
        where = f"{self.path}:1: {word.word}"
        given, expected = reply[1:], len(word.values) + bool(word.rows)
        if len(given) < expected and not word.rows:  # Lua cuts a table at its first nil; `read` refuses needed ones
            given += [None] * (expected - len(given))
        if len(given) != expected:
            raise ScriptError(f"{where} came with {len(given)} values; the header declares {expected}")
        values = {
            arg.name: value if type(value) is int and arg.type == "int" else read(value, arg, where)
            for arg, value in zip(word.values, given, strict=False)
        }
        rows = read_table(given[-1], word.rows, where) if word.rows else []
        return Answer(word.word, word.text, values, rows, columns=tuple(column.name for column in word.rows))


class Opening:
    """What many calls of a script begin with: its keys, and `argv`, the first of its arguments. `heads` holds that as
    it goes over the wire, by whether the script only reads; who sends fills it."""

    __slots__ = ("argv", "heads", "keys", "script")

    def __init__(self, script: Script, keys: list[Wire], argv: list[Wire]) -> None:
        self.script, self.keys, self.argv = script, keys, argv
        self.heads: dict[bool, bytes] = {}

    def call(self, tail: list[Wire], row_count: int) -> Call:
        """A call whose other arguments are `tail`, as they are sent, for who made all of them; nothing is looked at."""
        return Call(self.script, self.keys, self.argv + tail, row_count, self)


class KeysOf(dict[str, "str | bytes"]):
    """Keys by name for one script, and how calls of it on them open."""

    __slots__ = ("opening", "script")

    def __init__(self, script: Script, keys: Mapping[str, str | bytes]) -> None:
        super().__init__(keys)
        self.script = script
        self.opening = Opening(script, script._key_list(keys), [])

    def shortest_rows(self) -> Opening:
        """How calls open whose rows fill the columns that none may leave empty, and that say nothing else."""
        return Opening(self.script, self.opening.keys, self.script._argv_of_shortest_rows())


@dataclass(slots=True)  # frozen it takes 0.4 µs more to make, of 23 that a put takes
class Call:
    """A script with its keys and arguments, ready to be sent; `row_count` rows stand in the tail."""

    script: Script
    keys: list[Wire]
    argv: list[Wire]
    row_count: int = 0
    opening: Opening | None = None
    packed: bytes = b""  # of commands that are no call of a script: as they go over the wire

    @property
    def replies(self) -> int:
        """How many replies it gets."""
        return 1

    def command(self, read_only: bool) -> list[Wire]:
        """The command by digest; `read_only` chooses EVALSHA_RO, which Redis has from 7 on."""
        name = b"EVALSHA_RO" if read_only else b"EVALSHA"
        return [name, self.script.sha, str(len(self.keys)), *self.keys, *self.argv]

    def command_in_full(self, read_only: bool) -> list[Wire]:
        """The command with the script's text, for a server that does not know the digest."""
        name = b"EVAL_RO" if read_only else b"EVAL"
        return [name, self.script.source, str(len(self.keys)), *self.keys, *self.argv]

    def parse(self, reply: Any) -> Answer:
        """The Answer in a reply of Redis. Raises ScriptError where it breaks the header."""
        script = self.script
        if not script.per_row:
            return script._answer(reply)
        if not isinstance(reply, list) or len(reply) != self.row_count:
            count = len(reply) if isinstance(reply, list) else "no"
            raise ScriptError(f"{script.path}:1: it returned {count} answers for {self.row_count} rows")
        bare = script._bare
        if len(reply) == 1 and type(reply[0]) is bytes and (alone := script._alone.get(reply[0])):
            return alone
        try:
            each = [bare[item] if type(item) is bytes else script._answer(item) for item in reply]
        except KeyError:
            each = [script._answer(item) for item in reply]
        return Answer("", each=each)


@dataclass(slots=True)
class Command(Call):
    """A command that no script may call, sent as it is; the answer has the reply of Redis as `reply`.

    `keys` are not sent: of a Cluster they say which node is asked.
    """

    def command(self, read_only: bool) -> list[Wire]:
        """Its words."""
        return self.argv

    def command_in_full(self, read_only: bool) -> list[Wire]:
        """Its words."""
        return self.argv

    def parse(self, reply: Any) -> Answer:
        """The reply, whatever it is."""
        return Answer("told", values={"reply": reply})


@dataclass(slots=True)
class Reads(Call):
    """Plain commands that only read, `packed` as they go over the wire; the answer has all replies as `replies`.

    Errors of Redis stand among them. It fits no Cluster: all of it goes to one server.
    """

    number: int = 0

    @property
    def replies(self) -> int:
        """How many commands they are."""
        return self.number

    def parse(self, reply: Any) -> Answer:
        """The replies, whatever they are."""
        return Answer("told", values={"replies": reply})


def reads(commands: Sequence[bytes], number: int) -> Reads:
    """`number` commands that `packed` has packed, one or more in each piece."""
    return Reads(_plain("plain reads"), [], [], packed=b"".join(commands), number=number)


def packed(words: Sequence[bytes]) -> bytes:
    """A command as it goes over the wire."""
    return b"*%d\r\n%b" % (len(words), b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words]))


def command(words: str, key: str = "") -> Command:
    """`CLIENT LIST` and the like; `key` is one of the node that is asked. Raises UsageError for one that may write."""
    if words not in COMMANDS:
        raise UsageError(f"{words} is not sent as it is; those that are: {', '.join(COMMANDS)}")
    return Command(_plain(words), [to_bytes(key)] if key else [], list(words.split()))


COMMANDS = ("CLIENT LIST", "CLIENT INFO")  # they read, and Redis lets no script call them


@cache
def _plain(words: str) -> Script:
    """What stands for a command where errors name a script."""
    return parse("-- A command of Redis.\n--\n-- returns  told  (reply bytes)\n", f"{words}.lua")


def parse(text: str, path: str) -> Script:
    """A script from its text; `path` names it in errors, and its last part without `.lua` is its name.

    Raises ScriptError, `path:line: …`, when the header does not parse.
    """
    header = parse_header(text, path)
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    said = {name.name: getattr(header, name.name) for name in fields(header)}
    return Script(**said, name=Path(path).stem, path=path, source=text, sha=sha)


class Folder(Mapping[str, Script]):
    """Scripts by name, each parsed when it is first asked for: a screen of one system needs few of all of them.

    Asking for one that is not there raises ScriptError: the installation is not whole.
    """

    def __init__(self, name: str, scripts: Mapping[str, Script | Callable[[], Script]], path: Path) -> None:
        self.name, self.path = name, path
        self._scripts = dict(scripts)
        self._parsing = Lock()

    def __getitem__(self, script: str) -> Script:
        found = self._scripts.get(script)
        if found is None:
            raise ScriptError(
                f"lua/{self.name}/{script}.lua:0: it is not there; the installation is incomplete, install rqtui again"
            )
        return found if isinstance(found, Script) else self._parsed(script)

    def _parsed(self, script: str) -> Script:
        with self._parsing:  # a script is equal only to itself
            found = self._scripts[script]
            made = self._scripts[script] = found if isinstance(found, Script) else found()
        return made

    def __contains__(self, script: object) -> bool:
        return script in self._scripts

    def __iter__(self) -> Iterator[str]:
        return iter(self._scripts)

    def __len__(self) -> int:
        return len(self._scripts)

    def get(self, script: str, default: Script | None = None) -> Script | None:  # type: ignore[override]
        """The script of that name; `default` where there is none."""
        return self[script] if script in self._scripts else default


@cache
def load(folder: str | Path) -> Folder:
    """The scripts of a folder of `lua/`, or of one that stands elsewhere, by name; read once. Raises ScriptError."""
    tried = (Path(str(files("rqtui"))) / "lua", Path(__file__).resolve().parents[2] / "lua")
    name = f"lua/{folder}" if isinstance(folder, str) else folder.name
    for root in tried if isinstance(folder, str) else (folder.parent,):
        where = root / folder if isinstance(folder, str) else folder
        paths = sorted(where.glob("*.lua"))
        if paths:
            # All texts at once: after an upgrade of what is running others would stand there.
            found = {path.stem: partial(parse, _text(path), f"{name}/{path.name}") for path in paths}
            loaded = Folder(where.name, found, where)
            if isinstance(folder, Path):
                [*loaded.values()]  # a fault in somebody else's script is told at once
            return loaded
    looked = [str(root) for root in tried] if isinstance(folder, str) else [str(folder)]
    raise ScriptError(f"{name}:0: no scripts there; looked in {' and '.join(looked)}")


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")  # read_text would change line ends, and with them the digest
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"{path}:1: it cannot be read: {error}") from error


def run(client: Redis | Cluster, call: Call) -> Answer:
    """Send one call and return its answer. Raises the errors that `run_all` returns."""
    answer: Answer = _transport().run(client, call)
    return answer


def run_all(client: Redis | Cluster, calls: Sequence[Call]) -> list[Answer | Exception]:
    """Send calls in one pipeline (no transaction) and return an answer or an error for each, in order.

    The client speaks RESP2 and does not decode (`connect` sees to both).
    Scripts that the server does not know follow in a second trip, each with its text once; they run after the others.
    Errors: Unreachable (nothing was done), Unknown (a change was sent, its reply was lost), Denied, WrongType,
    Refused (by the script), ServerError, ScriptError. Nothing is sent again after a connection broke.
    """
    results: list[Answer | Exception] = _transport().send(client, calls) if calls else []
    return results


@cache
def _transport() -> Any:
    from rqtui.scripts import transport  # late: it imports redis, for which a first picture does not wait

    return transport
