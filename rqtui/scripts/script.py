"""Lua scripts as functions with named keys and arguments: load a script, build a call, send it, parse the reply.

The header of a script is its whole signature (`lua/README.md`); neither this module nor its callers repeat it. `load`
reads a folder of scripts, `Script.build_call` makes a `Call` from named keys and arguments, `run` and `run_all` send
calls and return `Reply`s. Nothing is ever sent twice, whatever retries the client is set to. Systems, the engine and
the client use this module; the grammar is in `header.py`, the types are in `values.py`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, partial
from importlib.resources import files
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rqtui.errors import ScriptError, ServerError, UsageError
from rqtui.scripts.header import Arg, Header, Key, Move, Word, parse_header
from rqtui.scripts.include import assemble_script
from rqtui.scripts.values import Wire, convert_tail, parse_table, parse_value, to_argv, trim_columns
from rqtui.text.names import to_bytes
from rqtui.text.source_lines import Piece

if TYPE_CHECKING:
    from redis import Redis

    from rqtui.connection.cluster import Cluster

__all__ = [
    "Reply",
    "Arg",
    "Call",
    "Command",
    "Key",
    "Move",
    "ReadCommands",
    "Script",
    "Word",
    "build_command",
    "load",
    "pack_command",
    "parse",
    "build_reads",
    "run",
    "run_all",
]

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_COUNTED = re.compile(r"'HINCRBY', meta, '([a-z_]+)'")


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a script: a declared word, the header's text for it, its values by name, and its table.

    `rows` are tuples in the order of the header. For a script that `returns each`, `word` is empty and `each` holds one
    reply per row of the call, in their order. Replies without values are shared objects: do not change their lists.
    """

    word: str
    text: str = ""
    values: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    each: list[Reply] = field(default_factory=list)
    columns: tuple[str, ...] = field(default=(), compare=False)  # of `rows`


