"""Pickles as data to look at: read opcode by opcode, never loaded, so that nothing in them is imported or run.

What a pickle would import becomes a `Name`, what it would call a `Call` that records function, arguments and state.
A stranger's pickle costs what its bytes cost: no more than `MOST_BYTES` of it are read, and `as_json` and `shown` write
each no more than their bound, however often one value stands in another.

The opcodes are those of Python 3.14's `pickletools` (protocols 0 to 5); persistent ids, out-of-band buffers and the
extension registry are names without a meaning here.
"""

from __future__ import annotations

import base64
import pickletools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_BYTES = 256 * 1024
MOST_SHOWN = 64 * 1024  # characters of what is written
_DEPTH = 40
_LONGEST_NUMBER = 4_000  # bits; Python refuses to write longer ones


@dataclass(slots=True, eq=False)
class Name:
    """Something that the pickle would import: `module.name`, or `name` where it has no module."""

    module: str
    name: str

    def __str__(self) -> str:
        return self.name if self.module in ("", "builtins", "__builtin__") else f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Call:
    """A call that loading would make; `state` and `items` are what it would be given afterwards."""

    function: object
    args: Sequence[object] = ()
    kwargs: Sequence[tuple[object, object]] = ()
    state: object = None
    items: list[object] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Pairs:
    """A dict: its pairs in order, since a key may be what Python could not hash."""

    pairs: list[tuple[object, object]]

    def get(self, key: str) -> object:
        """The last value under a text; None where there is none."""
        return next((value for name, value in reversed(self.pairs) if name == key), None)


@dataclass(slots=True, eq=False)
class Group:
    """A set or a frozenset."""

    kind: str
    items: list[object]


class _Mark:
    pass


_MARK = _Mark()


def read(data: bytes) -> object:
    """The value that a pickle holds, with `Name`, `Call`, `Pairs` and `Group` in the place of what Python would make.

    Raises ValueError for what is no whole pickle, and for one of more than `MOST_BYTES`.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(f"a pickle of {len(data)} bytes is not read; the most are {MOST_BYTES}")
    machine = _Machine()
    try:
        for opcode, arg, _at in pickletools.genops(data):
            if opcode.name == "STOP":
                return machine.pop()
            machine.step(opcode.name, arg)
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, UnicodeError, RecursionError) as error:
        raise ValueError(f"no pickle: {error}") from None
    raise ValueError("no pickle: it does not end")


def is_one(data: bytes) -> bool:
    """Whether the bytes are one pickle of protocol 2 or later, and nothing else."""
    if len(data) < 4 or data[0] != 0x80 or not 2 <= data[1] <= 5 or data[-1:] != b".":
        return False
    try:
        read(data)
    except ValueError:
        return False
    return True


class _Machine:
    """The stack and the memo of a pickle's program; what it would do to objects is only noted."""

    def __init__(self) -> None:
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}

    def pop(self) -> object:
        """What is on top; a mark is nothing to take."""
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
        found = self._stack[at + 1 :]
        del self._stack[at:]
        return found

    def step(self, name: str, arg: Any) -> None:
        """One opcode with its argument, as `pickletools.genops` reads them."""
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

    def tuple_of(self, number: int) -> None:
        """The last `number` values as a tuple."""
        values = tuple(self.pop() for _ in range(number))
        self._stack.append(values[::-1])

    def marked(self, make: Callable[[list[object]], object]) -> None:
        """All values from the last mark on, as one."""
        self._stack.append(make(self._pop_to_mark()))

    def add(self, values: list[object]) -> None:
        """Values for the list, the set or the call that is on top."""
        top = self._stack[-1]
        if isinstance(top, list):
            top.extend(values)
        elif isinstance(top, Group | Call):
            top.items.extend(values)
        else:
            raise ValueError("values for what is no list")

    def set_pairs(self, values: list[object]) -> None:
        """Keys and values in turn, for the dict or the call that is on top."""
        pairs = list(zip(values[::2], values[1::2], strict=True))
        top = self._stack[-1]
        if isinstance(top, Pairs):
            top.pairs.extend(pairs)
        elif isinstance(top, Call):
            top.items.extend(pairs)
        else:
            raise ValueError("keys for what is no dict")

    def call(self, has_names: bool = False) -> None:
        """A function and its arguments."""
        names = self.pop() if has_names else Pairs([])
        args, function = self.pop(), self.pop()
        pairs = names.pairs if isinstance(names, Pairs) else [("**", names)]
        self._stack.append(Call(function, args if isinstance(args, tuple | list) else (args,), pairs))

    def build(self) -> None:
        """The state of what is below it."""
        state, top = self.pop(), self._stack[-1]
        if isinstance(top, Call):
            top.state = state
        else:  # of a name or a plain value: keep both in sight
            self._stack[-1] = Call(top, (), (), state)

    def import_from_stack(self) -> None:
        """A module and a name, both on the stack."""
        name, module = self.pop(), self.pop()
        self._stack.append(Name(str(module), str(name)))

    def instance(self, named: str | None) -> None:
        """The calls of protocol 0 and 1: a class, in words or on the stack, and what stands behind the mark."""
        values = self._pop_to_mark()
        function = _named(named) if named is not None else values.pop(0)
        self._stack.append(Call(function, tuple(values)))

    def drop(self, what: str) -> None:
        """What is on top, or all down to the mark, goes."""
        if what == "POP" and self._stack[-1] is not _MARK:
            self._stack.pop()
        else:
            self._pop_to_mark()

    def push(self, value: object) -> None:
        """One value."""
        self._stack.append(value)

    def twice(self) -> None:
        """What is on top, once more."""
        self._stack.append(self._stack[-1])


def _named(words: str) -> Name:
    module, _, name = words.partition(" ")  # pickletools gives "module name"
    return Name(module, name)


