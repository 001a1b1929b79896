"""Parse the text of an error: the class of the exception, its message, and the frame that raised it.

The text is what a job stored when it failed: a traceback of Python, a backtrace of Ruby, PHP, Node, Java, .NET or Go,
or plain text. Each language is a row of `_LANGUAGES`. The language is detected from the text, never from the queue
system. At most 8 KiB of a text are read: its beginning and its end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

CUT = "\n  ... "  # replaces the middle of a long error, also in the errors of a page of jobs
HALF_CHARS = 4_096  # characters that are read of the beginning and of the end of an error
MIN_MESSAGE_WORDS = 2  # a `raise` statement with this many words has its own message
MAX_LINE = 600  # characters of the line that describes the error


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a traceback. `source` is the statement as the traceback shows it, or empty."""

    path: str
    line: str
    function: str
    source: str = ""

    @property
    def is_library(self) -> bool:
        """Whether the frame is in a library or a language runtime, judging by its path and function."""
        return _LIBRARY.search(self.path) is not None or _RUNTIME.match(self.function) is not None

    @property
    def short(self) -> str:
        """File name and line of a traceback frame: `charge.py:88`."""
        name = re.split(r"[\\/]", self.path)[-1] or self.path
        return f"{name}:{self.line}"


@dataclass(frozen=True, slots=True)
class Trace:
    """The parsed error of a failed job: exception class, message, and the frames that raised the error."""

    kind: str  # the class of the exception; empty if none is named
    message: str  # the message
    frame: Frame | None = None  # the innermost frame of the job's own code, or of all if none is its own
    raised: Frame | None = None  # the innermost frame

    @property
    def statement(self) -> str:
        """The `raise` statement of `frame`, if it contains its own message, so that it identifies the cause.

        Empty if there is no such statement, or if it only passes on a message: `raise Failed(message)`.
        """
        frame = self.frame
        if frame is None or frame is not self.raised or not frame.source.startswith("raise "):
            return ""
        message = " ".join(_PLACEHOLDER.sub("", literal[2]) for literal in _LITERAL.finditer(frame.source))
        return frame.source if len(_WORD.findall(message)) >= MIN_MESSAGE_WORDS else ""


_LITERAL = re.compile(r"([\"'])(.*?)\1")
_PLACEHOLDER = re.compile(r"\{[^}]*\}|%\(\w+\)\w|%\w")
_WORD = re.compile(r"[^\W\d_]{2,}")
_LIBRARY = re.compile(
    r"(?:site|dist)-packages|[\\/]lib(?:64)?[\\/](?:python|ruby)|<frozen|(?:^|[\\/])gems[\\/]|^<internal:"
    r"|node_modules|^node:|^internal/|^(?:events|net|fs|module|timers|stream|_stream_\w+|next_tick)\.js$"
    r"|(?:^|[\\/])vendor[\\/]|[\\/]go/pkg/mod/|/go/src/(?:runtime|net|database|encoding)|/usr/local/go/"
    r"|^(?:java|javax|jakarta|jdk|sun|com\.sun|kotlin|scala|io\.netty|org\.(?:springframework|hibernate|apache"
    r"|postgresql|quartz)|com\.(?:mysql|zaxxer|fasterxml))\."
)
_RUNTIME = re.compile(r"(?:runtime\.|panic$|processTicksAndRejections|System\.|Microsoft\.)")


@dataclass(frozen=True, slots=True)
class _Language:
    """The pattern of the traceback frames of one programming language. `mark` occurs in each of its tracebacks."""

    mark: str
    frames: re.Pattern[str]
    is_innermost_last: bool = False


