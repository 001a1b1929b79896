"""The application whose jobs stock workers run: each function notes in the list `beside:ran` who ran which job."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, ClassVar

from arq.connections import RedisSettings

RAN, FIXED = "beside:ran", "beside:fixed"


async def _note(ctx: dict[str, Any]) -> None:
    await ctx["redis"].rpush(RAN, json.dumps([ctx["job_id"], f"try {ctx['job_try']}", os.getpid()]))


async def add(ctx, a, b=0):
    """Return the sum of two numbers."""
    await _note(ctx)
    return a + b


async def confirm(ctx, order):
    """Fail as long as the key `beside:fixed` is missing."""
    await _note(ctx)
    if not await ctx["redis"].exists(FIXED):
        raise ValueError(f"no such order: {order}")
    return order


async def hold(ctx, key):
    """Run until the key `key` exists."""
    await _note(ctx)
    while not await ctx["redis"].exists(key):
        await asyncio.sleep(0.02)
    return key


class WorkerSettings:
    """The settings of `arq shop.WorkerSettings`."""

    functions: ClassVar[list[Any]] = [add, confirm, hold]
    redis_settings = RedisSettings.from_dsn(os.environ.get("SHOP_URL", "redis://localhost"))
    queue_name = os.environ.get("SHOP_QUEUE", "arq:queue")
    max_jobs = int(os.environ.get("SHOP_MAX_JOBS", "10"))
    job_timeout = 300
    poll_delay = 0.05
    allow_abort_jobs = os.environ.get("SHOP_ABORT", "1") == "1"
