"""Choose which body fields of a page of jobs are shown as columns, and format their values.

The first bytes of a body are often the same in every row. So `choose_preview_fields` reads a page and selects fields
that vary and are short. Values that all rows share are shown once (`Preview.same`). Fields that vary without meaning
(generated ids, timestamps, values the row already shows) rank last. A body without fields is shown as one line of text.
Pure functions; all returned text is `safe` and masked.
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
from rqtui.text.fields import Number, read_body_fields
from rqtui.text.formats import cell_len, is_generated_id
from rqtui.text.masking import MASK, build_masking_cache_key, mask_text
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
    """A field of job bodies that is shown in the rows of a page.

    `rank` 0 is the field that distinguishes the rows best.
    """

    path: str  # empty: the whole body as text
    label: str
    cells: int = 8  # the width that its values need
    is_number: bool = False
    beginning: str = ""  # the text that all values begin with
    end: str = ""  # the text that all values end with
    rank: int = 0

    def format_value(self, value: str) -> str:
        """Return the value of a body field for a table cell, without the beginning and end that all rows share."""
        text = format_field_value(value)
        if self.beginning and text.startswith(self.beginning) and len(text) > len(self.beginning):
            text = ELLIPSIS + text[len(self.beginning) :]
        if self.end and text.endswith(self.end) and len(text) > len(self.end):
            text = text[: -len(self.end)] + self.end[0] + ELLIPSIS
        return text


class SharedValue(NamedTuple):
    """A field of job bodies that has the same value in all rows of a page."""

    path: str
    label: str
    value: str


class Preview(NamedTuple):
    """The body fields that are shown for a page of jobs, chosen from a number of its rows."""

    columns: tuple[Field, ...] = ()  # fields that most rows have, in the order of the body
    others: tuple[Field, ...] = ()  # fields that some rows have, shown with their name
    same: tuple[SharedValue, ...] = ()  # values that all rows share
    rows_read: int = 0  # the number of rows of the page

    @property
    def is_empty(self) -> bool:
        """Whether no body field was chosen for the page."""
        return not self.columns and not self.others


class RowFields(NamedTuple):
    """The fields of one job body, and the texts that its row already shows (id and name of the job)."""

    fields: Mapping[str, str]
    beside: tuple[str, ...] = ()


def read_preview_fields(head: bytes) -> Mapping[str, str]:
    """Return the fields of a job body by path. A body without fields is one text under the empty path.

    Empty for an empty body.
    """
    return read_body_fields(head) or ({"": text} if (text := render_body_line(head)) else {})


def render_body_line(head: bytes) -> str:
    """Return the beginning of a job body as one line of text, with secrets masked."""
    return _render_cached_body_line(head[:TEXT_BYTES], build_masking_cache_key())


@lru_cache(4096)
def _render_cached_body_line(head: bytes, _secrets: object) -> str:
    return " ".join(render_body(head).text.split())


def format_field_value(value: str) -> str:
    """Return the value of a body field on one line, masked and safe to print."""
    return _format_cached_value(value, build_masking_cache_key())


@lru_cache(4096)
def _format_cached_value(value: str, _secrets: object) -> str:
    return safe(mask_text(value))


def format_field_pairs(body: Mapping[str, str], chosen: Sequence[Field]) -> str:
    """Format the chosen fields of one job body, in the order of the body: `to=ada@… template=welcome-2`.

    If the body is plain text without fields, the text is shown without a name.
    """
    by_path = {field.path: field for field in chosen}
    return " ".join(
        f"{field.label}={field.format_value(value)}" if field.label else field.format_value(value)
        for path, value in body.items()
        if (field := by_path.get(path)) is not None
    )


def is_choice_still_suitable(previous_choice: Preview, rows: Sequence[RowFields]) -> bool:
    """Return whether fields chosen earlier still distinguish these rows, so that the columns need not change."""
    if not rows:
        return True
    if not previous_choice.rows_read or (
        previous_choice.rows_read < FEW_ROWS and len(rows) >= 2 * previous_choice.rows_read
    ):
        return False
    if previous_choice.is_empty:
        return len(rows) < FEW_ROWS
    paths = [field.path for field in (*previous_choice.columns, *previous_choice.others)]
    row_values = [tuple(row.fields.get(path) for path in paths) for row in rows]
    has_any = sum(any(value is not None for value in values) for values in row_values)
    return has_any * 2 >= len(rows) and (len(rows) < FEW_ROWS or len(set(row_values)) > 1)


def update_field_choice(previous_choice: Preview, rows: Sequence[RowFields]) -> Preview:
    """Return an earlier choice of fields, with only the values that these rows still share, and wide enough columns."""
    same = tuple(
        shared_value
        for shared_value in previous_choice.same
        if all(_has_shared_value(row, shared_value) for row in rows)
    )
    columns = tuple(_widen_column(field, rows) for field in previous_choice.columns)
    return (
        previous_choice
        if (same, columns) == (previous_choice.same, previous_choice.columns)
        else previous_choice._replace(same=same, columns=columns)
    )


def _widen_column(field: Field, rows: Sequence[RowFields]) -> Field:
    present_values = (value for row in rows if (value := row.fields.get(field.path)) is not None)
    cells = min(_LONGEST, max((cell_len(field.format_value(value)) for value in present_values), default=0))
    return field._replace(cells=max(cells, field.cells))


def _has_shared_value(row: RowFields, same: SharedValue) -> bool:
    value = row.fields.get(same.path)
    return value is not None and format_field_value(value) == same.value


def choose_preview_fields(rows: Sequence[RowFields]) -> Preview:
    """Choose the body fields that distinguish the rows of a page best. On a long page, only a fixed sample is read."""
    sample = [rows[number] for number in _choose_sample_row_indices(len(rows))]
    paths: dict[str, None] = {}
    for row in sample:
        paths.update(dict.fromkeys(row.fields))
    weighed: list[tuple[float, bool, Field]] = []
    shared_values: list[tuple[str, str]] = []
    seen_values: set[tuple[str | None, ...]] = set()
    for index, path in enumerate(paths):
        values = tuple(row.fields.get(path) for row in sample)
        present_values = [value for value in values if value is not None]
        is_equal = len(sample) > 1 and len(present_values) == len(sample) and len(set(present_values)) == 1
        if is_equal and path:
            shared_values.append((path, present_values[0]))
        if is_equal or MASK in present_values or values in seen_values or _is_value_shown_already(path, sample):
            continue
        seen_values.add(values)
        field, weight = _compute_field_weight(path, present_values, len(sample))
        weighed.append((weight - index / 200, len(present_values) >= _COMMON * len(sample), field))
    best = _rank_fields(weighed)
    columns = [field for _weight, is_common, field in best if is_common][:MOST_FIELDS]
    others = [field for _weight, is_common, field in best if not is_common][: 3 * MOST_FIELDS]
    labels = _choose_field_labels([field.path for field in (*columns, *others)])
    order = list(paths)

    def label_fields(chosen: list[Field]) -> tuple[Field, ...]:
        ranked = [field._replace(rank=rank, label=labels[field.path]) for rank, field in enumerate(chosen)]
        return tuple(sorted(ranked, key=lambda field: order.index(field.path)))

    return Preview(label_fields(columns), label_fields(others), _build_shared_values(shared_values), len(rows))


@lru_cache(64)
def _choose_sample_row_indices(number: int) -> tuple[int, ...]:
    """Return the indices of the rows from which fields are chosen: always the same ones for a page of this length.

    They are not evenly spaced, because kinds of jobs may alternate.
    """
    return tuple(sorted(random.Random(number).sample(range(number), min(number, _SAMPLE))))  # noqa: S311  no secret


def _rank_fields(weighed: Sequence[tuple[float, bool, Field]]) -> list[tuple[float, bool, Field]]:
    """Return the body fields worth showing, the best first. If an object has a name, its id is left out."""
    ranked = sorted(weighed, key=lambda candidate: -candidate[0])
    worth_showing = [candidate for candidate in ranked if candidate[0] >= _LEAST_WEIGHT] or ranked[:1]
    named_objects = {
        path[0] for _weight, _is_common, field in worth_showing if (path := field.path.rpartition("."))[2] in _NAMES
    }
    return [
        candidate
        for candidate in worth_showing
        if (path := candidate[2].path.rpartition("."))[2] not in _IDS or path[0] not in named_objects
    ]


def _build_shared_values(shared_values: Sequence[tuple[str, str]]) -> tuple[SharedValue, ...]:
    """Return the values shared by all rows of a page that are short and not secret."""
    short_values = {
        path: text for path, value in shared_values if 0 < len(text := format_field_value(value)) <= _LONGEST_SAME
    }
    unmasked_values = {path: text for path, text in short_values.items() if MASK not in text}
    names = _choose_field_labels([*unmasked_values])
    return tuple(SharedValue(path, names[path], text) for path, text in unmasked_values.items())[:_MOST_SAME]


def _is_value_shown_already(path: str, sample: Sequence[RowFields]) -> bool:
    """Return whether most rows already show the value at `path`, as the id or name of the job."""
    rows_with_field = [row for row in sample if path in row.fields]
    return sum(row.fields[path] in row.beside for row in rows_with_field) * 2 > len(rows_with_field)


def _compute_field_weight(path: str, present_values: Sequence[str], rows: int) -> tuple[Field, float]:
    """Return a body field and its weight for a column: high if its values differ, are short and were not generated."""
    counts = Counter(present_values)
    max_entropy = log2(len(present_values)) if len(present_values) > 1 else 0.0
    spread = (
        -sum(n / len(present_values) * log2(n / len(present_values)) for n in counts.values()) / max_entropy
        if max_entropy
        else 0.5
    )
    formatted_values = [format_field_value(value) for value in counts]
    is_number = all(isinstance(value, Number) for value in present_values)
    beginning, end = ("", "") if is_number else _find_shared_ends(formatted_values)
    field = Field(path, "", 0, is_number, beginning, end)
    lengths = [cell_len(field.format_value(value)) for value in counts]
    mean = sum(lengths) / len(lengths)
    generated = sum(bool(is_generated_id(value) or _MOMENT.fullmatch(value)) for value in formatted_values) * 2 > len(
        formatted_values
    )
    weight = (0.35 + 0.65 * spread) * (len(present_values) / rows) ** 0.5
    weight *= min(1.0, _SHORT / max(1.0, mean)) * (0.25 if generated else 1.0) * 0.95 ** path.count(".")
    return field._replace(cells=max(1, min(_LONGEST, max(lengths)))), weight


def _find_shared_ends(values: Sequence[str]) -> tuple[str, str]:
    """Return the beginning and the end that all values of a field share, if leaving them out saves enough cells.

    Both end at a separator.
    """
    if len(values) < 2 or max(map(cell_len, values)) <= _SHORT:
        return "", ""
    begins = _BEGINNING.match(commonprefix(values))
    beginning = begins[0] if begins and len(begins[0]) >= _LEAST_SHARED else ""
    ends = _END.search(commonprefix([value[len(beginning) :][::-1] for value in values])[::-1])
    return beginning, ends[0] if ends and len(ends[0]) >= _LEAST_SHARED else ""


def _choose_field_labels(paths: Sequence[str]) -> dict[str, str]:
    """Return a column label for each field path, as short as possible while all labels differ."""
    candidates = {path: _list_field_labels(path) for path in paths}
    while True:
        names = {path: labels[0] for path, labels in candidates.items()}
        number = Counter(names.values())
        ambiguous = [path for path, name in names.items() if number[name] > 1 and len(candidates[path]) > 1]
        if not ambiguous:
            return names
        for path in ambiguous:
            candidates[path] = candidates[path][1:]


def _list_field_labels(path: str) -> list[str]:
    """Return possible column labels for a field path, the shortest first.

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
    """The way job ids are shortened: without a shared `beginning`, or to the last `tail` letters of generated ids."""

    cells: int = 0  # the width of the shortened ids; 0: not chosen yet
    beginning: str = ""
    tail: int = 0

    @property
    def is_short(self) -> bool:
        """Whether a part of every job id is left out."""
        return bool(self.beginning or self.tail)


