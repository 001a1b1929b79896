"""Parse pickles as data, opcode by opcode, without loading them, so that nothing in them is imported or executed.

An import becomes a `Name`; a call becomes a `Call` with function, arguments and state. The cost is limited: at most
`MOST_BYTES` of a pickle are read, and `convert_to_json_types` and `format_as_python` limit their output, however often
a value contains another.

The opcodes are those of `pickletools` in Python 3.14 (protocols 0 to 5). Persistent ids, out-of-band buffers and the
extension registry become names without a meaning.
"""

from __future__ import annotations

import base64
import pickletools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MOST_BYTES = 256 * 1024
MOST_SHOWN = 64 * 1024  # characters of the output
_DEPTH = 40
_LONGEST_NUMBER = 4_000  # bits; Python refuses to write longer ones


@dataclass(slots=True, eq=False)
class Name:
    """An object that loading a pickle would import: `module.name`, or `name` without a module."""

    module: str
    name: str

    def __str__(self) -> str:
        return self.name if self.module in ("", "builtins", "__builtin__") else f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Call:
    """A function call that loading a pickle would make. `state` and `items` are set on its result afterwards."""

    function: object
    args: Sequence[object] = ()
    kwargs: Sequence[tuple[object, object]] = ()
    state: object = None
    items: list[object] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Pairs:
    """A dict in a pickle, as a list of (key, value) pairs in order, because a key may not be hashable in Python."""

    pairs: list[tuple[object, object]]

    def get(self, key: str) -> object:
        """Return the last value of a text key in a pickled dict, or None."""
        return next((value for name, value in reversed(self.pairs) if name == key), None)


@dataclass(slots=True, eq=False)
class Group:
    """A set or a frozenset in a pickle; `kind` says which."""

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
            machine.run_pickle_opcode(opcode.name, arg)
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, UnicodeError, RecursionError) as error:
        raise ValueError(f"no pickle: {error}") from None
    raise ValueError("no pickle: it does not end")


class DictItem(NamedTuple):
    """An item of the outermost dict in a pickle: the bytes of its key begin at `start`, those of its value at `middle`.

    Its last byte is before `end`.
    """

    key: object
    value: object
    start: int
    middle: int
    end: int


def parse_pickled_dict(data: bytes) -> list[DictItem]:
    """Parse a pickle of one dict with text keys into its items, each with the position of its bytes.

    The protocol is 1 or later. A pickle that is cut off is read as far as its items are complete. Raises ValueError if
    it is no such dict.
    """
    machine = _Machine()
    starts: list[int] = []  # for each value on the stack, the position of its first opcode
    at = 0
    try:
        for opcode, arg, position in pickletools.genops(data[:MOST_BYTES]):
            at = position or 0
            if (opcode.name == "SETITEMS" and machine.is_filling_outer_dict()) or opcode.name == "STOP":
                break
            machine.run_pickle_opcode(opcode.name, arg)
            del starts[len(machine) :]
            starts += [at] * (len(machine) - len(starts))
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, UnicodeError, RecursionError):
        pass  # Its end is missing, or a part of it is unreadable: the items before that part are returned.
    values = machine.list_outer_items()
    if values is None:
        raise ValueError("no pickle of a dict")
    is_complete = data[at : at + 1] == b"u"
    ends = [*starts[4::2], at if is_complete else len(data)]
    number = len(values) // 2 - (not is_complete and len(values) % 2 == 0)  # The last value may be cut off.
    return [
        DictItem(values[2 * i], values[2 * i + 1], starts[2 + 2 * i], starts[3 + 2 * i], ends[i])
        for i in range(max(0, number))
    ]


def remove_frames(data: bytes) -> bytes:
    """Return a part of a pickle without its FRAME opcodes, which are optional and have the length of what follows."""
    parts, begin = [], 0
    try:
        for opcode, _arg, position in pickletools.genops(data):
            if opcode.name == "FRAME" and position is not None:
                parts.append(data[begin:position])
                begin = position + 9
    except ValueError:
        pass  # The part has no STOP.
    return b"".join([*parts, data[begin:]])


