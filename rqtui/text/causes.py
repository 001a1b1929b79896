"""Group the errors of failed jobs by cause: the frame that raised, the class of the exception, and the message.

The order of these three follows Sentry. An error is parsed once (`parse_error`). To group errors, build a `Grouping`
from a sample and ask it for the key of any error, whether or not it was in the sample. Errors with the same key are one
group, and each error has exactly one key. The groups depend only on the set of errors, not on their order.

Messages that differ in one plain word (`no such user bob`) are merged as in Drain (He et al., ICWS 2017): a tree of
fixed depth (class, status, frame, number of words), whose leaves hold messages that share most of their words. Drain
decides message by message, so an early mistake stays. Here a leaf is split as a whole, as in IPLoM (Makanju et al., KDD
2009), at a word with few values; a word position counts as data once it has eight values.

The package drain3 (0.9.11 of 2022; pins jsonpickle 1.5.1 and cachetools 4.2.1) is not used. For the messages of
`benchmarks/error_groups.py` it finds 110 groups, 9 of which mix several causes (123 and 10 if the messages are folded
first); this module finds 148 and none. A group of drain3 also depends on the messages it has seen before, not only on
the sample.
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
MIN_DATA_VALUES = 8  # different words at one position of a message are data; fewer may be different causes
MIN_FRAME_VALUES = 2  # the same for messages raised by one frame of the job's own code
MIN_SIMILARITY = 0.5  # the share of words that a message has in common with its group: Drain's similarity
MIN_USUAL_SHARE = 0.8  # if this share of a group's errors has the same message, that message is the group's title
MAX_WORDS = 40  # words of a message that are compared
MAX_SHORT_CAUSE = 40  # characters of a short cause


@dataclass(frozen=True, slots=True)
class ParsedError:
    """The error of a failed job after parsing: class, HTTP status, frame, and folded message.

    In a folded message `#` replaces what differs from job to job.
    """

    kind: str  # the class of the exception
    status: str  # of an HTTP reply, such as `404`; empty if there is none
    frame: Frame | None
    place: str  # file and function of `frame`
    statement: str  # the `raise` statement with its own message, if the traceback shows it in the job's own code
    template: str  # the folded message

    @property
    def title(self) -> str:
        """The class of the exception and its folded message: `TimeoutError: # after # s`."""
        return _join_class_and_message(self.kind, self.template)


def parse_error(error: str) -> ParsedError:
    """Parse the error text that a failed job stored. Any text is accepted; at most 8 KiB of it are read."""
    return _parse_truncated_error(tracebacks.truncate_error_middle(error))


@lru_cache(8192)  # Reports are built repeatedly from the same jobs.
def _parse_truncated_error(text: str) -> ParsedError:
    trace = tracebacks.parse_traceback(text)
    template = folding.fold_message(trace.message, trace.kind)
    status = _STATUS.search(template)
    return ParsedError(
        trace.kind, status[0] if status else "", trace.frame, _describe_frame_place(trace), trace.statement, template
    )


_STATUS = re.compile(r"(?<![\w.#-])[45]\d\d(?![\w.#-])")  # All other numbers are folded.


def _describe_frame_place(trace: Trace) -> str:
    """Return file, folder and function of a traceback frame. The line is left out: it changes with every release."""
    frame = trace.frame
    if frame is None:
        return ""
    parts = [part for part in re.split(r"[\\/]", frame.path) if part][-2:]
    parts[:-1] = [folding.fold_message(part) for part in parts[:-1]]
    return f"{'/'.join(parts)} {frame.function}"


def find_short_error_cause(error: str) -> str:
    """Return the cause of an error text in a few words: `CardDeclined`, `HTTPStatusError 410`, or its first words."""
    return shorten_error_cause(parse_error(error))


def shorten_error_cause(error: ParsedError) -> str:
    """Return the cause of a parsed error in a few words: its class and HTTP status, or the start of its message."""
    name = shorten_class_name(error.kind)
    if name and (name not in _GENERIC or not error.template):
        return f"{name} {error.status}".rstrip()
    words = error.template
    if len(words) <= MAX_SHORT_CAUSE:
        return words
    return words[: MAX_SHORT_CAUSE - 1].rsplit(" ", 1)[0].rstrip(" ,:;(-") + "…"


def shorten_class_name(kind: str) -> str:
    """Return the name of an exception class without its module: `HTTPStatusError`, `Net::ReadTimeout`."""
    return re.split(r"[.\\/]", kind)[-1]


# Classes that are too general to name the cause.
_GENERIC = frozenset({"Error", "Exception", "RuntimeError", "StandardError", "RuntimeException", "Throwable"})


# -- groups ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the tree of error messages: one wording, in which `#` replaces data, or a split by one word."""

    words: tuple[str, ...] | None = None  # the wording; None: the messages are split
    at: int = 0  # the position of the word that splits them
    by_word: dict[str, _Node] = field(default_factory=dict)

    def find_matching_wording(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the common wording that an error message belongs to, or the message itself if no wording matches."""
        node: _Node | None = self
        while node is not None and node.words is None:
            node = node.by_word.get(words[node.at])
        if node is None or node.words is None:
            return words
        is_match = all(
            common_word in (message_word, "#") for common_word, message_word in zip(node.words, words, strict=True)
        )
        return node.words if is_match else words


class _Leaf(NamedTuple):
    """What the messages of one tree have in common: exception class, HTTP status, frame and number of words."""

    kind: str
    status: str
    place: str
    words: int
    is_own: bool  # the frame is in the job's own code, where one frame mostly raises one error


class Grouping:
    """The groups of a sample of errors, by class, frame, cause or message (`width`). Immutable after its creation."""

    def __init__(self, sample: Iterable[ParsedError] = (), width: Width = Width.CAUSE) -> None:
        self.width = width
        leaves: dict[_Leaf, set[tuple[str, ...]]] = {}
        for error in sample if width is not Width.MESSAGE else ():
            if self._is_grouped_by_wording(error):
                leaf, words = self._build_leaf_key(error)
                leaves.setdefault(leaf, set()).add(words)
        self._trees = {
            leaf: _build_wording_tree(wordings, MIN_FRAME_VALUES if leaf.is_own else MIN_DATA_VALUES)
            for leaf, wordings in leaves.items()
            if len(wordings) > 1
        }

    def find_group_key(self, error: ParsedError) -> Key:
        """Return the key of the group that an error belongs to, whether or not the error was in the sample."""
        if self.width is Width.MESSAGE:
            return error.kind, error.place, error.statement, error.template
        if self.width is Width.CLASS and error.kind:
            return (error.kind,)
        if self.width is Width.FRAME and error.place:
            return error.kind, error.status, error.place
        if error.statement:
            return error.kind, error.status, error.place, error.statement
        leaf, words = self._build_leaf_key(error)
        tree = self._trees.get(leaf)
        return error.kind, error.status, error.place, " ".join(tree.find_matching_wording(words) if tree else words)

    def _is_grouped_by_wording(self, error: ParsedError) -> bool:
        if self.width is Width.CLASS:
            return not error.kind
        return not error.statement and not (self.width is Width.FRAME and error.place)

    def _build_leaf_key(self, error: ParsedError) -> tuple[_Leaf, tuple[str, ...]]:
        words = tuple(error.template.split(" ", MAX_WORDS))
        is_own = error.frame is not None and not error.frame.is_library
        return _Leaf(error.kind, error.status, error.place, len(words), is_own), words


def _build_wording_tree(wordings: Collection[tuple[str, ...]], enough: int) -> _Node:
    """Split error messages with the same number of words until each part has one wording."""
    words_by_position = [set(place) for place in zip(*wordings, strict=True)]
    varying = [split_position for split_position, words in enumerate(words_by_position) if len(words) > 1]
    is_alike = len(varying) <= (1 - MIN_SIMILARITY) * len(words_by_position)
    # A word with few values may distinguish causes, unless other messages have data at its position.
    few = [
        split_position
        for split_position in varying
        if len(words_by_position[split_position]) < enough
        and not any("#" in word for word in words_by_position[split_position])
    ]
    if is_alike and not few:
        first_wording = next(iter(wordings))
        return _Node(
            tuple("#" if split_position in varying else word for split_position, word in enumerate(first_wording))
        )
    split_position = min(few or varying, key=lambda place: (len(words_by_position[place]), place))
    parts: dict[str, list[tuple[str, ...]]] = {}
    for words in wordings:
        parts.setdefault(words[split_position], []).append(words)
    return _Node(None, split_position, {word: _build_wording_tree(part, enough) for word, part in parts.items()})


def build_group_title(errors: Sequence[ParsedError], width: Width = Width.CAUSE) -> str:
    """Return the title of a group of errors: the class of the exception and the common part of the messages.

    The order of the errors does not matter.
    """
    templates = Counter(error.template for error in errors)
    kind = errors[0].kind if errors else ""
    if width is Width.CLASS and kind and len(templates) > 1:
        return kind
    return _join_class_and_message(kind, _merge_message_templates(templates))


def _join_class_and_message(kind: str, template: str) -> str:
    """Return exception class and message as one line. The class is left out if the message begins with it."""
    words = f"{kind}: {template}" if kind and template and not template.startswith(kind) else template or kind
    return words[: folding.MAX_CHARS].rstrip()


def _merge_message_templates(templates: Counter[str]) -> str:
    usual = min(templates, key=lambda template: (-templates[template], template))
    if templates[usual] >= MIN_USUAL_SHARE * templates.total():
        return usual
    wordings = [tuple(template.split(" ")) for template in templates]
    if len({len(words) for words in wordings}) == 1:
        merged = [next(iter(words)) if len(words) == 1 else "#" for words in map(set, zip(*wordings, strict=True))]
        if merged.count("#") <= len(merged) * MIN_SIMILARITY:
            return " ".join(merged)
    return f"{usual} …".lstrip()


__all__ = [
    "Grouping",
    "Key",
    "ParsedError",
    "Width",
    "parse_error",
    "find_short_error_cause",
    "shorten_class_name",
    "shorten_error_cause",
    "build_group_title",
]
