"""Shorten long names to a few cells: leave out the parts that names share, and keep the parts in which they differ.

`acme.production.eu-west-1.mail-worker-07` and `…-08` differ at their ends, `eu-west-1` and `us-east-1` in the middle.
Truncating the end would make such names equal. Pure functions; names have passed `safe`, and widths are terminal cells.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache, partial

from rich.cells import cell_len, set_cell_size

ELLIPSIS = "…"
_PART = re.compile(r"[^:./_@-]*[:./_@-]|[^:./_@-]+")
_LEVEL = re.compile(r".*[:./](?=.)", re.DOTALL)
_WORD = re.compile(r".*[:./_-](?=.)", re.DOTALL)

Fit = Callable[[str, int], str]


def create_fitter(names: Iterable[str]) -> Fit:
    """Return a function that shortens one of `names` to a width in cells. The same names return the same function."""
    return _create_fitter(frozenset(names))


@lru_cache(32)
def _create_fitter(names: frozenset[str]) -> Fit:
    return partial(_fit_name, names)


def _fit_name(names: frozenset[str], name: str, width: int) -> str:
    if cell_len(name) <= width:
        return name
    return elide_names(names if name in names else names | {name}, width)[name]


@lru_cache(32)
def elide_names(names: frozenset[str], width: int) -> dict[str, str]:
    """Shorten each name to at most `width` cells.

    Names that fit stay; in others, `…` replaces parts shared with other names.

    Different names stay different. If nothing else helps, they are numbered (`…#12`), as long as the number fits.
    """
    short_forms = {name: name for name in names if cell_len(name) <= width}
    taken = set(short_forms.values())
    rest = sorted(names - short_forms.keys())
    if width < 1:
        return dict.fromkeys(names, "")
    tells = _find_distinctive_parts(names)
    candidates = {name: _list_short_forms(name, tells, width) for name in rest}
    while rest:
        tried = {name: form for name in rest if (form := next(candidates[name], None)) is not None}
        if not tried:
            break
        number = Counter(tried.values())
        fresh = {name: form for name, form in tried.items() if number[form] == 1 and form not in taken}
        short_forms |= fresh
        taken |= set(fresh.values())
        rest = [name for name in rest if name not in fresh]
    numbers = iter(range(1, 10 * len(names)))
    for name in rest:
        short_forms[name] = next((form for n in numbers if (form := _add_number(name, n, width)) not in taken), "")
        taken.add(short_forms[name])
    return short_forms


def find_shared_prefix(names: Collection[str], *, is_of_words: bool = False) -> str:
    """Return the levels that all names begin with (`acme.production.`); empty for fewer than two names.

    The prefix is never a whole name. With `is_of_words` a level also ends at `-` and `_`.
    """
    if len(names) < 2:
        return ""
    match = (_WORD if is_of_words else _LEVEL).match(
        os.path.commonprefix([*names]) + "x"
    )  # The added x lets a common prefix end with a separator.
    prefix = match[0] if match else ""
    return "" if prefix in names else prefix


def _find_distinctive_parts(names: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return pairs of a prefix and the part after it, for parts in which names with the same prefix differ."""
    following: dict[str, set[str]] = {}
    for name in names:
        at = 0
        for part in _PART.findall(name):
            following.setdefault(name[:at], set()).add(part)
            at += len(part)
        following.setdefault(name, set()).add("")
    return frozenset((before, part) for before, parts in following.items() if len(parts) > 1 for part in parts)


def _list_short_forms(name: str, tells: frozenset[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield the short forms of a name, the best first."""
    parts, keeps, at = _PART.findall(name), [], 0
    for part in parts:
        keeps.append((name[:at], part) in tells)
        at += len(part)
    shown = _join_parts(parts, keeps)
    if cell_len(shown) <= width:
        for index in reversed(range(len(parts))):  # Shared parts are restored from the end, as long as there is room.
            more = [keep or at == index for at, keep in enumerate(keeps)]
            if not keeps[index] and cell_len(wider := _join_parts(parts, more)) <= width:
                keeps, shown = more, wider
        if shown != ELLIPSIS:  # For a single name without parts, both ends say more than `…` alone.
            yield shown
    room = width - 1
    for head in dict.fromkeys((room // 2, room // 4, 0, room * 3 // 4, room)):
        yield _keep_ends(name, head, room - head)
    for head in range(room + 1):
        yield _keep_ends(shown, head, room - head)


def _join_parts(parts: Collection[str], keeps: Collection[bool]) -> str:
    """Join the parts to keep, with one `…` for each run of other parts."""
    written: list[str] = []
    for part, keep in zip(parts, keeps, strict=True):
        if keep:
            written.append(part)
        elif written[-1:] != [ELLIPSIS]:
            written.append(ELLIPSIS)
    return "".join(written)


def _keep_ends(text: str, head: int, tail: int) -> str:
    """Return the first `head` and the last `tail` cells of `text`, joined by `…`."""
    start = len(text)
    while tail and start and cell_len(text[start - 1 :]) <= tail:
        start -= 1
    return _keep_head(text, head) + ELLIPSIS + text[start:]


def _keep_head(text: str, width: int) -> str:
    return set_cell_size(text, width).rstrip() if width > 0 else ""


def _add_number(name: str, number: int, width: int) -> str:
    mark = f"{ELLIPSIS}#{number}"
    return _keep_head(name, width - len(mark)) + mark if len(mark) <= width else mark[-width:] if width > 0 else ""
