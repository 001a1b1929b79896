"""Draw the figures of growth.py or scaling.py with matplotlib: `plot.py growth.json growth.svg`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt


def main(source: str, target: str) -> None:
    document = json.loads(Path(source).read_text())
    mpl.rcParams.update({"svg.hashsalt": "rqtui", "svg.fonttype": "none", "font.size": 9})
    figure, panels = plt.subplots(1, len(document["found"]), figsize=(13, 4), layout="constrained", squeeze=False)
    for panel, (title, steps) in zip(panels[0], document["found"].items(), strict=True):
        for name, values in steps.items():
            panel.plot([int(size) for size in values], list(values.values()), marker="o", markersize=4, label=name)
        panel.set(xscale="log", xlabel=title, ylabel=document.get("unit", "µs of server CPU each"))
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
        panel.legend(frameon=False)
    where = document["machine"]
    figure.suptitle(f"{where['server']} · {where['cpu']}, {where['cores']} cores", fontsize=9)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
