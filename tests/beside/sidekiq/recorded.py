"""A recorded run of stock Sidekiq, planted on a server: see `record.py`."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

from redis import Redis

FILE = Path(__file__).parent / "recorded-8.1.7.json"


def plant(client: Redis) -> dict[str, Any]:
    """Plant every recorded key with heartbeats of now, and return the recording's header."""
    document = json.loads(FILE.read_text("utf-8"))
    now_s = client.time()[0]
    for key, (kind, life_ms, held) in document["keys"].items():
        if kind == "string":
            client.set(key, _bytes(held))
        elif kind == "list":
            client.rpush(key, *map(_bytes, held))
        elif kind == "set":
            client.sadd(key, *map(_bytes, held))
        elif kind == "hash":
            fields = {field: _bytes(value) for field, value in held}
            client.hset(key, mapping={**fields, **({"beat": now_s} if "beat" in fields else {})})
        else:
            client.zadd(key, {_bytes(member): score for member, score in held})
        if life_ms > 0:
            client.pexpire(key, life_ms)
    header: dict[str, Any] = document["recorded"]
    return header


def _bytes(value: Any) -> bytes:
    return b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
