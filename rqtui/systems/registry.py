"""Register the queue systems that rqtui supports or recognises by their keys, and create them from their options."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.errors import RqtuiError, ScriptError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from rqtui.system_base.system import System

GROUP = "rqtui.systems"  # the entry point group


@dataclass(frozen=True, slots=True)
class SystemEntry:
    """A row of the table of queue systems: name, module, and the Lua patterns of its keys.

    `module` is empty if rqtui only recognises the system. The system is present if a key matches one of `marks`, or one
    of `keys` if there are no marks. Keys that match `keys` are counted as keys of the system; `queues` matches the one
    key that each queue has. `but` names the system to report instead if both are present, because the two share their
    keys. `package` is the package that adds the system, with its version; empty for rqtui's own systems. With a
    package, `module` has the form `package.module:Class`.
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
        """All key patterns of a system: those of `keys`, `queues` and `marks`."""
        return (*self.keys, *filter(None, (self.queues,)), *self.marks)


SYSTEMS: tuple[SystemEntry, ...] = (
    SystemEntry("native", "rqtui", "rqtui.systems.native"),
    SystemEntry("dispatcher", "redis_queue_dispatcher", "rqtui.systems.dispatcher"),
    SystemEntry("orizuru", "orizuru", "rqtui.systems.orizuru"),
    SystemEntry("redisched", "redisched", "rqtui.systems.redisched"),
    SystemEntry("safe_pop", "redis-queue", "rqtui.systems.safe_pop"),
    SystemEntry("timeout_sets", "distributed-timeout-queue", "rqtui.systems.timeout_sets"),
    SystemEntry("rq", "RQ", "rqtui.systems.rq.system"),
    SystemEntry("sidekiq", "Sidekiq", "rqtui.systems.sidekiq.system"),
    SystemEntry("celery", "Celery", "rqtui.systems.celery.system"),
    SystemEntry("arq", "arq", "rqtui.systems.arq"),
    SystemEntry(
        "bullmq",
        "BullMQ",
        "rqtui.systems.bullmq.system",
        keys=(r"^bull:",),
        queues=r"^bull:[^:]+:meta$",
        marks=(r"^bull:[^:]+:meta$",),
    ),
    SystemEntry(
        "bull",
        "Bull",
        keys=(r"^bull:",),
        queues=r"^bull:[^:]+:id$",
        marks=(r"^bull:[^:]+:stalled%-check$", r"^bull:[^:]+:id$"),
        but="bullmq",
    ),
    SystemEntry("bee-queue", "Bee-Queue", keys=(r"^bq:",), queues=r"^bq:[^:]+:id$"),
    SystemEntry("resque", "Resque", keys=(r"^resque:",), queues=r"^resque:queue:"),
    SystemEntry("asynq", "asynq", keys=(r"^asynq:",), queues=r"^asynq:{[^}]+}:pending$"),
    SystemEntry("dramatiq", "dramatiq", keys=(r"^dramatiq:",), queues=r"^dramatiq:[^_.][^.]*$"),
    SystemEntry("huey", "Huey", keys=(r"^huey%.",), queues=r"^huey%.redis%."),
)


class ExternalSystems(NamedTuple):
    """The systems that other packages add, and error sentences about entry points that cannot be used."""

    systems: tuple[SystemEntry, ...] = ()
    left_out: tuple[str, ...] = ()


def list_systems() -> tuple[SystemEntry, ...]:
    """Return the entries of all queue systems, including those of other packages.

    A system that another package implements replaces the entry of the same name that is only recognised by its keys.
    """
    external = _load_external_systems().systems
    names = {system.name for system in external}
    return (*(system for system in SYSTEMS if system.module or system.name not in names), *external)


def list_system_names() -> list[str]:
    """Return the sorted names of all supported systems."""
    return sorted(system.name for system in list_systems() if system.module)


def list_own_system_names() -> list[str]:
    """Return the sorted names of the systems that rqtui implements itself."""
    return sorted(system.name for system in SYSTEMS if system.module)


def create_all_systems() -> tuple[list[System], tuple[str, ...]]:
    """Create every supported system. Return the systems, and sentences about unusable ones of other packages."""
    return _create_usable_systems(list_system_names(), lambda name: True)


@cache
def _load_external_systems() -> ExternalSystems:
    """Load the entry points of systems in other packages, once per process."""
    from importlib.metadata import entry_points

    entries: list[SystemEntry] = []
    left_out: list[str] = []
    packages_by_system = {system.name: "rqtui itself" for system in SYSTEMS if system.module}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, _format_package_version(point))):
        if point.name in packages_by_system:
            other_package = packages_by_system[point.name]
            left_out.append(
                f"{_format_package_version(point)} brings a system {point.name}, as {other_package} does: "
                f"that of {other_package} is used."
            )
            continue
        entries.append(SystemEntry(point.name, point.name, point.value, package=_format_package_version(point)))
        packages_by_system[point.name] = _format_package_version(point)
    return ExternalSystems(tuple(entries), tuple(left_out))


def _format_package_version(point: EntryPoint) -> str:
    """Return the name and version of the package of an entry point, `rqtui-hotqueue 0.1.0`."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def _find_system_entry(name: str) -> SystemEntry:
    """Return the entry of the system with that name; for an unknown name an entry without a module."""
    return next((system for system in list_systems() if system.name == name), SystemEntry(name, name))


def find_system_package(name: str) -> str:
    """Return the package and version that adds the named system; empty for rqtui's own systems."""
    return _find_system_entry(name).package


