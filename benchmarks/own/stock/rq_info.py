"""Measure what `rq info` does at each refresh: `rq_info.py URL ROUNDS` prints the milliseconds per round as JSON."""

import contextlib
import io
import json
import re
import sys
import time

from redis import Redis
from rq import Queue, Worker
from rq.cli.helpers import show_both

url, rounds = sys.argv[1], int(sys.argv[2])
connection = Redis.from_url(url)
took, counted = [], 0
for _ in range(rounds + 1):
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()) as told:
        show_both(Queue.all(connection=connection), False, False, Queue, Worker, connection)
    took.append((time.perf_counter() - began) * 1000)
    counted = int(re.findall(r"(\d+) jobs total", told.getvalue())[0])
print(json.dumps({"rq info": {"ms": took[1:], "counted": counted}}))
