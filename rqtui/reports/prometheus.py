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
    """One Prometheus metric with its samples by label. Samples with equal labels are added, or the maximum is kept."""

    name: str
    type: str
    help: str
    is_added: bool = True
    samples: dict[Labels, float] = field(default_factory=dict)

    def add(self, value: float | None, **labels: str) -> None:
        """Add a sample to a metric; None is ignored."""
        if value is None:
            return
        key = tuple(labels.items())
        previous = self.samples.get(key)
        if previous is None:
            self.samples[key] = value
        else:
            self.samples[key] = previous + value if self.is_added else max(previous, value)

    def yield_lines(self) -> Iterator[str]:
        """Yield the lines of a metric in the exposition format; none without samples."""
        if self.samples:
            yield f"# HELP {self.name} {_escape_label(self.help, is_label=False)}"
            yield f"# TYPE {self.name} {self.type}"
        for labels, value in self.samples.items():
            label_text = ",".join(f'{name}="{_escape_label(text)}"' for name, text in labels)
            yield (
                f"{self.name}{{{label_text}}} {_format_metric_value(value)}"
                if label_text
                else f"{self.name} {_format_metric_value(value)}"
            )


def format_exposition(snapshot: Snapshot | None, seconds: float, max_queues: int = MAX_QUEUES) -> str:
    """Build the text of one scrape that took `seconds`. Without a snapshot it says that Redis is unreachable."""
    up = Family("rqtui_up", "gauge", "Whether Redis answered.")
    up.add(1 if snapshot else 0)
    duration = Family("rqtui_scrape_duration_seconds", "gauge", "How long Redis took to answer.")
    duration.add(seconds)
    families = [up, duration, *(build_families(snapshot.queues, max_queues) if snapshot else ())]
    return "".join(f"{line}\n" for family in families for line in family.yield_lines())


def build_families(queues: Sequence[Queue], max_queues: int = MAX_QUEUES) -> tuple[Family, ...]:
    """Build the Prometheus metrics of these queues.

    Queues beyond `max_queues` are summed. The order is by name, so that the choice does not change between scrapes.
    """
    queue_count = Family("rqtui_queues", "gauge", "How many queues are known.")
    jobs = Family("rqtui_jobs", "gauge", "Jobs by place and state.")
    sampled = Family("rqtui_jobs_sampled", "gauge", "Whether a number of rqtui_jobs is an estimate.", is_added=False)
    shared = Family("rqtui_shared_jobs", "gauge", "Jobs of all queues in a place that they share.")
    oldest = Family("rqtui_oldest_ready_seconds", "gauge", "How long the oldest ready job waits.", is_added=False)
    workers = Family("rqtui_workers", "gauge", "Workers that give signs of life.")
    overdue = Family("rqtui_overdue_jobs", "gauge", "Scheduled jobs that are due, but not ready yet.")
    expired = Family("rqtui_expired_leases", "gauge", "Leases that are over, but not reaped yet.")
    paused = Family("rqtui_paused", "gauge", "Whether the queue is paused; of several, how many are.")
    severity = Family("rqtui_severity", "gauge", "The verdict: 0 ok, 1 warning, 2 critical, 3 unknown.", is_added=False)
    transitions = Family(
        "rqtui_job_transitions_total",
        "counter",
        "Jobs that went in, out and so on, ever, as their system counts.",
    )
    unread_queues = Family("rqtui_unread_queues", "gauge", "Queues that could not be counted.")
    queue_count.add(len(queues))
    unread_queues.add(sum(bool(queue.error) for queue in queues))
    for queue, name in _label_queues(queues, max_queues):
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
            transitions.add(queue.counters.get(event), **labels, event=event)
    for place in list_shared_places(queues):
        shared.add(place.jobs, layout=place.system, place=place.place, state=place.state.value)
    return (
        queue_count,
        unread_queues,
        jobs,
        sampled,
        shared,
        oldest,
        workers,
        overdue,
        expired,
        paused,
        severity,
        transitions,
    )


def _label_queues(queues: Iterable[Queue], max_queues: int) -> Iterator[tuple[Queue, str]]:
    """Yield each queue with its label. Of more than `max_queues` queues the rest is labelled `other`.

    A queue that is itself called `other` is then summed with the rest. Queues of one system whose visible names are
    equal are also summed.
    """
    ordered = sorted(queues, key=lambda queue: (queue.name, queue.system))
    is_limited = len(ordered) > max_queues
    for position, queue in enumerate(ordered):
        yield (
            queue,
            OTHER if is_limited and (position >= max_queues or queue.name == OTHER) else _escape_controls(queue.name),
        )


def _escape_controls(name: str) -> str:
    r"""Escape control characters, which a terminal would obey, and bytes that are no text, as `\xNN`."""
    text = to_bytes(name).decode("utf-8", "backslashreplace")
    return "".join(char if safe(f"a{char}") == f"a{char}" else char.encode("unicode_escape").decode() for char in text)


def _escape_label(text: str, is_label: bool = True) -> str:
    """Escape a label value or a help text for the exposition format."""
    text = _escape_controls(text)
    text = text.replace("\\", r"\\")
    return text.replace('"', r"\"") if is_label else text


def _format_metric_value(value: float) -> str:
    """Format the value of a sample, without a decimal point if it is whole."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))