def _pairs(values: list[object]) -> Pairs:
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
    "TUPLE1": lambda it, _: it.tuple_of(1),
    "TUPLE2": lambda it, _: it.tuple_of(2),
    "TUPLE3": lambda it, _: it.tuple_of(3),
    "TUPLE": lambda it, _: it.marked(tuple),
    "LIST": lambda it, _: it.marked(list),
    "DICT": lambda it, _: it.marked(_pairs),
    "FROZENSET": lambda it, _: it.marked(lambda values: Group("frozenset", values)),
    "APPEND": lambda it, _: it.add([it.pop()]),
    "APPENDS": lambda it, _: it.add(it._pop_to_mark()),
    "ADDITEMS": lambda it, _: it.add(it._pop_to_mark()),
    "SETITEM": lambda it, _: it.set_pairs([it.pop(), it.pop()][::-1]),
    "SETITEMS": lambda it, _: it.set_pairs(it._pop_to_mark()),
    "REDUCE": lambda it, _: it.call(),
    "NEWOBJ": lambda it, _: it.call(),
    "NEWOBJ_EX": lambda it, _: it.call(has_names=True),
    "BUILD": lambda it, _: it.build(),
    "GLOBAL": lambda it, arg: it.push(_named(arg)),
    "STACK_GLOBAL": lambda it, _: it.import_from_stack(),
    "INST": lambda it, arg: it.instance(arg),
    "OBJ": lambda it, _: it.instance(None),
    "POP": lambda it, _: it.drop("POP"),
    "POP_MARK": lambda it, _: it.drop("POP_MARK"),
    "DUP": lambda it, _: it.twice(),
    "PERSID": lambda it, arg: it.push(Name("persistent", str(arg))),
    "BINPERSID": lambda it, _: it.push(Call(Name("", "persistent"), (it.pop(),))),
    "EXT1": lambda it, arg: it.push(Name("extension", str(arg))),
    "EXT2": lambda it, arg: it.push(Name("extension", str(arg))),
    "EXT4": lambda it, arg: it.push(Name("extension", str(arg))),
}


# -- to look at -----------------------------------------------------------------------------------------------------


class _Full(Exception):
    """No more is written."""


def shown(value: object, most: int = MOST_SHOWN) -> str:
    """A value as one would type it in Python: `tasks.add(1, 2, retry=True)`; cut with `…` after `most` characters."""
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


def call_text(function: str, args: object, kwargs: object, most: int = MOST_SHOWN) -> str:
    """A call in words: `function` with the arguments of a list or tuple, and the named ones of a dict or `Pairs`."""
    given = args if isinstance(args, list | tuple) else ()
    pairs = kwargs.pairs if isinstance(kwargs, Pairs) else list(kwargs.items()) if isinstance(kwargs, dict) else []
    return shown(Call(Name("", function), tuple(given), pairs), most)


def _write(value: object, write: Callable[[str], None], depth: int, most: int) -> None:
    if depth > _DEPTH:
        write("…")
        return

    def inner(each: object) -> None:
        _write(each, write, depth + 1, most)

    def joined(items: Sequence[object]) -> None:
        for at, each in enumerate(items):
            write(", " if at else "")
            inner(each)

    match value:
        case list():
            write("[")
            joined(value)
            write("]")
        case tuple():
            write("(")
            joined(value)
            write(",)" if len(value) == 1 else ")")
        case Group():
            write("{" if value.items else f"{value.kind}(")
            joined(value.items)
            write("}" if value.items else ")")
        case Pairs() | dict():
            pairs = value.pairs if isinstance(value, Pairs) else list(value.items())
            write("{")
            for at, (key, each) in enumerate(pairs):
                write(", " if at else "")
                inner(key)
                write(": ")
                inner(each)
            write("}")
        case Call():
            _write_call(value, write, inner)
        case _:
            write(_scalar(value, most))


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


def _scalar(value: object, most: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > _LONGEST_NUMBER:
        return f"<a number of {value.bit_length()} bits>"
    if isinstance(value, str | bytes | bytearray) and len(value) > most:
        value = value[: most + 1]
    return str(value) if isinstance(value, Name) else repr(value)


def plain(value: object, most: int = MOST_SHOWN) -> object:
    """A value as JSON has it: lists, dicts with text as keys, texts, numbers; a call as the text of it.

    After `most` characters of content the rest is `…`, so that a value that contains itself a thousandfold ends.
    """
    left = [most]

    def made(each: object, depth: int) -> object:
        left[0] -= 1
        if left[0] < 0 or depth > _DEPTH:
            return "…"
        if isinstance(each, Pairs | dict):
            pairs = each.pairs if isinstance(each, Pairs) else list(each.items())
            return {
                key if isinstance(key, str) else shown(key, 200): made(one, depth + 1)
                for key, one in _while(pairs, left)
            }
        if isinstance(each, Group):
            return [made(one, depth + 1) for one in _while(each.items, left)]
        if isinstance(each, list | tuple):
            return [made(one, depth + 1) for one in _while(each, left)]
        if each is None or isinstance(each, bool | float):
            return each
        if isinstance(each, int):
            return each if each.bit_length() <= _LONGEST_NUMBER else _scalar(each, most)
        text = _text(each, max(0, left[0]))
        left[0] -= len(text)
        return text

    return made(value, 0)


def _while(items: Sequence[Any], left: list[int]) -> list[Any]:
    """As many of the items as may still be written."""
    return list(items[: max(0, left[0])])


def _text(value: object, most: int) -> str:
    if isinstance(value, str):
        return value[:most]
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value[:most]).decode()
        except UnicodeDecodeError:
            return "base64:" + base64.b64encode(value[:most]).decode()
    return shown(value, most)
