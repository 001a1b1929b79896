"""Stock Celery, as its own API has it, for a test outside of its environment: a JSON list [name, arguments] per line
in, a JSON document per line out. Run by the Python of an environment with Celery: `python driver.py URL`.
"""

from __future__ import annotations

import json
import sys
import traceback

from celery import Celery, chain, chord
from celery import __version__ as version


class Driver:
    """Each method is a command."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.configure({})

    def configure(self, settings):
        """Create a new Celery application with these settings."""
        self.app = Celery("shop", broker=self.url, backend=self.url)
        self.app.conf.update(settings)

    def version(self):
        """Celery's."""
        return version

    def enqueue(self, task, args=(), kwargs=None, id=None, queue="default", **options):
        """Send a task by `send_task` and return its id.

        The options are countdown, eta, priority, serializer, expires and compression.
        """
        return self.app.send_task(task, args=args, kwargs=kwargs, task_id=id, queue=queue, **options).id

    def many(self, rows, queue="default", **options):
        """Send tasks by `send_task` from rows [id, task, arguments]."""
        for id, task, args in rows:
            self.enqueue(task, args, id=id, queue=queue, **options)

    def canvas(self, queue):
        """Send a chain of (1 + 2) + 3 and a chord over 1 + 2 and 3 + 4, and return all ids.

        The ids in the queue come first, then those of the last tasks.
        """

        def add(*args):
            return self.app.signature("shop.add", args, queue=queue)

        ends = chain(add(1, 2), add(3)).apply_async()
        total = chord([add(1, 2), add(3, 4)])(self.app.signature("shop.total", queue=queue))
        return {
            "chain": ends.parent.id,
            "chord": [each.id for each in total.parent.results],
            "ends": {"chain": ends.id, "chord": total.id},
        }

    def result(self, id):
        """Return what `AsyncResult` reports about a job."""
        found = self.app.AsyncResult(id)
        return {
            "status": found.status,
            "value": found.result if found.successful() else None,
            "error": found.traceback,
        }

    def statuses(self, ids):
        """Of many jobs."""
        return [self.app.AsyncResult(id).status for id in ids]

    def inspect(self, method, workers=1, **options):
        """Run `celery inspect METHOD` and return the replies by worker, once so many replied or after 10 s."""
        asked = self.app.control.inspect(timeout=10, limit=workers)
        return getattr(asked, method)(**options)

    def revoke(self, id, **options):
        """Run `celery control revoke` for a job."""
        self.app.control.revoke(id, **options)

    def control(self, command, **arguments):
        """Any other command of `celery control`; what the workers answer."""
        return self.app.control.broadcast(command, arguments=arguments, reply=True, timeout=10, limit=1)

    def length(self, queue):
        """Return kombu's count of messages in a queue over all priorities, 0 for a missing queue."""
        with self.app.connection_for_read() as connection:
            return connection.default_channel._size(queue)

    def purge(self, queue):
        """Run `celery purge -Q` for a queue."""
        with self.app.connection_for_write() as connection:
            return connection.default_channel.queue_purge(queue)


def main() -> None:
    """Answer commands until standard input ends."""
    driver = Driver(sys.argv[1])
    for line in sys.stdin:
        name, options = json.loads(line)
        try:
            answer = {"value": getattr(driver, name)(**options)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()