def is_pickle(data: bytes) -> bool:
    """Return whether the bytes are exactly one pickle of protocol 2 or later."""
    if len(data) < 4 or data[0] != 0x80 or not 2 <= data[1] <= 5 or data[-1:] != b".":
        return False
    try:
        parse_pickle(data)
    except ValueError:
        return False
    return True


class _Machine:
    """The stack and the memo of the virtual machine that pickles are written for. Calls are recorded, not executed."""

    def __init__(self) -> None:
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}

    def __len__(self) -> int:
        return len(self._stack)

    def is_filling_outer_dict(self) -> bool:
        """Return whether all marks but the one of the outermost dict were closed."""
        return [number for number, value in enumerate(self._stack) if value is _MARK] == [1]

    def list_outer_items(self) -> list[object] | None:
        """Return the keys and values of the outermost dict that is being read; None if the outermost value is none."""
        if len(self._stack) < 2 or not isinstance(self._stack[0], Pairs) or self._stack[1] is not _MARK:
            return None
        end = next((at for at in range(2, len(self._stack)) if self._stack[at] is _MARK), len(self._stack))
        return self._stack[2:end]

    def pop(self) -> object:
        """Remove and return the top of the pickle machine's stack. Raises ValueError if the top is a mark."""
        value = self._stack.pop()
        if value is _MARK:
            raise ValueError("a mark where a value should be")
        return value

    def _pop_values_to_mark(self) -> list[object]:
        position = next((at for at in reversed(range(len(self._stack))) if self._stack[at] is _MARK), None)
        if position is None:
            raise ValueError("a mark is missing")
        values = self._stack[position + 1 :]
        del self._stack[position:]
        return values

    def run_pickle_opcode(self, name: str, arg: Any) -> None:
        """Run one opcode of a pickle with its argument, as `pickletools.genops` reads them."""
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
        """Replace the last `number` values of the stack by a tuple of them."""
        values = tuple(self.pop() for _ in range(number))
        self._stack.append(values[::-1])

    def replace_values_since_mark(self, make: Callable[[list[object]], object]) -> None:
        """Replace all values of the stack since the last mark by the result of `make`."""
        self._stack.append(make(self._pop_values_to_mark()))

    def append_list_items(self, values: list[object]) -> None:
        """Append values to the list, set or call on top of the stack."""
        top = self._stack[-1]
        if isinstance(top, list):
            top.extend(values)
        elif isinstance(top, Group | Call):
            top.items.extend(values)
        else:
            raise ValueError("values for what is no list")

    def add_dict_items(self, values: list[object]) -> None:
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
        """Replace a function and its arguments on the stack by a `Call`, which is a record: nothing is called."""
        names = self.pop() if has_names else Pairs([])
        args, function = self.pop(), self.pop()
        pairs = names.pairs if isinstance(names, Pairs) else [("**", names)]
        self._stack.append(Call(function, args if isinstance(args, tuple | list) else (args,), pairs))

    def set_object_state(self) -> None:
        """Take the state on the top of the stack, and set it on the object below."""
        state, top = self.pop(), self.pop()
        if isinstance(top, Call):
            top.state = state
        else:  # For a name or a plain value, keep both the value and its state.
            top = Call(top, (), (), state)
        self._stack.append(top)

    def replace_by_name(self) -> None:
        """Replace a module and a name on the stack by a `Name`."""
        name, module = self.pop(), self.pop()
        self._stack.append(Name(str(module), str(name)))

    def record_instance(self, class_name: str | None) -> None:
        """Record the creation of an instance (protocols 0 and 1): a class and the values since the last mark."""
        values = self._pop_values_to_mark()
        function = _parse_import_name(class_name) if class_name is not None else values.pop(0)
        self._stack.append(Call(function, tuple(values)))

    def drop_stack_values(self, opcode_name: str) -> None:
        """Remove the top of the stack (`POP`), or all values down to the last mark."""
        if opcode_name == "POP" and self._stack[-1] is not _MARK:
            self._stack.pop()
        else:
            self._pop_values_to_mark()

    def push_value(self, value: object) -> None:
        """Push one value on the stack of the pickle machine."""
        self._stack.append(value)

    def duplicate_top_value(self) -> None:
        """Push the value on top of the stack a second time."""
        self._stack.append(self._stack[-1])


