"""Define the four ways to group errors: by exception class, by code line, by cause, or by message."""

from __future__ import annotations

from enum import StrEnum


class Width(StrEnum):
    """The property that the errors of one group share, from the widest group to the narrowest."""

    CLASS = "class"  # the same class of exception
    FRAME = "frame"  # the same class, raised by the same frame
    CAUSE = "cause"  # the same class and frame, with similar messages
    MESSAGE = "message"  # the same message
