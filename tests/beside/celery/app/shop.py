"""The application whose tasks stock workers run: each notes in the list `beside:ran` who ran which job.

SHOP_URL is its Redis; SHOP_SETTINGS, in JSON, what its author has set beside Celery's defaults.
"""

from __future__ import annotations

import json
import os
import time

from celery import Celery
from redis import Redis

RAN, FIXED = "beside:ran", "beside:fixed"
URL = os.environ["SHOP_URL"]

app = Celery("shop", broker=URL, backend=URL)
app.conf.update(json.loads(os.environ.get("SHOP_SETTINGS", "{}")))
client = Redis.from_url(URL)


def _note(task):
    client.rpush(RAN, json.dumps([task.request.id, task.request.hostname.partition("@")[0], os.getpid()]))


@app.task(bind=True)
def add(self, a, b):
    """Return the sum of two numbers."""
    _note(self)
    return a + b


@app.task(bind=True)
def total(self, numbers):
    """Their sum."""
    _note(self)
    return sum(numbers)


@app.task(bind=True)
def work(self, a, b, seconds=0.05):
    """Return the sum of two numbers after some seconds."""
    time.sleep(seconds)
    _note(self)
    return a + b


@app.task(bind=True)
def confirm(self, order):
    """Fail as long as the key `beside:fixed` is missing."""
    _note(self)
    if not client.exists(FIXED):
        raise ValueError(f"no such order: {order}")
    return order


@app.task(bind=True, max_retries=1)
def flaky(self, order):
    """Fail when this job is run for the first time, and request a retry at once."""
    _note(self)
    if self.request.retries == 0:
        raise self.retry(exc=ConnectionError(f"order {order}: connection reset by peer"), countdown=0)
    return order


@app.task(bind=True)
def hold(self, key, seconds=120):
    """Run until the key `key` exists."""
    _note(self)
    deadline = time.monotonic() + seconds
    while not client.exists(key) and time.monotonic() < deadline:
        time.sleep(0.02)
    return key