def _parse_import_name(words: str) -> Name:
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
    "TUPLE": lambda it, _: it.replace_values_since_mark(tuple),
    "LIST": lambda it, _: it.replace_values_since_mark(list),
    "DICT": lambda it, _: it.replace_values_since_mark(_build_pairs),
    "FROZENSET": lambda it, _: it.replace_values_since_mark(lambda values: Group("frozenset", values)),
    "APPEND": lambda it, _: it.append_list_items([it.pop()]),
    "APPENDS": lambda it, _: it.append_list_items(it._pop_values_to_mark()),
    "ADDITEMS": lambda it, _: it.append_list_items(it._pop_values_to_mark()),
    "SETITEM": lambda it, _: it.add_dict_items([it.pop(), it.pop()][::-1]),
    "SETITEMS": lambda it, _: it.add_dict_items(it._pop_values_to_mark()),
    "REDUCE": lambda it, _: it.record_call(),
    "NEWOBJ": lambda it, _: it.record_call(),
    "NEWOBJ_EX": lambda it, _: it.record_call(has_names=True),
    "BUILD": lambda it, _: it.set_object_state(),
    "GLOBAL": lambda it, arg: it.push_value(_parse_import_name(arg)),
    "STACK_GLOBAL": lambda it, _: it.replace_by_name(),
    "INST": lambda it, arg: it.record_instance(arg),
    "OBJ": lambda it, _: it.record_instance(None),
    "POP": lambda it, _: it.drop_stack_values("POP"),
    "POP_MARK": lambda it, _: it.drop_stack_values("POP_MARK"),
    "DUP": lambda it, _: it.duplicate_top_value(),
    "PERSID": lambda it, arg: it.push_value(Name("persistent", str(arg))),
    "BINPERSID": lambda it, _: it.push_value(Call(Name("", "persistent"), (it.pop(),))),
    "EXT1": lambda it, arg: it.push_value(Name("extension", str(arg))),
    "EXT2": lambda it, arg: it.push_value(Name("extension", str(arg))),
    "EXT4": lambda it, arg: it.push_value(Name("extension", str(arg))),
}


# -- to look at -----------------------------------------------------------------------------------------------------


class _Full(Exception):
    """Raised inside this module when the text of a formatted pickle has reached its maximal length."""


def format_as_python(value: object, max_chars: int = MOST_SHOWN) -> str:
    """Format a parsed pickle as Python source: `tasks.add(1, 2, retry=True)`.

    A text that is longer than `max_chars` is cut and ends with `…`.
    """
    written: list[str] = []
    characters_left = max_chars

    def append_text(text: str) -> None:
        nonlocal characters_left
        written.append(text[:characters_left])
        characters_left -= len(text)
        if characters_left < 0:
            raise _Full

    try:
        _write_value(value, append_text, 0, characters_left)
    except _Full:
        written.append("…")
    return "".join(written)


def format_function_call(function: str, args: object, kwargs: object, max_chars: int = MOST_SHOWN) -> str:
    """Format the call of a function as Python source. `args` is a list or tuple, `kwargs` a dict or `Pairs`."""
    positional_args = args if isinstance(args, list | tuple) else ()
    pairs = kwargs.pairs if isinstance(kwargs, Pairs) else list(kwargs.items()) if isinstance(kwargs, dict) else []
    return format_as_python(Call(Name("", function), tuple(positional_args), pairs), max_chars)


