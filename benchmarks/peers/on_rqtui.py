"""rqtui, from the environment that runs the conductor: `consume()` as it is; variant `one`: no batches."""

from __future__ import annotations

from collections.abc import Sequence

from protocol import Peer, main, ran

from rqtui.client import Queue


def make(url: str, variant: str) -> Peer:
    queue = Queue("bench", url)

    def enqueue(bodies: Sequence[str]) -> None:
        for body in bodies:
            queue.put(body)

    def work(setting: str, wants_delays: bool) -> None:
        with Queue("bench", url) as own:
            for job in own.consume(batch=1) if variant == "one" else own.consume():
                with job:
                    ran(job.body)

    return Peer(
        enqueue,
        work,
        bulk=lambda bodies: queue.put_many(bodies) and None,
        later=lambda body, delay_s: queue.put(body, delay=delay_s) and None,
    )


if __name__ == "__main__":
    main(make)
