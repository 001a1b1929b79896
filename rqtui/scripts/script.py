"""Use Lua scripts as functions with named keys and arguments: load a script, build a call, send it, parse the reply.

The header of a script is its whole signature (`lua/README.md`); neither this module nor its callers repeat it.
`load_scripts` reads a folder of scripts, `Script.build_call` makes a `Call` from named keys and arguments, `run_call`
and `send_calls` send calls and return `Reply`s. No call is ever sent twice after a connection broke, whatever retries
the client is set to. Systems, the engine and the client use this module; the grammar is in `header.py`, the types are
in `values.py`.
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
from rqtui.scripts.header import Arg, Header, Key, Move, Word, parse_script_header, parse_shared_keys
from rqtui.scripts.include import SHARED_KEYS, assemble_script
from rqtui.scripts.values import (
    Wire,
    convert_rows_to_argv,
    convert_to_argv,
    parse_reply_table,
    parse_reply_value,
    trim_empty_columns,
)
from rqtui.text.names import to_bytes
from rqtui.text.source_lines import Piece
from rqtui.verbs import TO_QUEUE

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
    "load_scripts",
    "pack_command",
    "parse_script",
    "build_read_commands",
    "run_call",
    "send_calls",
]

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_COUNTED = re.compile(r"'HINCRBY', (?:to_)?meta, '([a-z_]+)'")


@dataclass(frozen=True, slots=True)
class Reply:
    """The parsed reply of a Lua script: a declared word, its explanation, values by name, and a table.

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
    """One Lua script: everything that its header declares, and methods to build a call. Equal only to itself.

    `file_text` is the unchanged file, `blocks` are the blocks that it can include.
    """

    name: str
    path: str
    file_text: str
    blocks: Mapping[str, Piece]

    @cached_property
    def source(self) -> str:
        """The complete text of the Lua script, as Redis gets it: the file with its blocks.

        Raises ScriptError for an unknown block. Assembled at first use: many scripts of a system are looked up for
        their headers, and few are sent.
        """
        return assemble_script(self.file_text, self.path, self.blocks, self)

    @cached_property
    def sha(self) -> str:
        """The SHA-1 digest by which Redis identifies the Lua script (EVALSHA)."""
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The places from which the Lua script can take jobs, without duplicates."""
        return tuple(dict.fromkeys(place for move in self.moves for place in move.sources))

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The places to which the Lua script can move jobs, without duplicates."""
        return tuple(dict.fromkeys(place for move in self.moves for place in move.targets))

    @cached_property
    def counters(self) -> frozenset[str]:
        """The counters that the Lua script increments in its key `meta`, found in its text."""
        return frozenset(_COUNTED.findall(self.source))

    @cached_property
    def read_only(self) -> bool:
        """Whether the Lua script changes nothing; the server is then asked to enforce that (EVALSHA_RO)."""
        return not (self.moves or self.forgets or self.writes)

    @cached_property
    def moves_to_queue(self) -> bool:
        """Whether the Lua script moves jobs to another queue, which its argument `to_queue` names."""
        return TO_QUEUE in self._arg_names

    @cached_property
    def done_word(self) -> str:
        """The reply word that means success: the first word that the script's header declares."""
        return next(iter(self.returns))

    def build_call(
        self,
        keys: Mapping[str, str | bytes],
        args: Mapping[str, object] = _NOTHING,
        rows: Iterable[Mapping[str, object] | Sequence[object]] = (),
        each_keys: Iterable[Mapping[str, str | bytes] | Sequence[str | bytes]] = (),
    ) -> Call:
        """Build a call of the Lua script from named keys and arguments. Nothing is sent yet.

        `keys` may contain more than the script declares (all keys of a queue), `args` may not. `rows` fill the tail of
        ARGV, `each_keys` the tail of KEYS: mappings by name, or sequences in the header's order (faster). A script that
        takes `columns` gets the columns up to the last one that some row fills; sequences may end there, all at the
        same column. Raises UsageError, which names the script and what is missing, unknown or of a wrong type.
        """
        opening = keys.opening if isinstance(keys, BoundKeys) and keys.script is self else None
        key_list = opening.keys if opening else self._list_key_values(keys)
        if each_keys:
            if not self.keys_each:
                raise UsageError(f"{self.name}: it takes no keys beyond {', '.join(self._key_names)}")
            key_list = [*key_list, *convert_rows_to_argv(each_keys, self._each_key_columns, self.name)]
        if len(args) > len(self.args) or not self._arg_names.issuperset(args):
            unknown = next(name for name in args if name not in self._arg_names)
            declared_names = " ".join(arg.name for arg in self.args) or "none"
            raise UsageError(f"{self.name}: it has no argument {unknown}; it takes: {declared_names}")
        columns: Sequence[Arg] = self.each
        if self.has_column_count_argument:
            columns, rows = trim_empty_columns(list(rows), columns, self.name)
            args = {**args, "columns": len(columns)}
        argv = [convert_to_argv(args.get(arg.name), arg, self.name) for arg in self.args]
        scalars = len(argv)
        tail = convert_rows_to_argv(rows, columns, self.name) if self.each else list(rows)
        if tail and not self.each:
            raise UsageError(f"{self.name}: it takes no rows")
        argv += tail  # type: ignore[arg-type]  # without `each` the tail is empty here
        row_count = (len(argv) - scalars) // len(columns) if self.each else 0
        return Call(self, key_list, argv, row_count, None if each_keys else opening)

    def bind_keys(self, keys: Mapping[str, str | bytes]) -> BoundKeys:
        """Check and encode the keys of a queue once, for many calls of this script."""
        return BoundKeys(self, keys)

    def build_success_reply(self, row_count: int) -> tuple[bytes, Reply] | None:
        """Return the bytes that Redis sends if a call succeeds for all its rows, and the `Reply` that they mean.

        Returns None if a successful reply has values in addition to its word, and for read-only scripts.
        """
        if row_count == 1 or not self.per_row:
            return self._single_row_success
        if not self._success_bytes:
            return None
        return b"*%d\r\n%b" % (row_count, self._success_bytes * row_count), Reply(
            "", each=[self._success_reply] * row_count
        )

    @cached_property
    def _single_row_success(self) -> tuple[bytes, Reply] | None:
        """The bytes that Redis sends if a call with one row succeeds, and the `Reply` that they mean.

        None if a successful reply has values in addition to its word.
        """
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
        """The success word of the script as Redis sends it; empty if a successful reply has more than that word."""
        word = self.done_word.encode()
        return b"$%d\r\n%b\r\n" % (len(word), word) if word in self._word_replies and not self.read_only else b""

    @cached_property
    def _success_reply(self) -> Reply:
        """The shared `Reply` for a call that succeeded and returned only its word."""
        return self._word_replies[self.done_word.encode()]

    def _list_key_values(self, keys: Mapping[str, str | bytes]) -> list[Wire]:
        """Return the encoded KEYS of a call in the header's order. Raises UsageError if a key is missing."""
        try:
            return [to_bytes(keys[name]) for name in self._key_names]
        except KeyError as error:
            raise UsageError(f"{self.name}: the key {error.args[0]} is missing") from None

    @cached_property
    def has_column_count_argument(self) -> bool:
        """Whether the script has an argument `columns`: a call may then leave out columns at the right end of rows."""
        return bool(self.each) and any(arg.name == "columns" and arg.optional for arg in self.args)

    def _build_shortest_argv(self) -> list[Wire]:
        """Return the arguments before the rows for a call without optional arguments and without optional columns."""
        needed = sum(not column.optional for column in self.each)
        args = {"columns": needed} if self.has_column_count_argument else {}
        return [convert_to_argv(args.get(arg.name), arg, self.name) for arg in self.args]

    @cached_property
    def _key_names(self) -> tuple[str, ...]:
        """The names of the keys that the script declares, in the order of KEYS."""
        return tuple(key.name for key in self.keys)

    @cached_property
    def _each_key_columns(self) -> tuple[Arg, ...]:
        """The keys that a call passes once per row, as columns, so that they are converted like the columns of rows."""
        return tuple(Arg(key.name, "bytes") for key in self.keys_each)

    @cached_property
    def _arg_names(self) -> frozenset[str]:
        """The names of the arguments that the script declares, without the columns of its rows."""
        return frozenset(arg.name for arg in self.args)

    @cached_property
    def _word_replies(self) -> Mapping[bytes, Reply]:
        """The replies of the script that consist of a word only, by the bytes of that word."""
        plain = [word for word in self.returns.values() if not word.values and not word.rows]
        return {word.word.encode(): Reply(word.word, word.text) for word in plain}

    @cached_property
    def _single_row_replies(self) -> Mapping[bytes, Reply]:
        """The replies to a call of one row that consist of a word only, by the bytes of that word."""
        return {word: Reply("", each=[reply]) for word, reply in self._word_replies.items()}

    def _parse_reply(self, reply: Any) -> Reply:
        """Convert one raw reply of Redis, `word` or `{word, value, …, rows}`, to a `Reply`. Raises ScriptError."""
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
        reply_values, expected = reply[1:], len(word.values) + bool(word.rows)
        if not word.rows:  # Lua cuts a table at its first nil; `parse_reply_value` refuses a required nil
            reply_values += [None] * (expected - len(reply_values))
        if len(reply_values) != expected:
            raise ScriptError(f"{where} came with {len(reply_values)} values; the header declares {expected}")
        values = {
            arg.name: value if type(value) is int and arg.type == "int" else parse_reply_value(value, arg, where)
            for arg, value in zip(word.values, reply_values, strict=False)
        }
        rows = parse_reply_table(reply_values[-1], word.rows, where) if word.rows else []
        return Reply(word.word, word.text, values, rows, columns=tuple(column.name for column in word.rows))


