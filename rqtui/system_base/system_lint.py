"""Check that a queue system fits its scripts and its texts, without a server.

Each mistake is one sentence with the file and what to write. `rqtui systems --check NAME` prints all of them;
the registry refuses a system of another package whose places, keys or readers could not be shown. The conformance
suite finds out what the scripts do; this module finds what would otherwise only be noticed on a screen: a place that
`counts` does not count, a misspelled method, or a placeholder that no reply fills.
"""

from __future__ import annotations

import inspect
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from rqtui.model import Place, State
from rqtui.scripts.script import Script
from rqtui.system_base.foreign_system import FindingText, ForeignSystem
from rqtui.system_base.system import System
from rqtui.verbs import VERBS

_KEY_TYPES = frozenset({"list", "set", "zset", "hash", "stream", "string"})
_SEVERITIES = frozenset({"info", "warning", "critical"})
_MOST_PLACES = 9  # the keys 1 to 9 of a screen select one
_QUEUE_NAME = "sample"
_READERS = ("counts", "page", "show")
_KNOWN_FIELDS = frozenset({"name", "tried", "error", "worker", "priority", "lease", "owner"})
_COMMON_PLACEHOLDERS = frozenset({"number", "id", "key", "queue"})


def find_system_faults(system: System) -> list[str]:
    """Return one sentence, `file:line: …`, for each mistake in a system, its scripts' headers and its texts.

    An empty list means that nothing was found. Nothing is sent to a server.
    """
    checks = (_check_attributes, _check_known_fields, _check_verbs, _check_fixes, _check_findings)
    return [*find_structure_faults(system), *(sentence for check in checks for sentence in check(system))]


def find_structure_faults(system: System) -> list[str]:
    """Return the mistakes that would stop a system from being shown: in its places, keys, readers and moves."""
    checks = (_check_places, _check_keys, _check_readers, _check_moves)
    return [sentence for check in checks for sentence in check(system)]


def _find_class_position(system: System) -> str:
    """Return `file:line` of the class of a system, or its name if it has no source file."""
    try:
        file, (_lines, number) = inspect.getsourcefile(type(system)), inspect.getsourcelines(type(system))
    except (OSError, TypeError):
        return f"{type(system).__module__}.{type(system).__qualname__}"
    return f"{file}:{number}"


def _check_places(system: System) -> Iterator[str]:
    at = _find_class_position(system)
    if not system.places:
        yield f"{at}: `places` is empty: list at least one Place"
    if len(system.places) > _MOST_PLACES:
        yield f"{at}: {len(system.places)} places, but a screen has keys for {_MOST_PLACES}: join some of them"
    names = [place.name for place in system.places]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{at}: two places are called {name}: rename one"
    for place in system.places:
        if not isinstance(place.state, State):
            yield f"{at}: place {place.name}: state {place.state!r} is no State: use one of {_join(State)}"
        if not place.is_from_events and place.type not in _KEY_TYPES:
            yield f"{at}: place {place.name}: type {place.type!r} is no type of Redis: use one of {_join(_KEY_TYPES)}"


def _check_attributes(system: System) -> Iterator[str]:
    """Yield a sentence for each public attribute whose name is almost that of an attribute of a base class."""
    bases = [base for base in type(system).__mro__ if base.__module__.startswith("rqtui.system_base.")]
    base_names = {
        name for base in bases for name in (*vars(base), *getattr(base, "__annotations__", ())) if name[0] != "_"
    }
    at = _find_class_position(system)
    own_classes = type(system).__mro__[: type(system).__mro__.index(bases[0])] if bases else ()
    for name in sorted({name for each in own_classes for name in vars(each) if name[0] != "_"} - base_names):
        if close := get_close_matches(name, base_names, 1, 0.85):
            yield f"{at}: no part of rqtui uses `{name}`: write `{close[0]}`, or choose a name that differs more"


def _check_known_fields(system: System) -> Iterator[str]:
    """Yield a sentence for each unknown word of `known_fields`, and if it leaves the workers of the system unread."""
    at = _find_class_position(system)
    for name in sorted(system.known_fields - _KNOWN_FIELDS):
        yield f"{at}: `known_fields` names {name!r}: use some of {_join(_KNOWN_FIELDS)}"
    reads_workers = type(system).workers_request is not System.workers_request
    if reads_workers and "worker" not in system.known_fields:
        yield f"{at}: the list of workers skips a system without worker in `known_fields`: add it for `workers_request`"
    if reads_workers and not any(place.state is State.RESERVED for place in system.places):
        yield f"{at}: the list of workers skips a system without a reserved place, and so `workers_request`: add one"


def _check_keys(system: System) -> Iterator[str]:
    """Yield a sentence for each key that some script declares and `keys` does not return."""
    try:
        keys = system.keys(_QUEUE_NAME)
    except Exception as error:  # The code of another package may raise anything.
        yield f"{_find_class_position(system)}: keys({_QUEUE_NAME!r}) raised {type(error).__name__}: {error}"
        return
    first_paths: dict[str, str] = {}
    for script in system.scripts.values():
        known_keys = system.collect_script_keys(script, _QUEUE_NAME, _QUEUE_NAME)
        for key in script.keys:
            if key.name not in known_keys:
                first_paths.setdefault(key.name, script.path)
    for name, path in first_paths.items():
        yield f"{path}:1: KEYS has {name}, but `keys` returns {_join(keys)}: add it to one of them"
    values = {"queue": _QUEUE_NAME, **system.options_of(_QUEUE_NAME)}
    for place in system.places:
        filled = re.sub(r"<(\w+)>", lambda match: values.get(match[1], match[0]), place.key)
        if "<" not in filled and not place.is_from_events and filled not in keys.values():
            yield (
                f"{_find_class_position(system)}: place {place.name} has the key {place.key}, and none of the keys "
                f"that `keys` returns is {filled}: correct one of them"
            )


