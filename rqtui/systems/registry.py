"""The table of queue systems: a row for each that rqtui speaks or knows by sight, and the layouts of those it speaks.

Another package brings a system by an entry point of the group `rqtui.systems`, whose name is that of the system and
which names its `Layout`. It is looked for when somebody asks for names of systems, and imported when the system is; one
that cannot be used is a sentence (`left_out`), and stops no other.

A system that is spoken has a module, whose `LAYOUT` is a subclass of `rqtui.layout.layout.Layout`; it is imported when
it is first asked for. The modules never import one another. One that is known by sight has the keys by which
`systems/by_sight.py` counts what rqtui does not speak: with a module it is not counted any more. The names of those
keys are those of BullMQ 5, Bull 4, Bee-Queue 1, Resque 2, asynq 0.25,
dramatiq 1, Huey 2 and ARQ 0.26.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.errors import RqtuiError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from rqtui.layout.layout import Layout

GROUP = "rqtui.systems"  # of entry points


@dataclass(frozen=True, slots=True)
class System:
    """A queue system, as `module` speaks it (empty: not yet), and as its keys look, in Lua patterns.

    By its keys a system is there when one of the patterns of `marks` fits a key (none: any of `keys`); `keys` are
    counted as its own, and `queues` are those of them that stand for a queue each. `but` is the system that is meant
    where both are there: the two share their keys. `package` brings it, with its version; empty: rqtui itself.
    `module` then is `package.module:Class`.
    """

    name: str
    title: str
    module: str = ""
    keys: tuple[str, ...] = ()
    queues: str = ""
    marks: tuple[str, ...] = ()
    but: str = ""
    package: str = ""

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
    System("sidekiq", "Sidekiq", "rqtui.systems.sidekiq"),
    System("celery", "Celery", "rqtui.systems.celery.layout"),
    System(
        "bullmq",
        "BullMQ",
        "rqtui.systems.bullmq",
        keys=(r"^bull:",),
        queues=r"^bull:[^:]+:meta$",
        marks=(r"^bull:[^:]+:meta$",),
    ),
    System(
        "bull",
        "Bull",
        keys=(r"^bull:",),
        queues=r"^bull:[^:]+:id$",
        marks=(r"^bull:[^:]+:stalled%-check$", r"^bull:[^:]+:id$"),
        but="bullmq",
    ),
    System("bee-queue", "Bee-Queue", keys=(r"^bq:",), queues=r"^bq:[^:]+:id$"),
    System("resque", "Resque", keys=(r"^resque:",), queues=r"^resque:queue:"),
    System("asynq", "asynq", keys=(r"^asynq:",), queues=r"^asynq:{[^}]+}:pending$"),
    System("dramatiq", "dramatiq", keys=(r"^dramatiq:",), queues=r"^dramatiq:[^_.][^.]*$"),
    System("huey", "Huey", keys=(r"^huey%.",), queues=r"^huey%.redis%."),
    System("arq", "ARQ", keys=(r"^arq:",), queues=r"^arq:queue"),
)


class Brought(NamedTuple):
    """What other packages bring: systems, and sentences about those that are left out."""

    systems: tuple[System, ...] = ()
    left_out: tuple[str, ...] = ()


def systems() -> tuple[System, ...]:
    """The whole table, with what other packages bring: who speaks a system replaces who knows it by sight."""
    brought = _brought().systems
    names = {system.name for system in brought}
    return (*(system for system in SYSTEMS if system.module or system.name not in names), *brought)


def names() -> list[str]:
    """The layouts there are: the systems that are spoken."""
    return sorted(system.name for system in systems() if system.module)


def own_names() -> list[str]:
    """Those that rqtui brings itself."""
    return sorted(system.name for system in SYSTEMS if system.module)


def every() -> tuple[list[Layout], tuple[str, ...]]:
    """(A layout of each system, sentences about what other packages bring and that cannot be used)."""
    return _usable(names(), lambda name: True)


@cache
def _brought() -> Brought:
    from importlib.metadata import entry_points

    found: list[System] = []
    left_out: list[str] = []
    spoken = {system.name: "rqtui itself" for system in SYSTEMS if system.module}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, _package(point))):
        if point.name in spoken:
            by = spoken[point.name]
            left_out.append(f"{_package(point)} brings a system {point.name}, as {by} does: that of {by} is used.")
            continue
        found.append(System(point.name, point.name, point.value, package=_package(point)))
        spoken[point.name] = _package(point)
    return Brought(tuple(found), tuple(left_out))


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def _row(name: str) -> System:
    return next((system for system in systems() if system.name == name), System(name, name))


def package_of(name: str) -> str:
    """The package that brings the system of that name, with its version; empty for rqtui's own."""
    return _row(name).package


def make(*specs: str) -> Layout:
    """The layout that `NAME` or `NAME:key=value,key=value` asks for, several with one name; raises UsageError."""
    return _made(name_of(specs[0]), *(_options(spec) for spec in specs))


def make_all(specs: Sequence[str] = ()) -> list[Layout]:
    """The layouts that are asked for; none named: the default one, and every other in case its keys are there."""
    if not specs:
        return usable()[0]
    groups: dict[str, list[str]] = {}
    for spec in specs:
        groups.setdefault(name_of(spec), []).append(spec)
    return [make(*group) for group in groups.values()]


def usable() -> tuple[list[Layout], tuple[str, ...]]:
    """(The default layout and every other, in case its keys are there; sentences about what is left out)."""
    first = (DEFAULT_SYSTEM, *(name for name in names() if name != DEFAULT_SYSTEM))
    return _usable(first, lambda name: name == DEFAULT_SYSTEM)


def _usable(names: Sequence[str], is_asked: Callable[[str], bool]) -> tuple[list[Layout], tuple[str, ...]]:
    made, left_out = [], [*_brought().left_out]
    for name in names:
        try:
            made.append(_made(name, is_asked=is_asked(name)))
        except RqtuiError as error:
            if not _row(name).package:
                raise
            left_out.append(str(error))
    return made, tuple(left_out)


def name_of(spec: str) -> str:
    """The name of the layout in `NAME:key=value`."""
    return spec.partition(":")[0]


def _made(name: str, *options: dict[str, str], is_asked: bool = True) -> Layout:
    """Raises UsageError where there is none, and for whatever goes wrong in another package's system."""
    system = _row(name)
    if not system.module:
        raise UsageError(f'there is no layout "{name}"; there are: {", ".join(names())}.')
    if not system.package:
        layout: type[Layout] = import_module(system.module).LAYOUT
        return layout(*options, is_asked=is_asked)
    try:
        return _of_a_package(system)(*options, is_asked=is_asked)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        why = str(error) if isinstance(error, RqtuiError) else f"{type(error).__name__}: {error}"
        raise UsageError(f"the system {name} of {system.package} cannot be used: {why.rstrip('.')}.") from error


def _of_a_package(system: System) -> type[Layout]:
    from rqtui.layout.layout import Layout

    module, _colon, name = system.module.partition(":")
    found: object = import_module(module.strip())
    for part in filter(None, name.strip().split(".")):
        found = getattr(found, part)
    if not (isinstance(found, type) and issubclass(found, Layout)):
        raise TypeError(f"{system.module} is no Layout")
    if found.name != system.name:
        raise ValueError(f"its layout is called {found.name}, its entry point {system.name}")
    return found


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
