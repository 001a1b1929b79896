"""Discover the queues of a Redis server, and resolve names that a person types to queues. Base of the engine.

Systems that store queue names are asked for them each time. Queues that only their keys reveal come from one walk over
the keyspace with the patterns of all systems; `engine/walk.py` decides how much is walked, and when. The walk also
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
from rqtui.connection.connect import translate_redis_errors
from rqtui.connection.nodes import is_cluster, ping_server
from rqtui.engine.joint_reads import read_jointly
from rqtui.engine.walk import MAX_KEYS_PER_DISCOVERY, Walk, WalkResult
from rqtui.engine.walk_file import WalkFile
from rqtui.errors import Denied, Unreachable, UsageError, describe_and_log_error
from rqtui.model import Finding, Ref
from rqtui.system_base.system import System, quote_for_shell
from rqtui.systems import by_sight
from rqtui.text.names import BASE64, parse_base64_name, to_bytes, to_text
from rqtui.text.sanitise import has_replacement_symbols, restore_unprintable_characters, safe

log = logging.getLogger("rqtui.engine.discovery")

T = TypeVar("T")
DENIED_RETRY_S = 60.0  # wait before retrying what an ACL denied: each attempt is an entry of the server's ACL log
SCAN = "SCAN"
KEYS_PER_CHECK = 1000  # keys of an earlier walk that are verified in one round trip


class Discovery:
    """The queues found on one Redis server, in `refs`, and the unsupported systems found there.

    `others` are systems that `--system` left out. On a Cluster only systems are used whose keys of a queue share a
    slot; raises UsageError if another one was requested. `walk_folder` is the folder where an unfinished walk is stored
    for the next command; None: nowhere. With `walks_all` the first discovery walks over all keys.
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
        self.systems = {system.name: system for system in systems if _is_system_usable(client, system)}
        for system in self.systems.values():
            system.database = find_database_number(client)
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
        self._walking_refs: set[Ref] = set()  # found by the current walk
        self._walk = Walk(client, self.systems)
        self._walk_file = WalkFile(walk_folder, client, self._walk.patterns)

    def was_counted_before(self, ref: Ref) -> bool:
        """Return whether a queue was counted before. Such a queue stays listed as empty when its keys are deleted."""
        return False

    def discover(self, fully: bool = False, max_keys: int | None = MAX_KEYS_PER_DISCOVERY) -> Iterator[list[Ref]]:
        """Find queues and add them to `refs`, one or two round trips per step. Yield the queues that each step found.

        The steps are: the names that systems store, the results of earlier walks, then at most `max_keys` keys of a
        walk over all keys (None: to its end), if a walk is due. `fully` starts a new walk over all keys.
        """
        fully, self._walks_all = fully or self._walks_all, False
        self.problems = {**self._left_out}
        if fully:
            self._denied_s.clear()
        now_s = time.monotonic()
        denied_systems = {name for name, denied_at_s in self._denied_s.items() if now_s - denied_at_s < DENIED_RETRY_S}
        discovered: set[Ref] = set()
        for chunk in self._discover_stored_names(denied_systems):
            discovered.update(chunk)
            yield chunk
        if not self._has_recalled:
            self._has_recalled = True
            yield from self._load_stored_walk()
        if fully:
            self._walk.restart()
        if fully or (SCAN not in denied_systems and self._walk.progress.is_due(time.time())):
            yield from self._continue_key_walk(None if fully else max_keys, discovered)
        counted_refs = {ref for ref in self.refs if self.was_counted_before(ref)}
        self._replace_refs(discovered | self._walked_refs | self._walking_refs | counted_refs)

    def _discover_stored_names(self, denied_systems: Collection[str]) -> Iterator[list[Ref]]:
        """Ask each system that is not denied for the queue names that it stores, and yield the queues step by step."""
        hidden_systems: set[str] = set()
        absent_systems = {*denied_systems, *self._find_absent_systems(denied_systems, hidden_systems)}
        for system in self.systems.values():
            if system.name in absent_systems:
                continue
            has_queues = False
            steps = self._call_for_readable_system(system, self._begin_discovery, system)
            while (
                steps is not None
                and (names := self._call_for_readable_system(system, self._read_next_queue_names, system, steps))
                is not None
            ):
                chunk = [self._intern_ref(Ref(system.name, name)) for name in names]
                has_queues = has_queues or bool(chunk)
                self._add_refs(chunk)
                yield chunk
            if system.name in hidden_systems and not has_queues:
                self._denied_s[system.name] = time.monotonic()

    def _begin_discovery(self, system: System) -> Iterator[list[str]]:
        return iter(system.discover(self.client))  # raises for a result from another package that is no iterator

    def _read_next_queue_names(self, system: System, steps: Iterator[list[str]]) -> list[str] | None:
        """Return the next queue names that a system stores, or None at the end. Records that an ACL denied them."""
        try:
            with translate_redis_errors():
                return next(steps, None)
        except Denied:
            if not system.is_explicit:
                self._denied_s[system.name] = time.monotonic()
            raise

    def _find_absent_systems(self, denied_systems: Collection[str], hidden_systems: set[str]) -> set[str]:
        """Return the systems that were not requested and none of whose marker keys exists, in one round trip.

        The systems in `denied_systems` are skipped. Adds to `hidden_systems` those of which an ACL denies a marker key.
        """
        marker_keys = {
            name: self._call_for_readable_system(system, system.marker_keys) or ()
            for name, system in self.systems.items()
            if not system.is_explicit and name not in denied_systems
        }
        if is_cluster(self.client) or not any(marker_keys.values()):
            return set()  # A node of a Cluster may be away.
        from redis.exceptions import NoPermissionError

        pipe = self.client.pipeline(transaction=False)
        for key in (key for keys in marker_keys.values() for key in keys):
            pipe.exists(to_bytes(key))
        with translate_redis_errors():
            replies = iter(pipe.execute(raise_on_error=False))
        replies_by_system = {name: [next(replies) for _key in keys] for name, keys in marker_keys.items()}
        hidden_systems |= {
            name
            for name, system_replies in replies_by_system.items()
            if any(isinstance(reply, NoPermissionError) for reply in system_replies)
        }
        existing_keys = {
            name: [reply != 0 for reply in system_replies] for name, system_replies in replies_by_system.items()
        }  # an error proves nothing
        return {name for name, system_replies in existing_keys.items() if system_replies and not any(system_replies)}

    def describe_unread_keys(self) -> str:
        """Return a sentence about keys that no walk has read yet; empty if all keys of the server were read."""
        if SCAN in self._denied_s and (
            nameless := [name for name, system in self.systems.items() if system.is_found_by_walk]
        ):
            return (
                f"queues of {', '.join(nameless)} cannot be found: SCAN is denied, and no key contains their names. "
                f"Name a queue, as {nameless[0]}:NAME, or allow SCAN; `rqtui acl` prints what a role needs."
            )
        progress = self._walk.progress
        if progress.complete is not None or not self._walk.is_interrupted:
            return ""
        from redis.exceptions import RedisError

        total = ""
        with contextlib.suppress(RedisError):
            total = f"about {self.client.dbsize():,}".replace(",", " ")
        walked = f"{progress.keys_walked:,}".replace(",", " ")
        return (
            f"{walked} of {total or 'all'} keys were searched for queues that no list of names contains; "
            "the next command continues there, and --walk searches all keys."
        )

    def _add_refs(self, refs: Sequence[Ref]) -> None:
        if refs:
            self._replace_refs({*self.refs, *refs})

    def _replace_refs(self, refs: set[Ref]) -> None:
        """Set the discovered queues. `refs` becomes another list only if the queues changed: callers compare it."""
        if len(refs) != len(self.refs) or not refs.issuperset(self.refs):
            self.refs = sorted(map(self._intern_ref, refs), key=_build_ref_sort_key)
            self._interned = {ref: ref for ref in self.refs}

    def _intern_ref(self, ref: Ref) -> Ref:
        """Return the stored ref that equals this one, so that each queue has only one ref object in memory."""
        return self._interned.get(ref, ref)

    def _load_stored_walk(self) -> Iterator[list[Ref]]:
        """Load the walk that an earlier command stored, verify its queues, and continue where the walk stopped."""
        progress = self._walk_file.load()
        if progress is None:
            return
        self._walk.progress = progress
        complete, partial = progress.complete, progress.partial
        if complete is not None:
            self._has_walked = True
            yield from self._verify_walked_keys(complete, self._walked_refs)
        yield from self._verify_walked_keys(partial, self._walking_refs)
        self.unsupported_systems = self._walk.find_unsupported_systems()

    def _verify_walked_keys(self, result: WalkResult, refs: set[Ref]) -> Iterator[list[Ref]]:
        """Check in Redis the keys that a stored walk found, and yield the queues that these keys still reveal.

        The count of an unsupported system whose example key is missing becomes 0.
        """
        for name, keys in result.queue_keys.items():
            for start in range(0, len(keys) if name in self.systems else 0, KEYS_PER_CHECK):
                found_refs, _keys = self._find_queues_of_keys({name: keys[start : start + KEYS_PER_CHECK]}, set())
                refs.update(found_refs)
                self._add_refs(found_refs)
                yield found_refs
        if result.examples:
            pipe = self.client.pipeline(transaction=False)
            for key in result.examples.values():
                pipe.exists(key)
            with translate_redis_errors():
                existing = pipe.execute(raise_on_error=False)
            missing = [pattern for pattern, count in zip(result.examples, existing, strict=True) if count == 0]
            for pattern in missing:
                result.counts[pattern] = 0

    def _continue_key_walk(self, max_keys: int | None, known_refs: Collection[Ref]) -> Iterator[list[Ref]]:
        """Continue the walk over all keys, yield new queues, and store the walk for the next command.

        The walk ends at once if an ACL denies SCAN.
        """
        if not self._walk.progress.is_under_way:
            self._walking_refs = set()
        steps = self._walk.yield_walk_steps(max_keys)
        try:
            for keys in steps:
                found_refs, revealing_keys = self._find_queues_of_keys(keys, known_refs)
                self._walk.store_keys(revealing_keys)
                new_refs = [ref for ref in found_refs if ref not in known_refs and ref not in self._walked_refs]
                self._walking_refs.update(found_refs)
                self._add_refs(new_refs)
                yield new_refs
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
        """Return the queues that these keys reveal, and the keys worth storing: those of queues not in `known_refs`."""
        found_refs: list[Ref] = []
        revealing_keys: dict[str, Sequence[bytes]] = {}
        for name, queue_keys in keys.items():
            system = self.systems[name]
            names = self._call_for_readable_system(system, system.find_queues_of_keys, self.client, queue_keys) or ()
            refs = [self._intern_ref(Ref(name, queue)) for queue in names]
            found_refs += refs
            if refs and (system.needs_key_walk or any(ref not in known_refs for ref in refs)):
                revealing_keys[name] = queue_keys
        return found_refs, revealing_keys

    def _report_unwalked_systems(self, error: Denied) -> None:
        """Report requested systems whose queues only a walk can find, after an ACL denied the walk."""
        for system in self.systems.values():
            if system.is_explicit and system.is_found_by_walk:
                self.problems[system.name] = _build_no_discovery_finding(system, error)

    def has_queue(self, ref: Ref) -> bool:
        """Return whether Redis stores anything about a queue, such as its name in a set. Takes one round trip."""
        system = self.systems[ref.system]
        return bool(self._call_for_readable_system(system, system.has_queue, self.client, ref.queue))

    def resolve_or_discover(self, name: str) -> Ref:
        """Resolve a name that a person typed to a queue. All systems are asked about a name that is not discovered."""
        system_name, queue_name = self._split_system_prefix(name)
        if not system_name or has_replacement_symbols(queue_name) or queue_name.startswith(BASE64):
            for spelling in _yield_possible_queue_names(queue_name):
                if matches := self._find_queues_by_name(system_name, spelling):
                    self._add_refs(matches)
                    name = f"{system_name}:{spelling}" if system_name else spelling
                    break
            else:
                for _chunk in self.discover(fully=True) if has_replacement_symbols(queue_name) else ():
                    pass  # The name may be the display form of a discovered queue, which `resolve` finds.
        ref = self.resolve(name)
        if self.systems[ref.system].needs_key_walk and not self._has_walked:
            for _spotted in self._continue_key_walk(None, self.refs):
                pass
        return ref

    def _split_system_prefix(self, name: str) -> tuple[str, str]:
        """Split `SYSTEM:NAME` into system and name. The system is empty if no system has that name."""
        system_name, colon, rest = name.partition(":")
        return (system_name, rest) if colon and system_name in self.systems else ("", name)

    def _find_queues_by_name(self, system_name: str, queue: str) -> list[Ref]:
        """Return the queues of that name, in one system or in all.

        A name that was not discovered yet takes one or two round trips for all systems together; on a Cluster, whose
        keys are on several nodes, one per system.
        """
        matches = [ref for ref in self.refs if ref.queue == queue and system_name in ("", ref.system)]
        if matches:
            return matches
        systems = [system for system in self._find_systems_allowing_name(queue) if system_name in ("", system.name)]
        if is_cluster(self.client):
            checks = [partial(system.has_queue, self.client, queue) for system in systems]
        else:
            with translate_redis_errors():
                results = read_jointly(self.client, [partial(_has_system_queue, system, queue) for system in systems])
            checks = [partial(_return_or_raise_result, result) for result in results]
        existing = [
            Ref(system.name, queue)
            for system, check in zip(systems, checks, strict=True)
            if self._call_for_readable_system(system, check)
        ]
        # A system configured with this name is preferred to those that only have fitting keys.
        return [ref for ref in existing if queue in self.systems[ref.system].named_queues()] or existing

    def _call_for_readable_system(self, system: System, function: Callable[..., T], *args: Any) -> T | None:
        """Call `function` for a system and return its result, or None if the system cannot be read.

        An ACL may hide a system that was not requested, and a node of a Cluster may be down. Any other error is stored
        in `problems`, and the discovery of the other systems continues.
        """
        try:
            with translate_redis_errors():
                return function(*args)
        except Denied:
            if system.is_explicit:
                raise
            return None
        except Unreachable:
            if not is_cluster(self.client):
                raise
            self.client.discard_slot_map()
            with translate_redis_errors():
                ping_server(self.client)  # raises when no node answers
            return None
        except UsageError:
            raise
        except Exception as error:
            self.problems[system.name] = _build_no_discovery_finding(system, error)
            return None

    def _find_systems_allowing_name(self, name: str) -> Iterator[System]:
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
        system_prefix, queue_name = self._split_system_prefix(name)
        matches = [ref for ref in self.refs if ref.queue == queue_name and system_prefix in ("", ref.system)]
        matches = matches or self._find_queue_by_display_name(system_prefix, queue_name)
        if system_prefix and not matches:
            self.systems[system_prefix].keys(queue_name)
            return Ref(system_prefix, queue_name)
        if len(matches) > 1:
            raise UsageError(
                f'"{name}" is a queue of {" and ".join(ref.system for ref in matches)}: name one, as SYSTEM:{name}.'
            )
        if matches:
            return matches[0]
        system_name, colon, queue_name = name.partition(":")
        if colon and system_name in self.others:
            raise UsageError(f'"{name}" means the system {system_name}, which --system leaves out: add it there.')
        if (
            colon
            and queue_name
            and system_name != DEFAULT_SYSTEM
            and (similar := self._find_similar_system(system_name))
        ):
            raise UsageError(
                f'there is no system "{system_name}"; did you mean {similar}:{queue_name}? Nothing was done. '
                f"A {DEFAULT_SYSTEM} queue of that very name is {DEFAULT_SYSTEM}:{name}."
            )
        first_system = DEFAULT_SYSTEM if DEFAULT_SYSTEM in self.systems else next(iter(self.systems))
        self.systems[first_system].keys(name)
        return Ref(first_system, name)

    def _find_queue_by_display_name(self, system_name: str, display_name: str) -> list[Ref]:
        """Return the queue whose name is shown as `display_name`. Raises UsageError if several are shown like that."""
        if not has_replacement_symbols(display_name):
            return []
        matches = [ref for ref in self.refs if safe(ref.queue) == display_name and system_name in ("", ref.system)]
        if len(matches) > 1:
            arguments = ", ".join(self.format_argument(ref) for ref in matches)
            raise UsageError(f'"{display_name}" is how several queues are shown; name one of them: {arguments}.')
        return matches

    def _find_similar_system(self, prefix: str) -> str:
        """Return the system whose name differs from `prefix` by a typing error; empty if there is none.

        No worker would read a queue with such a prefix in its name.
        """
        from difflib import get_close_matches

        return next(iter(get_close_matches(prefix, {*self.systems, *self.others}, 1, 0.8)), "")

    def format_argument(self, ref: Ref) -> str:
        """Return the command-line argument that means this queue, with its system if two systems have the same name."""
        argument = self.systems[ref.system].queue_argument(ref.queue)
        is_plain = argument == quote_for_shell(ref.queue)
        return f"{ref.system}:{argument}" if is_plain and self._is_ambiguous(ref) else argument

    def format_name(self, ref: Ref) -> str:
        """Return the name of a queue, with its system in front if two systems have a queue of the same name."""
        return f"{ref.system}:{ref.queue}" if self._is_ambiguous(ref) else ref.queue

    def _is_ambiguous(self, ref: Ref) -> bool:
        return sum(other.queue == ref.queue for other in self.refs) > 1


