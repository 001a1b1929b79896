"""Measure rqtui on this machine for `rqtui bench`. Figures are printed beside targets; no figure makes a run fail.

    bench("engine")   server CPU against bare scripts, memory, latency, drain, bulk put, round trips   (`engine.py`)
    bench("screen")   start-up, completion, first paint, the idle screen                               (`screen.py`)
    bench("layouts")  rqtui's dispatcher and reaper against those of other systems                     (`systems.py`)
    bench("scale")    a thousand queues and long places of RQ, Sidekiq, BullMQ, Celery                 (`scale.py`)
    bench("many")     many native queues, and many keys of other programs                              (`many.py`)

Each measurement is a function from a `Bench` (a server of its own, sizes, the seed) to lines; other queues are measured
only where they are installed (`other_queues.py`), the tools of other systems in environments that are created for them
(`stock_tools.py`). Figures of other machines are quoted nowhere.

The wheel has this folder as `rqtui/benchmarks`; its modules import one another relatively, so that they work in both
places, and for the programs beside this folder.
"""

from .runner import bench

__all__ = ["bench"]
