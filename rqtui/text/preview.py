"""Which fields of their bodies tell the jobs of a page apart, and how these look in a row.

The first bytes of a body are the same in every row as often as not. `choose` looks at a page and takes the fields
that vary and are short; what is equal in all rows is said once (`Preview.same`), and what only looks different
(generated ids, timestamps, what the row shows already) comes last. A body that has no fields is its text on one line.
Pure; what it returns for showing is `safe` and masked.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import log2
from os.path import commonprefix
from typing import NamedTuple

from rqtui.text.body import MASK, body_view, mask_text, secrets
from rqtui.text.elision import ELLIPSIS
from rqtui.text.fields import Number, fields
from rqtui.text.formats import cell_len, is_generated
from rqtui.text.sanitise import safe, shown_id

HEAD_BYTES = 512  # of a body: enough for the fields of most, and 60 rows of them are 30 kB
TEXT_BYTES = 200  # of a body that has no fields
MOST_FIELDS = 5
_SAMPLE = 48  # rows that a choice looks at, spread over the page: two milliseconds
FEW_ROWS = 8  # a choice made from fewer is made again when there are more
_COMMON = 0.6  # of the rows have a field that is a column
_SHORT = 12  # cells; longer values count for less
_LONGEST = 40  # cells of a column
_MOST_SAME, _LONGEST_SAME = 3, 24
_LEAST_SHARED = 6  # characters that are worth leaving out, of values of more than `_SHORT` cells
_LEAST_WEIGHT = 0.3  # of a field that gets room beside others that tell more
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*|1[0-9]{9}(?:[0-9]{3})?(?:\.\d+)?", re.DOTALL)
_BEGINNING = re.compile(r".*[:./@_\- ]", re.DOTALL)
_END = re.compile(r"[@ ].*", re.DOTALL)
_IDS = frozenset({"id", "uuid", "key"})
_NAMES = frozenset({"name", "email", "title", "slug", "login"})
_VAGUE = _IDS | _NAMES | {"value", "code", "type", "text"}


class Field(NamedTuple):
    """A field that rows show: its path (empty: the whole body as text), its name in few letters, and its values:
    how many `cells` they need, whether they are numbers, and the beginning and end that they share.

    The field of `rank` 0 tells the most.
    """

    path: str
    label: str
    cells: int = 8
    is_number: bool = False
    beginning: str = ""
    end: str = ""
    rank: int = 0

    def show(self, value: str) -> str:
        """A value in a cell: what all rows share is left out of it."""
        shown = shown_value(value)
        if self.beginning and shown.startswith(self.beginning) and len(shown) > len(self.beginning):
            shown = ELLIPSIS + shown[len(self.beginning) :]
        if self.end and shown.endswith(self.end) and len(shown) > len(self.end):
            shown = shown[: -len(self.end)] + self.end[0] + ELLIPSIS
        return shown


class Same(NamedTuple):
    """What all rows have in common: the value of a field, as it is shown."""

    path: str
    label: str
    value: str


class Preview(NamedTuple):
    """What rows show of their bodies, chosen from `looked` of them.

    `columns` are fields that most have, in the order of the body; `others` those that some have, shown by name;
    `same` is what all have in common.
    """

    columns: tuple[Field, ...] = ()
    others: tuple[Field, ...] = ()
    same: tuple[Same, ...] = ()
    looked: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether no field tells anything."""
        return not self.columns and not self.others


class Shown(NamedTuple):
    """A body by its fields, and the words that its row shows beside them (its id, its name)."""

    fields: Mapping[str, str]
    beside: tuple[str, ...] = ()


def read(head: bytes) -> Mapping[str, str]:
    """The fields of a body, or its text under the empty path; nothing of no body."""
    return fields(head) or ({"": text} if (text := line(head)) else {})


def line(head: bytes) -> str:
    """The beginning of a body on one line, masked."""
    return _line(head[:TEXT_BYTES], secrets())


@lru_cache(4096)
def _line(head: bytes, _secrets: object) -> str:
    return " ".join(body_view(head).text.split())


def shown_value(value: str) -> str:
    """A value on one line, masked and safe to print."""
    return _shown_value(value, secrets())


@lru_cache(4096)
def _shown_value(value: str, _secrets: object) -> str:
    return safe(mask_text(value))


def pairs(body: Mapping[str, str], chosen: Sequence[Field]) -> str:
    """`to=ada@… template=welcome-2`: the fields of these that a body has, in its order; a text without a name."""
    by_path = {field.path: field for field in chosen}
    return " ".join(
        f"{field.label}={field.show(value)}" if field.label else field.show(value)
        for path, value in body.items()
        if (field := by_path.get(path)) is not None
    )