def _build_unusable_system_finding(sentence: str) -> Finding:
    """Build the finding about a system that cannot be used, from the sentence with the reason."""
    return Finding("unusable-system", "warning", "", sentence, "fix that package, or remove it")


def _build_no_discovery_finding(system: System, error: Exception) -> Finding:
    """Build the finding about a system whose queues could not be discovered, with the error."""
    text = f"queues of {system.name} cannot be found: {describe_and_log_error(error, log)}"
    return Finding("wrong-type", "warning", "", text, f"name them: rqtui snapshot {system.name}:QUEUE")


def _has_system_queue(system: System, queue: str, client: Any) -> bool:
    """Return whether a system has a queue of that name."""
    return system.has_queue(client, queue)


def _return_or_raise_result(result: T | Exception) -> T:
    """Return a result, or raise it if it is an exception."""
    if isinstance(result, Exception):
        raise result
    return result


def find_database_number(client: Any) -> int:
    """Return the database number of a client's connections; 0 in a Cluster."""
    options = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {})
    return int(options.get("db") or 0)


def _is_system_usable(client: Any, system: System) -> bool:
    """Return whether a system works on this server.

    Raises UsageError if the system was requested and cannot run on a Cluster.
    """
    if not is_cluster(client) or system.works_on_cluster:
        return True
    if system.is_explicit:
        raise UsageError(f"{system.name} cannot run on a Cluster: the keys of its queues lie in different slots.")
    return False


def _yield_possible_queue_names(name: str) -> Iterator[str]:
    """Yield the queue names that a typed text may mean: the text itself, then names that are displayed like it."""
    yield name
    if (parsed_name := restore_unprintable_characters(name)) != name:
        yield parsed_name
    elif (decoded_name := parse_base64_name(name)) is not None:
        yield to_text(decoded_name)


def _build_ref_sort_key(ref: Ref) -> tuple[str, str]:
    return ref.queue, ref.system
