"""Values, rows, generated Lua and replies of scripts, each at its bounds: `values_at_bounds.txt` has every result.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/scripts/test_values_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file
from redis import exceptions

from rqtui.aio import transport as aio_transport
from rqtui.coroutines import run_without_event_loop
from rqtui.errors import Elsewhere, RqtuiError
from rqtui.scripts import include, transport
from rqtui.scripts import script as scripts
from rqtui.scripts.header import ARG_TYPES, Arg, parse_script_header, parse_shared_keys
from rqtui.scripts.read_ahead import ReadAhead
from rqtui.scripts.script import Script, parse_script
from rqtui.scripts.values import (
    convert_rows_to_argv,
    convert_to_argv,
    parse_reply_table,
    parse_reply_value,
    trim_empty_columns,
)

KEPT = Path(__file__).with_name("values_at_bounds.txt")
EXACT = 2**53
VALUES = (
    None, "", "a", "\udcff", "\ud800", b"", b"a", bytearray(b"b"), 0, 1, -1, EXACT, EXACT + 1, -EXACT, -EXACT - 1, 1.0,
    1.5, float(EXACT), float("inf"), float("nan"), 10**400, True, False, [], "x" * 58, "x" * 59, [1] * 20, [1] * 21,
)  # fmt: skip


def attempt(function: Callable[..., Any], *args: Any) -> str:
    """Return the result of a call, or the text of its error."""
    try:
        return repr(function(*args))
    except (RqtuiError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def values() -> Iterator[str]:
    for type_name in ARG_TYPES:
        for value in VALUES:
            arg = Arg("it", type_name)
            found = attempt(convert_to_argv, value, arg, "trial")
            yield f"{type_name} from {value!r:.40}: {found:.150}"
        yield f"{type_name} from nothing: {convert_to_argv(None, Arg('it', type_name, True), 'trial')!r}"
        replies = (None, b"", b"a", b"7", b"0", b"1.5", 0, 1, 7, [], b"\xff")
        for is_optional in (False, True):
            arg = Arg("it", type_name, is_optional)
            found_values = [attempt(parse_reply_value, value, arg, "it") for value in replies]
            yield f"{type_name} in a reply, optional {is_optional}: {found_values}"


def columns_of(*types: str) -> list[Arg]:
    return [Arg(f"c{at}", type_name.rstrip("?"), type_name.endswith("?")) for at, type_name in enumerate(types)]


def rows() -> Iterator[str]:
    cases: tuple[tuple[list[Any], tuple[str, ...]], ...] = (
        ([], ("str",)), ([("a",)], ("str",)), ([["a"]], ("str",)), ([("a", "b")], ("str",)), ([()], ("str",)),
        ([("a",), ("b", "c")], ("str",)), ([("a", "b"), ("c",)], ("str", "str")), ([("a",), ()], ("str",)),
        ([{"c0": "a"}, {"c1": 2, "c0": "b"}], ("str", "int?")), ([{"c0": "a", "x": 1}], ("str",)),
        (["ab"], ("str", "str")),
        ([b"ab"], ("str", "str")), ([("a", 1), {"c0": "b"}], ("str", "int?")),
        ([("a", None), ("b", None)], ("str", "int?")),
        ([("a", None), ("b", None)], ("str", "int")), ([(1,), ("x",)], ("int",)), ([("\ud800",), ("a",)], ("str",)),
        ([(EXACT,), (0,)], ("int",)), ([(EXACT + 1,), (0,)], ("int",)), ([(-EXACT,), (0,)], ("int",)),
        ([(-EXACT - 1,), (0,)], ("int",)), ([(b"a",), (b"b",)], ("bytes",)), ([(b"a",), (b"b",)], ("int",)),
        ([("é",), ("b",)], ("bytes",)), ([("é",), (b"b",)], ("str",)), ([(True,), (False,)], ("int",)),
        ([(5,)], ("str",)),
        ([("a", 1.5, True, b"x")] * 2, ("str", "float", "bool", "bytes")), ([("a",), ("b",), (7,)], ("str",)),
    )  # fmt: skip
    for given, types in cases:
        columns = columns_of(*types)
        yield f"rows {given!r} of {types}: {attempt(convert_rows_to_argv, given, columns, 'trial')}"
        trimmed = trim_empty_columns([], columns, "trial")
        yield f"    trimmed: {[column.name for column in trimmed[0]]} {trimmed[1]}"
    optional = columns_of("str", "int?", "int?")
    trimmed_cases: tuple[list[Any], ...] = (
        [("a", None, None)], [("a", 1, None), ("b", None, None)], [("a", None, 1)], [("a",)], [("a", None)], [()],
        [("a", 1)], [("a", 1, 2, 3)], [("a",), ("b", 1)], ["abc"], [{"c0": "a", "c1": 5}, {"c0": "b"}], [{"c0": "a"}],
        [b"abc"], [("a", None, 0)],
    )  # fmt: skip
    for given in trimmed_cases:
        found = trim_empty_columns(given, optional, "trial")
        yield f"trimmed {given}: {[column.name for column in found[0]]} {found[1]}"
    yield f"trimmed of required columns: {trim_empty_columns([('a', None)], columns_of('str', 'int'), 'trial')[1]}"
    tables: tuple[tuple[list[Any], tuple[str, ...]], ...] = (
        ([], ("str",)), ([[b"a"]], ("str",)), ([[b"a", 1]], ("str",)), ([[b"a"], [b"b", 1]], ("str",)), ([5], ("str",)),
        ([[b"a", 1], [b"b", 2]], ("bytes", "int")), ([[b"a", b"1"], [b"b", 2]], ("str", "int")), ([[b"x"]], ("int",)),
        ([[b"a", None]], ("str", "int?")), ([[b"1"], [None]], ("bool",)), ([[]], ("str",)), ([[1], [2]], ("str",)),
        ([[1], [2]], ("bytes",)), ([[b"1"], [b"2"]], ("int",)),
    )  # fmt: skip
    for given, types in tables:
        columns = columns_of(*types)
        yield f"table {given!r} of {types}: {attempt(parse_reply_table, given, columns, 'it')}"


# -- headers and the Lua that is generated from them ------------------------------------------------------------------


def build_script(signature: str, code: str = "", name: str = "trial") -> Script:
    lines = "".join(f"-- {line}\n" for line in signature.strip("\n").splitlines())
    return parse_script(f"-- Try something.\n--\n{lines}{code}\n", f"lua/trials/{name}.lua")


SIGNATURES = (
    "returns done",
    "  returns done",
    " returns done",
    "moves a -> b\nKEYS a zset\n     b list\nreturns done",
    "moves a -> b | \n      b -> a\nKEYS a zset\n     b list\n"
    "returns done (x int, y? str) rows (z bytes) it is\n        gone",
    "moves -> b\nKEYS b list\nreturns done",
    "moves a ->\nKEYS a list\nreturns done",
    "moves -> |\nKEYS a list\nreturns done",
    "moves -> b |\nKEYS b list\nreturns done",
    "moves ->\nreturns done",
    "forgets a\nwrites b c\nKEYS a list\n     b list\n     c list\nreturns done",
    "writes a a\nKEYS a list\nreturns done",
    "writes <a>\nKEYS a list\nreturns done",
    "writes b\nKEYS a (b c) list\nreturns done",
    "writes d\nKEYS a (b c) list\nreturns done",
    "writes d\nderived <id>-lock (d) the lock\nreturns done",
    "derived lock\nreturns done",
    "derived <id>:lock the lock\nreturns done",
    "KEYS a list\n     a list\nreturns done",
    "KEYS a lists\nreturns done",
    "KEYS a\nreturns done",
    "KEYS each (a list, b zset) many\nreturns done",
    "KEYS each (a? list)\nreturns done",
    "KEYS each (a list)\n     b list\nreturns done",
    "ARGV a int\n     b? str it\nreturns done",
    "ARGV a int\n    b? str it\nreturns done",
    "ARGV a int\n      more of it\n     b str\nreturns done",
    "ARGV a ints\nreturns done",
    "ARGV a\nreturns done",
    "ARGV each (a int)\n     b int\nreturns done",
    "ARGV each (a int, b)\nreturns done",
    "ARGV each (a int,\n  b? int) the rows\nreturns each done (a int)",
    "ARGV each (a int, a int)\nreturns done",
    "ARGV each (a int\nreturns done",
    "returns each done",
    "ARGV each (a int)\nreturns each done rows (a int)",
    "returns done\n        done",
    "returns done (a int, a int)",
    "returns done rows (a int, a int)",
    "returns done(a int)",
    "returns done (a int)the text",
    "returns DONE",
    "returns",
    "returns each",
    "ARGV a int",
    "returns done\nARGV a int",
    "ARGV a int\nARGV b int\nreturns done",
    "moves a -> b\nmoves b -> a\nKEYS a list\n     b list\nreturns done",
    "returns done\nnonsense",
    "returns done\n nonsense",
    "returns done\n  nonsense",
    "returns done\n\nmore",
    "nonsense",
)


def headers() -> Iterator[str]:
    for signature in SIGNATURES:
        text = "-- Try it.\n--\n-- More\n-- text.\n--\n-- Still.\n--\n" + "".join(
            f"-- {line}\n" for line in signature.split("\n")
        )
        yield f"{signature!r}: {attempt(parse_script_header, text, 'it.lua')}"
    for text in (
        "",
        "-- returns done\n",
        "local x\n",
        "-- A.\n--\n-- returns done\n-- include: x\n",
        "-- A.\n--\n--\n--\n-- returns done\n--\n--[[ x",
    ):
        yield f"{text!r}: {attempt(parse_script_header, text, 'it.lua')}"
    shared = parse_shared_keys("-- Keys.\n--\n-- KEYS  a list the a\n--       b (c d) zset\n", "shared.lua")
    yield f"shared: {shared}"
    for text in (
        "",
        "-- Keys.\n",
        "-- KEYS a list\n--      a list\n",
        "-- ARGV a int\n",
        "-- KEYS each (a list)\n",
        "-- KEYS a list\n-- ARGV a int\n",
        "-- KEYS list zset\n",
    ):
        yield f"shared {text!r}: {attempt(parse_shared_keys, text, 'shared.lua')}"
    for keys in ("a", "a b", "b a", "a x", "a list", "x list", "a list more", "b\n     a", "a\n     x zset"):
        text = f"-- Try.\n--\n-- KEYS {keys}\n-- returns done\n".replace("\n     ", "\n--      ")
        try:
            header = parse_script_header(text, "it.lua", shared)
            yield f"keys {keys!r}: {header.keys} {sorted(header.shared_keys)}"
        except RqtuiError as error:
            yield f"keys {keys!r}: {error}"


def generated() -> Iterator[str]:
    """Yield the Lua that each generator makes of headers with few and many keys, arguments and columns."""
    key_types = ("string", "list", "set", "zset", "hash", "stream", "any")
    for number in (1, 4, 5):
        for tail in ("", "     each (x list)\n"):
            keys = "".join(f"{'KEYS' if at == 0 else '    '} k{'abcde'[at]} {key_types[at]}\n" for at in range(number))
            header = build_script(f"{keys}{tail}returns done")
            yield f"{number} keys{' and more' if tail else ''}: {include._generate_key_locals(header, (), set())}"
    header = build_script(
        "KEYS kb list\n     end zset\n     it any\n"
        "ARGV now_ms int\n     for int\n     c float\n     d bool\n     e str\nreturns done"
    )
    for placed in (set(), {"keys"}):
        for selected in ((), ("end",), ("it",), ("none",)):
            for generate in (include._generate_key_locals, include._generate_type_checks):
                try:
                    found = generate(header, selected, placed)
                except KeyError as error:
                    found = f"no {error}"
                yield f"{generate.__name__} {selected} {sorted(placed)}: {found}"
    for selected in ((), ("c",), ("none",)):
        for generate in (
            include._generate_argument_locals,
            include._generate_integer_checks,
            include._generate_argument_checks,
        ):
            try:
                found = generate(header, selected, set())
            except KeyError as error:
                found = f"no {error}"
            yield f"{generate.__name__} {selected}: {found}"
    for args in ("ARGV a int", "ARGV a str", "ARGV a int\n     b int"):
        try:
            checks = include._generate_argument_checks(build_script(args + "\nreturns done"), (), set())
            yield f"{args!r}: {checks}"
        except KeyError as error:
            yield f"{args!r}: no {error}"
    for number in range(7):
        each = f"     each ({', '.join(f'c{chr(97 + at)} str' for at in range(number))})\n" if number else ""
        for opening in ("", "moves a -> a\n", "forgets a\n", "writes a\n")[: 4 if number < 2 else 1]:
            header = build_script(f"{opening}KEYS a list\nARGV x int\n{each}returns done")
            for selected in ((), ("job", "ids")):
                try:
                    check = include._generate_batch_check(header, selected, set())
                    yield f"{number} columns {opening!r} {selected}: {check}"
                except KeyError as error:
                    yield f"{number} columns: no {error}"
        yield f"{number} columns: {include._generate_column_counts(header, (), set())}"
    for name in ("and", "ands", "until", "repeat_", "x"):
        yield f"{name}: {include.build_lua_local_name(name)}"
    blocks = {name: include.Piece(f"{name}.lua", 1, text) for name, text in {
        "one": "-- c\n-- d\nlocal one\n", "two": "-- c\n-- include: one\nlocal two\n", "none": "-- only",
        "bare": "local bare\n",
        "shared_keys": "-- x\n",
    }.items()}  # fmt: skip
    for block in blocks.values():
        yield f"without comments: {include.remove_block_comments(block)}"
    signature = "-- A.\n--\n-- KEYS  a list\n-- ARGV  x int\n-- returns done\n"
    for code in (
        "",
        "local x\n",
        "-- include: one\n",
        "x\n-- include: two, one, bare\ny\n-- include: one\nz",
        "-- include: nope\n",
        "\n\n-- include: keys(b)\n",
        "-- include: keys, args\nx\n",
        "-- include: shared_keys\n",
        "x\n-- include: none\n",
        "-- include: keys(\n",
        "x -- include: one\n",
    ):
        try:
            yield f"{code!r}: {parse_script(signature + code, 'it.lua', blocks).source.removeprefix(signature)!r}"
        except RqtuiError as error:
            yield f"{code!r}: {error}"
    shared_blocks = {
        **blocks,
        "shared_keys": include.Piece("shared.lua", 1, "-- KEYS  alpha list  the first\n--       b (c d) zset\n"),
    }
    for keys in ("alpha b", "alpha", "b\n--       each (x list) more"):
        text = f"-- A.\n--\n-- KEYS  {keys}\n-- returns done\n-- include: one\nlocal KEYS = 1\n-- KEYS  none\n"
        yield f"{keys!r}: {parse_script(text, 'it.lua', shared_blocks).source!r}"


# -- calls and replies ------------------------------------------------------------------------------------------------


def calls() -> Iterator[str]:
    plain = build_script(
        "writes k\nKEYS k list\nARGV a int\n     b? str\n"
        "returns done\n        gone (x int, y? str)\n        rest rows (z int)"
    )
    reading = build_script("KEYS k list\nreturns done")
    each = build_script(
        "writes k\nKEYS k list\nARGV columns? int\n     each (a str, b? int, c? int)\n"
        "returns each done\n             gone (x int)"
    )
    many = build_script("writes k\nKEYS k list\n     each (m list)\nARGV each (a str)\nreturns done (n int)")
    keys = {"k": "K", "other": b"O"}
    builds: dict[str, Callable[[], Any]] = {
        "plain": lambda: plain.build_call(keys, {"a": 1}),
        "plain with both": lambda: plain.build_call(keys, {"a": 1, "b": "x"}),
        "plain without a": lambda: plain.build_call(keys),
        "too many": lambda: plain.build_call(keys, {"a": 1, "b": "x", "c": 3}),
        "unknown": lambda: plain.build_call(keys, {"a": 1, "c": 3}),
        "no key": lambda: plain.build_call({}, {"a": 1}),
        "rows": lambda: plain.build_call(keys, {"a": 1}, [("x",)]),
        "more keys": lambda: plain.build_call(keys, {"a": 1}, (), [("x",)]),
        "each": lambda: each.build_call(keys, {}, [("x",), ("y",)]),
        "each, filled": lambda: each.build_call(keys, {}, [("x", 1, None), ("y", None, None)]),
        "each, none": lambda: each.build_call(keys),
        "many": lambda: many.build_call(keys, {}, [("a",), ("b",)], [("x",), ("y",)]),
        "bound": lambda: plain.build_call(plain.bind_keys(keys), {"a": 1}),
        "bound to another": lambda: plain.build_call(reading.bind_keys(keys), {"a": 1}),
        "unknown of none": lambda: reading.build_call(keys, {"a": 1}),
    }
    for name, build in builds.items():
        try:
            call = build()
        except RqtuiError as error:
            yield f"{name}: {error}"
            continue
        words = [*call.build_command(False)[2:], call.row_count, call.opening is not None, call.reply_count]
        names = call.build_command(True)[0], call.build_text_command(False)[0], call.build_text_command(True)[0]
        yield f"{name}: {words} {names} {transport._pack_call(call, False)[-40:]!r}"
    for script in (plain, reading, each, many):
        for number in (0, 1, 2):
            found = script.build_success_reply(number)
            yield f"success of {number} rows: {found}"
        yield (
            f"{script.read_only} {script.moves_to_queue} {script.has_column_count_argument} {script.sources} "
            f"{script._build_shortest_argv() if script is not plain else ''}"
        )
    replies = (
        b"done",
        [b"done"],
        [b"gone", 5],
        [b"gone", 5, b"y"],
        [b"gone"],
        [b"gone", 5, b"y", 1],
        [b"gone", b"5"],
        [b"rest", [[1]]],
        [b"rest"],
        [b"rest", []],
        [b"rest", [[1]], 2],
        [b"none"],
        [],
        None,
        5,
        [5],
        [b"done", 1],
        b"gone",
    )
    for reply in replies:
        for script in (plain, each):
            call = scripts.Call(script, [], [], 1)
            yield f"{reply!r}: {attempt(call.parse, reply)}"
    call = scripts.Call(each, [], [], 2)
    for reply in ([b"done", b"done"], [b"done", [b"gone", 5]], [b"done"], [b"done", b"none"], b"done"):
        yield f"two rows {reply!r}: {attempt(call.parse, reply)}"
    for words in ("CLIENT LIST", "FLUSHALL"):
        for key in ("", "k"):
            try:
                built = scripts.build_command(words, key)
                yield f"{words} {key}: {built.keys} {built.argv}"
            except RqtuiError as error:
                yield f"{words} {key}: {error}"
    command = scripts.build_command("CLIENT LIST")
    yield f"replied: {attempt(command.parse, b'x')} {attempt(command.parse, 5)}"
    reads = scripts.build_read_commands(
        [scripts.pack_command([b"GET", b"k"]), scripts.pack_command([b"LLEN", b"long"])], 2
    )
    yield f"reads: {reads.packed!r} {reads.reply_count} {reads.parse([1, 2])}"
    fine = SimpleNamespace(packed=b"", reply_count=1)
    lost = transport._Lost(OSError("away"))
    for given in ([1, 2, 3, 4], [1, 2, lost, 4], [1, lost, lost, lost]):
        grouped = transport._group_replies_by_call([fine, SimpleNamespace(packed=b"x", reply_count=2), fine], given)
        shown = [[each if isinstance(each, int | list) else "lost" for each in replies] for replies in (given, grouped)]
        yield f"grouped {shown[0]}: {shown[1]}"
    for number in (60, 61, 62, 63, 64, 65):
        row_call = many.build_call(many.bind_keys(keys), {}, [(str(at),) for at in range(number)])
        direct = row_call.build_command(False)
        packed = transport._pack_call(row_call, False)
        yield f"{number} rows: {packed[:5]!r} {packed == transport._pack_words(direct)}"
    for prefix in (each.bind_keys(keys).build_shortest_prefix(), many.bind_keys(keys).build_shortest_prefix()):
        call = prefix.build_call([b"t"], 1)
        for is_read_only in (False, True):
            packed = transport._pack_call(call, is_read_only)
            yield f"prefix: {call.argv} {packed == transport._pack_words(call.build_command(is_read_only))}"


def resent() -> Iterator[str]:
    """Yield what is sent again after replies that say that nothing ran."""
    reading = build_script("KEYS k list\nreturns done", name="read")
    writing = build_script("writes k\nKEYS k list\nreturns done", name="write")
    missing, no_command = (
        exceptions.NoScriptError("NOSCRIPT no"),
        exceptions.ResponseError("unknown command 'EVALSHA_RO'"),
    )
    refused, other = exceptions.NoPermissionError("can't run 'eval' it"), exceptions.ResponseError("ERR other")
    wrong = exceptions.ResponseError("WRONGTYPE Operation against a key")
    lost = transport._Lost(OSError("away"))
    stories: dict[str, list[list[Any]]] = {
        "missing": [[missing, missing], [b"done", b"done"]],
        "missing again": [[missing, missing], [missing, b"done"], [b"done"]],
        "missing for ever": [[missing, missing], [missing, missing], [missing, missing]],
        "no read-only command": [[no_command, b"done"], [b"done"]],
        "lost after missing": [[missing, lost]],
        "lost": [[b"done", lost]],
        "lost later": [[missing, b"done"], [lost]],
        "text refused": [[refused, b"done"], [b"done"]],
        "other": [[other, b"done"]],
        "wrong type": [[b"done", wrong], [b"zset"]],
        "wrong type of none": [[b"done", wrong], [b"none"]],
        "wrong type of a right one": [[b"done", wrong], [b"list"]],
    }
    for name, given in stories.items():
        for sent in (None, set[str]()):
            pending, log = [list(each) for each in given], list[str]()

            async def exchange(
                commands: Sequence[bytes], log: list[str] = log, pending: list[list[Any]] = pending
            ) -> list[Any]:
                log.append(" + ".join(command.split(b"\r\n")[2].decode() for command in commands))
                return pending.pop(0) if pending else [b"done"] * len(commands)

            class Trip:
                sent_scripts = sent

            pool = Trip()
            trial_calls = [reading.build_call({"k": "a"}), writing.build_call({"k": "b"})]
            packed = [each.split(b"\r\n")[2].decode() for each in transport.pack_calls(pool, trial_calls)]
            packed += [each.split(b"\r\n")[2].decode() for each in transport.pack_calls(pool, trial_calls)]
            results = run_without_event_loop(
                transport.resend_and_parse_replies(exchange, pool, trial_calls, pending.pop(0))
            )
            shown = [str(each) if isinstance(each, Exception) else each.word for each in results]
            is_old = pool in transport._without_read_only
            yield f"{name} {sent is not None}: {packed} then {log} {pending} {shown} old {is_old}"
    for moves in range(6):
        log = []

        async def send_again(moved: Sequence[Any], log: list[str] = log, moves: int = moves) -> list[Any]:
            log.append(f"{moved}")
            return [Elsewhere("again") if len(log) < moves else "fine" for _each in moved]

        results = ["fine", Elsewhere("moved") if moves else "fine", "fine"]
        yield f"moved {transport.has_moved_calls(results)}"
        run_without_event_loop(transport.resend_moved_calls(send_again, ["a", "b", "c"], results))
        yield f"{moves} moves: {log} {[*map(str, results)]}"
    for given in ([b"done", b"done"], [b"done", missing], [lost, b"done"]):
        yield f"all replies: {transport.parse_all_replies([reading.build_call({'k': 'a'})] * 2, given)}"
    for text in (
        "unknown command 'EVALSHA_RO'",
        "unknown command 'eval_ro'",
        "unknown command 'get'",
        "evalsha_ro failed",
    ):
        errors = exceptions.ResponseError(text), OSError(text)
        yield f"{text}: {[transport._is_script_unknown(error) for error in errors]}"


class Line:
    """A connection whose replies are given; an error is raised in its place."""

    def __init__(self, replies: list[Any], fails_to_send: bool = False) -> None:
        self.replies, self.fails_to_send, self.log = replies, fails_to_send, list[str]()

    def send_packed_command(self, parts: list[bytes], check_health: bool) -> None:
        self.log.append(f"send {parts} {check_health}")
        if self.fails_to_send:
            raise OSError("pipe")

    def read_response(self, disconnect_on_error: bool) -> Any:
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def disconnect(self) -> None:
        self.log.append("disconnect")


def trips(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    def append_buffered(connection: Line, replies: list[Any], number: int) -> None:
        while connection.replies and isinstance(connection.replies[0], int) and len(replies) < number:
            replies.append(connection.replies.pop(0))

    monkeypatch.setattr(transport, "append_received_replies", append_buffered)
    stories: dict[str, Line] = {
        "two": Line([b"a", b"b"]), "buffered": Line([b"a", 2]), "more": Line([b"a", 2, 3]),
        "an error first": Line([exceptions.ResponseError("no"), b"b"]),
        "loading": Line([exceptions.BusyLoadingError("loading"), b"b"]),
        "broken": Line([b"a", exceptions.ConnectionError("away")]), "slow": Line([exceptions.TimeoutError("late")]),
        "not sent": Line([], True), "interrupted": Line([KeyboardInterrupt()]),
    }  # fmt: skip
    for name, story in stories.items():
        for number in (0, 3):
            line = Line([*story.replies, b"last"], story.fails_to_send)
            try:
                found: Any = transport._send_and_receive(line, [b"x", b"y"], number)
                found = [f"lost {each.reason}" if isinstance(each, transport._Lost) else str(each) for each in found]
            except (KeyboardInterrupt, IndexError) as error:
                found = f"raises {type(error).__name__}"
            yield f"{name} {number}: {found} | {' | '.join(line.log)}"
    yield f"nothing to send: {transport._send_and_receive(Line([]), [])}"
    for is_expected in (True, False):
        line = Line([b"a"])
        pooled: Any = SimpleNamespace(receive_expected=lambda expected, is_expected=is_expected: is_expected)
        found = transport._send_and_receive(line, [b"x"], 1, pooled, b"+OK")
        yield f"as expected {is_expected}: {found} {found is transport._AS_EXPECTED} {line.log}"


def failovers(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield which calls are sent again after a refusal, by a client that can change its server or not."""
    for can_change in (False, True):
        for first in (["a", "b"], [Elsewhere("moved"), "b"], [OSError("away"), "b"]):
            pending, log = [[*first], ["again"]], list[str]()

            def send(_client: Any, calls: Sequence[Any], log: list[str] = log, pending: Any = pending) -> list[Any]:
                log.append(f"{calls}")
                return list(pending.pop(0))

            async def send_once(calls: Sequence[Any], send: Any = send) -> list[Any]:
                return list(send(None, calls))

            with monkeypatch.context() as patch:
                patch.setattr(transport, "_send_to_server", send)
                patch.setattr(
                    transport, "topology", SimpleNamespace(can_change_server=lambda _client, can=can_change: can)
                )
                patch.setattr(aio_transport, "has_failover", lambda _pool, can=can_change: can)
                found = [*map(str, transport.send_calls_now(SimpleNamespace(), ["c1", "c2"]))]  # type: ignore[arg-type]
                yield f"failover {can_change}, first {[*map(str, first)]}: {found}, sent {log}"
                log.clear()
                pending[:] = [[*first], ["again"]]
                results = asyncio.run(aio_transport._send_with_failover(None, send_once, ["c1", "c2"]))  # type: ignore[arg-type]
                yield f"on a loop: {[*map(str, results)]}, sent {log}"