_LANGUAGES = (
    _Language(
        'File "',
        re.compile(
            r'^[ \t|+]*File "(?P<path>[^"\n]{1,400})", line (?P<line>\d+)(?:, in (?P<function>[^\n]{1,200}))?'
            r'(?:\n(?![ \t|+]*File ")[ \t|+]+(?P<source>[^\n]{1,300}))?',
            re.MULTILINE,
        ),
        is_innermost_last=True,
    ),
    _Language(
        ":in ",
        re.compile(
            r"^[ \t]*(?:from |\d+: from |Caused by: )?(?P<path>[^\s:][^\n:]{0,300}):(?P<line>\d+):in "
            r"[`'](?P<function>[^'\n]{1,200})'",
            re.MULTILINE,
        ),
    ),
    _Language(
        ".php",
        re.compile(
            r"^#\d+ (?P<path>[^\n(]{1,300}\.php)\((?P<line>\d+)\): (?P<function>[^\n(]{1,200})"
            r"|(?<= in )(?P<path2>[^\s:]{1,300}\.php)(?::| on line )(?P<line2>\d+)",
            re.MULTILINE,
        ),
    ),
    _Language(
        "at ",
        re.compile(
            r"^[ \t]*at (?P<path>[\w.$<>/@-]{1,300}?)\.(?P<function>[\w$<>]+)\((?P<file>[\w$-]+\.\w+):(?P<line>\d+)\)",
            re.MULTILINE,
        ),
    ),
    _Language(
        ":line ",
        re.compile(
            r"^[ \t]*at (?P<function>[^\n(]{1,300})\([^\n]{0,300}\) in (?P<path>[^\n]{1,300}):line (?P<line>\d+)",
            re.MULTILINE,
        ),
    ),
    _Language(
        "at ",
        re.compile(
            r"^[ \t]*at (?:async )?(?:(?P<function>[^\n(]{1,200}) \()?(?P<path>[^\s()][^\n()]{0,300}?)"
            r":(?P<line>\d+):\d+\)?$",
            re.MULTILINE,
        ),
    ),
    _Language(
        ".go:",
        re.compile(
            r"^(?P<function>[^\s(][^\n]{0,300}?)\([^\n]{0,400}\)\n[ \t]+(?P<path>[^\n:]{1,300}\.go):(?P<line>\d+)",
            re.MULTILINE,
        ),
    ),
)

# The class before a message: `redis.exceptions.TimeoutError: …`, `Net::ReadTimeout`, `App\Jobs\Failed: …`.
_CLASS = re.compile(
    r"(?:[A-Za-z_]\w{0,60}(?:\.|::|\\|/|(?=:))){0,8}?[A-Z]\w{0,80}(?=: |:$|$|\()"
    r"(?![^\n]*:in [`'])(?!\((?!['\"]|[A-Z]\w*\(|\)|\d+, ['\"]))"
)
_JAVA_CAUSE = re.compile(r"^Caused by: (?P<head>[^\n]+)", re.MULTILINE)
_RUBY_HEAD = re.compile(r"^[^\n]{1,400}?:\d+:in [`'][^'\n]{1,200}': (?P<said>[^\n]*?) \((?P<kind>[A-Z][\w:]*)\)$", re.M)
_PHP_PLACE = re.compile(r" in [^\s:]{1,300}\.php(?::| on line )\d+$")
_NODE_CODE = re.compile(r"(?P<kind>[A-Z]\w*) \[(?P<code>[A-Z][A-Z0-9_]+)\](?=: |$)")
_UNTELLING = re.compile(r"^(?:goroutine \d+|\[signal |Stack trace:|Traceback(?: \(most recent call last\))?:?$)")


def truncate_error_middle(error: str) -> str:
    """Return the first and the last 4 KiB of an error text; a shorter error is returned unchanged."""
    return error if len(error) <= 2 * HALF_CHARS else f"{error[:HALF_CHARS]}{CUT}{error[-HALF_CHARS:]}"


def parse_traceback(error: str) -> Trace:
    """Parse the error text of a failed job into class, message and frames, as far as they can be recognized."""
    return _parse_truncated_traceback(truncate_error_middle(error))


def summarize_error(error: str) -> str:
    """Return the class and the message of an error on one line, wherever its language writes them."""
    trace = parse_traceback(error)
    says_both = trace.message.startswith(f"{trace.kind} ")  # Net::ReadTimeout with #<TCPSocket:(closed)>
    return trace.message if says_both else ": ".join(part for part in (trace.kind, trace.message) if part)


