"""Judging a soak: whether what was sampled for a long time stayed flat. Pure functions over samples; no process here.

A sample is one JSON line of `soaking.py`: `{"t_s": …, "used_bytes": …, "members": {name: {"rss_bytes", "threads",
"fds", "connections", "zombies"}}}`. The first third is the warm-up and is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Any

WARM_UP = 3  # the first third
COUNTS = ("threads", "fds", "connections")
MB = 1 << 20


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The Theil–Sen slope: the median of the slopes between all pairs of points; a few outliers do not move it."""
    return median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 != x1)


def growth(points: Sequence[tuple[float, float]]) -> float:
    """What the slope comes to from the first point to the last."""
    return slope(points) * (points[-1][0] - points[0][0])


def faults(
    samples: Sequence[Mapping[str, Any]],
    rss_bytes: Mapping[str, float],
    used_bytes: float,
    connections: Mapping[str, int] | None = None,
) -> list[str]:
    """What did not stay flat, in sentences: memory that grew by more than is allowed, counts that grew by one, zombies.

    `rss_bytes` is what a member may grow in the judged time (`*`: one that is not named), `used_bytes` what Redis may.
    `connections` is how many a member needs at most, whenever its threads come to ask at the same time. Open files
    are judged without the connections, which are judged apart.
    """
    judged = samples[len(samples) // WARM_UP :]
    if len(judged) < 4:
        return [f"{len(judged)} samples are too few to judge"]
    found = []
    names = list(dict.fromkeys(name for sample in judged for name in sample["members"]))
    for name in names:
        series = [(sample["t_s"], sample["members"][name]) for sample in judged if name in sample["members"]]
        if len(series) < len(judged):
            found.append(f"{name}: it was not there in {len(judged) - len(series)} of {len(judged)} samples")
            continue
        grown = growth([(t, each["rss_bytes"]) for t, each in series])
        if grown > (allowed := rss_bytes.get(name, rss_bytes["*"])):
            found.append(f"{name}: memory grew by {grown / MB:.2f} MB, more than {allowed / MB:.2f}")
        for count in COUNTS:
            more = growth([(t, each[count] - (each["connections"] if count == "fds" else 0)) for t, each in series])
            needed = (connections or {}).get(name, 0) if count == "connections" else 0
            if more >= 1 and max(each[count] for _t, each in series) > needed:
                first, last = series[0][1][count], series[-1][1][count]
                found.append(f"{name}: {count} grew by {more:.1f} ({first} at first, {last} at last)")
        found += [f"{name}: process {pid} stays a zombie" for pid in _staying([each["zombies"] for _t, each in series])]
    grown = growth([(sample["t_s"], sample["used_bytes"]) for sample in judged])
    if grown > used_bytes:
        found.append(f"Redis: used_memory grew by {grown / MB:.2f} MB, more than {used_bytes / MB:.2f}")
    return found


def _staying(zombies: Sequence[Sequence[int]]) -> list[int]:
    """Processes that were dead and not waited for in two samples one after the other."""
    pairs = zip(zombies, zombies[1:], strict=False)
    return sorted({pid for before, after in pairs for pid in before if pid in after})


def summary(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of a run: per member the median and the growth of its memory, its counts, and its share of a core."""
    judged = samples[len(samples) // WARM_UP :]
    length_s = judged[-1]["t_s"] - judged[0]["t_s"]
    members = {}
    for name in judged[-1]["members"]:
        series = [(sample["t_s"], sample["members"][name]) for sample in judged if name in sample["members"]]
        memory = [(t, each["rss_bytes"]) for t, each in series]
        members[name] = {
            "rss_mb": round(median(value for _t, value in memory) / MB, 1),
            "growth_mb": round(growth(memory) / MB, 2),
            "cpu_percent": round(100 * (series[-1][1]["cpu_s"] - series[0][1]["cpu_s"]) / max(length_s, 1e-9), 2),
            **{count: sorted({each[count] for _t, each in series}) for count in COUNTS},
        }
    used = [(sample["t_s"], sample["used_bytes"]) for sample in judged]
    return {
        "samples": len(samples),
        "judged_s": round(length_s, 1),
        "used_mb": round(median(value for _t, value in used) / MB, 2),
        "used_growth_mb": round(growth(used) / MB, 3),
        "members": members,
    }
