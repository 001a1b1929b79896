"""Discovery: which queues there are, and which one a name means; the half of the engine that looks for keys.

What a layout can ask for directly is asked each time. What only its keys tell comes from one walk over the keyspace for
the patterns of all layouts; `engine/walk.py` has the rule for how much of it is made, and when. It also counts the
keys of systems that rqtui does not speak (`systems/by_sight.py`).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.connection.connect import translated
from rqtui.connection.nodes import is_cluster, ping
from rqtui.engine.walk import MOST, Found, Walk
from rqtui.engine.walk_file import WalkFile
from rqtui.errors import Denied, Unreachable, UsageError, reason
from rqtui.layout.layout import Layout, typed
from rqtui.model import Finding, Ref
from rqtui.systems import by_sight
from rqtui.text.names import BASE64, from_base64, to_bytes, to_text
from rqtui.text.sanitise import has_symbols, safe, unshown

log = logging.getLogger("rqtui.engine.discovery")

T = TypeVar("T")
ASKED = 1000  # keys of an earlier walk that are looked at again in one round trip


class Discovery:
    """The queues that are known of one Redis, in `refs`, and what else is there, in `unspoken`.

    `others` are layouts that `--layout` left out. On a Cluster only those are left whose keys of a queue share a slot;
    raises UsageError for another that was asked for. `walks` is the folder where a walk that was not ended is kept for
    the next command; None: nowhere. With `walks_all` the first look for queues is one at all keys.
    """

    def __init__(
        self,
        client: Any,
        layouts: Sequence[Layout],
        others: Collection[str] = (),
        left_out: Sequence[str] = (),
        walks: Path | None = None,
        walks_all: bool = False,
    ) -> None:
        self.client = client
        self.layouts = {layout.name: layout for layout in layouts if _can_run(client, layout)}
        self.others = others
        self.refs: list[Ref] = []
        self._same: dict[Ref, Ref] = {}  # those objects: of ten thousand queues each has one
        self.unspoken: tuple[by_sight.Unspoken, ...] = ()  # replaced, never changed: the screen reads it
        self._left_out = {sentence: _unusable(sentence) for sentence in left_out}
        self.problems: dict[str, Finding] = {**self._left_out}  # by layout (or sentence): why it is not looked for
        self._walks_all = walks_all
        self._has_walked = self._has_recalled = False
        self._spotted: set[Ref] = set()  # by the last whole walk
        self._spotted_since: set[Ref] = set()  # by the one under way
        self._walk = Walk(client, self.layouts)
        self._walk_file = WalkFile(walks, client, self._walk.patterns)

    def is_counted(self, ref: Ref) -> bool:
        """Whether it was there before: a queue whose keys are gone is empty, and still a queue."""
        return False

    def discover(self, fully: bool = False, most: int | None = MOST) -> Iterator[list[Ref]]:
        """Finds queues, a round trip or two per step, and remembers them; yields what each step found.

        First what each layout can ask for directly, then what earlier walks over the keys found, then at most `most`
        keys of such a walk (None: to its end), where one is due. `fully` walks over all keys, anew.
        """
        fully, self._walks_all = fully or self._walks_all, False
        found: set[Ref] = set()
        self.problems = {**self._left_out}
        absent = self._absent()
        for layout in self.layouts.values():
            if layout.name in absent:
                continue
            steps = layout.discover(self.client)
            while True:
                names = self._unless_denied(layout, next, steps, None)
                if names is None:
                    break
                chunk = [self._one(Ref(layout.name, name)) for name in names]
                found.update(chunk)
                self._remember(chunk)
                yield chunk
        if not self._has_recalled:
            self._has_recalled = True
            yield from self._recall()
        if fully:
            self._walk.begin()
        if fully or self._walk.progress.is_due(time.time()):
            yield from self._walk_on(None if fully else most, found)
        keep = {ref for ref in self.refs if self.is_counted(ref)}
        self._replace(found | self._spotted | self._spotted_since | keep)

    def _absent(self) -> set[str]:
        """The systems that nobody asked for, and whose keys are not there: one trip for all of them."""
        shown = {name: layout.shown_by() for name, layout in self.layouts.items() if not layout.is_asked}
        if is_cluster(self.client) or not any(shown.values()):
            return set()  # of a Cluster a node may be away
        pipe = self.client.pipeline(transaction=False)
        for key in (key for keys in shown.values() for key in keys):
            pipe.exists(to_bytes(key))
        with translated():
            there = iter(pipe.execute(raise_on_error=False))
        found = {name: [next(there) != 0 for _key in keys] for name, keys in shown.items()}  # an error tells nothing
        return {name for name, each in found.items() if each and not any(each)}

    def unwalked(self) -> str:
        """That not all keys were looked at yet, in a sentence; empty where they were."""
        progress = self._walk.progress
        if progress.whole is not None or not self._walk.was_cut:
            return ""
        from redis.exceptions import RedisError

        of = ""
        with contextlib.suppress(RedisError):
            of = f"about {self.client.dbsize():,}".replace(",", " ")
        looked = f"{progress.looked:,}".replace(",", " ")
        return (
            f"{looked} of {of or 'all'} keys were looked at for queues that stand in no list of names; "
            "the next command goes on from there, --walk looks at all."
        )

    def _remember(self, refs: Sequence[Ref]) -> None:
        if refs:
            self._replace({*self.refs, *refs})

    def _replace(self, refs: set[Ref]) -> None:
        """Knows these queues. The list is the same object while they are the same: others keep what they made of it."""
        if len(refs) != len(self.refs) or not refs.issuperset(self.refs):
            self.refs = sorted(map(self._one, refs), key=_by_queue)
            self._same = {ref: ref for ref in self.refs}

    def _one(self, ref: Ref) -> Ref:
        """The same queue, as it is known."""
        return self._same.get(ref, ref)

    def _recall(self) -> Iterator[list[Ref]]:
        """What earlier commands found by walking, where it still stands; their walk goes on where it stopped."""
        progress = self._walk_file.load()
        if progress is None:
            return
        self._walk.progress = progress
        whole, begun = progress.whole, progress.begun
        if whole is not None:
            self._has_walked = True
            yield from self._asked_again(whole, self._spotted)
        yield from self._asked_again(begun, self._spotted_since)
        self.unspoken = self._walk.unspoken()

    def _asked_again(self, found: Found, refs: set[Ref]) -> Iterator[list[Ref]]:
        """Looks again at keys that told of a queue, and at an example of those that were counted."""
        for name, keys in found.keys.items():
            for start in range(0, len(keys) if name in self.layouts else 0, ASKED):
                spotted, _keys = self._told_by({name: keys[start : start + ASKED]}, set())
                refs.update(spotted)
                self._remember(spotted)
                yield spotted
        if found.examples:
            pipe = self.client.pipeline(transaction=False)
            for key in found.examples.values():
                pipe.exists(key)
            with translated():
                there = pipe.execute(raise_on_error=False)
            gone = [pattern for pattern, number in zip(found.examples, there, strict=True) if number == 0]
            for pattern in gone:
                found.counts[pattern] = 0

    def _walk_on(self, most: int | None, known: Collection[Ref]) -> Iterator[list[Ref]]:
        """Steps of the walk over all keys, which are kept for the next command; nothing where an ACL denies SCAN."""
        if not self._walk.progress.is_under_way:
            self._spotted_since = set()
        steps = self._walk.steps(most)
        try:
            for keys in steps:
                spotted, kept = self._told_by(keys, known)
                self._walk.keep(kept)
                fresh = [ref for ref in spotted if ref not in known and ref not in self._spotted]
                self._spotted_since.update(spotted)
                self._remember(fresh)
                yield fresh
        except Denied as error:
            self._has_walked = True
            self._tell_unseen(error)
            return
        if not self._walk.was_cut:
            self._has_walked = True
            self._spotted, self._spotted_since = self._spotted_since, set()
        self.unspoken = self._walk.unspoken()
        if self._walk.was_cut or self._walk.progress.due_s:
            self._walk_file.save(self._walk.progress)
        else:
            self._walk_file.forget()

    def _told_by(
        self, keys: Mapping[str, Sequence[bytes]], known: Collection[Ref]
    ) -> tuple[list[Ref], dict[str, Sequence[bytes]]]:
        """(The queues that these keys tell of, the keys that tell more than is `known` without them)."""
        spotted: list[Ref] = []
        kept: dict[str, Sequence[bytes]] = {}
        for name, found in keys.items():
            layout = self.layouts[name]
            names = self._unless_denied(layout, layout.spotted, self.client, found) or ()
            refs = [self._one(Ref(name, queue)) for queue in names]
            spotted += refs
            if refs and (layout.learns_by_walk or any(ref not in known for ref in refs)):
                kept[name] = found
        return spotted, kept

    def _tell_unseen(self, error: Denied) -> None:
        """Names of systems that were asked for may stand in no list but the keyspace, and that may not be looked at."""
        for layout in self.layouts.values():
            if layout.is_asked and layout.patterns and not layout.names_key:
                self.problems[layout.name] = _not_looked_for(layout, error)

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
            for _spotted in self._walk_on(None, self.refs):
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


def _unusable(sentence: str) -> Finding:
    return Finding("unusable-system", "warning", "", sentence, "mend that package, or remove it")


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
