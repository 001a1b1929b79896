"""Settings: which Redis, which layouts, what is allowed; made once at the edge, read by the screen and the commands.

The order of precedence stands here and nowhere else. It imports neither redis nor textual.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

DEFAULT_URL = "redis://localhost:6379"
URL_VARIABLES = ("RQTUI_URL", "REDIS_URL")


@dataclass(frozen=True, slots=True)
class Settings:
    """What one run of rqtui works on. `layouts` are the words of `--layout`; none: whatever systems are there.

    `badge` is a word that stands before the URL, and `is_guarded` asks for a queue's name before dangerous verbs (the
    badge PROD does). `denied` are pairs of a queue's pattern (as of a shell) and the verbs refused there; `columns` are
    those of a board by state, `redact` more patterns of keys whose values are masked, `keymap` keys by binding id.
    """

    url: str = DEFAULT_URL
    layouts: tuple[str, ...] = ()
    read_only: bool = False
    is_debug: bool = False
    log_format: str = "text"
    profile: str = ""
    badge: str = ""
    is_guarded: bool = False
    theme: str = ""
    is_calm: bool = False
    is_ascii: bool = False
    denied: tuple[tuple[str, tuple[str, ...]], ...] = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    redact: tuple[str, ...] = ()
    keymap: Mapping[str, str] = field(default_factory=dict)


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