@dataclass(frozen=True, eq=False)
class Script(Header):
    """One Lua file: everything its header declares, and how to call it. Equal only to itself.

    `file_text` is the file as it is, `blocks` are those that it can include.
    """

    name: str
    path: str
    file_text: str
    blocks: Mapping[str, Piece]

    @cached_property
    def source(self) -> str:
        """The complete script, as Redis gets it: the file with its blocks. Raises ScriptError for an unknown block.

        Assembled at first use: many scripts of a system are looked up for their headers, and few are sent.
        """
        return assemble_script(self.file_text, self.path, self.blocks, self)

    @cached_property
    def sha(self) -> str:
        """The digest by which Redis knows the script."""
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The places from which the script can take jobs, without duplicates."""
        return tuple(dict.fromkeys(place for move in self.moves for place in move.sources))

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The places to which the script can move jobs, without duplicates."""
        return tuple(dict.fromkeys(place for move in self.moves for place in move.targets))

    @cached_property
    def counters(self) -> frozenset[str]:
        """The counters that the script increments in its key `meta`, read from its Lua text."""
        return frozenset(_COUNTED.findall(self.source))

    @cached_property
    def read_only(self) -> bool:
        """Whether the script changes nothing; the server is then asked to enforce that."""
        return not (self.moves or self.forgets or self.writes)

    @cached_property
    def done_word(self) -> str:
        """The first word of the header, which means success."""
        return next(iter(self.returns))

    def build_call(
        self,
        keys: Mapping[str, str | bytes],
        args: Mapping[str, object] = _NOTHING,
        rows: Iterable[Mapping[str, object] | Sequence[object]] = (),
        each_keys: Iterable[Mapping[str, str | bytes] | Sequence[str | bytes]] = (),
    ) -> Call:
        """Build a call; nothing is sent yet.

        `keys` may contain more than the script declares (all keys of a queue), `args` may not. `rows` fill the tail of
        ARGV, `each_keys` the tail of KEYS: mappings by name, or sequences in the header's order (faster). A script that
        takes `columns` gets the columns up to the last one that some row fills; sequences may end there, all at the
        same column. Raises UsageError, which names the script and what is missing, unknown or of a wrong type.
        """
        opening = keys.opening if isinstance(keys, BoundKeys) and keys.script is self else None
        key_list = opening.keys if opening else self._key_list(keys)
        if each_keys:
            if not self.keys_each:
                raise UsageError(f"{self.name}: it takes no keys beyond {', '.join(self._key_names)}")
            key_list = [*key_list, *convert_tail(each_keys, self._each_key_columns, self.name)]
        if len(args) > len(self.args) or not self._arg_names.issuperset(args):
            unknown = next(name for name in args if name not in self._arg_names)
            taken = " ".join(arg.name for arg in self.args) or "none"
            raise UsageError(f"{self.name}: it has no argument {unknown}; it takes: {taken}")
        columns: Sequence[Arg] = self.each
        if self.cuts_rows:
            columns, rows = trim_columns(list(rows), columns, self.name)
            args = {**args, "columns": len(columns)}
        argv = [to_argv(args.get(arg.name), arg, self.name) for arg in self.args]
        scalars = len(argv)
        tail = convert_tail(rows, columns, self.name) if self.each else list(rows)
        if tail and not self.each:
            raise UsageError(f"{self.name}: it takes no rows")
        argv += tail  # type: ignore[arg-type]  # without `each` the tail is empty here
        row_count = (len(argv) - scalars) // len(columns) if self.each else 0
        return Call(self, key_list, argv, row_count, None if each_keys else opening)

    def bind_keys(self, keys: Mapping[str, str | bytes]) -> BoundKeys:
        """Look up, check and pack `keys` once, for many calls of this script."""
        return BoundKeys(self, keys)

    def build_success_reply(self, row_count: int) -> tuple[bytes, Reply] | None:
        """Return the bytes that the server sends if a call succeeds for all its rows, and the `Reply` they mean.

        None if success has more to say than the first word of the header, and for read-only scripts.
        """
        if row_count == 1 or not self.per_row:
            return self._done_once
        if not self._success_bytes:
            return None
        return b"*%d\r\n%b" % (row_count, self._success_bytes * row_count), Reply(
            "", each=[self._success_reply] * row_count
        )

    @cached_property
    def _done_once(self) -> tuple[bytes, Reply] | None:
        if not self._success_bytes:
            return None
        word = self.done_word.encode()
        return (
            (b"*1\r\n" + self._success_bytes, self._single_row_replies[word])
            if self.per_row
            else (self._success_bytes, self._success_reply)
        )

    @cached_property
    def _success_bytes(self) -> bytes:
        """The success word as sent over the wire; empty if a successful reply has more than that word."""
        word = self.done_word.encode()
        return b"$%d\r\n%b\r\n" % (len(word), word) if word in self._word_replies and not self.read_only else b""

    @cached_property
    def _success_reply(self) -> Reply:
        return self._word_replies[self.done_word.encode()]

    def _key_list(self, keys: Mapping[str, str | bytes]) -> list[Wire]:
        try:
            return [to_bytes(keys[name]) for name in self._key_names]
        except KeyError as error:
            raise UsageError(f"{self.name}: the key {error.args[0]} is missing") from None

    @cached_property
    def cuts_rows(self) -> bool:
        """Whether a call says in `columns` how many columns its rows have, from the left (`lua/README.md`)."""
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
    def _word_replies(self) -> Mapping[bytes, Reply]:
        """The replies that consist of a word only, by the bytes of that word; built once."""
        plain = [word for word in self.returns.values() if not word.values and not word.rows]
        return {word.word.encode(): Reply(word.word, word.text) for word in plain}

    @cached_property
    def _single_row_replies(self) -> Mapping[bytes, Reply]:
        """The replies of `_bare`, wrapped for a call of one row."""
        return {word: Reply("", each=[answer]) for word, answer in self._word_replies.items()}

    def _parse_reply(self, reply: Any) -> Reply:
        """Convert one raw reply, `word` or `{word, value, …, rows}`, to a `Reply`. Raises ScriptError."""
        if isinstance(reply, bytes):
            reply = [reply]
        elif not isinstance(reply, list) or not reply or not isinstance(reply[0], bytes):
            raise ScriptError(f"{self.path}:1: it returned {reply!r:.80}, which does not begin with a word")
        if len(reply) == 1 and reply[0] in self._word_replies:
            return self._word_replies[reply[0]]
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
            arg.name: value if type(value) is int and arg.type == "int" else parse_value(value, arg, where)
            for arg, value in zip(word.values, given, strict=False)
        }
        rows = parse_table(given[-1], word.rows, where) if word.rows else []
        return Reply(word.word, word.text, values, rows, columns=tuple(column.name for column in word.rows))


class Opening:
    """The common beginning of many calls of a script: its keys, and `argv`, its first arguments.

    `heads` caches the packed bytes of the beginning by whether the call is read-only; the transport fills it.
    """

    __slots__ = ("argv", "heads", "keys", "script")

    def __init__(self, script: Script, keys: list[Wire], argv: list[Wire]) -> None:
        self.script, self.keys, self.argv = script, keys, argv
        self.heads: dict[bool, bytes] = {}

    def build_call(self, tail: list[Wire], row_count: int) -> Call:
        """Build a call whose other arguments are `tail`, already in wire form; nothing is checked."""
        return Call(self.script, self.keys, self.argv + tail, row_count, self)


