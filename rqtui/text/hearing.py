"""Since when somebody listens to what a system publishes and keeps nowhere, in words for frames, tables and stderr."""

from __future__ import annotations

from collections.abc import Sequence

from rqtui.model import Hearing
from rqtui.text.formats import age, count, numbered, since


def said(hearing: Hearing, now_ms: float) -> str:
    """`heard since 05:12, 14s missed`; why nothing is heard where that is so."""
    if hearing.since_ms is None:
        return f"not heard: {hearing.problem}" if hearing.problem else "nobody listens"
    missed = [f"{age(hearing.missed_ms)} missed"] if hearing.missed_ms else []
    missed += [f"{numbered(hearing.dropped, 'message')} dropped"] if hearing.dropped else []
    missed += [f"not heard now: {hearing.problem}"] if hearing.problem else []
    return ", ".join([f"heard since {since(hearing.since_ms, now_ms)}", *missed])


def emptiness(hearing: Hearing, now_ms: float) -> str:
    """What a place says in which nothing that was heard stands."""
    if hearing.since_ms is None:
        return f"not heard: {hearing.problem}" if hearing.problem else "nothing was heard so far"
    return f"nothing {said(hearing, now_ms)}"


def unheard(system: str, places: Sequence[str]) -> str:
    """What a command that looks once says of places without a key: no jobs there would be a lie."""
    return (
        f"nobody listened to what {system} publishes and keeps nowhere ({', '.join(places)}): "
        "the screen listens, and so do `snapshot --watch` and `metrics --listen`."
    )


def remembered(listed: int, in_all: int) -> str:
    """Of a place in which more was heard than is remembered."""
    return f"the last {count(listed, width=9)} of {count(in_all, width=9)}"
