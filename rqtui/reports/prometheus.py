"""Metrics: what a snapshot says, as the text that Prometheus reads (exposition format 0.0.4). Pure.

Labels are bounded: a queue, its system, a place and a state, never an id; beyond `most` queues the rest are summed as
`other`. https://prometheus.io/docs/instrumenting/exposition_formats/ is the source of the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rqtui.model import Queue, Snapshot
from rqtui.reports.shared_places import shared_places
from rqtui.text.names import to_bytes
from rqtui.text.sanitise import safe

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST = 500  # queues with labels of their own
OTHER = "other"
Labels = tuple[tuple[str, str], ...]
_SEVERITIES = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}
_FLOWS = ("in", "out", "failed", "dead", "reserved", "dispatched")  # of `Queue.counters`; each only grows


@dataclass(slots=True)
class Family:
    """One metric: its samples by label; samples with equal labels are added, or the greatest is kept."""

    name: str
    type: str
    help: str
    is_added: bool = True
    samples: dict[Labels, float] = field(default_factory=dict)

    def add(self, value: float | None, **labels: str) -> None:
        """Adds a sample; None is no sample."""
        if value is None:
            return
        key = tuple(labels.items())
        before = self.samples.get(key)
        if before is None:
            self.samples[key] = value
        else:
            self.samples[key] = before + value if self.is_added else max(before, value)

    def lines(self) -> Iterator[str]:
        """The lines of it; none where there is no sample."""
        if self.samples:
            yield f"# HELP {self.name} {_escaped(self.help, is_label=False)}"
            yield f"# TYPE {self.name} {self.type}"
        for labels, value in self.samples.items():
            said = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            yield f"{self.name}{{{said}}} {_number(value)}" if said else f"{self.name} {_number(value)}"


def exposition(snapshot: Snapshot | None, seconds: float, most: int = MOST) -> str:
    """The text of one scrape that took `seconds`; without a snapshot Redis is away."""
    up = Family("rqtui_up", "gauge", "Whether Redis answered.")
    up.add(1 if snapshot else 0)
    took = Family("rqtui_scrape_duration_seconds", "gauge", "How long Redis took to answer.")
    took.add(seconds)
    families = [up, took, *(families_of(snapshot.queues, most) if snapshot else ())]
    return "".join(f"{line}\n" for family in families for line in family.lines())


def families_of(queues: Sequence[Queue], most: int = MOST) -> tuple[Family, ...]:
    """The metrics of these queues; those beyond `most` (by name, so that the choice does not change) are summed."""
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
    for queue, name in _named(queues, most):
        labels = {"layout": queue.layout, "queue": name}
        severity.add(_SEVERITIES.get(queue.verdict.severity, 3), **labels)
        if queue.error:
            continue
        for count in queue.counts:
            if not count.is_known:
                continue
            jobs.add(count.count, **labels, place=count.place, state=count.state.value)
            if count.of is not None:
                sampled.add(int(not count.exact), **labels, place=count.place, state=count.state.value)
        oldest.add(None if queue.oldest_ready_ms is None else queue.oldest_ready_ms / 1000, **labels)
        workers.add(queue.workers, **labels)
        overdue.add(queue.overdue, **labels)
        expired.add(queue.expired, **labels)
        paused.add(int(queue.paused), **labels)
        for event in _FLOWS:
            moved.add(queue.counters.get(event), **labels, event=event)
    for each in shared_places(queues):
        shared.add(each.jobs, layout=each.layout, place=each.place, state=each.state.value)
    return known, unread, jobs, sampled, shared, oldest, workers, overdue, expired, paused, severity, moved


def _named(queues: Iterable[Queue], most: int) -> Iterator[tuple[Queue, str]]:
    """Each queue with the name in its label. A queue that is itself called `other` goes with the rest, as do those of
    one system whose names look alike with one another."""
    ordered = sorted(queues, key=lambda queue: (queue.name, queue.layout))
    is_cut = len(ordered) > most
    for at, queue in enumerate(ordered):
        yield queue, OTHER if is_cut and (at >= most or queue.name == OTHER) else _visible(queue.name)


def _visible(name: str) -> str:
    """Text without what no terminal should get, and bytes that are no text as `\\xNN`."""
    text = to_bytes(name).decode("utf-8", "backslashreplace")
    return "".join(char if safe(f"a{char}") == f"a{char}" else char.encode("unicode_escape").decode() for char in text)


def _escaped(text: str, is_label: bool = True) -> str:
    """A label's value or a help text, as the format has it."""
    text = _visible(text)
    text = text.replace("\\", r"\\")
    return text.replace('"', r"\"") if is_label else text


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