def _write_value(value: object, write: Callable[[str], None], depth: int, max_chars: int) -> None:
    if depth > _DEPTH:
        write("…")
        return

    def write_nested_value(item: object) -> None:
        _write_value(item, write, depth + 1, max_chars)

    def write_comma_separated_values(items: Sequence[object]) -> None:
        for number, item in enumerate(items):
            write(", " if number else "")
            write_nested_value(item)

    match value:
        case list():
            write("[")
            write_comma_separated_values(value)
            write("]")
        case tuple():
            write("(")
            write_comma_separated_values(value)
            write(",)" if len(value) == 1 else ")")
        case Group():
            write("{" if value.items else f"{value.kind}(")
            write_comma_separated_values(value.items)
            write("}" if value.items else ")")
        case Pairs() | dict():
            pairs = value.pairs if isinstance(value, Pairs) else list(value.items())
            write("{")
            for number, (key, item) in enumerate(pairs):
                write(", " if number else "")
                write_nested_value(key)
                write(": ")
                write_nested_value(item)
            write("}")
        case Call():
            _write_call(value, write, write_nested_value)
        case _:
            write(_format_scalar(value, max_chars))


def _write_call(call: Call, write: Callable[[str], None], write_inner: Callable[[object], None]) -> None:
    write_inner(call.function)
    write("(")
    parts: list[tuple[str, object]] = [("", part_value) for part_value in call.args]
    parts += [(f"{key}=" if isinstance(key, str) else "**", part_value) for key, part_value in call.kwargs]
    for number, (name, part_value) in enumerate(parts):
        write((", " if number else "") + name)
        write_inner(part_value)
    write(")")
    if call.state is not None:
        write(" with ")
        write_inner(call.state)
    if call.items:
        write(" of ")
        write_inner(call.items)


def _format_scalar(value: object, max_chars: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > _LONGEST_NUMBER:
        return f"<a number of {value.bit_length()} bits>"
    if isinstance(value, str | bytes | bytearray) and len(value) > max_chars:
        value = value[: max_chars + 1]
    return str(value) if isinstance(value, Name) else repr(value)


def convert_to_json_types(value: object, max_chars: int = MOST_SHOWN) -> object:
    """Convert a parsed pickle to JSON types: lists, dicts with text keys, texts and numbers. A call becomes its text.

    After `max_chars` characters the rest is `…`, so that a value that contains itself a thousand times still ends.
    """
    characters_left = [max_chars]

    def convert_nested_value(inner_value: object, depth: int) -> object:
        characters_left[0] -= 1
        if characters_left[0] < 0 or depth > _DEPTH:
            return "…"
        if isinstance(inner_value, Pairs | dict):
            pairs = inner_value.pairs if isinstance(inner_value, Pairs) else list(inner_value.items())
            return {
                key if isinstance(key, str) else format_as_python(key, 200): convert_nested_value(item, depth + 1)
                for key, item in pairs[: characters_left[0]]
            }
        if isinstance(inner_value, Group):
            return [convert_nested_value(item, depth + 1) for item in inner_value.items[: characters_left[0]]]
        if isinstance(inner_value, list | tuple):
            return [convert_nested_value(item, depth + 1) for item in inner_value[: characters_left[0]]]
        if inner_value is None or isinstance(inner_value, bool | float):
            return inner_value
        if isinstance(inner_value, int):
            return (
                inner_value if inner_value.bit_length() <= _LONGEST_NUMBER else _format_scalar(inner_value, max_chars)
            )
        text = _convert_to_limited_text(inner_value, characters_left[0])
        characters_left[0] -= len(text)
        return text

    return convert_nested_value(value, 0)


def _convert_to_limited_text(value: object, max_chars: int) -> str:
    if isinstance(value, str):
        return value[:max_chars]
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value[:max_chars]).decode()
        except UnicodeDecodeError:
            return "base64:" + base64.b64encode(value[:max_chars]).decode()
    return format_as_python(value, max_chars)
