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


def create_name_fitter(names: Iterable[str]) -> Fit:
    """Return a function that shortens one of `names` to a width in cells, so that different names stay different.

    The same names return the same function.
    """
    return _create_cached_name_fitter(frozenset(names))


@lru_cache(32)
def _create_cached_name_fitter(names: frozenset[str]) -> Fit:
    return partial(_shorten_name_to_width, names)


def _shorten_name_to_width(names: frozenset[str], name: str, width: int) -> str:
    if cell_len(name) <= width:
        return name
    return elide_names(names if name in names else names | {name}, width)[name]


@lru_cache(32)
def elide_names(names: frozenset[str], width: int) -> dict[str, str]:
    """Shorten each name to at most `width` cells, so that different names stay different.

    Names that fit stay; in others, `…` replaces parts shared with other names. If nothing else helps, names are
    numbered (`…#12`), as long as the number fits.
    """
    short_forms = {name: name for name in names if cell_len(name) <= width}
    used_forms = set(short_forms.values())
    remaining_names = sorted(names - short_forms.keys())
    if width < 1:
        return dict.fromkeys(names, "")
    distinctive_parts = _find_distinctive_name_parts(names)
    candidates = {name: _yield_short_forms(name, distinctive_parts, width) for name in remaining_names}
    while remaining_names:
        tried = {name: form for name in remaining_names if (form := next(candidates[name], None)) is not None}
        if not tried:
            break
        number = Counter(tried.values())
        fresh = {name: form for name, form in tried.items() if number[form] == 1 and form not in used_forms}
        short_forms |= fresh
        used_forms |= set(fresh.values())
        remaining_names = [name for name in remaining_names if name not in fresh]
    numbers = iter(range(1, 10 * len(names)))
    for name in remaining_names:
        short_forms[name] = next(
            (form for n in numbers if (form := _build_numbered_name(name, n, width)) not in used_forms), ""
        )
        used_forms.add(short_forms[name])
    return short_forms


def find_shared_name_prefix(names: Collection[str], *, splits_at_hyphens: bool = False) -> str:
    """Return the levels that all names begin with (`acme.production.`); empty for fewer than two names.

    The prefix is never a complete name. With `splits_at_hyphens` a level also ends at `-` and `_`.
    """
    if len(names) < 2:
        return ""
    match = (_WORD if splits_at_hyphens else _LEVEL).match(
        os.path.commonprefix([*names]) + "x"
    )  # The added x lets a common prefix end with a separator.
    prefix = match[0] if match else ""
    return "" if prefix in names else prefix


def _split_name(name: str) -> list[tuple[str, str]]:
    """Return the parts of a name, each as (prefix, part)."""
    return [(name[: match.start()], match[0]) for match in _PART.finditer(name)]


def _find_distinctive_name_parts(names: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return (prefix, next part) pairs for the parts in which names with the same prefix differ."""
    following: dict[str, set[str]] = {}
    for name in names:
        for prefix, part in _split_name(name):
            following.setdefault(prefix, set()).add(part)
    return frozenset((prefix, part) for prefix, parts in following.items() if len(parts) > 1 for part in parts)


def _yield_short_forms(name: str, distinctive_parts: frozenset[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield forms of a name that fit into `width` cells, the best first."""
    split = _split_name(name)
    parts, keeps = [part for _prefix, part in split], [pair in distinctive_parts for pair in split]
    short_form = _join_parts_with_ellipsis(parts, keeps)
    if cell_len(short_form) <= width:
        for index in reversed(range(len(parts))):  # Shared parts are restored from the end, as long as they fit.
            wider_keeps = [keep or position == index for position, keep in enumerate(keeps)]
            if not keeps[index] and cell_len(wider_form := _join_parts_with_ellipsis(parts, wider_keeps)) <= width:
                keeps, short_form = wider_keeps, wider_form
        if short_form != ELLIPSIS:  # For a single name without parts, both ends say more than `…` alone.
            yield short_form
    free_cells = width - 1
    for head in dict.fromkeys((free_cells // 2, free_cells // 4, 0, free_cells * 3 // 4, free_cells)):
        yield _keep_both_ends(name, head, free_cells - head)
    for head in range(free_cells + 1):
        yield _keep_both_ends(short_form, head, free_cells - head)


def _join_parts_with_ellipsis(parts: Collection[str], keeps: Collection[bool]) -> str:
    """Join the parts of a name that are kept, with one `…` for each run of parts left out."""
    written: list[str] = []
    for part, keep in zip(parts, keeps, strict=True):
        if keep:
            written.append(part)
        elif written[-1:] != [ELLIPSIS]:
            written.append(ELLIPSIS)
    return "".join(written)


def _keep_both_ends(text: str, head: int, tail: int) -> str:
    """Return the first `head` and the last `tail` cells of a text, joined by `…`."""
    start = len(text)
    while tail and start and cell_len(text[start - 1 :]) <= tail:
        start -= 1
    return _truncate_to_width(text, head) + ELLIPSIS + text[start:]


def _truncate_to_width(text: str, width: int) -> str:
    return set_cell_size(text, width).rstrip()


def _build_numbered_name(name: str, number: int, width: int) -> str:
    mark = f"{ELLIPSIS}#{number}"
    return (_truncate_to_width(name, width - len(mark)) + mark)[-width:]
