"""Causes: which errors have the same one, in Sentry's order: the frame that raised it, the class, the message.

An error is read once (`said`). Whoever groups makes a `Grouping` of a sample and asks it for the key of any error, of
the sample or not: errors of the same key are a group, and an error has exactly one. The groups follow from the set of
errors alone, not from their order.

Messages that differ in a plain word (`no such user bob`) are merged as Drain does (He et al., ICWS 2017): a tree of
fixed depth (class, status, frame, number of words), and in its leaves messages that have most of their words in common.
Drain decides message by message, so that an early mistake stays; here a leaf is cut as a whole, as IPLoM does (Makanju
et al., KDD 2009), where a word has few values, and a place in a message counts as data once eight values stand there.
The package drain3 (0.9.11 of 2022; pins jsonpickle 1.5.1 and cachetools 4.2.1) was weighed and is not used: of the
messages of `benchmarks/error_groups.py` it makes 110 groups, 9 of them of several causes (123 and 10 of messages that
are folded first), where this makes 148 and none; and a group of it is told by what it has seen, not by the sample.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from rqtui.text import folding, tracebacks
from rqtui.text.tracebacks import Frame, Trace
from rqtui.text.widths import Width

Key = tuple[str, ...]
ENOUGH_VALUES = 8  # so many different words in one place of a message are data; fewer may tell causes apart
ENOUGH_IN_A_FRAME = 2  # of messages that the same frame of the job's own code raised
ALIKE = 0.5  # the part of its words that a message has in common with its group: Drain's similarity
USUAL = 0.8  # of the errors of a group: so many with the same words give it their words for a name
MOST_WORDS = 40  # of a message that are compared
SHORT = 40  # characters of a short cause


@dataclass(frozen=True, slots=True)
class Said:
    """What an error says: its class, the status of an HTTP answer, its frame, and its message folded.

    `statement` is the one that raised it in words of its own, where the traceback shows it in the job's own code.
    """

    kind: str
    status: str
    frame: Frame | None
    place: str
    statement: str
    template: str

    @property
    def title(self) -> str:
        """`TimeoutError: # after # s`."""
        return _titled(self.kind, self.template)


def said(error: str) -> Said:
    """What an error says; any text will do, of which 8 KiB are read."""
    return _said(tracebacks.bounded(error))


@lru_cache(8192)  # a report is made again and again of the same jobs
def _said(text: str) -> Said:
    trace = tracebacks.read(text)
    template = folding.fold(trace.said, trace.kind)
    found = _STATUS.search(template)
    return Said(trace.kind, found[0] if found else "", trace.frame, _place(trace), trace.statement, template)


_STATUS = re.compile(r"(?<![\w.#-])[45]\d\d(?![\w.#-])")  # every other number is folded


def _place(trace: Trace) -> str:
    """The file, with its folder, and the function of a frame: without the line, which moves with every release."""
    frame = trace.frame
    if frame is None:
        return ""
    parts = [part for part in re.split(r"[\\/]", frame.path) if part][-2:]
    parts[:-1] = [folding.fold(part) for part in parts[:-1]]
    return f"{'/'.join(parts)} {frame.function}"


def short_cause(error: str) -> str:
    """The cause of an error in a few words: `CardDeclined`, `HTTPStatusError 410`, else how its message begins."""
    return short_of(said(error))


def short_of(what: Said) -> str:
    """The cause in a few words, of an error that was read."""
    name = short_kind(what.kind)
    if name and (name not in _GENERIC or not what.template):
        return f"{name} {what.status}".rstrip()
    words = what.template
    if len(words) <= SHORT:
        return words
    return words[: SHORT - 1].rsplit(" ", 1)[0].rstrip(" ,:;(-") + "…"


def short_kind(kind: str) -> str:
    """A class without the modules that it stands in: `HTTPStatusError`, `Net::ReadTimeout`."""
    return re.split(r"[.\\/]", kind)[-1]


# Classes that say nothing of the cause.
_GENERIC = frozenset({"Error", "Exception", "RuntimeError", "StandardError", "RuntimeException", "Throwable"})


# -- groups ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Node:
    """Messages of a leaf of the tree: one wording with `#` for data, or cut by the word in a place.

    `words` are None where the messages are cut.
    """

    words: tuple[str, ...] | None = None
    at: int = 0
    by_word: dict[str, _Node] = field(default_factory=dict)

    def wording(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The wording that a message belongs to: itself where it is none of those that the tree was made of."""
        node: _Node | None = self
        while node is not None and node.words is None:
            node = node.by_word.get(words[node.at])
        if node is None or node.words is None:
            return words
        fits = all(mine in (its, "#") for mine, its in zip(node.words, words, strict=True))
        return node.words if fits else words


