"""Stock RQ, as its own API has it, for a test outside of its environment: a JSON list [name, arguments] per line in, a
JSON document per line out. Run by the Python of an environment with RQ: `python driver.py URL`.
"""

from __future__ import annotations

import json
import sys
import traceback
from datetime import UTC, datetime, timedelta

from redis import Redis
from rq import Queue, Retry, Worker
from rq import __version__ as version
from rq.exceptions import NoSuchJobError
from rq.job import Job
from rq.suspension import is_suspended, resume, suspend

PLACES = ("scheduled", "deferred", "started", "finished", "failed", "canceled")


def _status(job):
    found = job.get_status(refresh=False)  # of the hash that was fetched: it may be gone by now
    return str(getattr(found, "value", found))


class Driver:
    """Each method is a command."""

    def __init__(self, url: str) -> None:
        self.client = Redis.from_url(url)

    def version(self):
        """RQ's."""
        return version

    def enqueue(self, queue, func, args=(), kwargs=None, id=None, in_s=None, retries=0, **options):
        """Enqueue a job by `Queue.enqueue`, or `enqueue_in` with `in_s`, and return the id."""
        if retries:
            options["retry"] = Retry(max=retries)
        new_queue = Queue(queue, connection=self.client)
        if in_s is None:
            return new_queue.enqueue(func, args=args, kwargs=kwargs or {}, job_id=id, **options).id
        return new_queue.enqueue_in(
            timedelta(seconds=in_s), func, args=args, kwargs=kwargs or {}, job_id=id, **options
        ).id

    def limited(self, queue, func, args, id, key):
        """Enqueue a job with a rate limit of one at a time, which RQ has from 3.0 on."""
        from rq import RateLimit

        Queue(queue, connection=self.client).enqueue(func, args=args, job_id=id, rate_limit=RateLimit(key, 1))

    def many(self, queue, rows):
        """Enqueue jobs by `Queue.enqueue_many` from rows [id, function, arguments]."""
        new_queue = Queue(queue, connection=self.client)
        new_queue.enqueue_many([Queue.prepare_data(func, args=tuple(args), job_id=id) for id, func, args in rows])

    def later(self, queue, func, rows, in_s):
        """Enqueue jobs by `Queue.enqueue_in` from rows [id, arguments]."""
        for id, args in rows:
            self.enqueue(queue, func, args, id=id, in_s=in_s)

    def job(self, id):
        """Return what RQ reports about a job; None for a missing job."""
        try:
            job = Job.fetch(id, connection=self.client)
        except NoSuchJobError:
            return None
        result = job.latest_result()
        return {
            "status": _status(job),
            "origin": job.origin,
            "function": job.func_name,
            "args": list(job.args),
            "kwargs": dict(job.kwargs),
            "description": job.description,
            "value": result.return_value if result else None,
            "error": result.exc_string if result else None,
            "ttl": self.client.ttl(job.key),
        }

    def statuses(self, ids):
        """Of many jobs, None for those that are gone."""
        jobs = Job.fetch_many(ids, connection=self.client)
        return [_status(job) if job else None for job in jobs]

    def counts(self, queue):
        """Return the jobs per place, without RQ's clean-up."""
        new_queue = Queue(queue, connection=self.client)
        registries = {place: getattr(new_queue, f"{place}_job_registry") for place in PLACES}
        return {"queued": len(new_queue)} | {
            place: each.get_job_count(cleanup=False) for place, each in registries.items()
        }

    def ids(self, queue, place):
        """Return the ids in a place, without RQ's clean-up."""
        new_queue = Queue(queue, connection=self.client)
        if place == "queued":
            return new_queue.job_ids
        return getattr(new_queue, f"{place}_job_registry").get_job_ids(cleanup=False)

    def requeue(self, queue, id):
        """Requeue a failed job by RQ's own method."""
        Queue(queue, connection=self.client).failed_job_registry.requeue(id)

    def cancel(self, id):
        """Cancel a job by RQ's own method."""
        Job.fetch(id, connection=self.client).cancel()

    def clean(self, queue):
        """Clean up the started jobs, as a starting worker, `rq info` and a count do."""
        Queue(queue, connection=self.client).started_job_registry.cleanup()

    def workers(self):
        """Name, state, current job and counters of each."""
        return [
            {
                "name": each.name,
                "state": str(getattr(each.get_state(), "value", each.get_state())),
                "queues": each.queue_names(),
                "done": each.successful_job_count,
                "failed": each.failed_job_count,
            }
            for each in Worker.all(connection=self.client)
        ]

    def suspended(self, wish=None):
        """Return whether all queues are suspended. With `wish`, suspend or resume them."""
        if wish is not None:
            (suspend if wish else resume)(self.client)
        return bool(is_suspended(self.client))

    def due(self, queue):
        """Return each scheduled job with the second at which it is due."""
        registry = Queue(queue, connection=self.client).scheduled_job_registry
        now = datetime.now(UTC)
        return {id: (registry.get_scheduled_time(id) - now).total_seconds() for id in registry.get_job_ids()}


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