def create_system(*specs: str) -> System:
    """Create one system from its specs, `NAME` or `NAME:key=value,key=value`, which must all have the same name.

    Raises UsageError for an unknown system or a malformed option.
    """
    return _create_system_from_options(parse_system_name(specs[0]), *(_parse_spec_options(spec) for spec in specs))


def create_systems(specs: Sequence[str] = ()) -> list[System]:
    """Create the systems named in `specs`; without specs every system that can be used.

    Several specs with one name become one system, or one for each value of its shared option, such as the key prefix.
    """
    if not specs:
        return create_usable_systems()[0]
    groups: dict[str, list[str]] = {}
    for spec in specs:
        groups.setdefault(parse_system_name(spec), []).append(spec)
    return [system for group in groups.values() for system in _create_applications(*group)]


def _create_applications(*specs: str) -> list[System]:
    """Create one system for each value of the shared option, and name those with another value than the default."""
    name, options = parse_system_name(specs[0]), [_parse_spec_options(spec) for spec in specs]
    first = _create_system_from_options(name, options[0])
    by_value: dict[str, list[dict[str, str]]] = {}
    for each in options:
        value = each.get(first.shared_option, first.defaults[first.shared_option]) if first.shared_option else ""
        by_value.setdefault(value, []).append(each)
    systems = {value: _create_system_from_options(name, *group) for value, group in by_value.items()}
    if len(systems) > 1:
        labels: set[str] = set()
        for value, system in systems.items():
            if value != system.defaults[system.shared_option]:
                system.name = f"{name}@{_create_label(value, labels)}"
    return list(systems.values())


def _create_label(value: str, labels: set[str]) -> str:
    """Create a short label that is not in `labels` for a value such as `shop:`, and add it there."""
    plain = re.sub(r"[^\w.-]+", "-", value).strip("-_.") or "app"
    label, number = plain, 1
    while label in labels:
        number += 1
        label = f"{plain}-{number}"
    labels.add(label)
    return label


def create_usable_systems() -> tuple[list[System], tuple[str, ...]]:
    """Create every system that can be used, the default one first. Return them with sentences about unusable ones.

    A system that no option names reports queues only if its keys are present.
    """
    first = (DEFAULT_SYSTEM, *(name for name in list_system_names() if name != DEFAULT_SYSTEM))
    return _create_usable_systems(first, lambda name: name == DEFAULT_SYSTEM)


def _create_usable_systems(
    names: Sequence[str], is_asked: Callable[[str], bool]
) -> tuple[list[System], tuple[str, ...]]:
    """Create the systems of these names. Return them with sentences about unusable ones of other packages."""
    created, left_out = [], [*_load_external_systems().left_out]
    for name in names:
        try:
            created.append(_create_system_from_options(name, is_asked=is_asked(name)))
        except RqtuiError as error:
            if not _find_system_entry(name).package:
                raise
            left_out.append(str(error))
    return created, tuple(left_out)


def parse_system_name(spec: str) -> str:
    """Return the system name of a spec such as `NAME:key=value`, or of an application `NAME@APPLICATION`."""
    return spec.partition(":")[0].partition("@")[0]


def create_unchecked_system(name: str) -> System:
    """Create a system even if it is from another package and has mistakes that `create_system` refuses.

    Raises UsageError for an unknown name, and if the code of the package raises an error.
    """
    return _create_system_from_options(name, is_checked=False)


def _create_system_from_options(
    name: str, *options: dict[str, str], is_asked: bool = True, is_checked: bool = True
) -> System:
    """Create a system from parsed options.

    Raises UsageError for an unknown name, and for any error in the code of another package's system. If `is_checked`,
    such a system also may not have mistakes that would stop it from being shown.
    """
    entry = _find_system_entry(name)
    if not entry.module:
        raise UsageError(f'there is no system "{name}"; there are: {", ".join(list_system_names())}.')
    if not entry.package:
        system: type[System] = import_module(entry.module).SYSTEM
        return system(*options, is_asked=is_asked)
    from rqtui.system_base.guarded_system import guard_system
    from rqtui.system_base.system_lint import find_structure_faults

    try:
        created = _import_external_class(entry)(*options, is_asked=is_asked)
        if is_checked and (faults := find_structure_faults(created)):
            more = f"; rqtui systems --check {name} lists {len(faults) - 1} more" if len(faults) > 1 else ""
            raise ScriptError(f"{faults[0]}{more}")
        return guard_system(created, entry.package)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        reason = str(error) if isinstance(error, RqtuiError) else f"{type(error).__name__}: {error}"
        raise UsageError(f"the system {name} of {entry.package} cannot be used: {reason.rstrip('.')}.") from error


def _import_external_class(system: SystemEntry) -> type[System]:
    """Import the class of a system from another package. Raises TypeError or ValueError if it is not that system."""
    from rqtui.system_base.system import System

    module, _colon, name = system.module.partition(":")
    target: object = import_module(module.strip())
    for part in filter(None, name.strip().split(".")):
        target = getattr(target, part)
    if not (isinstance(target, type) and issubclass(target, System)):
        raise TypeError(f"{system.module} is no System")
    if target.name != system.name:
        raise ValueError(f"its system is called {target.name}, its entry point {system.name}")
    return target


def _parse_spec_options(spec: str) -> dict[str, str]:
    """Parse the options of a spec `NAME:key=value,key=value`. Raises UsageError for a malformed one."""
    name, _, rest = spec.partition(":")
    options: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f'system {name}: "{part}" is not key=value.')
        if key.strip() in options:
            raise UsageError(f"system {name}: {key.strip()} is there twice; repeat --system instead.")
        options[key.strip()] = value.strip()
    return options
