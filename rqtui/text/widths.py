"""Widths: how much the errors of a group have in common."""

from __future__ import annotations

from enum import StrEnum


class Width(StrEnum):
    """The class, the cause (class and frame, else what messages have in common), the message. The widest is first."""

    CLASS = "class"
    CAUSE = "cause"
    MESSAGE = "message"