class CallPrefix:
    """The beginning that many calls of a script share: the script's keys, and its first arguments (`argv`).

    `heads` caches the encoded bytes of this beginning by whether the call is read-only; the transport fills it.
    """

    __slots__ = ("argv", "heads", "keys", "script")

    def __init__(self, script: Script, keys: list[Wire], argv: list[Wire]) -> None:
        self.script, self.keys, self.argv = script, keys, argv
        self.heads: dict[bool, bytes] = {}

    def build_call(self, tail: list[Wire], row_count: int) -> Call:
        """Build a call of the script from its remaining arguments, which are already encoded. Nothing is checked."""
        return Call(self.script, self.keys, self.argv + tail, row_count, self)


class BoundKeys(dict[str, "str | bytes"]):
    """The keys of a queue by name, checked and encoded once for one script."""

    __slots__ = ("opening", "script")

    def __init__(self, script: Script, keys: Mapping[str, str | bytes]) -> None:
        super().__init__(keys)
        self.script = script
        self.opening = CallPrefix(script, script._list_key_values(keys), [])

    def build_shortest_prefix(self) -> CallPrefix:
        """Return the beginning of calls without optional arguments whose rows have only the required columns."""
        return CallPrefix(self.script, self.opening.keys, self.script._build_shortest_argv())


