"""Runs the measurements of a part one after the other on an embedded server, and prints them as lines or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rqtui.bench.line import Bench, Line, machine
from rqtui.errors import RqtuiError, UsageError

Measure = Callable[[Bench], Iterator[Line]]
PARTS = ("engine", "screen", "layouts")


def bench(what: str = "engine", as_json: bool = False, server: str = "auto", scale: float = 1.0) -> int:
    """Measure `what` (engine, screen or layouts), print it, return 0. Raises UsageError for another word."""
    from rqtui.embedded import embedded
    from rqtui.server import connect

    measures = _measures(what)
    with embedded(server) as running, connect(running.url, timeout_s=60.0) as client:
        where = machine(running.kind)
        if not as_json:
            print(_heading(where), flush=True)
        lines = []
        for measure in measures:
            print(f"{(measure.__doc__ or measure.__name__).splitlines()[0]} …", file=sys.stderr, flush=True)
            for line in _measured(measure, Bench(running, client, scale)):
                lines.append(line)
                if not as_json:
                    print(line.text(), flush=True)
    if as_json:
        print(json.dumps({"machine": where, "results": [line.document() for line in lines]}, ensure_ascii=False))
    return 0


def _measures(what: str) -> Sequence[Measure]:
    if what == "engine":
        from rqtui.bench.engine import MEASURES
        from rqtui.bench.peers import PEERS

        return (*MEASURES, *PEERS)
    if what == "screen":
        from rqtui.bench.screen import MEASURES as OF_THE_SCREEN

        return OF_THE_SCREEN
    if what == "layouts":
        from rqtui.bench.layouts import MEASURES as OF_THE_LAYOUTS

        return OF_THE_LAYOUTS
    raise UsageError(f'There is nothing called "{what}" to measure; there are: {", ".join(PARTS)}.')


def _measured(measure: Measure, on: Bench) -> Iterator[Line]:
    """The lines of one measurement; a server that cannot do it makes a line that says so."""
    try:
        on.client.flushall()
        yield from measure(on)
    except RqtuiError as error:
        yield Line(measure.__name__.replace("_", " "), None, note=f"not measured: {error}")


def _heading(where: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in where["packages"].items())
    machine_words = f"{where['cpu']}, {where['cores']} cores, {where['system']}"
    return f"{machine_words} · Python {where['python']}, {packages} · {where['server']}"
