"""Print the figures of a run as Markdown: a table of medians with their spread, and rqtui's goals.

Everything is computed from the document that `run.py` writes, so an old run can be printed again:
`python benchmarks/tables.py results.json`.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entries import ENTRIES

Answers = Mapping[str, Sequence[Mapping[str, Any]]]
US, SI = "rqtui", "rqtui, no batches"
KEPT = {entry.name for entry in ENTRIES if entry.is_kept}
OTHERS = [entry.name for entry in ENTRIES if entry.home]
PYTHONS = [entry.name for entry in ENTRIES if entry.home and not entry.is_node]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, with a function that reads its figure from the results of a round.

    None if there is none.
    """

    title: str
    read: Callable[[Mapping[str, Mapping[str, Any]]], float | None]
    has_spread: bool = True


def _build_rate_reader(name: str) -> Callable[[Mapping[str, Mapping[str, Any]]], float | None]:
    """Return a function that reads the jobs per second of one measurement."""
    return lambda told: told[name]["jobs"] / told[name]["seconds"] if "seconds" in told.get(name, {}) else None


def _build_value_reader(
    name: str, field: str, per: str = ""
) -> Callable[[Mapping[str, Mapping[str, Any]]], float | None]:
    """Return a function that reads one field of one measurement, divided by another field `per` if it is given."""

    def read_figure(results_by_name: Mapping[str, Mapping[str, Any]]) -> float | None:
        answer = results_by_name.get(name, {})
        return answer[field] / (answer[per] if per else 1) if field in answer else None

    return read_figure


def _build_lifecycle_reader(put: str, field: str) -> Callable[[Mapping[str, Mapping[str, Any]]], float | None]:
    """Return a function that adds up a field over putting and draining a job."""

    def read_figure(results_by_name: Mapping[str, Mapping[str, Any]]) -> float | None:
        parts = [_build_value_reader(name, field, "jobs")(results_by_name) for name in (put, "drain")]
        return None if None in parts else sum(part for part in parts if part is not None)

    return read_figure


