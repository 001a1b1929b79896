"""Stock arq, as its own API has it, for a test outside of its environment: a JSON list [name, arguments] per line in, a
JSON document per line out. Run by the Python of an environment with arq: `python driver.py URL`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback

from arq import create_pool
from arq.connections import RedisSettings
from arq.jobs import Job
from arq.version import VERSION


class Driver:
    """Each method is a command."""

    def __init__(self, pool) -> None:
        self.pool = pool

    async def version(self):
        """Return the version of arq."""
        return str(VERSION)

    async def enqueue(self, func, args=(), kwargs=None, id=None, **options):
        """Enqueue a job by `enqueue_job`, and return its id, or None if it exists."""
        options = {f"_{name}": value for name, value in options.items()}
        job = await self.pool.enqueue_job(func, *args, _job_id=id, **options, **(kwargs or {}))
        return job and job.job_id

    async def queued_jobs(self):
        """Return what `queued_jobs` reports: id, function, arguments and score of each job."""
        return [[job.job_id, job.function, list(job.args), job.score] for job in await self.pool.queued_jobs()]

    async def statuses(self, ids):
        """Return `job.status()` of many jobs."""
        return {id: (await Job(id, self.pool).status()).value for id in ids}

    async def results(self):
        """Return what `all_job_results` reports: whether each job succeeded, its tries, and its result or error."""
        return {
            result.job_id: [result.success, result.job_try, repr(result.result)]
            for result in await self.pool.all_job_results()
        }

    async def abort(self, id):
        """Ask to abort a job by `job.abort`, without waiting for the end of the job."""
        try:
            return await Job(id, self.pool).abort(timeout=0)
        except TimeoutError:
            return None


async def main() -> None:
    """Answer commands until standard input ends."""
    driver = Driver(await create_pool(RedisSettings.from_dsn(sys.argv[1])))
    for line in sys.stdin:
        name, options = json.loads(line)
        try:
            answer = {"value": await getattr(driver, name)(**options)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
