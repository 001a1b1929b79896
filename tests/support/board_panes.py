"""Build the panes of a board for its titles, without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from rqtui.model import Count, Queue
from rqtui.systems import registry


def build_panes(system: str, numbers: Sequence[int], width: int = 78, expression: str = "") -> tuple[list[Any], Queue]:
    """Build a pane per place of a system, and a queue with so many jobs in each place."""
    places = registry.create_system(system).places
    counts = tuple(Count(place.name, place.state, number) for place, number in zip(places, numbers, strict=True))
    size = SimpleNamespace(width=width)
    panes = [SimpleNamespace(place=place, expression=expression, size=size, outer_size=size) for place in places]
    return panes, Queue("q", system, counts)