class BoundKeys(dict[str, "str | bytes"]):
    """Keys by name, checked and packed for one script."""

    __slots__ = ("opening", "script")

    def __init__(self, script: Script, keys: Mapping[str, str | bytes]) -> None:
        super().__init__(keys)
        self.script = script
        self.opening = Opening(script, script._key_list(keys), [])

    def open_shortest_rows(self) -> Opening:
        """Return the opening of calls whose rows have only the required columns and which have no other arguments."""
        return Opening(self.script, self.opening.keys, self.script._argv_of_shortest_rows())


@dataclass(slots=True)  # frozen it takes 0.4 µs more to make, of 23 that a put takes
class Call:
    """A script with its keys and arguments, ready to be sent; `row_count` rows are in the tail."""

    script: Script
    keys: list[Wire]
    argv: list[Wire]
    row_count: int = 0
    opening: Opening | None = None
    packed: bytes = b""  # of commands that are no call of a script: as they go over the wire

    @property
    def reply_count(self) -> int:
        """The number of replies that Redis sends for this call."""
        return 1

    def command(self, read_only: bool) -> list[Wire]:
        """Return the command with the script's digest; `read_only` chooses EVALSHA_RO (Redis 7 or later)."""
        name = b"EVALSHA_RO" if read_only else b"EVALSHA"
        return [name, self.script.sha, str(len(self.keys)), *self.keys, *self.argv]

    def command_in_full(self, read_only: bool) -> list[Wire]:
        """Return the command with the script's text, for a server that does not have the digest."""
        name = b"EVAL_RO" if read_only else b"EVAL"
        return [name, self.script.source, str(len(self.keys)), *self.keys, *self.argv]

    def parse(self, reply: Any) -> Reply:
        """Convert a raw reply of Redis to a `Reply`. Raises ScriptError if it does not match the header."""
        script = self.script
        if not script.per_row:
            return script._parse_reply(reply)
        if not isinstance(reply, list) or len(reply) != self.row_count:
            count = len(reply) if isinstance(reply, list) else "no"
            raise ScriptError(f"{script.path}:1: it returned {count} answers for {self.row_count} rows")
        bare = script._word_replies
        if len(reply) == 1 and type(reply[0]) is bytes and (alone := script._single_row_replies.get(reply[0])):
            return alone
        try:
            each = [bare[item] if type(item) is bytes else script._parse_reply(item) for item in reply]
        except KeyError:
            each = [script._parse_reply(item) for item in reply]
        return Reply("", each=each)


@dataclass(slots=True)
class Command(Call):
    """A plain Redis command that no script may call; the raw reply is in the value `reply`.

    `keys` are not sent; in a Cluster they choose the node.
    """

    def command(self, read_only: bool) -> list[Wire]:
        """Return the words of the command."""
        return self.argv

    def command_in_full(self, read_only: bool) -> list[Wire]:
        """Return the words of the command."""
        return self.argv

    def parse(self, reply: Any) -> Reply:
        """Return the reply, which must be text. Raises ServerError for any other type."""
        if not isinstance(reply, bytes):
            raise ServerError(f"{' '.join(map(str, self.argv))} was answered with {reply!r:.80}, which no Redis does.")
        return Reply("told", values={"reply": reply})


@dataclass(slots=True)
class ReadCommands(Call):
    """Plain read commands, `packed` as sent over the wire; all raw replies are in the value `replies`.

    Errors of Redis are among the replies. Not for a Cluster, because all commands go to one server.
    """

    number: int = 0

    @property
    def reply_count(self) -> int:
        """The number of commands, each of which has one reply."""
        return self.number

    def parse(self, reply: Any) -> Reply:
        """Return the raw replies unchanged."""
        return Reply("told", values={"replies": reply})


def build_reads(commands: Sequence[bytes], number: int) -> ReadCommands:
    """Build a call of `number` read commands packed by `pack_command`, one or more in each item."""
    return ReadCommands(_build_placeholder_script("plain reads"), [], [], packed=b"".join(commands), number=number)


def pack_command(words: Sequence[bytes]) -> bytes:
    """Encode a command in the Redis protocol (RESP)."""
    return b"*%d\r\n%b" % (len(words), b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words]))


def build_command(words: str, key: str = "") -> Command:
    """Build a call of a plain command such as `CLIENT LIST`. Raises UsageError for one that is not in COMMANDS.

    In a Cluster, the node of `key` is asked.
    """
    if words not in COMMANDS:
        raise UsageError(f"{words} is not sent as it is; those that are: {', '.join(COMMANDS)}")
    return Command(_build_placeholder_script(words), [to_bytes(key)] if key else [], list(words.split()))


COMMANDS = ("CLIENT LIST", "CLIENT INFO")  # they read, and Redis lets no script call them


