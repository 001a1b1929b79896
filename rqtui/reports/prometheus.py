"""Format a snapshot as Prometheus metrics (text exposition format 0.0.4). Pure functions, called by `rqtui metrics`.

Labels are bounded: a queue, its system, a place and a state, never an id; queues beyond `most` are summed as `other`.
The format is defined at https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rqtui.model import Queue, Snapshot
from rqtui.reports.shared_places import list_shared_places
from rqtui.text.names import to_bytes
from rqtui.text.sanitise import safe

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_QUEUES = 500  # queues with labels of their own
OTHER = "other"
Labels = tuple[tuple[str, str], ...]
_SEVERITIES = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}
_FLOWS = ("in", "out", "failed", "dead", "reserved", "dispatched")  # names in `Queue.counters` that never decrease


@dataclass(slots=True)
class Family:
    """One metric with its samples by label; samples with equal labels are added, or their maximum is kept."""

    name: str
    type: str
    help: str
    is_added: bool = True
    samples: dict[Labels, float] = field(default_factory=dict)

    def add(self, value: float | None, **labels: str) -> None:
        """Add a sample; None is ignored."""
        if value is None:
            return
        key = tuple(labels.items())
        before = self.samples.get(key)
        if before is None:
            self.samples[key] = value
        else:
            self.samples[key] = before + value if self.is_added else max(before, value)

    def yield_lines(self) -> Iterator[str]:
        """Yield the metric's lines in the exposition format; none without samples."""
        if self.samples:
            yield f"# HELP {self.name} {_escape(self.help, is_label=False)}"
            yield f"# TYPE {self.name} {self.type}"
        for labels, value in self.samples.items():
            said = ",".join(f'{name}="{_escape(text)}"' for name, text in labels)
            yield f"{self.name}{{{said}}} {_format_number(value)}" if said else f"{self.name} {_format_number(value)}"


def format_exposition(snapshot: Snapshot | None, seconds: float, most: int = MAX_QUEUES) -> str:
    """Build the text of one scrape that took `seconds`; without a snapshot it reports that Redis is unreachable."""
    up = Family("rqtui_up", "gauge", "Whether Redis answered.")
    up.add(1 if snapshot else 0)
    took = Family("rqtui_scrape_duration_seconds", "gauge", "How long Redis took to answer.")
    took.add(seconds)
    families = [up, took, *(build_families(snapshot.queues, most) if snapshot else ())]
    return "".join(f"{line}\n" for family in families for line in family.yield_lines())


def build_families(queues: Sequence[Queue], most: int = MAX_QUEUES) -> tuple[Family, ...]:
    """Build the metrics of these queues.

    Queues beyond `most` are summed. The order is by name, so that the choice does not change between scrapes.
    """
    known = Family("rqtui_queues", "gauge", "How many queues are known.")
    jobs = Family("rqtui_jobs", "gauge", "Jobs by place and state.")
    sampled = Family("rqtui_jobs_sampled", "gauge", "Whether a number of rqtui_jobs is an estimate.", is_added=False)
    shared = Family("rqtui_shared_jobs", "gauge", "Jobs of all queues in a place that they share.")
    oldest = Family("rqtui_oldest_ready_seconds", "gauge", "How long the oldest ready job waits.", is_added=False)
    workers = Family("rqtui_workers", "gauge", "Workers that give signs of life.")
    overdue = Family("rqtui_overdue_jobs", "gauge", "Scheduled jobs that are due, but not ready yet.")
    expired = Family("rqtui_expired_leases", "gauge", "Leases that are over, but not reaped yet.")
    paused = Family("rqtui_paused", "gauge", "Whether the queue is paused; of several, how many are.")
    severity = Family("rqtui_severity", "gauge", "The verdict: 0 ok, 1 warning, 2 critical, 3 unknown.", is_added=False)
    moved = Family("rqtui_job_transitions_total", "counter", "Jobs that went in, out, failed and so on, ever.")
    unread = Family("rqtui_unread_queues", "gauge", "Queues that could not be counted.")
    known.add(len(queues))
    unread.add(sum(bool(queue.error) for queue in queues))
    for queue, name in _label_queues(queues, most):
        labels = {"layout": queue.system, "queue": name}
        severity.add(_SEVERITIES.get(queue.verdict.severity, 3), **labels)
        if queue.error:
            continue
        for count in queue.counts:
            if not count.is_count_known:
                continue
            jobs.add(count.count, **labels, place=count.place, state=count.state.value)
            if count.shared_total is not None:
                sampled.add(int(not count.is_exact), **labels, place=count.place, state=count.state.value)
        oldest.add(None if queue.oldest_ready_ms is None else queue.oldest_ready_ms / 1000, **labels)
        workers.add(queue.workers, **labels)
        overdue.add(queue.overdue, **labels)
        expired.add(queue.expired, **labels)
        paused.add(int(queue.is_paused), **labels)
        for event in _FLOWS:
            moved.add(queue.counters.get(event), **labels, event=event)
    for each in list_shared_places(queues):
        shared.add(each.jobs, layout=each.system, place=each.place, state=each.state.value)
    return known, unread, jobs, sampled, shared, oldest, workers, overdue, expired, paused, severity, moved


def _label_queues(queues: Iterable[Queue], most: int) -> Iterator[tuple[Queue, str]]:
    """Yield each queue with the name of its label; of more than `most` queues the rest is named `other`.

    A queue that is itself called `other` is then summed with the rest. Queues of one system whose visible names are
    equal are also summed.
    """
    ordered = sorted(queues, key=lambda queue: (queue.name, queue.system))
    is_cut = len(ordered) > most
    for at, queue in enumerate(ordered):
        yield queue, OTHER if is_cut and (at >= most or queue.name == OTHER) else _escape_controls(queue.name)


def _escape_controls(name: str) -> str:
    r"""Escape characters that terminals must not receive, and bytes that are no text as `\xNN`."""
    text = to_bytes(name).decode("utf-8", "backslashreplace")
    return "".join(char if safe(f"a{char}") == f"a{char}" else char.encode("unicode_escape").decode() for char in text)


def _escape(text: str, is_label: bool = True) -> str:
    """Escape a label value or help text for the exposition format."""
    text = _escape_controls(text)
    text = text.replace("\\", r"\\")
    return text.replace('"', r"\"") if is_label else text


def _format_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
