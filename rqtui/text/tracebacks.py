"""What the text of an error says: the exception's class, the line that says what happened, the frame that raised it.

The text is what a job left behind: a traceback of Python, a backtrace of Ruby, PHP, Node, Java, .NET or Go, or a line
of words. A language is a row of `_LANGUAGES`; how its frames look is read from the text, never from the system that
the job belongs to. At most 8 KiB of a text are looked at: its beginning and its end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

CUT = "\n  ... "  # stands where the middle of an error was left out, also in what a page of jobs has of it
HALF = 4_096  # characters of the beginning and of the end of an error that are looked at
OWN_WORDS = 2  # so many words in a statement that raises are a message of its own
LINE = 600  # characters of the line that says what happened


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in a program. `source` is the statement as the traceback shows it; empty where it shows none."""

    path: str
    line: str
    function: str
    source: str = ""

    @property
    def is_library(self) -> bool:
        """Whether the code is a library's or a runtime's, as far as its path tells."""
        return _LIBRARY.search(self.path) is not None or _RUNTIME.match(self.function) is not None

    @property
    def short(self) -> str:
        """`charge.py:88`."""
        name = re.split(r"[\\/]", self.path)[-1] or self.path
        return f"{name}:{self.line}"


@dataclass(frozen=True, slots=True)
class Trace:
    """The parts of an error. `kind` is the class of the exception, empty where none is named; `said` its message.

    `frame` is the innermost frame of the job's own code, or of all where none is its own; `raised` the innermost.
    """

    kind: str
    said: str
    frame: Frame | None = None
    raised: Frame | None = None

    @property
    def statement(self) -> str:
        """The statement of `frame` that raised the exception in words of its own, so that it names the cause.

        Empty where there is none, and where the statement passes on what it was given: `raise Failed(message)`.
        """
        frame = self.frame
        if frame is None or frame is not self.raised or not frame.source.startswith("raise "):
            return ""
        said = " ".join(_PLACEHOLDER.sub("", found[2]) for found in _LITERAL.finditer(frame.source))
        return frame.source if len(_WORD.findall(said)) >= OWN_WORDS else ""


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
    """How frames look in a language: `mark` stands in every such text; the innermost frame stands first or last."""

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


def bounded(error: str) -> str:
    """The beginning and the end of an error, 8 KiB together, whatever its length."""
    return error if len(error) <= 2 * HALF else f"{error[:HALF]}{CUT}{error[-HALF:]}"


def read(error: str) -> Trace:
    """The parts of an error: its class, message and frame, as far as they can be told."""
    return _read(bounded(error))


def line_of(error: str) -> str:
    """The line of an error that says what happened, wherever its language puts it: the class and the message."""
    trace = read(error)
    says_both = trace.said.startswith(f"{trace.kind} ")  # Net::ReadTimeout with #<TCPSocket:(closed)>
    return trace.said if says_both else ": ".join(part for part in (trace.kind, trace.said) if part)


@lru_cache(512)  # the rows of a page are drawn again and again
def _read(text: str) -> Trace:
    found = next(((language, frames) for language in _LANGUAGES if (frames := _frames(language, text))), None)
    if found is None:
        return _named(_line(text), None, None)
    language, frames = found
    is_last = language.is_innermost_last
    if (cut := text.find(CUT)) >= 0:  # the frames beyond it are those of a runtime and its job runner
        frames = [each for each in frames if (each.start() > cut) == is_last]
        if not frames:
            return _named(_line(text[cut + len(CUT) :] if is_last else text[:cut]), None, None)
    ordered = [(at, _frame(at)) for at in (reversed(frames) if is_last else frames)]
    if not is_last and (causes := list(_JAVA_CAUSE.finditer(text))):
        behind = [each for each in ordered if each[0].start() > causes[-1].start()]
        if behind:  # what a framework wraps says nothing: the cause behind all the others does
            return _named(causes[-1]["head"], *_chosen([frame for _at, frame in behind]))
    own, raised = _chosen([frame for _at, frame in ordered])
    if head := _RUBY_HEAD.search(text):
        return Trace(head["kind"], head["said"][:LINE], own, raised)
    return _named(_behind(text, frames[-1]) if is_last else _before(text, frames[0]), own, raised)


def _frames(language: _Language, text: str) -> list[re.Match[str]]:
    return list(language.frames.finditer(text)) if language.mark in text else []


def _frame(found: re.Match[str]) -> Frame:
    parts = found.groupdict()
    path = parts["path"] or parts.get("path2") or ""
    line = parts["line"] or parts.get("line2") or ""
    function, source = parts["function"] or "", (parts.get("source") or "").strip()
    if file := parts.get("file"):  # a class where others have a path: both are wanted, the file to be shown
        return Frame(f"{path}/{file}", line, function)
    return Frame(path, line, function.strip(), source)


def _chosen(frames: list[Frame]) -> tuple[Frame | None, Frame | None]:
    """The innermost frame of the job's own code, else of all, and the innermost of all."""
    if not frames:
        return None, None
    return next((frame for frame in frames if not frame.is_library), frames[0]), frames[0]


def _behind(text: str, last: re.Match[str]) -> str:
    """The first line behind the last frame that stands where no frame stands: at its beginning."""
    lines = [line for line in text[last.end() :].splitlines() if line.strip(" \t|+-^~")]
    bare = [line.lstrip("| ") for line in lines if not line.startswith((" ", "\t")) or line.lstrip().startswith("|")]
    return bare[0] if bare else (lines or text.splitlines() or [""])[-1]


def _before(text: str, first: re.Match[str]) -> str:
    """The first telling line before the first frame; the frame's own line where nothing stands before."""
    start = text.rfind("\n", 0, first.start()) + 1
    before = [line for line in text[:start].splitlines() if line.strip() and not _UNTELLING.match(line)]
    return before[0] if before else _line(text)


def _line(text: str) -> str:
    """Of an error without frames the line that says what happened.

    Of a message with indented lines below it the first, or the one that names a class; else the last, which is where
    commands say why they ended.
    """
    lines = [line for line in text.splitlines() if line.strip() and not _UNTELLING.match(line)]
    if not lines:
        return text.strip()
    if named := next((line for line in lines if _CLASS.match(line)), None):
        return named
    return lines[0] if len(lines) > 1 and lines[1][0].isspace() else lines[-1]


def _named(line: str, own: Frame | None, raised: Frame | None) -> Trace:
    """The class and the message of a line."""
    text = _PHP_PLACE.sub("", " ".join(line.split())[: 2 * LINE])[:LINE]
    text = text.removeprefix("Uncaught ").removeprefix("panic: ") if own is None else text
    if code := _NODE_CODE.match(text):
        return Trace(code["kind"], f"{code['code']}{text[code.end() :]}", own, raised)
    named = _CLASS.match(text)
    if named is None or not named[0]:
        return Trace("", text, own, raised)
    kind, message = named[0], text[named.end() :].removeprefix(":").strip()
    while message.startswith(f"{kind}: "):  # said twice
        message = message.removeprefix(f"{kind}:").strip()
    return Trace(kind, message, own, raised)
