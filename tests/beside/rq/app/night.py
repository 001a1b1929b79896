"""The schedule of the application, for `rq cron`."""

from __future__ import annotations

import shop
from rq import cron

cron.register(shop.add, "default", args=(1, 2), cron="0 3 * * *")
cron.register(shop.add, "default", args=(3, 4), interval=3600)
