"""Choose which body fields of a page of jobs are shown as columns, and format their values.

The first bytes of a body are often the same in every row. So `choose` reads a page and selects fields that vary and are
short. Values that all rows share are shown once (`Preview.same`). Fields that vary without meaning (generated ids,
timestamps, values the row already shows) rank last. A body without fields is shown as one line of text. Pure functions;
all returned text is `safe` and masked.
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

from rqtui.text.body import render_body
from rqtui.text.elision import ELLIPSIS
from rqtui.text.fields import Number, read_fields
from rqtui.text.formats import cell_len, is_generated
from rqtui.text.masking import MASK, build_masking_key, mask_text
from rqtui.text.sanitise import format_id, safe

HEAD_BYTES = 512  # of a body: enough for the fields of most, and 60 rows of them are 30 kB
TEXT_BYTES = 200  # of a body that has no fields
MOST_FIELDS = 5
_SAMPLE = 48  # rows that a choice reads, spread over the page: two milliseconds
FEW_ROWS = 8  # a choice from fewer rows is repeated when there are more
_COMMON = 0.6  # the share of rows that must have a field before it becomes a column
_SHORT = 12  # cells; longer values count for less
_LONGEST = 40  # cells of a column
_MOST_SAME, _LONGEST_SAME = 3, 24
_LEAST_SHARED = 6  # shared characters worth leaving out, of values longer than `_SHORT` cells
_LEAST_WEIGHT = 0.3  # fields with less weight are shown only if there are no others
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*|1[0-9]{9}(?:[0-9]{3})?(?:\.\d+)?", re.DOTALL)
_BEGINNING = re.compile(r".*[:./@_\- ]", re.DOTALL)
_END = re.compile(r"[@ ].*", re.DOTALL)
_IDS = frozenset({"id", "uuid", "key"})
_NAMES = frozenset({"name", "email", "title", "slug", "login"})
_VAGUE = _IDS | _NAMES | {"value", "code", "type", "text"}


class Field(NamedTuple):
    """A body field shown in the rows. `rank` 0 is the field that distinguishes the rows best."""

    path: str  # empty: the whole body as text
    label: str
    cells: int = 8  # the width that its values need
    is_number: bool = False
    beginning: str = ""  # the text that all values begin with
    end: str = ""  # the text that all values end with
    rank: int = 0

    def format_value(self, value: str) -> str:
        """Return a value for a cell, without the parts that all rows share."""
        shown = format_value(value)
        if self.beginning and shown.startswith(self.beginning) and len(shown) > len(self.beginning):
            shown = ELLIPSIS + shown[len(self.beginning) :]
        if self.end and shown.endswith(self.end) and len(shown) > len(self.end):
            shown = shown[: -len(self.end)] + self.end[0] + ELLIPSIS
        return shown


class SharedValue(NamedTuple):
    """A field with the same value in all rows."""

    path: str
    label: str
    value: str


class Preview(NamedTuple):
    """The fields shown for a page, chosen from a number of its rows."""

    columns: tuple[Field, ...] = ()  # fields that most rows have, in the order of the body
    others: tuple[Field, ...] = ()  # fields that some rows have, shown with their name
    same: tuple[SharedValue, ...] = ()  # values that all rows share
    rows_read: int = 0  # the number of rows of the page

    @property
    def is_empty(self) -> bool:
        """Whether no field was chosen."""
        return not self.columns and not self.others


class RowFields(NamedTuple):
    """The fields of one body, and the texts that its row already shows (id and name of the job)."""

    fields: Mapping[str, str]
    beside: tuple[str, ...] = ()


def read_preview_fields(head: bytes) -> Mapping[str, str]:
    """Return the fields of a body, or its text under the empty path. Returns nothing for an empty body."""
    return read_fields(head) or ({"": text} if (text := render_line(head)) else {})


def render_line(head: bytes) -> str:
    """Return the beginning of a body on one line, masked."""
    return _render_line(head[:TEXT_BYTES], build_masking_key())


@lru_cache(4096)
def _render_line(head: bytes, _secrets: object) -> str:
    return " ".join(render_body(head).text.split())


def format_value(value: str) -> str:
    """Return a value on one line, masked and safe to print."""
    return _format_value(value, build_masking_key())


@lru_cache(4096)
def _format_value(value: str, _secrets: object) -> str:
    return safe(mask_text(value))


def format_pairs(body: Mapping[str, str], chosen: Sequence[Field]) -> str:
    """Format the chosen fields that a body has, in its order: `to=ada@… template=welcome-2`.

    A plain text has no name.
    """
    by_path = {field.path: field for field in chosen}
    return " ".join(
        f"{field.label}={field.format_value(value)}" if field.label else field.format_value(value)
        for path, value in body.items()
        if (field := by_path.get(path)) is not None
    )


def is_still_suitable(before: Preview, rows: Sequence[RowFields]) -> bool:
    """Return whether an earlier choice still distinguishes these rows, so that the columns need not change."""
    if not rows:
        return True
    if not before.rows_read or (before.rows_read < FEW_ROWS and len(rows) >= 2 * before.rows_read):
        return False
    if before.is_empty:
        return len(rows) < FEW_ROWS
    paths = [field.path for field in (*before.columns, *before.others)]
    row_values = [tuple(row.fields.get(path) for path in paths) for row in rows]
    has_any = sum(any(value is not None for value in values) for values in row_values)
    return has_any * 2 >= len(rows) and (len(rows) < FEW_ROWS or len(set(row_values)) > 1)


def update_choice(before: Preview, rows: Sequence[RowFields]) -> Preview:
    """Return the choice with the values that these rows still share, and with columns wide enough for them."""
    same = tuple(each for each in before.same if all(_has_value(row, each) for row in rows))
    columns = tuple(_widen(field, rows) for field in before.columns)
    return before if (same, columns) == (before.same, before.columns) else before._replace(same=same, columns=columns)


def _widen(field: Field, rows: Sequence[RowFields]) -> Field:
    there = (value for row in rows if (value := row.fields.get(field.path)) is not None)
    cells = min(_LONGEST, max((cell_len(field.format_value(value)) for value in there), default=0))
    return field._replace(cells=cells) if cells > field.cells else field


def _has_value(row: RowFields, same: SharedValue) -> bool:
    value = row.fields.get(same.path)
    return value is not None and format_value(value) == same.value


def choose_fields(rows: Sequence[RowFields]) -> Preview:
    """Choose the fields that distinguish these rows best. Of a long page, a fixed sample is read."""
    sample = [rows[at] for at in _choose_sample_rows(len(rows))]
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
        if is_equal or MASK in there or values in seen or _is_shown_already(path, sample):
            continue
        seen.add(values)
        field, weight = _weigh_field(path, there, len(sample))
        weighed.append((weight - index / 200, len(there) >= _COMMON * len(sample), field))
    best = _rank_fields(weighed)
    columns = [field for _weight, is_common, field in best if is_common][:MOST_FIELDS]
    others = [field for _weight, is_common, field in best if not is_common][: 3 * MOST_FIELDS]
    labels = _choose_labels([field.path for field in (*columns, *others)])
    order = list(paths)

    def label_fields(chosen: list[Field]) -> tuple[Field, ...]:
        ranked = [field._replace(rank=rank, label=labels[field.path]) for rank, field in enumerate(chosen)]
        return tuple(sorted(ranked, key=lambda field: order.index(field.path)))

    return Preview(label_fields(columns), label_fields(others), _build_shared_values(same), len(rows))


@lru_cache(64)
def _choose_sample_rows(number: int) -> tuple[int, ...]:
    """Return the indices of the rows to read, the same each time. Not every second row: kinds of jobs may alternate."""
    if number <= _SAMPLE:
        return tuple(range(number))
    return tuple(sorted(random.Random(number).sample(range(number), _SAMPLE)))  # noqa: S311  no secret


def _rank_fields(weighed: Sequence[tuple[float, bool, Field]]) -> list[tuple[float, bool, Field]]:
    """Return the fields worth showing, the best first. If an object has a name, its id is left out."""
    ranked = sorted(weighed, key=lambda each: -each[0])
    worth = [each for each in ranked if each[0] >= _LEAST_WEIGHT] or ranked[:1]
    named = {path[0] for _weight, _is_common, field in worth if (path := field.path.rpartition("."))[2] in _NAMES}
    return [each for each in worth if (path := each[2].path.rpartition("."))[2] not in _IDS or path[0] not in named]


def _build_shared_values(same: Sequence[tuple[str, str]]) -> tuple[SharedValue, ...]:
    """Return the shared values that are short and not secret."""
    short = {path: shown for path, value in same if 0 < len(shown := format_value(value)) <= _LONGEST_SAME}
    open_ = {path: shown for path, shown in short.items() if MASK not in shown}
    names = _choose_labels([*open_])
    return tuple(SharedValue(path, names[path], shown) for path, shown in open_.items())[:_MOST_SAME]


def _is_shown_already(path: str, sample: Sequence[RowFields]) -> bool:
    """Return whether most rows already show this value, as the id or name of the job."""
    there = [row for row in sample if path in row.fields]
    return sum(row.fields[path] in row.beside for row in there) * 2 > len(there)


def _weigh_field(path: str, there: Sequence[str], rows: int) -> tuple[Field, float]:
    """Return a field and its weight. The weight is high if values differ, are short and were not generated."""
    number = Counter(there)
    most = log2(len(there)) if len(there) > 1 else 0.0
    spread = -sum(n / len(there) * log2(n / len(there)) for n in number.values()) / most if most else 0.5
    shown = [format_value(value) for value in number]
    is_number = all(isinstance(value, Number) for value in there)
    beginning, end = ("", "") if is_number else _find_shared_ends(shown)
    field = Field(path, "", 0, is_number, beginning, end)
    lengths = [cell_len(field.format_value(value)) for value in number]
    mean = sum(lengths) / len(lengths)
    generated = sum(bool(is_generated(value) or _MOMENT.fullmatch(value)) for value in shown) * 2 > len(shown)
    weight = (0.35 + 0.65 * spread) * (len(there) / rows) ** 0.5
    weight *= min(1.0, _SHORT / max(1.0, mean)) * (0.25 if generated else 1.0) * 0.95 ** path.count(".")
    return field._replace(cells=max(1, min(_LONGEST, max(lengths)))), weight


def _find_shared_ends(values: Sequence[str]) -> tuple[str, str]:
    """Return the beginning and the end that all values share, up to a separator, if leaving them out saves enough."""
    if len(values) < 2 or max(map(cell_len, values)) <= _SHORT:
        return "", ""
    begins = _BEGINNING.match(commonprefix(values))
    beginning = begins[0] if begins and len(begins[0]) >= _LEAST_SHARED else ""
    ends = _END.search(commonprefix([value[len(beginning) :][::-1] for value in values])[::-1])
    return beginning, ends[0] if ends and len(ends[0]) >= _LEAST_SHARED else ""


def _choose_labels(paths: Sequence[str]) -> dict[str, str]:
    """Return a label for each path, as short as possible while all labels differ."""
    candidates = {path: _list_labels(path) for path in paths}
    while True:
        names = {path: labels[0] for path, labels in candidates.items()}
        number = Counter(names.values())
        ambiguous = [path for path, name in names.items() if number[name] > 1 and len(candidates[path]) > 1]
        if not ambiguous:
            return names
        for path in ambiguous:
            candidates[path] = candidates[path][1:]


def _list_labels(path: str) -> list[str]:
    """Return labels for a path, the shortest first.

    `customer` is the first label of `customer.email`; further labels have more parts, and the last is the full path.
    """
    parts = path.split(".")
    labels = [".".join(parts[-n:]) for n in range(1, len(parts) + 1)]
    if len(parts) > 1 and parts[-1].isdecimal():
        labels = labels[1:]  # An index alone is no label.
    elif len(parts) > 1 and parts[-1].lower() in _VAGUE and not parts[-2].isdecimal():
        labels[0] = parts[-2]
    return [safe(label) for label in labels]


# -- ids ---------------------------------------------------------------------------------------------------------------


class IdFormat(NamedTuple):
    """The way ids are shortened: without a shared `beginning`, or to the last `tail` characters of generated ids."""

    cells: int = 0  # the width of the shortened ids; 0: not chosen yet
    beginning: str = ""
    tail: int = 0

    @property
    def is_short(self) -> bool:
        """Whether a part of every id is left out."""
        return bool(self.beginning or self.tail)


_NO_IDS = IdFormat()
_LEAST_TAIL, _MOST_TAIL = 7, 15
_SHORT_ID = 12  # cells; shorter ids are shown in full, whatever they share


def choose_id_format(ids: Sequence[bytes], before: IdFormat = _NO_IDS) -> IdFormat:
    """Choose the shortest id format that keeps these ids different. The previous format is kept while it does."""
    shown = [format_id(id) for id in ids]
    if before.cells and _is_id_format_suitable(before, shown):
        return before._replace(cells=max(before.cells, *(cell_len(_shorten(text, before)) for text in shown)))
    if sum(map(is_generated, shown)) * 5 >= len(shown) * 4:
        tail = next(
            (n for n in range(_LEAST_TAIL, _MOST_TAIL) if len({t[-n:] for t in shown}) == len(shown)), _MOST_TAIL
        )
        return IdFormat(tail, "", tail)
    begins = _BEGINNING.match(commonprefix(shown)) if len(shown) > 1 else None
    longest = max(cell_len(text) for text in shown)
    is_worth_it = begins and len(begins[0]) > 3 and begins[0] not in shown and longest > _SHORT_ID
    beginning = begins[0] if begins and is_worth_it else ""
    return IdFormat(longest - len(beginning), beginning)


def _is_id_format_suitable(before: IdFormat, shown: Sequence[str]) -> bool:
    if before.tail:
        return len({text[-before.tail :] for text in shown}) == len(shown)
    return sum(text.startswith(before.beginning) for text in shown) * 2 >= len(shown)


def shorten_id(id: bytes, ids: IdFormat) -> str:
    """Return an id in the chosen format; an id of another form is returned in full."""
    return _shorten(format_id(id), ids)


def _shorten(text: str, ids: IdFormat) -> str:
    if ids.tail and is_generated(text):
        return text[-ids.tail :]
    return text.removeprefix(ids.beginning) if len(text) > len(ids.beginning) else text
