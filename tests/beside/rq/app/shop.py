"""The application whose jobs stock workers run: each function notes in the list `beside:ran` who ran which job."""

from __future__ import annotations

import json
import os
import time

from rq import get_current_job

RAN, FIXED = "beside:ran", "beside:fixed"


def _note():
    job = get_current_job()
    job.connection.rpush(RAN, json.dumps([job.id, job.worker_name, os.getpid()]))
    return job


def add(a, b):
    """Return the sum of two numbers."""
    _note()
    return a + b


def confirm(order):
    """Fail as long as the key `beside:fixed` is missing."""
    job = _note()
    if not job.connection.exists(FIXED):
        raise ValueError(f"no such order: {order}")
    return order


def flaky(order):
    """Fail when this job is run for the first time."""
    job = _note()
    if job.connection.incr(f"beside:times:{job.id}") == 1:
        raise ConnectionError(f"order {order}: connection reset by peer")
    return order


def hold(key, seconds=60):
    """Run until the key `key` exists."""
    job, deadline = _note(), time.monotonic() + seconds
    while not job.connection.exists(key) and time.monotonic() < deadline:
        time.sleep(0.02)
    return key


def letters(number):
    """Return a text of so many letters that compresses badly."""
    _note()
    return os.urandom(number // 2).hex()