def still_tells(before: Preview, rows: Sequence[Shown]) -> bool:
    """Whether an earlier choice still does: columns stand as they are while they tell these rows apart."""
    if not rows:
        return True
    if not before.looked or (before.looked < FEW_ROWS and len(rows) >= 2 * before.looked):
        return False
    if before.is_empty:
        return len(rows) < FEW_ROWS
    paths = [field.path for field in (*before.columns, *before.others)]
    told = [tuple(row.fields.get(path) for path in paths) for row in rows]
    has_any = sum(any(value is not None for value in values) for values in told)
    return has_any * 2 >= len(rows) and (len(rows) < FEW_ROWS or len(set(told)) > 1)


def updated(before: Preview, rows: Sequence[Shown]) -> Preview:
    """The choice with what these rows all still have in common, and as wide as they need."""
    same = tuple(each for each in before.same if all(_has(row, each) for row in rows))
    columns = tuple(_widened(field, rows) for field in before.columns)
    return before if (same, columns) == (before.same, before.columns) else before._replace(same=same, columns=columns)


def _widened(field: Field, rows: Sequence[Shown]) -> Field:
    there = (value for row in rows if (value := row.fields.get(field.path)) is not None)
    cells = min(_LONGEST, max((cell_len(field.show(value)) for value in there), default=0))
    return field._replace(cells=cells) if cells > field.cells else field


def _has(row: Shown, same: Same) -> bool:
    value = row.fields.get(same.path)
    return value is not None and shown_value(value) == same.value


def choose(rows: Sequence[Shown]) -> Preview:
    """The fields that tell these rows apart; an even sample of a long page is looked at."""
    sample = [rows[at] for at in _places(len(rows))]
    paths: dict[str, None] = {}
    for row in sample:
        paths.update(dict.fromkeys(row.fields))
    weighed: list[tuple[float, bool, Field]] = []
    same: list[tuple[str, str]] = []
    seen: set[tuple[str | None, ...]] = set()
    for index, path in enumerate(paths):
        values = tuple(row.fields.get(path) for row in sample)
        there = [value for value in values if value is not None]
        is_equal = len(sample) > 1 and len(there) == len(sample) and len(set(there)) == 1
        if is_equal and path:
            same.append((path, there[0]))
        if is_equal or MASK in there or values in seen or _stands_beside(path, sample):
            continue
        seen.add(values)
        field, weight = _weighed(path, there, len(sample))
        weighed.append((weight - index / 200, len(there) >= _COMMON * len(sample), field))
    best = _best(weighed)
    columns = [field for _weight, is_common, field in best if is_common][:MOST_FIELDS]
    others = [field for _weight, is_common, field in best if not is_common][: 3 * MOST_FIELDS]
    labels = _named([field.path for field in (*columns, *others)])
    order = list(paths)

    def made(chosen: list[Field]) -> tuple[Field, ...]:
        ranked = [field._replace(rank=rank, label=labels[field.path]) for rank, field in enumerate(chosen)]
        return tuple(sorted(ranked, key=lambda field: order.index(field.path)))

    return Preview(made(columns), made(others), _said_once(same), len(rows))


@lru_cache(64)
def _places(number: int) -> tuple[int, ...]:
    """Which rows of so many are looked at: not every second one, for jobs may come by turns; the same each time."""
    if number <= _SAMPLE:
        return tuple(range(number))
    return tuple(sorted(random.Random(number).sample(range(number), _SAMPLE)))  # noqa: S311  no secret


def _best(weighed: Sequence[tuple[float, bool, Field]]) -> list[tuple[float, bool, Field]]:
    """Those worth their room, the best first; of what is said of one thing its name, not its id."""
    ranked = sorted(weighed, key=lambda each: -each[0])
    worth = [each for each in ranked if each[0] >= _LEAST_WEIGHT] or ranked[:1]
    named = {path[0] for _weight, _is_common, field in worth if (path := field.path.rpartition("."))[2] in _NAMES}
    return [each for each in worth if (path := each[2].path.rpartition("."))[2] not in _IDS or path[0] not in named]


def _said_once(same: Sequence[tuple[str, str]]) -> tuple[Same, ...]:
    """What is short of it, and no secret."""
    short = {path: shown for path, value in same if 0 < len(shown := shown_value(value)) <= _LONGEST_SAME}
    open_ = {path: shown for path, shown in short.items() if MASK not in shown}
    names = _named([*open_])
    return tuple(Same(path, names[path], shown) for path, shown in open_.items())[:_MOST_SAME]


def _stands_beside(path: str, sample: Sequence[Shown]) -> bool:
    """Whether the rows show this value already, as the job's id or its name."""
    there = [row for row in sample if path in row.fields]
    return sum(row.fields[path] in row.beside for row in there) * 2 > len(there)


