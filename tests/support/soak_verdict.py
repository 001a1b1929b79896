"""Find growth in the samples of a soak test. The functions are pure: they start no process.

A sample is one JSON line of `soak_run.py`: `{"t_s": …, "used_bytes": …, "members": {name: {"rss_bytes", "threads",
"fds", "connections", "zombies"}}}`. The first third is the warm-up and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Any

WARM_UP_PARTS = 3  # the first third
COUNTS = ("threads", "fds", "connections")
MB = 1 << 20


def compute_slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the Theil–Sen slope: the median slope of all pairs of points, which a few outliers do not change."""
    return median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 != x1)


def compute_growth(points: Sequence[tuple[float, float]]) -> float:
    """Return the growth of a figure from the first point to the last, computed from the slope."""
    return compute_slope(points) * (points[-1][0] - points[0][0])


def find_growth(
    samples: Sequence[Mapping[str, Any]],
    rss_bytes: Mapping[str, float],
    used_bytes: float,
    connections: Mapping[str, int] | None = None,
) -> list[str]:
    """Return a sentence for each figure of a soak that grew: memory beyond its limit, counts, zombies.

    `rss_bytes` is the allowed growth of a process after the warm-up (`*` for others), `used_bytes` that of Redis.
    `connections` is the largest number that a process needs when all of its threads use one at once. Open files are
    counted without connections, which have their own limit.
    """
    later_samples = samples[len(samples) // WARM_UP_PARTS :]
    if len(later_samples) < 4:
        return [f"{len(later_samples)} samples are too few to judge"]
    sentences = []
    names = list(dict.fromkeys(name for sample in later_samples for name in sample["members"]))
    for name in names:
        series = [(sample["t_s"], sample["members"][name]) for sample in later_samples if name in sample["members"]]
        if len(series) < len(later_samples):
            sentences.append(
                f"{name}: it was missing in {len(later_samples) - len(series)} of {len(later_samples)} samples"
            )
            continue
        grown = compute_growth([(t, figures["rss_bytes"]) for t, figures in series])
        if grown > (allowed := rss_bytes.get(name, rss_bytes["*"])):
            sentences.append(f"{name}: memory grew by {grown / MB:.2f} MB, more than {allowed / MB:.2f}")
        for count in COUNTS:
            more = compute_growth(
                [(t, figures[count] - (figures["connections"] if count == "fds" else 0)) for t, figures in series]
            )
            needed = (connections or {}).get(name, 0) if count == "connections" else 0
            if more >= 1 and max(figures[count] for _t, figures in series) > needed:
                first, last = series[0][1][count], series[-1][1][count]
                sentences.append(f"{name}: {count} grew by {more:.1f} ({first} at first, {last} at last)")
        sentences += [
            f"{name}: process {pid} stays a zombie"
            for pid in _find_lasting_zombies([figures["zombies"] for _t, figures in series])
        ]
    grown = compute_growth([(sample["t_s"], sample["used_bytes"]) for sample in later_samples])
    if grown > used_bytes:
        sentences.append(f"Redis: used_memory grew by {grown / MB:.2f} MB, more than {used_bytes / MB:.2f}")
    return sentences


def _find_lasting_zombies(zombies: Sequence[Sequence[int]]) -> list[int]:
    """Return the processes that were zombies in two consecutive samples."""
    pairs = zip(zombies, zombies[1:], strict=False)
    return sorted({pid for before, after in pairs for pid in before if pid in after})


def summarise_soak(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of a soak: per process the median and growth of memory, the counts and the CPU share."""
    later_samples = samples[len(samples) // WARM_UP_PARTS :]
    length_s = later_samples[-1]["t_s"] - later_samples[0]["t_s"]
    members = {}
    for name in later_samples[-1]["members"]:
        series = [(sample["t_s"], sample["members"][name]) for sample in later_samples if name in sample["members"]]
        memory = [(t, each["rss_bytes"]) for t, each in series]
        members[name] = {
            "rss_mb": round(median(value for _t, value in memory) / MB, 1),
            "growth_mb": round(compute_growth(memory) / MB, 2),
            "cpu_percent": round(100 * (series[-1][1]["cpu_s"] - series[0][1]["cpu_s"]) / max(length_s, 1e-9), 2),
            **{count: sorted({each[count] for _t, each in series}) for count in COUNTS},
        }
    used = [(sample["t_s"], sample["used_bytes"]) for sample in later_samples]
    return {
        "samples": len(samples),
        "judged_s": round(length_s, 1),
        "used_mb": round(median(value for _t, value in used) / MB, 2),
        "used_growth_mb": round(compute_growth(used) / MB, 3),
        "members": members,
    }
