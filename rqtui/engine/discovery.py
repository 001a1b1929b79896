"""Discovery: which queues there are, and which one a name means; the half of the engine that looks for keys.

What a layout can ask for directly is asked each time. What only its keys tell comes from one walk over the keyspace for
the patterns of all layouts (`lua/shared/walk.lua`), a bounded step per round trip, which rests long after it took long.
The same walk counts the keys of systems that rqtui does not speak (`systems/by_sight.py`).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.connection.connect import translated
from rqtui.connection.nodes import is_cluster, nodes, ping
from rqtui.errors import Denied, Unreachable, UsageError, reason
from rqtui.layout.layout import Layout, typed
from rqtui.model import Finding, Ref
from rqtui.scripts import script as scripts
from rqtui.systems import by_sight
from rqtui.text.names import BASE64, from_base64, to_text
from rqtui.text.sanitise import has_symbols, safe, unshown

log = logging.getLogger("rqtui.engine.discovery")

T = TypeVar("T")
WALK = 5000  # keys per step: 2 ms of the server
WALK_REST = 50  # times as long as a walk took, until the next one: no more than 2 % of the server goes into it


class Discovery:
    """The queues that are known of one Redis, in `refs`, and what else is there, in `unspoken`.

    `others` are layouts that `--layout` left out. On a Cluster only those are left whose keys of a queue share a slot;
    raises UsageError for another that was asked for.
    """

    def __init__(self, client: Any, layouts: Sequence[Layout], others: Collection[str] = ()) -> None:
        self.client = client
        self.layouts = {layout.name: layout for layout in layouts if _can_run(client, layout)}
        self.others = others
        self.refs: list[Ref] = []
        self.unspoken: tuple[by_sight.Unspoken, ...] = ()  # replaced, never changed: the screen reads it
        self.problems: dict[str, Finding] = {}  # by layout: why its queues could not be looked for
        self._has_walked = False
        self._spotted: set[Ref] = set()
        self._walk_due_s = 0.0

    def is_counted(self, ref: Ref) -> bool:
        """Whether it was there before: a queue whose keys are gone is empty, and still a queue."""
        return False

    def discover(self, fully: bool = False) -> Iterator[list[Ref]]:
        """Finds queues, a round trip or two per step, and remembers them; yields what each step found.

        First what each layout can ask for directly, then one walk over all keys for the patterns of all layouts. On a
        large database that walk is made rarely, unless `fully` asks for it: ten million keys take 4 s of Redis.
        """
        found: set[Ref] = set()
        self.problems = {}
        for layout in self.layouts.values():
            steps = layout.discover(self.client)
            while True:
                names = self._unless_denied(layout, next, steps, None)
                if names is None:
                    break
                chunk = [Ref(layout.name, name) for name in names]
                found.update(chunk)
                self._remember(chunk)
                yield chunk
        if fully or time.monotonic() >= self._walk_due_s:
            spotted: set[Ref] = set()
            took_s, steps_of_walk = 0.0, self._walk()
            while True:
                began = time.monotonic()
                step = next(steps_of_walk, None)
                took_s += time.monotonic() - began
                if step is None:
                    break
                fresh = [ref for ref in step if ref not in found | spotted]
                spotted.update(step)
                self._remember(fresh)
                yield fresh
            self._spotted, self._walk_due_s = spotted, time.monotonic() + WALK_REST * took_s
        keep = {ref for ref in self.refs if self.is_counted(ref)}
        self.refs = sorted(found | self._spotted | keep, key=_by_queue)

    def _remember(self, refs: Sequence[Ref]) -> None:
        if refs:
            self.refs = sorted({*self.refs, *refs}, key=_by_queue)

    def _walk(self) -> Iterator[list[Ref]]:
        """A bounded step over the keyspace at a time; nothing where an ACL denies SCAN."""
        self._has_walked = True
        counted = by_sight.patterns()
        counts = [0] * len(counted)
        with translated():
            servers = nodes(self.client)
        for server in servers:
            try:
                yield from self._walk_one(server, counted, counts)
            except Denied as error:
                self._tell_unseen(error)
                return
            except Unreachable:
                if len(servers) == 1:
                    raise
        self.unspoken = by_sight.found(dict(zip(counted, counts, strict=True)))

    def _tell_unseen(self, error: Denied) -> None:
        """Names of systems that were asked for may stand in no list but the keyspace, and that may not be looked at."""
        for layout in self.layouts.values():
            if layout.is_asked and layout.patterns and not layout.names_key:
                self.problems[layout.name] = _not_looked_for(layout, error)

    def _walk_one(self, server: Any, counted: Sequence[str], counts: list[int]) -> Iterator[list[Ref]]:
        """The walk over the keys of one server; adds to `counts`."""
        patterns = [(layout, pattern) for layout in self.layouts.values() for pattern in layout.patterns]
        rows = [*((pattern,) for _layout, pattern in patterns), *((pattern,) for pattern in counted)]
        script = scripts.load("shared")["walk"]
        cursor = "0"
        while True:
            call = script.call({}, {"cursor": cursor, "limit": WALK, "counted": len(counted)}, rows)
            answer = scripts.run(server, call)
            for at, number in enumerate(answer.values["counts"].split()):
                counts[at] += int(number)
            keys: dict[str, list[bytes]] = {}
            for number, key in answer.rows:
                keys.setdefault(patterns[number - 1][0].name, []).append(key)
            spotted: list[Ref] = []
            for name, found in keys.items():
                layout = self.layouts[name]
                names = self._unless_denied(layout, layout.spotted, self.client, found)
                spotted += [Ref(name, queue) for queue in names or ()]
            yield spotted
            cursor = answer.values["cursor"]
            if cursor == "0":
                return

    def seek(self, name: str) -> Ref:
        """The queue that a name means, as `find`; asks the layouts, a round trip each, for one not seen yet."""
        layout_name, rest = self._split(name)
        if not layout_name or has_symbols(rest) or rest.startswith(BASE64):
            for spelling in _spellings(rest):
                if seen := self._seen(layout_name, spelling):
                    self._remember(seen)
                    name = f"{layout_name}:{spelling}" if layout_name else spelling
                    break
            else:
                for _chunk in self.discover(fully=True) if has_symbols(rest) else ():
                    pass  # it may be what one of them looks like, which `find` knows
        found = self.find(name)
        if self.layouts[found.layout].learns_by_walk and not self._has_walked:
            for _spotted in self._walk():
                pass
        return found

    def _split(self, name: str) -> tuple[str, str]:
        """The layout that `LAYOUT:NAME` names, empty where it names none, and the rest."""
        layout_name, colon, rest = name.partition(":")
        return (layout_name, rest) if colon and layout_name in self.layouts else ("", name)

    def _seen(self, layout_name: str, queue: str) -> list[Ref]:
        """The queues of that name, of one layout or of all; a round trip per layout for one that is not known yet."""
        known = [ref for ref in self.refs if ref.queue == queue and layout_name in ("", ref.layout)]
        if known:
            return known
        seen = [
            Ref(layout.name, queue)
            for layout in self._able(queue)
            if layout_name in ("", layout.name) and self._unless_denied(layout, layout.recognises, self.client, queue)
        ]
        # Whoever was told this name knows better than who finds it likely.
        return [ref for ref in seen if queue in self.layouts[ref.layout].named()] or seen

    def _unless_denied(self, layout: Layout, look: Callable[..., T], *args: Any) -> T | None:
        """What `look` finds; None where an ACL hides a system that nobody asked for, or a node of a Cluster is away.

        What else goes wrong is this system's alone: it is told in `problems`, and the others are looked for.
        """
        try:
            with translated():
                return look(*args)
        except Denied:
            if layout.is_asked:
                raise
            return None
        except Unreachable:
            if not is_cluster(self.client):
                raise
            self.client.forget()
            with translated():
                ping(self.client)  # raises when no node answers
            return None
        except UsageError:
            raise
        except Exception as error:
            self.problems[layout.name] = _not_looked_for(layout, error)
            return None

    def _able(self, name: str) -> Iterator[Layout]:
        """The layouts in which a queue can have that name."""
        for layout in self.layouts.values():
            with contextlib.suppress(UsageError):
                layout.keys(name)
                yield layout

    def find(self, name: str) -> Ref:
        """The queue that `NAME` or `LAYOUT:NAME` means.

        A name that stands in two layouts raises UsageError, as does one that nobody has seen and that begins almost
        like `LAYOUT:`; any other that nobody has seen is a queue of the default system.
        """
        meant, rest = self._split(name)
        matches = [ref for ref in self.refs if ref.queue == rest and meant in ("", ref.layout)]
        matches = matches or self._alike(meant, rest)
        if meant and not matches:
            self.layouts[meant].keys(rest)
            return Ref(meant, rest)
        if len(matches) > 1:
            raise UsageError(
                f'"{name}" stands in {" and ".join(ref.layout for ref in matches)}: say which, as LAYOUT:{name}.'
            )
        if matches:
            return matches[0]
        layout_name, colon, rest = name.partition(":")
        if colon and layout_name in self.others:
            raise UsageError(f'"{name}" means the layout {layout_name}, which --layout leaves out: name it as well.')
        if colon and rest and layout_name != DEFAULT_SYSTEM and (near := self._near(layout_name)):
            raise UsageError(
                f'there is no system "{layout_name}"; did you mean {near}:{rest}? Nothing was done. '
                f"A {DEFAULT_SYSTEM} queue of that very name is {DEFAULT_SYSTEM}:{name}."
            )
        first = DEFAULT_SYSTEM if DEFAULT_SYSTEM in self.layouts else next(iter(self.layouts))
        self.layouts[first].keys(name)
        return Ref(first, name)

    def _alike(self, layout_name: str, shown: str) -> list[Ref]:
        """The queue that looks so where it is printed. Raises UsageError where several do."""
        if not has_symbols(shown):
            return []
        alike = [ref for ref in self.refs if safe(ref.queue) == shown and layout_name in ("", ref.layout)]
        if len(alike) > 1:
            words = ", ".join(self.words(ref) for ref in alike)
            raise UsageError(f'"{shown}" is what several queues look like; say which: {words}.')
        return alike

    def _near(self, prefix: str) -> str:
        """The layout whose name is a slip of the finger away; nobody's worker would look into a queue of that name."""
        from difflib import get_close_matches

        return next(iter(get_close_matches(prefix, {*self.layouts, *self.others}, 1, 0.8)), "")

    def words(self, ref: Ref) -> str:
        """What means this queue on a command line."""
        words = self.layouts[ref.layout].words(ref.queue)
        is_shared = sum(known.queue == ref.queue for known in self.refs) > 1
        return f"{ref.layout}:{words}" if is_shared and words == typed(ref.queue) else words


def _not_looked_for(layout: Layout, error: Exception) -> Finding:
    text = f"queues of {layout.name} cannot be looked for: {reason(error, log)}"
    return Finding("wrong-type", "warning", "", text, f"name them: rqtui snapshot {layout.name}:QUEUE")


def _can_run(client: Any, layout: Layout) -> bool:
    if not is_cluster(client) or layout.fits_cluster:
        return True
    if layout.is_asked:
        raise UsageError(f"{layout.name} cannot run on a Cluster: the keys of its queues lie in different slots.")
    return False


def _spellings(name: str) -> Iterator[str]:
    """The names that a person may mean by this one, the likeliest first: what it says; what is shown so."""
    yield name
    if (shown := unshown(name)) != name:
        yield shown
    elif (raw := from_base64(name)) is not None:
        yield to_text(raw)


def _by_queue(ref: Ref) -> tuple[str, str]:
    return ref.queue, ref.layout