def read_ahead() -> Iterator[str]:
    """Yield which calls are sent after replies were stored."""
    reading = build_script("KEYS k list\nARGV a int\nreturns done", name="read")
    writing = build_script("writes k\nKEYS k list\nreturns done", name="write")

    def build(number: int, key: str = "k") -> Any:
        return reading.build_call({"k": key}, {"a": number})

    change, command = writing.build_call({"k": "k"}), scripts.build_command("CLIENT LIST")
    log: list[str] = []

    def send(sent: Sequence[Any]) -> list[Any]:
        log.append(" + ".join(f"{call.script.name}{call.argv}" for call in sent))
        return [f"new {call.argv}" for call in sent]

    ahead = ReadAhead()
    ahead.fetch([build(1), build(2), build(3), command], lambda _calls: ["one", "two", OSError("no"), "list"])
    for sent in (
        [build(1)],
        [build(1)],
        [build(2), build(3)],
        [build(2), build(2)],
        [command],
        [build(2), change],
        [build(2)],
        [build(9)],
    ):
        ahead.after = (build(9),) if change in sent else ()
        found = ahead.send_calls(sent, send)
        names = [f"{call.script.name}{call.argv}" for call in sent]
        yield f"{names}: {found}, sent {log}, {len(ahead._replies)} stored"
        log.clear()


def test_scripts_match_the_stored_text() -> None:
    parts = (values, rows, headers, generated, calls, resent, read_ahead)
    lines = [f"{line}" for part in parts for line in (f"== {part.__name__}", *part())]
    with pytest.MonkeyPatch.context() as patch:
        lines += ["== trips", *trips(patch), "== failovers", *failovers(patch)]
    assert_lines_match_file([line.replace("\n", "\\n") for line in lines], KEPT)
