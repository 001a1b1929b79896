"""Measure the lower bound: three bare scripts that only make the moves of rqtui. The variant `one` has no batches.

No guard, no reply per id, no counter, no retention, no wake-up, no heartbeat, no client: a pipeline of redis-py.
"""

from __future__ import annotations

from collections.abc import Sequence

from own.engine import BARE, BARE_KEYS, HEADER
from protocol import Peer, main, report_measured_run
from redis import Redis

from rqtui.connection.connect import connect
from rqtui.ids import create_job_ids

BATCH, BULK = 100, 1000


def create_peer(url: str, variant: str) -> Peer:
    batch = 1 if variant == "one" else BATCH
    client = connect(url)
    scripts: dict[str, str] = {}

    def load_script(verb: str, on: Redis) -> str:
        if verb not in scripts:
            scripts[verb] = str(on.script_load(BARE[verb]))
        return scripts[verb]

    def enqueue_jobs(bodies: Sequence[str], at_once: int) -> None:
        sha = load_script("enqueue", client)
        for at in range(0, len(bodies), at_once):
            part = bodies[at : at + at_once]
            rows = [
                value
                for id, body in zip(create_job_ids(len(part)), part, strict=True)
                for value in (id, HEADER + body.encode())
            ]
            client.evalsha(sha, len(BARE_KEYS), *BARE_KEYS, *rows)

    def run_worker(setting: str, wants_delays: bool) -> None:
        own = connect(url)
        reserve, ack = load_script("reserve", own), load_script("ack", own)
        done: list[bytes] = []
        while True:
            pipe = own.pipeline(transaction=False)
            if done:
                pipe.evalsha(ack, len(BARE_KEYS), *BARE_KEYS, *done)
            pipe.evalsha(reserve, len(BARE_KEYS), *BARE_KEYS, batch, "bare")
            rows = pipe.execute()[-1]
            for _, _, record in rows:
                report_measured_run(record.partition(b"\n")[2].decode())
            done = [row[0] for row in rows]

    return Peer(
        lambda bodies: enqueue_jobs(bodies, 1),
        run_worker,
        bulk=lambda bodies: enqueue_jobs(bodies, BULK),
        no_delay="the floor has no delays",
    )


if __name__ == "__main__":
    main(create_peer)