@dataclass(slots=True)  # A frozen one takes 0.4 µs more to create, of the 23 µs of a put.
class Call:
    """A Lua script with its keys and arguments, ready to be sent; `row_count` is the number of rows in `argv`."""

    script: Script
    keys: list[Wire]
    argv: list[Wire]
    row_count: int = 0
    opening: CallPrefix | None = None
    packed: bytes = b""  # of plain commands without a script: the encoded bytes

    @property
    def reply_count(self) -> int:
        """The number of replies that Redis sends for this call."""
        return 1

    def build_command(self, read_only: bool) -> list[Wire]:
        """Return the words of the command EVALSHA, or with `read_only` EVALSHA_RO (Redis 7 or later), for this call."""
        name = b"EVALSHA_RO" if read_only else b"EVALSHA"
        return [name, self.script.sha, str(len(self.keys)), *self.keys, *self.argv]

    def build_text_command(self, read_only: bool) -> list[Wire]:
        """Return the words of EVAL or EVAL_RO with the script's text, for a server that does not have the script."""
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
        word_replies = script._word_replies
        if (
            len(reply) == 1
            and type(reply[0]) is bytes
            and (single_row_reply := script._single_row_replies.get(reply[0]))
        ):
            return single_row_reply
        try:
            row_replies = [word_replies[item] if type(item) is bytes else script._parse_reply(item) for item in reply]
        except KeyError:
            row_replies = [script._parse_reply(item) for item in reply]
        return Reply("", each=row_replies)


