"""Find the machine of a worker by its name, to compare jobs by host. Used by the comparison of two groups of jobs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from rqtui.engine.engine import Engine
from rqtui.errors import RqtuiError
from rqtui.model import Ref
from rqtui.system_base.system import System


def load_host_finder(engine: Engine, ref: Ref) -> Callable[[str], str]:
    """Return a function that finds the host of a worker of a queue by its name; it returns "" for an unknown host.

    The workers that run now are read in one round trip. The names of others have the host, if the system forms them so.
    """
    system, hosts = engine.systems[ref.system], dict[str, str]()
    if "worker" not in system.known_fields:
        return lambda _worker: ""
    with suppress(RqtuiError):  # Without the list of workers, their names have to do.
        hosts = {worker.name: worker.host for worker in engine.fetch_workers(ref) if worker.host}
    return lambda worker: hosts.get(worker) or find_host_in_name(system, worker)


def find_host_in_name(system: System, worker: str) -> str:
    """Return the host in the name that a worker gave itself, or "" if the name has none."""
    pattern = system.worker_name_pattern
    match = pattern.fullmatch(worker) if pattern is not None else None
    return match["host"] if match else ""
