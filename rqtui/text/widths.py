"""Widths: how much the errors of a group have in common."""

from __future__ import annotations

from enum import StrEnum


class Width(StrEnum):
    """The class; the class and the frame that raised it; the cause: those, and what the messages have in common; the
    message. The widest stands first."""

    CLASS = "class"
    FRAME = "frame"
    CAUSE = "cause"
    MESSAGE = "message"
