"""Discover the queues of a Redis, and resolve names that a person types to queues; the base class of the engine.

Systems with a list of queue names are asked directly each time. Queues that only their keys reveal come from one walk
over the keyspace with the patterns of all systems; `engine/walk.py` decides how much is walked, and when. The walk also
counts the keys of systems that rqtui does not support (`systems/by_sight.py`).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.connection.connect import translate_errors
from rqtui.connection.nodes import is_cluster, ping
from rqtui.engine.joint_reads import read_jointly
from rqtui.engine.walk import MOST, Walk, WalkResult
from rqtui.engine.walk_file import WalkFile
from rqtui.errors import Denied, Unreachable, UsageError, describe_and_log
from rqtui.model import Finding, Ref
from rqtui.system_base.system import System, quote_for_shell
from rqtui.systems import by_sight
from rqtui.text.names import BASE64, parse_base64, to_bytes, to_text
from rqtui.text.sanitise import has_symbols, parse_shown, safe

log = logging.getLogger("rqtui.engine.discovery")

T = TypeVar("T")
DENIED_S = 60.0  # wait before retrying what an ACL denied: each attempt is an entry of the server's ACL log
SCAN = "SCAN"
ASKED = 1000  # keys of an earlier walk that are verified in one round trip


class Discovery:
    """The queues found on one Redis, in `refs`, and the systems found there but not supported, in `unspoken`.

    `others` are systems that `--system` left out. On a Cluster only systems remain whose keys of a queue share a slot;
    raises UsageError if another one was requested. `walks` is the folder where an unfinished walk is stored for the
    next command; None: nowhere. With `walks_all` the first discovery walks over all keys.
    """

    def __init__(
        self,
        client: Any,
        systems: Sequence[System],
        others: Collection[str] = (),
        left_out: Sequence[str] = (),
        walk_folder: Path | None = None,
        walks_all: bool = False,
    ) -> None:
        self.client = client
        self.systems = {system.name: system for system in systems if _is_usable(client, system)}
        self.others = others
        self.refs: list[Ref] = []
        self._interned: dict[Ref, Ref] = {}  # interned refs, one object per queue, to save memory
        self.unsupported_systems: tuple[
            by_sight.UnsupportedSystem, ...
        ] = ()  # Replaced and never changed, because the screen's thread reads it.
        self._left_out = {sentence: _build_unusable_system_finding(sentence) for sentence in left_out}
        self.problems: dict[str, Finding] = {
            **self._left_out
        }  # by system (or sentence): why its queues are not discovered
        self._denied_s: dict[str, float] = {}  # by system, or SCAN: when an ACL denied the discovery
        self._walks_all = walks_all
        self._has_walked = self._has_recalled = False
        self._walked_refs: set[Ref] = set()  # found by the last complete walk
        self._walking_refs: set[Ref] = set()  # found by the present walk
        self._walk = Walk(client, self.systems)
        self._walk_file = WalkFile(walk_folder, client, self._walk.patterns)

    def is_counted(self, ref: Ref) -> bool:
        """Return whether the queue was counted before. Such a queue stays listed as empty when its keys are deleted."""
        return False

    def discover(self, fully: bool = False, most: int | None = MOST) -> Iterator[list[Ref]]:
        """Find queues and add them to `refs`, one or two round trips per step; yield the queues that each step found.

        The steps are: the systems that can be asked directly, the results of earlier walks, then at most `most` keys of
        a walk (None: to its end), if one is due. `fully` starts a new walk over all keys.
        """
        fully, self._walks_all = fully or self._walks_all, False
        self.problems = {**self._left_out}
        if fully:
            self._denied_s.clear()
        now_s = time.monotonic()
        denied = {name for name, at_s in self._denied_s.items() if now_s - at_s < DENIED_S}
        discovered: set[Ref] = set()
        for chunk in self._query_systems(denied):
            discovered.update(chunk)
            yield chunk
        if not self._has_recalled:
            self._has_recalled = True
            yield from self._load_walk()
        if fully:
            self._walk.restart()
        if fully or (SCAN not in denied and self._walk.progress.is_due(time.time())):
            yield from self._continue_walk(None if fully else most, discovered)
        keep = {ref for ref in self.refs if self.is_counted(ref)}
        self._replace_refs(discovered | self._walked_refs | self._walking_refs | keep)

    def _query_systems(self, denied: Collection[str]) -> Iterator[list[Ref]]:
        """Query each system for its queues, except those in `denied`; yield the queues that each round trip found."""
        hidden: set[str] = set()
        absent = {*denied, *self._find_absent_systems(denied, hidden)}
        for system in self.systems.values():
            if system.name in absent:
                continue
            has_queues = False
            steps = system.discover(self.client)
            while (names := self._run_unless_denied(system, self._read_next_names, system, steps)) is not None:
                chunk = [self._intern(Ref(system.name, name)) for name in names]
                has_queues = has_queues or bool(chunk)
                self._add_refs(chunk)
                yield chunk
            if system.name in hidden and not has_queues:
                self._denied_s[system.name] = time.monotonic()

    def _read_next_names(self, system: System, steps: Iterator[list[str]]) -> list[str] | None:
        """Return the next queue names of a system, or None at the end. Stores that an ACL denied the discovery."""
        try:
            with translate_errors():
                return next(steps, None)
        except Denied:
            if not system.is_explicit:
                self._denied_s[system.name] = time.monotonic()
            raise

    def _find_absent_systems(self, denied: Collection[str], hidden: set[str]) -> set[str]:
        """Return the systems that were not requested and have no marker key, in one round trip.

        Skips the systems in `denied`. Adds to `hidden` the systems of which an ACL denies a key.
        """
        shown = {
            name: system.marker_keys()
            for name, system in self.systems.items()
            if not system.is_explicit and name not in denied
        }
        if is_cluster(self.client) or not any(shown.values()):
            return set()  # A node of a Cluster may be away.
        from redis.exceptions import NoPermissionError

        pipe = self.client.pipeline(transaction=False)
        for key in (key for keys in shown.values() for key in keys):
            pipe.exists(to_bytes(key))
        with translate_errors():
            there = iter(pipe.execute(raise_on_error=False))
        answers = {name: [next(there) for _key in keys] for name, keys in shown.items()}
        hidden |= {name for name, each in answers.items() if any(isinstance(one, NoPermissionError) for one in each)}
        existing = {name: [one != 0 for one in each] for name, each in answers.items()}  # an error tells nothing
        return {name for name, each in existing.items() if each and not any(each)}

    def describe_unwalked_keys(self) -> str:
        """Return a sentence that not all keys were walked yet; empty if they were."""
        if SCAN in self._denied_s and (blind := [n for n, each in self.systems.items() if each.is_found_by_walk]):
            return (
                f"queues of {', '.join(blind)} cannot be looked for: SCAN is denied, and no key holds their names. "
                f"Name a queue, as {blind[0]}:NAME, or allow SCAN; `rqtui acl` prints what a role needs."
            )
        progress = self._walk.progress
        if progress.complete is not None or not self._walk.is_interrupted:
            return ""
        from redis.exceptions import RedisError

        of = ""
        with contextlib.suppress(RedisError):
            of = f"about {self.client.dbsize():,}".replace(",", " ")
        looked = f"{progress.keys_walked:,}".replace(",", " ")
        return (
            f"{looked} of {of or 'all'} keys were looked at for queues that stand in no list of names; "
            "the next command goes on from there, --walk looks at all."
        )

    def _add_refs(self, refs: Sequence[Ref]) -> None:
        if refs:
            self._replace_refs({*self.refs, *refs})

    def _replace_refs(self, refs: set[Ref]) -> None:
        """Set the discovered queues.

        The list object stays the same while they do, because callers cache what they derive.
        """
        if len(refs) != len(self.refs) or not refs.issuperset(self.refs):
            self.refs = sorted(map(self._intern, refs), key=_sort_key)
            self._interned = {ref: ref for ref in self.refs}

    def _intern(self, ref: Ref) -> Ref:
        """Return the interned object of an equal ref."""
        return self._interned.get(ref, ref)

    def _load_walk(self) -> Iterator[list[Ref]]:
        """Load the walk of an earlier command: verify its queues, and continue where the walk stopped."""
        progress = self._walk_file.load()
        if progress is None:
            return
        self._walk.progress = progress
        complete, begun = progress.complete, progress.partial
        if complete is not None:
            self._has_walked = True
            yield from self._verify_keys(complete, self._walked_refs)
        yield from self._verify_keys(begun, self._walking_refs)
        self.unsupported_systems = self._walk.find_unsupported_systems()

    def _verify_keys(self, result: WalkResult, refs: set[Ref]) -> Iterator[list[Ref]]:
        """Verify keys of an earlier walk: yield the queues that they still reveal, and drop counts without a key."""
        for name, keys in result.queue_keys.items():
            for start in range(0, len(keys) if name in self.systems else 0, ASKED):
                spotted, _keys = self._find_queues_of_keys({name: keys[start : start + ASKED]}, set())
                refs.update(spotted)
                self._add_refs(spotted)
                yield spotted
        if result.examples:
            pipe = self.client.pipeline(transaction=False)
            for key in result.examples.values():
                pipe.exists(key)
            with translate_errors():
                existing = pipe.execute(raise_on_error=False)
            missing = [pattern for pattern, number in zip(result.examples, existing, strict=True) if number == 0]
            for pattern in missing:
                result.counts[pattern] = 0

    def _continue_walk(self, most: int | None, known_refs: Collection[Ref]) -> Iterator[list[Ref]]:
        """Continue the walk over all keys and store it for the next command. Ends at once if an ACL denies SCAN."""
        if not self._walk.progress.is_under_way:
            self._walking_refs = set()
        steps = self._walk.yield_steps(most)
        try:
            for keys in steps:
                spotted, kept = self._find_queues_of_keys(keys, known_refs)
                self._walk.store_keys(kept)
                fresh = [ref for ref in spotted if ref not in known_refs and ref not in self._walked_refs]
                self._walking_refs.update(spotted)
                self._add_refs(fresh)
                yield fresh
        except Denied as error:
            self._has_walked = True
            self._denied_s[SCAN] = time.monotonic()
            self._report_unwalked_systems(error)
            return
        if not self._walk.is_interrupted:
            self._has_walked = True
            self._walked_refs, self._walking_refs = self._walking_refs, set()
        self.unsupported_systems = self._walk.find_unsupported_systems()
        if self._walk.is_interrupted or self._walk.progress.next_due_s:
            self._walk_file.save(self._walk.progress)
        else:
            self._walk_file.delete()

    def _find_queues_of_keys(
        self, keys: Mapping[str, Sequence[bytes]], known_refs: Collection[Ref]
    ) -> tuple[list[Ref], dict[str, Sequence[bytes]]]:
        """Return the queues that these keys reveal, and the keys to store because the `known` queues lack them."""
        spotted: list[Ref] = []
        kept: dict[str, Sequence[bytes]] = {}
        for name, queue_keys in keys.items():
            system = self.systems[name]
            names = self._run_unless_denied(system, system.find_queues_of_keys, self.client, queue_keys) or ()
            refs = [self._intern(Ref(name, queue)) for queue in names]
            spotted += refs
            if refs and (system.needs_key_walk or any(ref not in known_refs for ref in refs)):
                kept[name] = queue_keys
        return spotted, kept

    def _report_unwalked_systems(self, error: Denied) -> None:
        """Report requested systems whose queues can be found only by a walk, after an ACL denied it."""
        for system in self.systems.values():
            if system.is_explicit and system.is_found_by_walk:
                self.problems[system.name] = _build_no_discovery_finding(system, error)

    def has_queue(self, ref: Ref) -> bool:
        """Return whether Redis has a trace of a queue, such as its name in a set. Takes one round trip."""
        system = self.systems[ref.system]
        return bool(self._run_unless_denied(system, system.has_queue, self.client, ref.queue))

    def resolve_or_discover(self, name: str) -> Ref:
        """Resolve a name to a queue as `resolve` does; ask all systems for a name that was not discovered yet."""
        system_name, rest = self._split_name(name)
        if not system_name or has_symbols(rest) or rest.startswith(BASE64):
            for spelling in _yield_possible_names(rest):
                if seen := self._find_by_name(system_name, spelling):
                    self._add_refs(seen)
                    name = f"{system_name}:{spelling}" if system_name else spelling
                    break
            else:
                for _chunk in self.discover(fully=True) if has_symbols(rest) else ():
                    pass  # The name may be the display form of a discovered queue, which `resolve` finds.
        ref = self.resolve(name)
        if self.systems[ref.system].needs_key_walk and not self._has_walked:
            for _spotted in self._continue_walk(None, self.refs):
                pass
        return ref

    def _split_name(self, name: str) -> tuple[str, str]:
        """Split `SYSTEM:NAME` into the system, empty if there is none of this name, and the rest."""
        system_name, colon, rest = name.partition(":")
        return (system_name, rest) if colon and system_name in self.systems else ("", name)

    def _find_by_name(self, system_name: str, queue: str) -> list[Ref]:
        """Return the queues of a name in one or all systems.

        A name that was not discovered yet takes one or two round trips for all systems together; on a Cluster, whose
        keys lie on several nodes, one for each.
        """
        matches = [ref for ref in self.refs if ref.queue == queue and system_name in ("", ref.system)]
        if matches:
            return matches
        systems = [each for each in self._find_systems_allowing(queue) if system_name in ("", each.name)]
        if is_cluster(self.client):
            looks = [partial(system.has_queue, self.client, queue) for system in systems]
        else:
            with translate_errors():
                found = read_jointly(self.client, [partial(_has_queue, system, queue) for system in systems])
            looks = [partial(_return_or_raise, result) for result in found]
        existing = [
            Ref(system.name, queue)
            for system, look in zip(systems, looks, strict=True)
            if self._run_unless_denied(system, look)
        ]
        # A system configured with this name is preferred to those that only have fitting keys.
        return [ref for ref in existing if queue in self.systems[ref.system].named_queues()] or existing

    def _run_unless_denied(self, system: System, look: Callable[..., T], *args: Any) -> T | None:
        """Call `look` and return its result.

        None if an ACL hides a system not requested, or a node of a Cluster is away. Any other error concerns this
        system only: it is stored in `problems`, and the discovery of the others continues.
        """
        try:
            with translate_errors():
                return look(*args)
        except Denied:
            if system.is_explicit:
                raise
            return None
        except Unreachable:
            if not is_cluster(self.client):
                raise
            self.client.forget_slots()
            with translate_errors():
                ping(self.client)  # raises when no node answers
            return None
        except UsageError:
            raise
        except Exception as error:
            self.problems[system.name] = _build_no_discovery_finding(system, error)
            return None

    def _find_systems_allowing(self, name: str) -> Iterator[System]:
        """Yield the systems in which a queue can have that name."""
        for system in self.systems.values():
            with contextlib.suppress(UsageError):
                system.keys(name)
                yield system

    def resolve(self, name: str) -> Ref:
        """Return the queue that `NAME` or `SYSTEM:NAME` means.

        Raises UsageError if two systems have a queue of that name, or if an unknown name begins almost like `SYSTEM:`.
        Any other unknown name is a queue of the default system.
        """
        meant, rest = self._split_name(name)
        matches = [ref for ref in self.refs if ref.queue == rest and meant in ("", ref.system)]
        matches = matches or self._find_by_display_name(meant, rest)
        if meant and not matches:
            self.systems[meant].keys(rest)
            return Ref(meant, rest)
        if len(matches) > 1:
            raise UsageError(
                f'"{name}" stands in {" and ".join(ref.system for ref in matches)}: say which, as SYSTEM:{name}.'
            )
        if matches:
            return matches[0]
        system_name, colon, rest = name.partition(":")
        if colon and system_name in self.others:
            raise UsageError(f'"{name}" means the system {system_name}, which --system leaves out: name it as well.')
        if colon and rest and system_name != DEFAULT_SYSTEM and (near := self._find_similar_system(system_name)):
            raise UsageError(
                f'there is no system "{system_name}"; did you mean {near}:{rest}? Nothing was done. '
                f"A {DEFAULT_SYSTEM} queue of that very name is {DEFAULT_SYSTEM}:{name}."
            )
        first = DEFAULT_SYSTEM if DEFAULT_SYSTEM in self.systems else next(iter(self.systems))
        self.systems[first].keys(name)
        return Ref(first, name)

    def _find_by_display_name(self, system_name: str, shown: str) -> list[Ref]:
        """Return the queue that is printed like `shown`. Raises UsageError if several are."""
        if not has_symbols(shown):
            return []
        alike = [ref for ref in self.refs if safe(ref.queue) == shown and system_name in ("", ref.system)]
        if len(alike) > 1:
            words = ", ".join(self.format_argument(ref) for ref in alike)
            raise UsageError(f'"{shown}" is what several queues look like; say which: {words}.')
        return alike

    def _find_similar_system(self, prefix: str) -> str:
        """Return the system whose name is one typing error away; no worker would read a queue with such a prefix."""
        from difflib import get_close_matches

        return next(iter(get_close_matches(prefix, {*self.systems, *self.others}, 1, 0.8)), "")

    def format_argument(self, ref: Ref) -> str:
        """Return the command-line argument that means this queue."""
        words = self.systems[ref.system].queue_argument(ref.queue)
        is_shared = sum(other.queue == ref.queue for other in self.refs) > 1
        return f"{ref.system}:{words}" if is_shared and words == quote_for_shell(ref.queue) else words


def _build_unusable_system_finding(sentence: str) -> Finding:
    return Finding("unusable-system", "warning", "", sentence, "mend that package, or remove it")


def _build_no_discovery_finding(system: System, error: Exception) -> Finding:
    text = f"queues of {system.name} cannot be looked for: {describe_and_log(error, log)}"
    return Finding("wrong-type", "warning", "", text, f"name them: rqtui snapshot {system.name}:QUEUE")


def _has_queue(system: System, queue: str, client: Any) -> bool:
    return system.has_queue(client, queue)


def _return_or_raise(result: T | Exception) -> T:
    if isinstance(result, Exception):
        raise result
    return result


def _is_usable(client: Any, system: System) -> bool:
    if not is_cluster(client) or system.works_on_cluster:
        return True
    if system.is_explicit:
        raise UsageError(f"{system.name} cannot run on a Cluster: the keys of its queues lie in different slots.")
    return False


def _yield_possible_names(name: str) -> Iterator[str]:
    """Yield the names that a person may mean, the likeliest first: the text itself, then what is displayed like it."""
    yield name
    if (shown := parse_shown(name)) != name:
        yield shown
    elif (raw := parse_base64(name)) is not None:
        yield to_text(raw)


def _sort_key(ref: Ref) -> tuple[str, str]:
    return ref.queue, ref.system