@cache
def _build_placeholder_script(words: str) -> Script:
    """Return the script that represents a plain command in error messages."""
    return parse("-- A command of Redis.\n--\n-- returns  told  (reply bytes)\n", f"{words}.lua")


def parse(text: str, path: str, blocks: Mapping[str, Piece] = _NOTHING) -> Script:
    """Parse the text of a script; `path` names it in errors, its last part without `.lua` is the script's name.

    Raises ScriptError, `path:line: …`, if the header cannot be parsed.
    """
    header = parse_header(text, path)
    values = {name.name: getattr(header, name.name) for name in fields(header)}
    return Script(**values, name=Path(path).stem, path=path, file_text=text, blocks=blocks)


class Folder(Mapping[str, Script]):
    """Scripts by name, each parsed when it is first used, because a screen of one system needs few of them.

    `blocks` are those that the scripts can include: of the folder, and of `lua/shared/`.
    A missing script raises ScriptError: the installation is incomplete.
    """

    def __init__(
        self,
        name: str,
        scripts: Mapping[str, Script | Callable[[], Script]],
        path: Path,
        blocks: Mapping[str, Piece] = _NOTHING,
    ) -> None:
        self.name, self.path, self.blocks = name, path, blocks
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
        """Return the script of that name, or `default` if there is none."""
        return self[script] if script in self._scripts else default


@cache
def load(folder: str | Path) -> Folder:
    """Return the scripts of a folder in `lua/`, or of a folder given as a path, by name. Raises ScriptError.

    The files are read once per process. The blocks that a script includes are those of its folder and of `lua/shared/`.
    """
    name = f"lua/{folder}" if isinstance(folder, str) else folder.name
    where = _find_folder(folder) if isinstance(folder, str) else folder
    # All texts at once: after an upgrade of what is running others would stand there.
    texts = _read_texts(where) if where else {}
    if not where or not texts:
        looked = [str(root) for root in _list_roots()] if isinstance(folder, str) else [str(folder)]
        raise ScriptError(f"{name}:0: no scripts there; looked in {' and '.join(looked)}")
    blocks = _read_blocks(where, name)
    if folder != "shared":
        blocks = {**load("shared").blocks, **blocks}
    found = {script: partial(parse, text, f"{name}/{script}.lua", blocks) for script, text in texts.items()}
    loaded = Folder(where.name, found, where, blocks)
    if isinstance(folder, Path):
        [script.source for script in loaded.values()]  # a fault in somebody else's script is reported at once
    return loaded


@cache
def _list_roots() -> tuple[Path, Path]:
    """Return where the folders of scripts may be: inside the installed package, and beside it in a checkout."""
    return Path(str(files("rqtui"))) / "lua", Path(__file__).resolve().parents[2] / "lua"


def _find_folder(name: str) -> Path | None:
    return next((root / name for root in _list_roots() if (root / name).is_dir()), None)


def list_folders() -> list[str]:
    """Return the names of the folders in `lua/`, sorted."""
    shared = _find_folder("shared")
    return sorted(path.name for path in shared.parent.iterdir() if path.is_dir()) if shared else []


def _read_blocks(folder: Path, name: str) -> dict[str, Piece]:
    texts = _read_texts(folder / "blocks")
    return {block: Piece(f"{name}/blocks/{block}.lua", 1, text) for block, text in texts.items()}


def _read_texts(folder: Path) -> dict[str, str]:
    """Return the texts of the Lua files in a folder, by their names without `.lua`; none if there is no such folder."""
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name[:-4]: _read_text(f"{folder}{os.sep}{name}") for name in names if name.endswith(".lua")}


def _read_text(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode("utf-8")  # text mode would change line ends, and with them the digest
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"{path}:1: it cannot be read: {error}") from error


def run(client: Redis | Cluster, call: Call) -> Reply:
    """Send one call and return its reply. Raises the errors that `run_all` returns."""
    answer: Reply = _transport().run(client, call)
    return answer


def run_all(client: Redis | Cluster, calls: Sequence[Call]) -> list[Reply | Exception]:
    """Send calls in one pipeline (no transaction) and return a reply or an error for each, in order.

    The client must speak RESP2 and not decode replies (`connect` sees to both). Calls of scripts that the server does
    not have follow in a second round trip, each text once; they run after the other calls. Errors: Unreachable (nothing
    was done), Unknown (a change was sent, its reply was lost), Denied, WrongType, Refused (by the script), ServerError,
    ScriptError. Nothing is sent again after a connection broke.
    """
    results: list[Reply | Exception] = _transport().send(client, calls) if calls else []
    return results


@cache
def _transport() -> Any:
    from rqtui.scripts import transport  # late: it imports redis, for which a first picture does not wait

    return transport
