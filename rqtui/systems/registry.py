"""The table of queue systems: a row for each that rqtui speaks or knows by sight, and the layouts of those it speaks.

A system that is spoken has a module, whose `LAYOUT` is a subclass of `rqtui.layout.layout.Layout`; it is imported when
it is first asked for. The modules never import one another. One that is known by sight has the keys by which
`systems/by_sight.py` counts what rqtui does not speak: with a module it is not counted any more. The names of those
keys are those of Celery 5 with Kombu 5, BullMQ 5, Bull 4, Bee-Queue 1, Sidekiq 8, Resque 2, asynq 0.25,
dramatiq 1, Huey 2 and ARQ 0.26.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.layout.layout import Layout


@dataclass(frozen=True, slots=True)
class System:
    """A queue system, as `module` speaks it (empty: not yet), and as its keys look, in Lua patterns.

    By its keys a system is there when one of the patterns of `marks` fits a key (none: any of `keys`); `keys` are
    counted as its own, and `queues` are those of them that stand for a queue each. `but` is the system that is meant
    where both are there: the two share their keys.
    """

    name: str
    title: str
    module: str = ""
    keys: tuple[str, ...] = ()
    queues: str = ""
    marks: tuple[str, ...] = ()
    but: str = ""

    @property
    def patterns(self) -> tuple[str, ...]:
        """All patterns of its keys."""
        return (*self.keys, *filter(None, (self.queues,)), *self.marks)


SYSTEMS: tuple[System, ...] = (
    System("native", "rqtui", "rqtui.systems.native"),
    System("dispatcher", "redis_queue_dispatcher", "rqtui.systems.dispatcher"),
    System("orizuru", "orizuru", "rqtui.systems.orizuru"),
    System("redisched", "redisched", "rqtui.systems.redisched"),
    System("safe_pop", "redis-queue", "rqtui.systems.safe_pop"),
    System("timeout_sets", "distributed-timeout-queue", "rqtui.systems.timeout_sets"),
    System("rq", "RQ", "rqtui.systems.rq"),
    System(
        "celery",
        "Celery",
        keys=(r"^celery$", r"^celery%-task%-meta%-", r"^_kombu%.", r"^unacked$", r"^unacked_"),
        marks=(r"^celery%-task%-meta%-", r"^_kombu%.binding%."),
    ),
    System("bullmq", "BullMQ", keys=(r"^bull:",), queues=r"^bull:[^:]+:meta$", marks=(r"^bull:[^:]+:meta$",)),
    System(
        "bull",
        "Bull",
        keys=(r"^bull:",),
        queues=r"^bull:[^:]+:id$",
        marks=(r"^bull:[^:]+:stalled%-check$", r"^bull:[^:]+:id$"),
        but="bullmq",
    ),
    System("bee-queue", "Bee-Queue", keys=(r"^bq:",), queues=r"^bq:[^:]+:id$"),
    System("sidekiq", "Sidekiq", keys=(r"^queues$", r"^queue:", r"^stat:"), queues=r"^queue:", marks=(r"^queues$",)),
    System("resque", "Resque", keys=(r"^resque:",), queues=r"^resque:queue:"),
    System("asynq", "asynq", keys=(r"^asynq:",), queues=r"^asynq:{[^}]+}:pending$"),
    System("dramatiq", "dramatiq", keys=(r"^dramatiq:",), queues=r"^dramatiq:[^_.][^.]*$"),
    System("huey", "Huey", keys=(r"^huey%.",), queues=r"^huey%.redis%."),
    System("arq", "ARQ", keys=(r"^arq:",), queues=r"^arq:queue"),
)


def names() -> list[str]:
    """The layouts there are: the systems that are spoken."""
    return sorted(system.name for system in SYSTEMS if system.module)


def make(*specs: str) -> Layout:
    """The layout that `NAME` or `NAME:key=value,key=value` asks for, several with one name; raises UsageError."""
    return _class(name_of(specs[0]))(*(_options(spec) for spec in specs))


def make_all(specs: Sequence[str] = ()) -> list[Layout]:
    """The layouts that are asked for; none named: the default one, and every other in case its keys are there."""
    if not specs:
        first = (DEFAULT_SYSTEM, *(name for name in names() if name != DEFAULT_SYSTEM))
        return [_class(name)(is_asked=name == DEFAULT_SYSTEM) for name in first]
    groups: dict[str, list[str]] = {}
    for spec in specs:
        groups.setdefault(name_of(spec), []).append(spec)
    return [make(*group) for group in groups.values()]


def name_of(spec: str) -> str:
    """The name of the layout in `NAME:key=value`."""
    return spec.partition(":")[0]


def _class(name: str) -> type[Layout]:
    module = next((system.module for system in SYSTEMS if system.name == name), "")
    if not module:
        raise UsageError(f'there is no layout "{name}"; there are: {", ".join(names())}.')
    layout: type[Layout] = import_module(module).LAYOUT
    return layout


def _options(spec: str) -> dict[str, str]:
    name, _, rest = spec.partition(":")
    options: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f'layout {name}: "{part}" is not key=value.')
        if key.strip() in options:
            raise UsageError(f"layout {name}: {key.strip()} stands there twice; --layout may be repeated instead.")
        options[key.strip()] = value.strip()
    return options
