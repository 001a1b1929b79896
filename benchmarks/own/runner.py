"""Runs the measurements of a part one after the other on an embedded server, and prints them as lines or as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

from rqtui.config.state_folder import STATE_VARIABLE
from rqtui.errors import RqtuiError, UsageError

from .line import Bench, Line, machine

Measure = Callable[[Bench], Iterator[Line]]
PARTS = ("engine", "screen", "layouts", "scale", "many")  # a module each


def bench(
    what: str = "engine", as_json: bool = False, server: str = "auto", scale: float = 1.0, beside: bool = True
) -> int:
    """Measure `what` (one of PARTS), print it, return 0. Raises UsageError for another word.

    Without `beside` no tool of others is run, so that nothing is installed for it.
    """
    from rqtui.connection.connect import connect
    from rqtui.connection.embedded import embedded

    _measures(what)
    with embedded(server) as running, connect(running.url, timeout_s=60.0) as client:
        where = machine(running.kind)
        if not as_json:
            print(_heading(where), flush=True)
        found = []
        for line in lines(what, Bench(running, client, scale, beside)):
            found.append(line)
            if not as_json:
                print(line.text(), flush=True)
    if as_json:
        print(json.dumps({"machine": where, "results": [line.document() for line in found]}, ensure_ascii=False))
    return 0


def lines(what: str, on: Bench) -> Iterator[Line]:
    """The lines of a part, measured one after the other; what is measured now is said on standard error."""
    for measure in _measures(what):
        print(f"{(measure.__doc__ or measure.__name__).splitlines()[0]} …", file=sys.stderr, flush=True)
        yield from _measured(measure, on)


def _measures(what: str) -> Sequence[Measure]:
    if what not in PARTS:
        raise UsageError(f'There is nothing called "{what}" to measure; there are: {", ".join(PARTS)}.')
    found: Sequence[Measure] = import_module(f".{what}", __package__).MEASURES
    return found


def _measured(measure: Measure, on: Bench) -> Iterator[Line]:
    """The lines of one measurement, with an empty state folder: the screen reads the journal that stands there.

    A server that cannot do it makes a line that says so.
    """
    before = os.environ.get(STATE_VARIABLE)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ[STATE_VARIABLE] = folder
        try:
            on.client.flushall()
            yield from measure(on)
        except RqtuiError as error:
            yield Line(measure.__name__.replace("_", " "), None, note=f"not measured: {error}")
        finally:
            if before is None:
                del os.environ[STATE_VARIABLE]
            else:
                os.environ[STATE_VARIABLE] = before


def _heading(where: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in where["packages"].items())
    machine_words = f"{where['cpu']}, {where['cores']} cores, {where['system']}"
    return f"{machine_words} · Python {where['python']}, {packages} · {where['server']}"
