"""Settings: which Redis, which layouts, what is allowed; made once at the edge, read by the screen and the commands.

The order of precedence stands here and nowhere else. It imports neither redis nor textual.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DEFAULT_URL = "redis://localhost:6379"
URL_VARIABLES = ("RQTUI_URL", "REDIS_URL")


@dataclass(frozen=True, slots=True)
class Settings:
    """What one run of rqtui works on. `layouts` are the words of `--layout`; none: whatever systems are there."""

    url: str = DEFAULT_URL
    layouts: tuple[str, ...] = ()
    read_only: bool = False
    is_debug: bool = False
    log_format: str = "text"


def resolve(
    url: str | None = None,
    layouts: Sequence[str] = (),
    read_only: bool = False,
    is_debug: bool = False,
    log_format: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Settings from what was given: the URL of the command line, RQTUI_URL, REDIS_URL, then the default.

    A variable that is empty counts as not set.
    """
    from_environment = next((environ[name] for name in URL_VARIABLES if environ.get(name)), DEFAULT_URL)
    return Settings(
        url if url is not None else from_environment,
        tuple(layouts),
        read_only,
        is_debug,
        log_format or "text",
    )