@dataclass(slots=True)
class Command(Call):
    """A plain Redis command such as `CLIENT LIST`, which no script may call; its reply is in the value `reply`.

    `keys` are not sent; in a Cluster they choose the node.
    """

    def build_command(self, read_only: bool) -> list[Wire]:
        """Return the words of the plain command."""
        return self.argv

    def build_text_command(self, read_only: bool) -> list[Wire]:
        """Return the words of the plain command."""
        return self.argv

    def parse(self, reply: Any) -> Reply:
        """Return a `Reply` with the text that Redis sent. Raises ServerError for a reply of any other type."""
        if not isinstance(reply, bytes):
            raise ServerError(f"{' '.join(map(str, self.argv))} was answered with {reply!r:.80}, which no Redis does.")
        return Reply("replied", values={"reply": reply})


@dataclass(slots=True)
class ReadCommands(Call):
    """Plain read commands, already encoded in `packed`; their raw replies are in the value `replies`.

    Errors of Redis are among the replies. Not usable in a Cluster, because all commands go to one server.
    """

    number: int = 0

    @property
    def reply_count(self) -> int:
        """The number of read commands; Redis sends one reply for each."""
        return self.number

    def parse(self, reply: Any) -> Reply:
        """Return a `Reply` whose value `replies` has the raw replies of Redis, errors included."""
        return Reply("replied", values={"replies": reply})


def build_read_commands(commands: Sequence[bytes], number: int) -> ReadCommands:
    """Build one call from `number` read commands that `pack_command` encoded; an item may hold several of them."""
    return ReadCommands(_build_placeholder_script("plain reads"), [], [], packed=b"".join(commands), number=number)


def pack_command(words: Sequence[bytes]) -> bytes:
    """Encode the words of a Redis command in the Redis protocol (RESP)."""
    return b"*%d\r\n%b" % (len(words), b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words]))


def build_command(words: str, key: str = "") -> Command:
    """Build a call of a plain command such as `CLIENT LIST`. Raises UsageError for a command that is not in COMMANDS.

    In a Cluster, the command goes to the node of `key`.
    """
    if words not in COMMANDS:
        raise UsageError(f"{words} is not sent as it is; those that are: {', '.join(COMMANDS)}")
    return Command(_build_placeholder_script(words), [to_bytes(key)] if key else [], list(words.split()))


COMMANDS = ("CLIENT LIST", "CLIENT INFO")  # They only read, and Redis lets no script call them.


@cache
def _build_placeholder_script(words: str) -> Script:
    """Build the `Script` that stands for a plain Redis command in error messages."""
    return parse_script("-- A command of Redis.\n--\n-- returns  replied  (reply bytes)\n", f"{words}.lua")


def parse_script(text: str, path: str, blocks: Mapping[str, Piece] = _NOTHING) -> Script:
    """Parse the text of a Lua file into a `Script`.

    `path` names the file in errors; its last part without `.lua` is the script's name. Raises ScriptError, `path:line:
    …`, if the header cannot be parsed.
    """
    block = blocks.get(SHARED_KEYS)
    header = parse_script_header(text, path, _parse_key_block(block) if block else _NOTHING)
    fields_by_name = {declared_field.name: getattr(header, declared_field.name) for declared_field in fields(header)}
    return Script(**fields_by_name, name=Path(path).stem, path=path, file_text=text, blocks=blocks)


@cache
def _parse_key_block(block: Piece) -> Mapping[str, Key]:
    return parse_shared_keys(block.text, block.path)