@lru_cache(512)  # The rows of a page are drawn repeatedly.
def _parse_truncated_traceback(text: str) -> Trace:
    match = next(((language, frames) for language in _LANGUAGES if (frames := _match_frames(language, text))), None)
    if match is None:
        return _split_class_and_message(_find_summary_line(text), None, None)
    language, frames = match
    is_last = language.is_innermost_last
    if CUT in text:  # The frames on the other side are those of the runtime and its job runner.
        cut = text.index(CUT)
        frames = [match_and_frame for match_and_frame in frames if (match_and_frame.start() > cut) == is_last]
        if not frames:
            return _split_class_and_message(
                _find_summary_line(text[cut + len(CUT) :] if is_last else text[:cut]), None, None
            )
    ordered = [(frame_match, _build_frame(frame_match)) for frame_match in (reversed(frames) if is_last else frames)]
    if not is_last and (causes := list(_JAVA_CAUSE.finditer(text))):
        cause_frames = [
            match_and_frame for match_and_frame in ordered if match_and_frame[0].start() >= causes[-1].start()
        ]
        if cause_frames:  # Frameworks wrap the original exception; the last cause is the original one.
            return _split_class_and_message(causes[-1]["head"], *_choose_frames([frame for _at, frame in cause_frames]))
    own_frame, raising_frame = _choose_frames([frame for _at, frame in ordered])
    if ruby_head := _RUBY_HEAD.search(text):
        return Trace(ruby_head["kind"], ruby_head["said"][:MAX_LINE], own_frame, raising_frame)
    return _split_class_and_message(
        _find_line_after_frames(text, frames[-1]) if is_last else _find_line_before_frames(text, frames[0]),
        own_frame,
        raising_frame,
    )


def _match_frames(language: _Language, text: str) -> list[re.Match[str]]:
    return list(language.frames.finditer(text)) if language.mark in text else []


def _build_frame(match: re.Match[str]) -> Frame:
    parts = match.groupdict()
    path = parts["path"] or parts.get("path2") or ""
    line = parts["line"] or parts.get("line2") or ""
    function, source = parts["function"] or "", (parts.get("source") or "").strip()
    if file := parts.get("file"):  # Java has a class in place of the path; both are kept, and the file is shown.
        return Frame(f"{path}/{file}", line, function)
    return Frame(path, line, function.strip(), source)


def _choose_frames(frames: list[Frame]) -> tuple[Frame | None, Frame | None]:
    """Return two frames of a traceback: the innermost one of the job's own code, and the innermost one of all.

    If no frame is in the job's own code, both are the same.
    """
    if not frames:
        return None, None
    return next((frame for frame in frames if not frame.is_library), frames[0]), frames[0]


def _find_line_after_frames(text: str, last_frame: re.Match[str]) -> str:
    """Return the first unindented line after the last frame of a traceback, where Python writes class and message."""
    lines = [line for line in text[last_frame.end() :].splitlines() if line.strip(" \t|+-^~")]
    bare = [line.lstrip("| ") for line in lines if not line.startswith((" ", "\t")) or line.lstrip().startswith("|")]
    return bare[0] if bare else (lines or text.splitlines() or [""])[-1]


def _find_line_before_frames(text: str, first_frame: re.Match[str]) -> str:
    """Return the first meaningful line before the first frame of a traceback.

    Without such a line, return the line that describes the error best.
    """
    start = text.rfind("\n", 0, first_frame.start()) + 1
    preceding_lines = [line for line in text[:start].splitlines() if line.strip() and not _UNTELLING.match(line)]
    return preceding_lines[0] if preceding_lines else _find_summary_line(text)


def _find_summary_line(text: str) -> str:
    """Return the line that describes an error without frames.

    If indented lines follow the first line, that is the first line, or a line that names a class. Otherwise it is the
    last line, where commands print why they ended.
    """
    lines = [line for line in text.splitlines() if line.strip() and not _UNTELLING.match(line)]
    if not lines:
        return text.strip()
    if line_with_class := next((line for line in lines if _CLASS.match(line)), None):
        return line_with_class
    return lines[0] if len(lines) > 1 and lines[1][0].isspace() else lines[-1]


def _split_class_and_message(line: str, own_frame: Frame | None, raising_frame: Frame | None) -> Trace:
    """Split the line that describes an error into exception class and message."""
    if ruby_head := _RUBY_HEAD.match(line):
        return Trace(ruby_head["kind"], ruby_head["said"][:MAX_LINE], own_frame, raising_frame)
    text = _PHP_PLACE.sub("", " ".join(line.split())[: 2 * MAX_LINE])[:MAX_LINE]
    text = text.removeprefix("Uncaught ").removeprefix("panic: ") if own_frame is None else text
    if code := _NODE_CODE.match(text):
        return Trace(code["kind"], f"{code['code']}{text[code.end() :]}", own_frame, raising_frame)
    class_match = _CLASS.match(text)
    if class_match is None or not class_match[0]:
        return Trace("", text, own_frame, raising_frame)
    kind, message = class_match[0], text[class_match.end() :].removeprefix(":").strip()
    while message.startswith(f"{kind}: "):  # Some errors repeat their class.
        message = message.removeprefix(f"{kind}:").strip()
    return Trace(kind, message, own_frame, raising_frame)
