"""Parse pickles as data, opcode by opcode, without loading them: nothing in them is imported or executed.

An import becomes a `Name`; a call becomes a `Call` with function, arguments and state. The cost is limited: at most
`MOST_BYTES` of a pickle are read, and `to_plain` and `format_value` limit their output, however often a value contains
another.

The opcodes are those of `pickletools` in Python 3.14 (protocols 0 to 5). Persistent ids, out-of-band buffers and the
extension registry become names without a meaning.
"""

from __future__ import annotations

import base64
import pickletools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_BYTES = 256 * 1024
MOST_SHOWN = 64 * 1024  # characters of the output
_DEPTH = 40
_LONGEST_NUMBER = 4_000  # bits; Python refuses to write longer ones


@dataclass(slots=True, eq=False)
class Name:
    """An object that the pickle would import: `module.name`, or `name` without a module."""

    module: str
    name: str

    def __str__(self) -> str:
        return self.name if self.module in ("", "builtins", "__builtin__") else f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Call:
    """A call that loading the pickle would make. `state` and `items` are what the result would get afterwards."""

    function: object
    args: Sequence[object] = ()
    kwargs: Sequence[tuple[object, object]] = ()
    state: object = None
    items: list[object] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Pairs:
    """A dict as a list of pairs in order, because a key may not be hashable in Python."""

    pairs: list[tuple[object, object]]

    def get(self, key: str) -> object:
        """Return the last value of a text key, or None."""
        return next((value for name, value in reversed(self.pairs) if name == key), None)


@dataclass(slots=True, eq=False)
class Group:
    """A set or a frozenset; `kind` says which."""

    kind: str
    items: list[object]


class _Mark:
    pass


_MARK = _Mark()


