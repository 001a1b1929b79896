"""Run a part of the measurements on an embedded server, and print its lines as text or JSON."""

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

from .line import Bench, Line, describe_machine

Measure = Callable[[Bench], Iterator[Line]]
PARTS = ("engine", "screen", "systems", "scale", "many")  # a module each
FORMER_NAMES = {"layouts": "systems"}


def bench(
    what: str = "engine", as_json: bool = False, server: str = "auto", scale: float = 1.0, beside: bool = True
) -> int:
    """Run the measurements of one part (`what`, one of PARTS), print the figures and return 0.

    Raises UsageError for another part. Without `beside` no tool of other projects runs, so nothing is installed for it.
    """
    from rqtui.connection.connect import connect
    from rqtui.connection.embedded import start_server

    _load_measures(what)
    with start_server(server) as running, connect(running.url, timeout_s=60.0) as client:
        where = describe_machine(running.kind)
        if not as_json:
            print(format_heading(where), flush=True)
        found = []
        for line in measure_lines(what, Bench(running, client, scale, beside)):
            found.append(line)
            if not as_json:
                print(line.text(), flush=True)
    if as_json:
        print(json.dumps({"machine": where, "results": [line.document() for line in found]}, ensure_ascii=False))
    return 0


def measure_lines(what: str, on: Bench) -> Iterator[Line]:
    """Run the measurements of a part one after the other. Print the current one on standard error."""
    for measure in _load_measures(what):
        print(f"{(measure.__doc__ or measure.__name__).splitlines()[0]} …", file=sys.stderr, flush=True)
        yield from _run_measure(measure, on)


def _load_measures(what: str) -> Sequence[Measure]:
    what = FORMER_NAMES.get(what, what)
    if what not in PARTS:
        raise UsageError(f'There is nothing called "{what}" to measure; there are: {", ".join(PARTS)}.')
    found: Sequence[Measure] = import_module(f".{what}", __package__).MEASURES
    return found


def _run_measure(measure: Measure, on: Bench) -> Iterator[Line]:
    """Yield the lines of one measurement, with an empty state folder because the screen reads the journal in it.

    A server that cannot be measured gives a line with the reason.
    """
    before = os.environ.get(STATE_VARIABLE)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ[STATE_VARIABLE] = folder
        try:
            on.client.flushall()
            yield from measure(on)
        except RqtuiError as error:
            yield Line(measure.__name__.removeprefix("measure_").replace("_", " "), None, note=f"not measured: {error}")
        finally:
            if before is None:
                del os.environ[STATE_VARIABLE]
            else:
                os.environ[STATE_VARIABLE] = before


def format_heading(where: dict[str, Any]) -> str:
    """Return the machine and the versions as one line."""
    packages = ", ".join(f"{name} {version}" for name, version in where["packages"].items())
    machine_words = f"{where['cpu']}, {where['cores']} cores, {where['system']}"
    return f"{machine_words} · Python {where['python']}, {packages} · {where['server']}"
