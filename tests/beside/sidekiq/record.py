"""Records what a run of stock Sidekiq leaves in Redis: `python tests/beside/sidekiq/record.py [VERSION]`.

Writes `recorded-<version>.json` beside this file: in `recorded` how it was made, in `keys` each key with its type, its
time to live in ms (−1: none) and what it holds; bytes that are no UTF-8 as {"base64": …}. `recorded.py` plants it.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from beside.environments import SIDEKIQ, build_sidekiq  # noqa: E402
from beside.sidekiq.stock import APP, Stock  # noqa: E402
from redis import Redis  # noqa: E402
from waiting import wait_until  # noqa: E402

from rqtui.connection.connect import connect  # noqa: E402
from rqtui.connection.embedded import start_server  # noqa: E402

READERS = {
    "string": lambda client, key: client.get(key),
    "list": lambda client, key: client.lrange(key, 0, -1),
    "set": lambda client, key: sorted(client.smembers(key)),
    "hash": lambda client, key: [[field, value] for field, value in sorted(client.hgetall(key).items())],
    "zset": lambda client, key: [[member, score] for member, score in client.zrange(key, 0, -1, withscores=True)],
}


def run_stock_jobs(stock: Stock, client: Redis) -> None:
    """Run stock Sidekiq with jobs in each place, one of ActiveJob, two that run, and an entry of cron."""
    stock.push("hard-1", "hard-2", args=(1, {"ids": [], "of": {}, "big": 12345678901234567890, "ratio": 1.0}))
    stock.push("fails-1", "fails-2", job="FailJob", args=(4711,))
    stock.push("flaky", job="FlakyJob", args=(7,))
    stock.push("fatal", job="FatalJob", args=('ä\\"/\u2028',), backtrace=1)
    with stock.worker(name="web-1"):
        stock.until("fatal", "dead")
        for jid in ("fails-1", "fails-2", "flaky"):
            stock.until(jid, "retry")
        wait_until(lambda: stock.do("stats")["processed"] == 6, what="all are counted")
    stock.run_holding("slow-1", "slow-2", worker="web-2")
    stock.push("waits-1", "waits-2", args=(1, 2), tags=["vip"])
    stock.push("later-1", "later-2", in_s=3600, args=(3,))
    if stock.has["active_job"]:
        stock.do("greet", name="zoë", loud=True)
    if stock.has["cron"]:
        stock.do("cron", name="night", cron="0 3 * * *", klass="HardJob", args=[1])
    stock.do("tell", identity=stock.identity(stock.start("mailers", name="web-3")), word="quiet")
    wait_until(lambda: any(each["quiet"] for each in stock.do("processes")), what="it is quiet")
    stock.push("low-1", queue="low", args=("ä",))


def dump_keys(client: Redis) -> dict[str, Any]:
    """Return every key of Sidekiq."""
    found = {}
    for key in sorted(client.scan_iter()):
        if not key.startswith(b"beside:"):
            kind = client.type(key).decode()
            found[key.decode()] = [kind, client.pttl(key), _plain(READERS[kind](client, key))]
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def main() -> None:
    """Record a run of the newest Sidekiq, or of the version that is named."""
    ruby = build_sidekiq(sys.argv[1] if len(sys.argv) > 1 else max(SIDEKIQ))
    with start_server("auto") as running, connect(running.url) as client, tempfile.TemporaryDirectory() as folder:
        shop = shutil.copytree(APP, Path(folder) / "shop")  # backtraces name the file
        with Stock(ruby, running.url, Path(folder), shop) as stock:
            run_stock_jobs(stock, client)
            header = {
                "system": "Sidekiq",
                "version": stock.version,
                "how": "record.py: a run of the stock program with the jobs of app/shop.rb, read while it ran",
                "at": time.time(),
            }
            keys = dump_keys(client)
    file = FOLDER / f"recorded-{header['version']}.json"
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in keys.items())
    file.write_text(f'{{"recorded": {json.dumps(header)},\n"keys": {{\n{rows}\n}}}}\n', encoding="utf-8")
    print(file)


if __name__ == "__main__":
    main()