def parse_pickle(data: bytes) -> object:
    """Parse a pickle into plain values, with `Name`, `Call`, `Pairs` and `Group` in place of Python objects.

    Raises ValueError if the pickle is incomplete or has more than `MOST_BYTES`.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(f"a pickle of {len(data)} bytes is not read; the most are {MOST_BYTES}")
    machine = _Machine()
    try:
        for opcode, arg, _at in pickletools.genops(data):
            if opcode.name == "STOP":
                return machine.pop()
            machine.run_opcode(opcode.name, arg)
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, UnicodeError, RecursionError) as error:
        raise ValueError(f"no pickle: {error}") from None
    raise ValueError("no pickle: it does not end")


def is_pickle(data: bytes) -> bool:
    """Return whether `data` is exactly one pickle of protocol 2 or later."""
    if len(data) < 4 or data[0] != 0x80 or not 2 <= data[1] <= 5 or data[-1:] != b".":
        return False
    try:
        parse_pickle(data)
    except ValueError:
        return False
    return True


class _Machine:
    """The stack and the memo of the pickle machine. Operations on objects are recorded, not executed."""

    def __init__(self) -> None:
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}

    def pop(self) -> object:
        """Remove and return the top of the stack. Raises ValueError if it is a mark."""
        value = self._stack.pop()
        if value is _MARK:
            raise ValueError("a mark where a value should be")
        return value

    def _pop_to_mark(self) -> list[object]:
        at = len(self._stack) - 1
        while at >= 0 and self._stack[at] is not _MARK:
            at -= 1
        if at < 0:
            raise ValueError("a mark is missing")
        values = self._stack[at + 1 :]
        del self._stack[at:]
        return values

    def run_opcode(self, name: str, arg: Any) -> None:
        """Run one opcode with its argument, as `pickletools.genops` reads them."""
        if name in _IGNORED:
            return
        if name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name]())
        elif name in _LITERALS:
            self._stack.append(arg)
        elif name in _PUTS:
            self._memo[len(self._memo) if arg is None else arg] = self._stack[-1]
        elif name in _GETS:
            self._stack.append(self._memo[arg])
        elif name in _OPERATIONS:
            _OPERATIONS[name](self, arg)
        else:
            raise ValueError(f"the opcode {name} is not known")

    # -- what takes values from the stack -------------------------------------------------------------------------

    def build_tuple(self, number: int) -> None:
        """Replace the last `number` values by a tuple."""
        values = tuple(self.pop() for _ in range(number))
        self._stack.append(values[::-1])

    def collapse_to_mark(self, make: Callable[[list[object]], object]) -> None:
        """Replace all values since the last mark by the result of `make`."""
        self._stack.append(make(self._pop_to_mark()))

    def append_values(self, values: list[object]) -> None:
        """Append values to the list, set or call on top of the stack."""
        top = self._stack[-1]
        if isinstance(top, list):
            top.extend(values)
        elif isinstance(top, Group | Call):
            top.items.extend(values)
        else:
            raise ValueError("values for what is no list")

    def set_pairs(self, values: list[object]) -> None:
        """Add alternating keys and values to the dict or call on top of the stack."""
        pairs = list(zip(values[::2], values[1::2], strict=True))
        top = self._stack[-1]
        if isinstance(top, Pairs):
            top.pairs.extend(pairs)
        elif isinstance(top, Call):
            top.items.extend(pairs)
        else:
            raise ValueError("keys for what is no dict")

    def record_call(self, has_names: bool = False) -> None:
        """Replace a function and its arguments by a `Call`."""
        names = self.pop() if has_names else Pairs([])
        args, function = self.pop(), self.pop()
        pairs = names.pairs if isinstance(names, Pairs) else [("**", names)]
        self._stack.append(Call(function, args if isinstance(args, tuple | list) else (args,), pairs))

    def set_state(self) -> None:
        """Set the state of the object below the top of the stack."""
        state, top = self.pop(), self._stack[-1]
        if isinstance(top, Call):
            top.state = state
        else:  # For a name or a plain value, keep both the value and its state.
            self._stack[-1] = Call(top, (), (), state)

    def push_name(self) -> None:
        """Replace a module and a name on the stack by a `Name`."""
        name, module = self.pop(), self.pop()
        self._stack.append(Name(str(module), str(name)))

    def record_instance(self, named: str | None) -> None:
        """Record the instance creation of protocols 0 and 1: a class and the values since the last mark."""
        values = self._pop_to_mark()
        function = _parse_name(named) if named is not None else values.pop(0)
        self._stack.append(Call(function, tuple(values)))

    def drop(self, what: str) -> None:
        """Remove the top of the stack, or all values down to the last mark."""
        if what == "POP" and self._stack[-1] is not _MARK:
            self._stack.pop()
        else:
            self._pop_to_mark()

    def push(self, value: object) -> None:
        """Push one value."""
        self._stack.append(value)

    def duplicate_top(self) -> None:
        """Push the top of the stack again."""
        self._stack.append(self._stack[-1])


def _parse_name(words: str) -> Name:
    module, _, name = words.partition(" ")  # pickletools gives "module name"
    return Name(module, name)


def _build_pairs(values: list[object]) -> Pairs:
    return Pairs(list(zip(values[::2], values[1::2], strict=True)))


_IGNORED = frozenset({"PROTO", "FRAME", "READONLY_BUFFER"})
_CONSTANTS: Mapping[str, Callable[[], object]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": lambda: Pairs([]),
    "EMPTY_SET": lambda: Group("set", []),
    "MARK": lambda: _MARK,
    "NEXT_BUFFER": lambda: Name("", "buffer"),
}
_LITERALS = frozenset({
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "STRING", "BINSTRING", "SHORT_BINSTRING",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE",
    "BINUNICODE8", "FLOAT", "BINFLOAT",
})  # fmt: skip
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_OPERATIONS: Mapping[str, Callable[[_Machine, Any], None]] = {
    "TUPLE1": lambda it, _: it.build_tuple(1),
    "TUPLE2": lambda it, _: it.build_tuple(2),
    "TUPLE3": lambda it, _: it.build_tuple(3),
    "TUPLE": lambda it, _: it.collapse_to_mark(tuple),
    "LIST": lambda it, _: it.collapse_to_mark(list),
    "DICT": lambda it, _: it.collapse_to_mark(_build_pairs),
    "FROZENSET": lambda it, _: it.collapse_to_mark(lambda values: Group("frozenset", values)),
    "APPEND": lambda it, _: it.append_values([it.pop()]),
    "APPENDS": lambda it, _: it.append_values(it._pop_to_mark()),
    "ADDITEMS": lambda it, _: it.append_values(it._pop_to_mark()),
    "SETITEM": lambda it, _: it.set_pairs([it.pop(), it.pop()][::-1]),
    "SETITEMS": lambda it, _: it.set_pairs(it._pop_to_mark()),
    "REDUCE": lambda it, _: it.record_call(),
    "NEWOBJ": lambda it, _: it.record_call(),
    "NEWOBJ_EX": lambda it, _: it.record_call(has_names=True),
    "BUILD": lambda it, _: it.set_state(),
    "GLOBAL": lambda it, arg: it.push(_parse_name(arg)),
    "STACK_GLOBAL": lambda it, _: it.push_name(),
    "INST": lambda it, arg: it.record_instance(arg),
    "OBJ": lambda it, _: it.record_instance(None),
    "POP": lambda it, _: it.drop("POP"),
    "POP_MARK": lambda it, _: it.drop("POP_MARK"),
    "DUP": lambda it, _: it.duplicate_top(),
    "PERSID": lambda it, arg: it.push(Name("persistent", str(arg))),
    "BINPERSID": lambda it, _: it.push(Call(Name("", "persistent"), (it.pop(),))),
    "EXT1": lambda it, arg: it.push(Name("extension", str(arg))),
    "EXT2": lambda it, arg: it.push(Name("extension", str(arg))),
    "EXT4": lambda it, arg: it.push(Name("extension", str(arg))),
}


# -- to look at -----------------------------------------------------------------------------------------------------


class _Full(Exception):
    """The output has reached its limit."""


def format_value(value: object, most: int = MOST_SHOWN) -> str:
    """Format a value as Python source: `tasks.add(1, 2, retry=True)`.

    Longer than `most` characters, it ends with `…`.
    """
    written: list[str] = []
    left = most

    def write(text: str) -> None:
        nonlocal left
        written.append(text if len(text) <= left else text[: max(0, left)])
        left -= len(text)
        if left < 0:
            raise _Full

    try:
        _write(value, write, 0, left)
    except _Full:
        written.append("…")
    return "".join(written)


def format_call(function: str, args: object, kwargs: object, most: int = MOST_SHOWN) -> str:
    """Format a call of `function`. `args` is a list or tuple, `kwargs` a dict or `Pairs`."""
    given = args if isinstance(args, list | tuple) else ()
    pairs = kwargs.pairs if isinstance(kwargs, Pairs) else list(kwargs.items()) if isinstance(kwargs, dict) else []
    return format_value(Call(Name("", function), tuple(given), pairs), most)


def _write(value: object, write: Callable[[str], None], depth: int, most: int) -> None:
    if depth > _DEPTH:
        write("…")
        return

    def write_inner(each: object) -> None:
        _write(each, write, depth + 1, most)

    def join_items(items: Sequence[object]) -> None:
        for at, each in enumerate(items):
            write(", " if at else "")
            write_inner(each)

    match value:
        case list():
            write("[")
            join_items(value)
            write("]")
        case tuple():
            write("(")
            join_items(value)
            write(",)" if len(value) == 1 else ")")
        case Group():
            write("{" if value.items else f"{value.kind}(")
            join_items(value.items)
            write("}" if value.items else ")")
        case Pairs() | dict():
            pairs = value.pairs if isinstance(value, Pairs) else list(value.items())
            write("{")
            for at, (key, each) in enumerate(pairs):
                write(", " if at else "")
                write_inner(key)
                write(": ")
                write_inner(each)
            write("}")
        case Call():
            _write_call(value, write, write_inner)
        case _:
            write(_format_scalar(value, most))


def _write_call(call: Call, write: Callable[[str], None], inner: Callable[[object], None]) -> None:
    inner(call.function)
    write("(")
    parts: list[tuple[str, object]] = [("", each) for each in call.args]
    parts += [(f"{key}=" if isinstance(key, str) else "**", each) for key, each in call.kwargs]
    for at, (name, each) in enumerate(parts):
        write((", " if at else "") + name)
        inner(each)
    write(")")
    if call.state is not None:
        write(" with ")
        inner(call.state)
    if call.items:
        write(" of ")
        inner(call.items)


def _format_scalar(value: object, most: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > _LONGEST_NUMBER:
        return f"<a number of {value.bit_length()} bits>"
    if isinstance(value, str | bytes | bytearray) and len(value) > most:
        value = value[: most + 1]
    return str(value) if isinstance(value, Name) else repr(value)


def to_plain(value: object, most: int = MOST_SHOWN) -> object:
    """Convert a value to JSON types: lists, dicts with text keys, texts and numbers. A call becomes its text.

    After `most` characters the rest is `…`, so that a value that contains itself a thousand times still ends.
    """
    left = [most]

    def convert(each: object, depth: int) -> object:
        left[0] -= 1
        if left[0] < 0 or depth > _DEPTH:
            return "…"
        if isinstance(each, Pairs | dict):
            pairs = each.pairs if isinstance(each, Pairs) else list(each.items())
            return {
                key if isinstance(key, str) else format_value(key, 200): convert(one, depth + 1)
                for key, one in pairs[: left[0]]
            }
        if isinstance(each, Group):
            return [convert(one, depth + 1) for one in each.items[: left[0]]]
        if isinstance(each, list | tuple):
            return [convert(one, depth + 1) for one in each[: left[0]]]
        if each is None or isinstance(each, bool | float):
            return each
        if isinstance(each, int):
            return each if each.bit_length() <= _LONGEST_NUMBER else _format_scalar(each, most)
        text = _to_text(each, left[0])
        left[0] -= len(text)
        return text

    return convert(value, 0)


def _to_text(value: object, most: int) -> str:
    if isinstance(value, str):
        return value[:most]
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value[:most]).decode()
        except UnicodeDecodeError:
            return "base64:" + base64.b64encode(value[:most]).decode()
    return format_value(value, most)
