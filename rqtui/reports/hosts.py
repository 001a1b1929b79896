"""Find the machine of a worker by its name, to group and to compare jobs by host.

Called by the reports `groups` and `comparison`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from rqtui.engine import filters
from rqtui.engine.engine import Engine
from rqtui.errors import RqtuiError
from rqtui.model import Ref
from rqtui.system_base.system import System
from rqtui.text.formats import format_quantity

MAX_NAMED_WORKERS = 20  # in the filter of a host whose workers do not have it in their names
_HOST_GROUP = re.compile(r"\(\?P<host>[^()]*\)")


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of the workers of a queue: of those that run now, and of those that have it in their names."""

    system: System
    by_worker: Mapping[str, str] = field(default_factory=dict)  # of the workers that run now

    def find_host(self, worker: str) -> str:
        """Return the host of a worker by its name, or "" if it is unknown."""
        if "worker" not in self.system.known_fields:
            return ""
        return self.by_worker.get(worker) or find_host_in_name(self.system, worker)

    def build_filter(self, host: str, workers: Collection[str]) -> tuple[str, str]:
        """Return a filter term that selects the jobs of a host by their workers' names, and why there is none.

        `workers` are the names of the workers of all hosts whose jobs were read. The term is tried on them.
        """
        by_name = [name for name, known in self.by_worker.items() if known == host]
        unnamed = sorted(name for name in by_name if find_host_in_name(self.system, name) != host)
        if len(unnamed) > MAX_NAMED_WORKERS:
            return "", f"the host is not in the names of its {format_quantity(len(unnamed), 'worker')}"
        patterns = [filters.escape_pattern(name) for name in unnamed]
        if self.system.worker_name_pattern is not None:
            escaped_host = filters.escape_pattern(host)
            patterns.append(_HOST_GROUP.sub(lambda _group: escaped_host, self.system.worker_name_pattern.pattern))
        names = "|".join(patterns)
        for pattern in (f"^(?:{names})\\Z", f"^(?-i:{names})\\Z"):
            term = f"worker:/{pattern}/"
            [text_term] = filters.parse_filter(term).text_terms
            if all(bool(text_term.pattern.search(worker)) == (self.find_host(worker) == host) for worker in workers):
                return term, ""
        return "", "the names of its workers do not tell its jobs from those of other hosts"


def load_hosts(engine: Engine, ref: Ref) -> Hosts:
    """Load the hosts of the workers of a queue that run now, in one round trip."""
    system = engine.systems[ref.system]
    if "worker" not in system.known_fields:
        return Hosts(system)
    with suppress(RqtuiError):  # Without the list of workers, their names have to do.
        return Hosts(system, {worker.name: worker.host for worker in engine.fetch_workers(ref) if worker.host})
    return Hosts(system)


def find_host_in_name(system: System, worker: str) -> str:
    """Return the host in the name that a worker gave itself, or "" if the name has none."""
    pattern = system.worker_name_pattern
    match = pattern.fullmatch(worker) if pattern is not None else None
    return match["host"] if match else ""