def _weighed(path: str, there: Sequence[str], rows: int) -> tuple[Field, float]:
    """A field and how much it tells: much where values differ, are short and were given by somebody."""
    number = Counter(there)
    most = log2(len(there)) if len(there) > 1 else 0.0
    spread = -sum(n / len(there) * log2(n / len(there)) for n in number.values()) / most if most else 0.5
    shown = [shown_value(value) for value in number]
    is_number = all(isinstance(value, Number) for value in there)
    beginning, end = ("", "") if is_number else _shared(shown)
    field = Field(path, "", 0, is_number, beginning, end)
    lengths = [cell_len(field.show(value)) for value in number]
    mean = sum(lengths) / len(lengths)
    generated = sum(bool(is_generated(value) or _MOMENT.fullmatch(value)) for value in shown) * 2 > len(shown)
    weight = (0.35 + 0.65 * spread) * (len(there) / rows) ** 0.5
    weight *= min(1.0, _SHORT / max(1.0, mean)) * (0.25 if generated else 1.0) * 0.95 ** path.count(".")
    return field._replace(cells=max(1, min(_LONGEST, max(lengths)))), weight


def _shared(values: Sequence[str]) -> tuple[str, str]:
    """The beginning and the end that all values share, up to a sign that separates, where that is worth it."""
    if len(values) < 2 or max(map(cell_len, values)) <= _SHORT:
        return "", ""
    begins = _BEGINNING.match(commonprefix(values))
    beginning = begins[0] if begins and len(begins[0]) >= _LEAST_SHARED else ""
    ends = _END.search(commonprefix([value[len(beginning) :][::-1] for value in values])[::-1])
    return beginning, ends[0] if ends and len(ends[0]) >= _LEAST_SHARED else ""


def _named(paths: Sequence[str]) -> dict[str, str]:
    """A name for each path: as short as the others allow."""
    ways = {path: _labels(path) for path in paths}
    while True:
        names = {path: way[0] for path, way in ways.items()}
        number = Counter(names.values())
        twice = [path for path, name in names.items() if number[name] > 1 and len(ways[path]) > 1]
        if not twice:
            return names
        for path in twice:
            ways[path] = ways[path][1:]


def _labels(path: str) -> list[str]:
    """Names for a path, the shortest first: `customer` for `customer.email`, else its last words, else all of it."""
    parts = path.split(".")
    ways = [".".join(parts[-n:]) for n in range(1, len(parts) + 1)]
    if len(parts) > 1 and parts[-1].isdecimal():
        ways = ways[1:]  # the number alone says nothing
    elif len(parts) > 1 and parts[-1].lower() in _VAGUE and not parts[-2].isdecimal():
        ways[0] = parts[-2]
    return [safe(way) for way in ways]


# -- ids ---------------------------------------------------------------------------------------------------------------


class Ids(NamedTuple):
    """How ids are shown in `cells`: without the `beginning` they share, or by the `tail` of generated ones."""

    cells: int = 0  # not chosen yet
    beginning: str = ""
    tail: int = 0

    @property
    def is_short(self) -> bool:
        """Whether something is left out of every id."""
        return bool(self.beginning or self.tail)


_NO_IDS = Ids()
_LEAST_TAIL, _MOST_TAIL = 7, 15
_SHORT_ID = 12  # cells; ids of no more are whole, whatever they share


def choose_ids(ids: Sequence[bytes], before: Ids = _NO_IDS) -> Ids:
    """As few letters as tell these ids apart; as before, while that does."""
    shown = [shown_id(id) for id in ids]
    if before.cells and _still_shortens(before, shown):
        return before._replace(cells=max(before.cells, *(cell_len(_shortened(text, before)) for text in shown)))
    if sum(map(is_generated, shown)) * 5 >= len(shown) * 4:
        tail = next(
            (n for n in range(_LEAST_TAIL, _MOST_TAIL) if len({t[-n:] for t in shown}) == len(shown)), _MOST_TAIL
        )
        return Ids(tail, "", tail)
    begins = _BEGINNING.match(commonprefix(shown)) if len(shown) > 1 else None
    longest = max(cell_len(text) for text in shown)
    is_worth_it = begins and len(begins[0]) > 3 and begins[0] not in shown and longest > _SHORT_ID
    beginning = begins[0] if begins and is_worth_it else ""
    return Ids(longest - len(beginning), beginning)


def _still_shortens(before: Ids, shown: Sequence[str]) -> bool:
    if before.tail:
        return len({text[-before.tail :] for text in shown}) == len(shown)
    return sum(text.startswith(before.beginning) for text in shown) * 2 >= len(shown)


def short_id(id: bytes, ids: Ids) -> str:
    """The id without what is left out of all; whole where it has another form."""
    return _shortened(shown_id(id), ids)


def _shortened(text: str, ids: Ids) -> str:
    if ids.tail and is_generated(text):
        return text[-ids.tail :]
    return text.removeprefix(ids.beginning) if len(text) > len(ids.beginning) else text