class Folder(Mapping[str, Script]):
    """The Lua scripts of a folder by name. A script is parsed at its first use, because a screen needs few of them.

    `blocks` are the blocks of the folder and of `lua/shared/`, which the scripts can include. A missing script raises
    ScriptError: the installation is incomplete.
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
        parsed_or_parser = self._scripts.get(script)
        if parsed_or_parser is None:
            raise ScriptError(
                f"lua/{self.name}/{script}.lua:0: it is not there; the installation is incomplete, install rqtui again"
            )
        return parsed_or_parser if isinstance(parsed_or_parser, Script) else self._parse_script_at_first_use(script)

    def _parse_script_at_first_use(self, name: str) -> Script:
        with self._parsing:  # A script is equal only to itself, so it must be parsed only once.
            parsed_or_parser = self._scripts[name]
            parsed_script = self._scripts[name] = (
                parsed_or_parser if isinstance(parsed_or_parser, Script) else parsed_or_parser()
            )
        return parsed_script

    def __contains__(self, script: object) -> bool:
        return script in self._scripts

    def __iter__(self) -> Iterator[str]:
        return iter(self._scripts)

    def __len__(self) -> int:
        return len(self._scripts)

    def get(self, script: str, default: Script | None = None) -> Script | None:  # type: ignore[override]
        """Return the Lua script of that name, or `default` if the folder has none."""
        return self[script] if script in self._scripts else default


@cache
def load_scripts(folder: str | Path) -> Folder:
    """Return the Lua scripts of a folder by name. `folder` is a name in `lua/`, or a path. Raises ScriptError.

    The files are read once per process. The blocks that a script can include are those of its folder and of
    `lua/shared/`.
    """
    name = f"lua/{folder}" if isinstance(folder, str) else folder.name
    path = _find_script_folder(folder) if isinstance(folder, str) else folder
    # All texts are read at once, because an upgrade may replace the files while rqtui runs.
    texts = _read_lua_files(path) if path else {}
    if not path or not texts:
        searched_folders = [str(root) for root in _list_script_roots()] if isinstance(folder, str) else [str(folder)]
        raise ScriptError(f"{name}:0: no scripts found; searched in {' and '.join(searched_folders)}")
    blocks = _read_block_files(path, name)
    if folder != "shared":
        blocks = {**load_scripts("shared").blocks, **blocks}
    parsers = {script: partial(parse_script, text, f"{name}/{script}.lua", blocks) for script, text in texts.items()}
    loaded = Folder(path.name, parsers, path, blocks)
    if isinstance(folder, Path):
        [
            script.source for script in loaded.values()
        ]  # An error in a script of another package is reported now, not at its first use.
    return loaded


@cache
def _list_script_roots() -> tuple[Path, Path]:
    """Return where folders of Lua scripts may be: inside the installed package, and beside it in a checkout."""
    return Path(str(files("rqtui"))) / "lua", Path(__file__).resolve().parents[2] / "lua"


def _find_script_folder(name: str) -> Path | None:
    return next((root / name for root in _list_script_roots() if (root / name).is_dir()), None)


def list_script_folders() -> list[str]:
    """Return the names of the folders of Lua scripts in `lua/`, sorted."""
    shared = _find_script_folder("shared")
    return sorted(path.name for path in shared.parent.iterdir() if path.is_dir()) if shared else []


def _read_block_files(folder: Path, name: str) -> dict[str, Piece]:
    texts = _read_lua_files(folder / "blocks")
    return {block: Piece(f"{name}/blocks/{block}.lua", 1, text) for block, text in texts.items()}


def _read_lua_files(folder: Path) -> dict[str, str]:
    """Return the texts of the Lua files in a folder, by file name without `.lua`.

    Empty if the folder does not exist.
    """
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name[:-4]: _read_lua_file(f"{folder}{os.sep}{name}") for name in names if name.endswith(".lua")}


def _read_lua_file(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode("utf-8")  # Text mode would change line ends, and with them the digest.
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"{path}:1: it cannot be read: {error}") from error


def run_call(client: Redis | Cluster, call: Call) -> Reply:
    """Send one call of a Lua script to Redis and return its reply. Raises the errors that `send_calls` returns."""
    reply: Reply = _import_transport().run_call(client, call)
    return reply


def send_calls(client: Redis | Cluster, calls: Sequence[Call]) -> list[Reply | Exception]:
    """Send calls of Lua scripts in one pipeline (no transaction). Returns a reply or an error for each, in order.

    The client must speak RESP2 and not decode replies; `connect` creates such clients. Calls of scripts that the server
    does not have follow in a second round trip, each text once; they run after the other calls. Errors: Unreachable
    (nothing was done), Unknown (a change was sent, its reply was lost), Denied, WrongType, Refused (by the script),
    ServerError, ScriptError. Nothing is sent again after a connection broke.
    """
    results: list[Reply | Exception] = _import_transport().send_calls(client, calls) if calls else []
    return results


@cache
def _import_transport() -> Any:
    from rqtui.scripts import transport  # Imported late: it imports redis, and the first screen does not wait for that.

    return transport