class _Leaf(NamedTuple):
    """Where the tree has its fixed depth: messages of as many words, with the same class, status and frame."""

    kind: str
    status: str
    place: str
    words: int
    is_own: bool  # the frame is one of the job's own code: what it raises there is mostly one thing


class Grouping:
    """The groups of a sample of errors, at a width; it never changes once it is made."""

    def __init__(self, sample: Iterable[Said] = (), width: Width = Width.CAUSE) -> None:
        self.width = width
        leaves: dict[_Leaf, set[tuple[str, ...]]] = {}
        for what in sample if width is not Width.MESSAGE else ():
            if self._is_by_wording(what):
                leaf, words = self._leaf(what)
                leaves.setdefault(leaf, set()).add(words)
        self._trees = {
            leaf: _tree(wordings, ENOUGH_IN_A_FRAME if leaf.is_own else ENOUGH_VALUES)
            for leaf, wordings in leaves.items()
            if len(wordings) > 1
        }

    def key(self, what: Said) -> Key:
        """The group of an error, whether or not it was in the sample."""
        if self.width is Width.MESSAGE:
            return what.kind, what.place, what.statement, what.template
        if self.width is Width.CLASS and what.kind:
            return (what.kind,)
        if self.width is Width.FRAME and what.place:
            return what.kind, what.status, what.place
        if what.statement:
            return what.kind, what.status, what.place, what.statement
        leaf, words = self._leaf(what)
        tree = self._trees.get(leaf)
        return what.kind, what.status, what.place, " ".join(tree.wording(words) if tree else words)

    def _is_by_wording(self, what: Said) -> bool:
        if self.width is Width.CLASS:
            return not what.kind
        return not what.statement and not (self.width is Width.FRAME and what.place)

    def _leaf(self, what: Said) -> tuple[_Leaf, tuple[str, ...]]:
        words = tuple(what.template.split(" ", MOST_WORDS))
        is_own = what.frame is not None and not what.frame.is_library
        return _Leaf(what.kind, what.status, what.place, len(words), is_own), words


def _tree(wordings: Collection[tuple[str, ...]], enough: int) -> _Node:
    """Messages of as many words, cut until each part has one wording."""
    values = [set(place) for place in zip(*wordings, strict=True)]
    varying = [at for at, words in enumerate(values) if len(words) > 1]
    if not varying:
        return _Node(next(iter(wordings)))
    is_alike = len(varying) <= (1 - ALIKE) * len(values)
    # A word of few values may tell causes apart, unless data stands in its place in another message.
    few = [at for at in varying if len(values[at]) < enough and not any("#" in word for word in values[at])]
    if is_alike and not few:
        first = next(iter(wordings))
        return _Node(tuple("#" if at in varying else word for at, word in enumerate(first)))
    at = min(few or varying, key=lambda place: (len(values[place]), place))
    parts: dict[str, list[tuple[str, ...]]] = {}
    for words in wordings:
        parts.setdefault(words[at], []).append(words)
    return _Node(None, at, {word: _tree(part, enough) for word, part in parts.items()})


def title(all_said: Sequence[Said], width: Width = Width.CAUSE) -> str:
    """What a group is called: the class, and what its messages have in common; the same in any order."""
    templates = Counter(what.template for what in all_said)
    kind = all_said[0].kind if all_said else ""
    if width is Width.CLASS and kind and len(templates) > 1:
        return kind
    return _titled(kind, _common(templates))


def _titled(kind: str, template: str) -> str:
    """The class and the message; some messages begin with their class."""
    words = f"{kind}: {template}" if kind and template and not template.startswith(kind) else template or kind
    return words[: folding.LONGEST].rstrip()


def _common(templates: Counter[str]) -> str:
    usual = min(templates, key=lambda template: (-templates[template], template))
    if templates[usual] >= USUAL * templates.total():
        return usual
    wordings = [tuple(template.split(" ")) for template in templates]
    if len({len(words) for words in wordings}) == 1:
        merged = [next(iter(words)) if len(words) == 1 else "#" for words in map(set, zip(*wordings, strict=True))]
        if merged.count("#") <= len(merged) * ALIKE:
            return " ".join(merged)
    return f"{usual} …".lstrip()


__all__ = ["Grouping", "Key", "Said", "Width", "said", "short_cause", "short_kind", "short_of", "title"]