_NO_IDS = IdFormat()
_LEAST_TAIL, _MOST_TAIL = 7, 15
_SHORT_ID = 12  # cells; shorter ids are shown in full, whatever they share


def choose_id_format(ids: Sequence[bytes], previous_format: IdFormat = _NO_IDS) -> IdFormat:
    """Choose the shortest way to show job ids that keeps them different. The previous format is kept while it does."""
    safe_ids = [format_id(id) for id in ids]
    if previous_format.cells and _is_id_format_suitable(previous_format, safe_ids):
        return previous_format._replace(
            cells=max(previous_format.cells, *(cell_len(_shorten_id_text(text, previous_format)) for text in safe_ids))
        )
    if sum(map(is_generated_id, safe_ids)) * 5 >= len(safe_ids) * 4:
        tail = next(
            (n for n in range(_LEAST_TAIL, _MOST_TAIL) if len({t[-n:] for t in safe_ids}) == len(safe_ids)), _MOST_TAIL
        )
        return IdFormat(tail, "", tail)
    shared_beginning = _BEGINNING.match(commonprefix(safe_ids)) if len(safe_ids) > 1 else None
    longest = max(cell_len(text) for text in safe_ids)
    is_worth_it = (
        shared_beginning
        and len(shared_beginning[0]) > 3
        and shared_beginning[0] not in safe_ids
        and longest > _SHORT_ID
    )
    beginning = shared_beginning[0] if shared_beginning and is_worth_it else ""
    return IdFormat(longest - len(beginning), beginning)


def _is_id_format_suitable(previous_format: IdFormat, safe_ids: Sequence[str]) -> bool:
    if previous_format.tail:
        return len({text[-previous_format.tail :] for text in safe_ids}) == len(safe_ids)
    return sum(text.startswith(previous_format.beginning) for text in safe_ids) * 2 >= len(safe_ids)


def shorten_id_to_format(id: bytes, ids: IdFormat) -> str:
    """Return a job id in the chosen format; an id of another form is returned in full."""
    return _shorten_id_text(format_id(id), ids)


def _shorten_id_text(text: str, ids: IdFormat) -> str:
    if ids.tail and is_generated_id(text):
        return text[-ids.tail :]
    return text.removeprefix(ids.beginning) if len(text) > len(ids.beginning) else text
