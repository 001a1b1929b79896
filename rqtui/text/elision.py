"""Long names in few cells: what names share is left out, what tells them apart stays.

`acme.production.eu-west-1.mail-worker-07` and `…-08` differ at their ends, `eu-west-1` and `us-east-1` in the middle:
a cut at the end would make one of them all. Pure; names have gone through `safe`, and widths are terminal cells.
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


def among(names: Iterable[str]) -> Fit:
    """A function that brings one of these names into so many cells; the same one for the same names."""
    return _among(frozenset(names))


@lru_cache(32)
def _among(names: frozenset[str]) -> Fit:
    return partial(_fit, names)


def _fit(names: frozenset[str], name: str, width: int) -> str:
    if cell_len(name) <= width:
        return name
    return elided(names if name in names else names | {name}, width)[name]


@lru_cache(32)
def elided(names: frozenset[str], width: int) -> dict[str, str]:
    """Each name in at most `width` cells: one that fits as it is, the others with `…` for what they share with others.

    Distinct names stay distinct as long as numbers for them have room (`…#12`), which is the last resort.
    """
    made = {name: name for name in names if cell_len(name) <= width}
    taken = set(made.values())
    rest = sorted(names - made.keys())
    if width < 1:
        return dict.fromkeys(names, "")
    tells = _telling(names)
    ways = {name: _ways(name, tells, width) for name in rest}
    while rest:
        tried = {name: way for name in rest if (way := next(ways[name], None)) is not None}
        if not tried:
            break
        number = Counter(tried.values())
        fresh = {name: way for name, way in tried.items() if number[way] == 1 and way not in taken}
        made |= fresh
        taken |= set(fresh.values())
        rest = [name for name in rest if name not in fresh]
    numbers = iter(range(1, 10 * len(names)))
    for name in rest:
        made[name] = next((way for n in numbers if (way := _numbered(name, n, width)) not in taken), "")
        taken.add(made[name])
    return made


def shared_beginning(names: Collection[str], *, is_of_words: bool = False) -> str:
    """The levels that all names begin with (`acme.production.`), and none of them is; empty for fewer than two.

    With `is_of_words` a level ends at `-` and `_`, too.
    """
    if len(names) < 2:
        return ""
    found = (_WORD if is_of_words else _LEVEL).match(
        os.path.commonprefix([*names]) + "x"
    )  # x: a common prefix may end with a sign
    prefix = found[0] if found else ""
    return "" if prefix in names else prefix


def _telling(names: Iterable[str]) -> frozenset[tuple[str, str]]:
    """(beginning, part behind it), of parts where names that share the beginning go on in different ways."""
    following: dict[str, set[str]] = {}
    for name in names:
        at = 0
        for part in _PART.findall(name):
            following.setdefault(name[:at], set()).add(part)
            at += len(part)
        following.setdefault(name, set()).add("")
    return frozenset((before, part) for before, parts in following.items() if len(parts) > 1 for part in parts)


def _ways(name: str, tells: frozenset[tuple[str, str]], width: int) -> Iterator[str]:
    """How the name may be shown, the best first."""
    parts, keeps, at = _PART.findall(name), [], 0
    for part in parts:
        keeps.append((name[:at], part) in tells)
        at += len(part)
    shown = _joined(parts, keeps)
    if cell_len(shown) <= width:
        for index in reversed(range(len(parts))):  # what is shared comes back as far as there is room, the end first
            more = [keep or at == index for at, keep in enumerate(keeps)]
            if not keeps[index] and cell_len(wider := _joined(parts, more)) <= width:
                keeps, shown = more, wider
        if shown != ELLIPSIS:  # of a name without parts that stands alone, its ends say more
            yield shown
    room = width - 1
    for head in dict.fromkeys((room // 2, room // 4, 0, room * 3 // 4, room)):
        yield _ends(name, head, room - head)
    for head in range(room + 1):
        yield _ends(shown, head, room - head)


def _joined(parts: Collection[str], keeps: Collection[bool]) -> str:
    """The parts to keep, with `…` for each run of the others."""
    written: list[str] = []
    for part, keep in zip(parts, keeps, strict=True):
        if keep:
            written.append(part)
        elif written[-1:] != [ELLIPSIS]:
            written.append(ELLIPSIS)
    return "".join(written)


def _ends(text: str, head: int, tail: int) -> str:
    """The first cells and the last ones."""
    start = len(text)
    while tail and start and cell_len(text[start - 1 :]) <= tail:
        start -= 1
    return _head(text, head) + ELLIPSIS + text[start:]


def _head(text: str, width: int) -> str:
    return set_cell_size(text, width).rstrip() if width > 0 else ""


def _numbered(name: str, number: int, width: int) -> str:
    mark = f"{ELLIPSIS}#{number}"
    return _head(name, width - len(mark)) + mark if len(mark) <= width else mark[-width:] if width > 0 else ""
