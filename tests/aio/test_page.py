"""The program of docs/asyncio.md runs, and does what its page says."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from doc_pages import ROOT
from redis import Redis


@pytest.mark.slow
def test_the_program_of_the_page_runs(client: Redis, url: str) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "asyncio.md").read_text("utf-8"), re.M | re.S)
    assert program.count("redis://localhost:6379") == 1
    program = program.replace("redis://localhost:6379", url)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert client.hmget("rqtui:{mail}:meta", "enqueued", "acked") == [b"1001", b"1001"]
    assert client.zcard("rqtui:{mail}:reserved") == client.hlen("rqtui:{mail}:workers") == 0