def _read_default_drain(results_by_name: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the jobs per second with the default settings, or None if they were not measured."""
    return _build_rate_reader("default drain" if "default drain" in results_by_name else "drain")(results_by_name)


COLUMNS = {
    "put": Column("put one by one /s", _build_rate_reader("enqueue")),
    "bulk": Column("put in bulk /s", _build_rate_reader("bulk")),
    "best": Column("drain, at its best /s", _build_rate_reader("drain")),
    "default": Column("drain, by default /s", _read_default_drain),
    "p50": Column("put → running p50 ms", _build_value_reader("latency", "p50_ms")),
    "p99": Column("p99 ms", _build_value_reader("latency", "p99_ms")),
    "late": Column("1 s delay late, median ms", _build_value_reader("delayed", "median_ms")),
    "worst": Column("worst ms", _build_value_reader("delayed", "worst_ms")),
    "first": Column("earliest ms", _build_value_reader("delayed", "first_ms")),
    "cpu": Column("server µs per job, put one by one", _build_lifecycle_reader("enqueue", "server_us")),
    "cpu in bulk": Column("… put in bulk", _build_lifecycle_reader("bulk", "server_us")),
    "commands": Column("commands per job", _build_lifecycle_reader("enqueue", "commands"), has_spread=False),
    "trips": Column("reads of the server per job", _build_lifecycle_reader("enqueue", "trips"), has_spread=False),
    "bytes": Column("bytes per waiting job", _build_value_reader("memory", "bytes"), has_spread=False),
    "look": Column("100 queues counted, ms", _build_value_reader("look", "ms")),
    "look cpu": Column("server µs", _build_value_reader("look", "server_us")),
    "look commands": Column("commands", _build_value_reader("look", "commands"), has_spread=False),
    "look trips": Column("reads of the server", _build_value_reader("look", "trips"), has_spread=False),
    "idle": Column("50 idle workers: commands/s", _build_value_reader("idle", "per_second"), has_spread=False),
    "idle trips": Column("… requests/s", _build_value_reader("idle", "trips_per_second"), has_spread=False),
}


def list_figures(answers: Answers, column: Column) -> list[float]:
    """Return the column's figure of each round that has one."""
    rounds = max((len(each) for each in answers.values()), default=0)
    answers_by_round = ({name: each[at] for name, each in answers.items() if at < len(each)} for at in range(rounds))
    return [value for value in map(column.read, answers_by_round) if value is not None]


def compute_median(found: Mapping[str, Answers], name: str, column: str) -> float | None:
    """Return the median of a peer's figure over the rounds."""
    values = list_figures(found.get(name, {}), COLUMNS[column])
    return statistics.median(values) if values else None


def build_report(document: Mapping[str, Any]) -> str:
    """Build the whole report as Markdown."""
    where, found = document["machine"], document["found"]
    names = [entry.name for entry in ENTRIES if entry.name in found]
    own = list_own_goals(document.get("own", ()))
    if not names:
        return "\n".join([_format_heading(where), "", "| goal | figure | |", "|---|---|---|", *own]) + "\n"
    lines = [_format_heading(where), ""]
    for part in (("put", "bulk", "best", "default"), ("p50", "p99", "late", "worst", "first"),
                 ("cpu", "cpu in bulk", "commands", "trips", "bytes", "idle", "idle trips"),
                 ("look", "look cpu", "look commands", "look trips")):  # fmt: skip
        lines += _format_table(
            found, [name for name in names if any(compute_median(found, name, each) for each in part)], part
        ) + [""]
    lines += [f"* {name}: not measured: {why}" for name, why in document["missing"].items()]
    lines += ["* " + reason for reason in _format_reasons(found, names)] + [""]
    lines += ["| goal | figure | |", "|---|---|---|"]
    for text, value, bound in list_goals(found):
        figure = "not measured" if value is None else f"{_format_figure(value)}"
        lines.append(f"| {text} | {figure} | {_format_verdict(value, bound)} |")
    lines += own
    return "\n".join(lines) + "\n"


def _format_heading(where: Mapping[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in where["packages"].items())
    rounds = f" · median of {where['rounds']} rounds [lowest … highest]" if where["versions"] else ""
    quick = " · quick: small numbers" if where["is_quick"] else ""
    kinds = {entry.name: entry for entry in ENTRIES}
    peers = "; ".join(
        f"{name} ({kinds[name].best}; {', '.join(f'{package} {version}' for package, version in versions.items())}"
        f"{'' if kinds[name].is_kept or kinds[name].is_floor else '; at most once'})"
        for name, versions in where["versions"].items()
        if name in OTHERS
    )
    settings = ", ".join(f"{name} {value or repr('')}" for name, value in where["settings"].items())
    return (
        f"{where['date']} · {where['cpu']}, {where['cores']} cores, {where['system']} · Python {where['python']}, {packages}"
        f" · {where['server']} ({settings}){rounds}{quick}\n\n{peers}"
    )


def _format_table(found: Mapping[str, Answers], names: Sequence[str], part: Sequence[str]) -> list[str]:
    columns = [COLUMNS[name] for name in part]
    rows = ["| | " + " | ".join(column.title for column in columns) + " |", "|---|" + "---:|" * len(columns)]
    for name in names:
        rows.append(
            f"| {name} | "
            + " | ".join(_format_cell(list_figures(found[name], column), column) for column in columns)
            + " |"
        )
    return rows


def _format_cell(values: Sequence[float], column: Column) -> str:
    if not values:
        return "—"
    if len(values) == 1 or not column.has_spread:
        return _format_figure(statistics.median(values))
    return (
        f"{_format_figure(statistics.median(values))} [{_format_figure(min(values))} … {_format_figure(max(values))}]"
    )


def _format_figure(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 100 else f"{value:.3g}"


def _format_reasons(found: Mapping[str, Answers], names: Sequence[str]) -> list[str]:
    """Format the reasons of missing measurements, one line per reason."""
    names_by_reason: dict[tuple[str, str], list[str]] = {}
    for name in names:
        for command, answers in found[name].items():
            for why in sorted({answer["none"] for answer in answers if "none" in answer}):
                names_by_reason.setdefault((command, why), []).append(name)
    return [f"{', '.join(who)}, {command}: {why}" for (command, why), who in names_by_reason.items()]


def list_goals(found: Mapping[str, Answers]) -> list[tuple[str, float | None, str]]:
    """Return each goal with its figure and its bound."""

    def find_best_median(
        column: str, names: Sequence[str], pick: Callable[[Sequence[float]], float] = max
    ) -> float | None:
        values = [value for name in names if (value := compute_median(found, name, column)) is not None]
        return pick(values) if values else None

    def divide_by_best(column: str, names: Sequence[str], ours: str = US) -> float | None:
        own, other = compute_median(found, ours, column), find_best_median(column, names)
        return own / other if own and other else None

    def divide_best_by_own(column: str, ours: str, our_column: str, names: Sequence[str]) -> float | None:
        own, other = compute_median(found, ours, our_column), find_best_median(column, names, min)
        return other / own if own and other else None

    stored = [name for name in OTHERS if name in KEPT]
    floor = {name: [each["value"] for each in found.get("floor", {}).get(name, ()) if each["value"]] for name in _FLOOR}
    return [
        ("drain: times the fastest Python peer that keeps its jobs", divide_by_best("best", [n for n in PYTHONS if n in KEPT]), "≥ 6"),
        ("drain: times BullMQ at concurrency 50", divide_by_best("best", ["BullMQ"]), "≥ 2"),
        ("put in bulk: times BullMQ", divide_by_best("bulk", ["BullMQ"]), "≥ 4"),
        ("put in bulk: times rq", divide_by_best("bulk", ["rq"]), "≥ 8"),
        ("put in bulk: times streaq", divide_by_best("bulk", ["streaq"]), "≥ 8"),
        ("put one by one: times the fastest peer", divide_by_best("put", OTHERS), "≥ 1"),
        *((f"server CPU {name}", statistics.median(floor[name]) if floor[name] else None, bound) for name, bound in _FLOOR.items()),
        ("server CPU in batches: below the thriftiest that keeps its jobs, times", divide_best_by_own("cpu", US, "cpu in bulk", stored), "≥ 4"),
        ("server CPU one by one: below the thriftiest that keeps its jobs, times", divide_best_by_own("cpu", SI, "cpu", stored), "≥ 1"),
        ("put → running, p50 ms", compute_median(found, US, "p50"), "≤ 2"),
        ("put → running, p99 ms", compute_median(found, US, "p99"), "≤ 5"),
        ("a delay of 1 s: late at worst, ms", max(list_figures(found.get(US, {}), COLUMNS["worst"]), default=None), "≤ 5"),
        ("a delay of 1 s: earliest, ms", min(list_figures(found.get(US, {}), COLUMNS["first"]), default=None), "≥ 0"),
        ("bytes per waiting job", compute_median(found, US, "bytes"), "≤ 425"),
        ("100 queues counted: times faster than `rq info`", divide_best_by_own("look", US, "look", ["rq"]), "≥ 50"),
        ("100 queues counted: times faster than BullMQ's getJobCounts", divide_best_by_own("look", US, "look", ["BullMQ"]), "≥ 4"),
        ("100 queues counted: server ms", _round_to_thousandth(compute_median(found, US, "look cpu")), "≤ 1"),
        ("requests per second of 50 idle workers", compute_median(found, US, "idle trips"), "≤ 50"),
    ]  # fmt: skip


_FLOOR = {"against bare scripts, one by one": "≤ 1.5", "against bare scripts, in batches of 50": "≤ 1.8"}


def list_own_goals(own: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a row for each line of `rqtui bench` with a goal, including those without a measurement."""
    rows, above = [], ""
    for line in own:
        name = f"{above}: {line['name'].strip()}" if line["name"].startswith(" ") else line["name"]
        above = above if line["name"].startswith(" ") else line["name"]
        if line["target"]:
            figure = (
                line["note"] or "not measured"
                if line["value"] is None
                else f"{_format_figure(line['value'])} {line['unit']}"
            )
            rows.append(f"| {name} | {figure.rstrip()} | {_format_verdict(line['value'], line['target'])} |")
    return rows


def _round_to_thousandth(value: float | None) -> float | None:
    return None if value is None else value / 1000


def _format_verdict(value: float | None, bound: str) -> str:
    if value is None:
        return bound
    limit = float(bound[1:])
    return f"{bound}: " + ("met" if (value >= limit if bound[0] == "≥" else value <= limit) else "**missed**")


if __name__ == "__main__":
    print(build_report(json.loads(Path(sys.argv[1]).read_text())))
