"""rqtui: a terminal cockpit, a job queue and a translator for job queues in Redis.

This module holds nothing but the version, so that `rqtui --version` imports neither redis nor textual.
"""

__version__ = "0.1.0"
