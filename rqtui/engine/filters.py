r"""Filters: a line that a person types, as a predicate over jobs; the same in `--filter` and behind `/` on the screen.

    filter = { term }                     all terms must match; nothing matches everything
    term   = [ "!" ] [ field ":" ] what   "!" turns it round
    field  = id | job | call | err | worker | body        without one: any of them
           | "." path                              a member of the body: .customer.plan, .items.sku
    what   = word | "words" | 'words' | /regular expression/

A word is found anywhere, in whatever case. An expression is Python's, in whatever case too; `\/` is a slash in it,
and the closing slash may be left away at the end of the line. A quote or slash counts only where a term begins, so
`welcome:42`, `it's` and `a/b` are plain words. Bodies are searched as far as they were fetched, those in MessagePack
also as the JSON that the screen shows. A call is read from a body, and only some systems have calls. A path goes into
whatever of these holds a value; a body that was not fetched whole has no paths. A word that begins with a dot and has
no colon is a plain word.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rqtui.errors import UsageError
from rqtui.model import Job

FIELDS: dict[str, Callable[[Job], str]] = {
    "id": lambda job: _text(job.id),
    "job": lambda job: job.name,
    "call": lambda job: job.call,
    "err": lambda job: job.error,
    "worker": lambda job: job.worker,
    "body": lambda job: _body(job.body or b""),
}
_FIELD = re.compile(rf"({'|'.join(FIELDS)}|\.[^\s:\"'/!.][^\s:\"'/]*):")
_PATH = "."
_QUOTED = re.compile(r"""(["'])(.*?)\1(?=\s|$)""", re.DOTALL)
_PATTERN = re.compile(r"/((?:[^/\\]|\\.)*)(?:/(?=\s|$)|$)", re.DOTALL)
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: `pattern` is searched in `field`: one of `FIELDS`, a path behind a dot, or in all when empty."""

    pattern: re.Pattern[str]
    field: str = ""
    is_negated: bool = False

    def __call__(self, job: Job) -> bool:
        """Whether the job fulfils it."""
        return any(map(self.pattern.search, self._texts(job))) != self.is_negated

    def _texts(self, job: Job) -> Iterator[str]:
        if self.field.startswith(_PATH):
            return _at_path(job.body or b"", self.field.removeprefix(_PATH))
        return (FIELDS[field](job) for field in ((self.field,) if self.field else FIELDS))


@dataclass(frozen=True, slots=True)
class Filter:
    """All terms of an expression; call it with a job."""

    terms: tuple[Term, ...] = ()

    def __call__(self, job: Job) -> bool:
        """Whether the job fulfils every term."""
        return all(term(job) for term in self.terms)

    @property
    def reads_body(self) -> bool:
        """Whether bodies have to be fetched for it."""
        return any(term.field in ("", "call", "body") or term.field.startswith(_PATH) for term in self.terms)


def parse(expression: str) -> Filter:
    """The filter that `expression` means; the grammar stands in the module's docstring.

    Raises UsageError for an expression that Python's `re` refuses, and for a term without anything to look for.
    """
    return Filter(tuple(_terms(expression)))


def _terms(expression: str) -> Iterator[Term]:
    at, end = 0, len(expression)
    while at < end:
        if expression[at].isspace():
            at += 1
            continue
        is_negated = expression[at] == "!" and not expression[at + 1 : at + 2].isspace() and at + 1 < end
        at += is_negated
        field = _FIELD.match(expression, at)
        if field:
            at = field.end()
        pattern, at = _what(expression, at, field[1] if field else "")
        yield Term(pattern, field[1] if field else "", is_negated)


def _what(expression: str, at: int, field: str) -> tuple[re.Pattern[str], int]:
    quoted = _QUOTED.match(expression, at)
    if quoted:
        return re.compile(re.escape(quoted[2]), re.IGNORECASE), quoted.end()
    written = _PATTERN.match(expression, at)
    if written:
        return compiled(written[1].replace(r"\/", "/")), written.end()
    word = _WORD.match(expression, at)
    if word is None:
        raise UsageError(f'the filter ends after "{field}:"; say what to look for, as in {field}:timeout.')
    return re.compile(re.escape(word[0]), re.IGNORECASE), word.end()


def compiled(pattern: str) -> re.Pattern[str]:
    """An expression in whatever case; raises UsageError for one that Python's `re` refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of `[[a]`, which may mean a set in a set one day: that is no news for a person
            return re.compile(pattern, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"the filter's expression /{pattern}/ cannot be read: {error}.") from None


def _body(body: bytes) -> str:
    """Its bytes as text and, of MessagePack, a pickle or what is compressed, what they mean."""
    if body[:1] < b"\x80" and body[:1] != b"x":
        return _text(body)
    from rqtui.text.body import meant  # late: most bodies are JSON

    return f"{_text(body)}\n{meant(body)}"


def _at_path(body: bytes, path: str) -> Iterator[str]:
    """What stands at a path of the body, as text."""
    from rqtui.text import paths  # late: most filters look into no body

    return map(paths.as_text, paths.values_at(paths.decoded(body), path.split(".")))


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