def _check_readers(system: System) -> Iterator[str]:
    if not isinstance(system, ForeignSystem):
        return
    for name in _READERS:
        if name not in system.scripts:
            yield f"{system.scripts.path}: there is no {name}.lua: a ForeignSystem needs {_join(_READERS)}"
    counts = system.scripts.get("counts")
    counts_by_itself = type(system)._parse_queue is not ForeignSystem._parse_queue
    if counts is None:
        return
    columns = {column.name for word in counts.returns.values() for column in word.values}
    for place in system.places:
        is_counted_elsewhere = place.is_from_events or place.is_key_per_job or (place.is_shared and counts_by_itself)
        if place.name not in columns and not is_counted_elsewhere:
            yield f"{counts.path}:1: `returns` has no value {place.name}: return the number of jobs in each place"


def _check_fixes(system: System) -> Iterator[str]:
    """Yield the general findings whose fix is a loop that the system has no script for."""
    if not isinstance(system, ForeignSystem) or (counts := system.scripts.get("counts")) is None:
        return
    columns = {column.name for word in counts.returns.values() for column in word.values}
    for column, script, kind in (
        ("overdue", "dispatch", "due-not-dispatched"),
        ("expired", "reap", "expired-not-reaped"),
    ):
        if column in columns and script not in system.scripts and kind not in system.finding_remedies:
            yield (
                f"{counts.path}:1: `returns` has {column}, and there is no {script}.lua that the fix of {kind} would "
                f"run: write another fix into `finding_remedies`, or an empty text"
            )


def _check_moves(system: System) -> Iterator[str]:
    names = {place.name for place in system.places}
    for script in system.scripts.values():
        for place in sorted({*script.sources, *script.targets} - names - {""}):
            yield f"{script.path}:1: `moves` names {place}, which is no place: {_join_places(system.places)}"


def _check_verbs(system: System) -> Iterator[str]:
    verbs = {verb.name for verb in VERBS} | {name for name, script in system.scripts.items() if not script.read_only}
    at = _find_class_position(system)
    tables: Mapping[str, Iterable[str]] = {
        "verb_labels": system.verb_labels,
        "verb_effects": system.verb_effects,
        "verb_places": system.verb_places,
        "missing_verbs": system.missing_verbs,
    }
    for table, names in tables.items():
        for name in sorted(set(names) - verbs):
            close = get_close_matches(name, verbs, 1)
            yield f"{at}: `{table}` names {name}, which is no verb" + (f": write {close[0]}" if close else "")
    for name in sorted(set(system.missing_verbs) & set(system.scripts)):
        yield f"{at}: `missing_verbs` says that there is no {name}, but {system.scripts[name].path} exists: remove one"
    place_names = {place.name for place in system.places}
    for name, places in system.verb_places.items():
        for place in sorted(set(places) - place_names):
            yield f"{at}: `verb_places` of {name} names {place}, which is no place: {_join_places(system.places)}"


def _check_findings(system: System) -> Iterator[str]:
    """Yield a sentence for each text of `faults.toml` that rqtui could not fill in or show."""
    if not isinstance(system, ForeignSystem):
        return
    path, faults = system.scripts.path / "faults.toml", system.scripts.get("faults")
    if faults is not None and not system.finding_texts:
        yield f"{faults.path}:1: there is no {path.name} beside it: it has the text of each kind of finding"
    if faults is None:
        if system.finding_texts:
            yield f"{path}:1: there is no faults.lua, so none of its findings is ever reported"
        return
    names = _COMMON_PLACEHOLDERS | _list_row_columns(faults)
    for kind, texts in system.finding_texts.items():
        if texts.severity not in _SEVERITIES:
            yield f"{path}: [{kind}]: severity {texts.severity!r}: use one of {_join(_SEVERITIES)}"
        if f"'{kind}'" not in faults.source and f'"{kind}"' not in faults.source:
            yield (
                f"{path}: [{kind}]: faults.lua has no quoted word '{kind}': write the kind in quotes where it is "
                f"returned, or remove the section"
            )
        yield from _check_placeholders(f"{path}: [{kind}]", texts, names)


def _check_placeholders(at: str, texts: FindingText, names: frozenset[str]) -> Iterator[str]:
    for label, text in (("text", texts.text), ("remedy", texts.remedy)):
        try:
            placeholders = set()
            for _text, name, spec, _conversion in string.Formatter().parse(text):
                placeholders |= {name} if name is not None else set()
                if spec != "age" and get_close_matches(spec or "", ["age"], 1, 0.7):
                    yield f"{at}: {label} has {{{name}:{spec}}}: write {{{name}:age}} for a duration such as 14m28"
        except ValueError as error:
            yield f"{at}: {label}: {error}"
            continue
        for name in sorted(placeholders - names):
            yield f"{at}: {label} has {{{name}}}, which is no column of faults.lua: its columns are {_join(names)}"


def _list_row_columns(script: Script) -> frozenset[str]:
    return frozenset(column.name for word in script.returns.values() for column in word.rows)


def _join(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _join_places(places: Iterable[Place]) -> str:
    return ", ".join(place.name for place in places)
