"""Measure huey, which takes a job out before it runs (at most once): at its best four threads, by default one."""

from __future__ import annotations

from collections.abc import Sequence

from huey import RedisHuey
from protocol import Peer, main, report_measured_run


def create_peer(url: str, variant: str) -> Peer:
    huey = RedisHuey("bench", url=url, results=False)
    task = huey.task(name="ran")(report_measured_run)

    def enqueue_jobs(bodies: Sequence[str]) -> None:
        for body in bodies:
            task(body)

    def run_worker(setting: str, wants_delays: bool) -> None:
        options = {"workers": 4, "periodic": False} if setting == "best" else {}
        huey.create_consumer(**options).run()

    return Peer(enqueue_jobs, run_worker, later=lambda body, delay_s: task.schedule((body,), delay=delay_s) and None)


if __name__ == "__main__":
    main(create_peer)
