r"""Parse filter expressions into predicates over jobs, for `--filter` and for `/` on the screen.

    filter = { term }                     all terms must match; an empty filter matches every job
    term   = [ "!" ] [ field ":" ] what   "!" negates the term
    field  = id | job | call | err | worker | body        without one: any of them
           | "." path                              a member of the body: .customer.plan, .items.sku
    what   = [ "~" ] ( word | "words" | 'words' ) | /regular expression/

A word matches anywhere in a field, ignoring case. After a path it must be the whole value: `.id:47` does not match 147.
With `~` after the path, as in `.id:~47`, it matches anywhere in the value. A number also matches if it is written in
another way: `12.50` matches 12.5. An expression is Python's, ignoring case too; `\/` is a slash in it,
and the closing slash may be omitted at the end of the line. A quote or slash counts only at the start of a term, so
`welcome:42`, `it's` and `a/b` are plain words. There are no comparisons: `age > 10m` is refused. Bodies are searched as
far as they were fetched, MessagePack also as the JSON that the screen shows. A call is read from a body, and only some
systems have calls. A path selects a value in any of these; a body that was not fetched whole has no paths. A word that
begins with a dot and has no colon is a plain word.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rqtui.errors import UsageError
from rqtui.model import Job

FIELDS: dict[str, Callable[[Job], str]] = {
    "id": lambda job: _decode_text(job.id),
    "job": lambda job: job.name,
    "call": lambda job: job.call,
    "err": lambda job: job.error,
    "worker": lambda job: job.worker,
    "body": lambda job: _decode_body(job.body or b""),
}
_FIELD = re.compile(rf"({'|'.join(FIELDS)}|\.[^\s:\"'/!.][^\s:\"'/]*):")
_PATH = "."
_PART = "~"  # after a path: the words may be a part of the value
_DECIMAL = re.compile(r"[+-]?[0-9]{1,15}\.[0-9]{1,15}", re.ASCII)
_QUOTED = re.compile(r"""(["'])(.*?)\1(?=\s|$)""", re.DOTALL)
_PATTERN = re.compile(r"/((?:[^/\\]|\\.)*)(?:/(?=\s|$)|$)", re.DOTALL)
_WORD = re.compile(r"\S+")
_OPERATORS = frozenset({"<", "<=", ">", ">=", "=", "==", "!="})  # alone between two words they are a mistake


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a filter: a pattern that is searched in one field, in a path of the body, or in all fields.

    `field` is a key of `FIELDS`, a path that begins with a dot, or empty for all fields.
    """

    pattern: re.Pattern[str]
    field: str = ""
    is_negated: bool = False

    def __call__(self, job: Job) -> bool:
        """Return whether the job matches the term."""
        return any(map(self.pattern.search, self._yield_searched_texts(job))) != self.is_negated

    def _yield_searched_texts(self, job: Job) -> Iterator[str]:
        """Yield the texts of a job in which the pattern of this term is searched."""
        if self.field.startswith(_PATH):
            return _yield_values_at_path(job.body or b"", self.field.removeprefix(_PATH))
        return (FIELDS[field](job) for field in ((self.field,) if self.field else FIELDS))


@dataclass(frozen=True, slots=True)
class Filter:
    """The parsed terms of a filter expression. Call a filter with a job to test whether the job matches."""

    terms: tuple[Term, ...] = ()

    def __call__(self, job: Job) -> bool:
        """Return whether the job matches every term."""
        return all(term(job) for term in self.terms)

    @property
    def needs_job_bodies(self) -> bool:
        """Return whether a filter searches the bodies of jobs, which pages do not contain by default."""
        return any(term.field in ("", "call", "body") or term.field.startswith(_PATH) for term in self.terms)


def parse_filter(expression: str) -> Filter:
    """Parse the filter expression of `--filter` or of `/` on the screen. The module's docstring has the grammar.

    Raises UsageError for an expression that Python's `re` refuses, and for a term without a pattern.
    """
    return Filter(tuple(_parse_filter_terms(expression)))


def build_exact_term(field: str, value: str, others: Iterable[str] = ()) -> str:
    """Build a filter term that matches the jobs whose `field` is `value`, and none with one of the other values.

    `field` is a key of `FIELDS`, or a path that begins with a dot. Returns an empty text if no term can name the path.
    """
    if _FIELD.fullmatch(f"{field}:") is None:
        return ""
    is_ambiguous = any(other != value and _simplify_value(other) == _simplify_value(value) for other in others)
    words = "" if is_ambiguous or not field.startswith(_PATH) else _quote_words(value)
    if words:
        return f"{field}:{words}"
    pattern = _escape_pattern(value)
    return f"{field}:/^(?-i:{pattern})\\Z/" if is_ambiguous else f"{field}:/^{pattern}\\Z/"


def build_part_term(field: str, text: str) -> str:
    """Build a filter term that matches the jobs whose `field`, a key of `FIELDS`, contains `text`, ignoring case."""
    return f"{field}:{_quote_words(text) or f'/{_escape_pattern(text)}/'}"


def _simplify_value(value: str) -> str:
    """Return a text that is equal for two values which the words of a path's term do not distinguish."""
    return json.dumps(float(value)) if _DECIMAL.fullmatch(value) else value.casefold()


def _quote_words(words: str) -> str:
    """Return words as a filter takes them, in quotes where that is needed; empty if only an expression can be used."""
    if not words.isprintable():
        return ""
    if words and not re.search(r"\s", words) and words[0] not in "\"'/~":
        return words
    return next((f"{quote}{words}{quote}" for quote in "\"'" if quote not in words), "")


def _escape_pattern(text: str) -> str:
    """Return an expression that matches `text`, with slashes and unprintable characters escaped."""
    escaped = (re.escape(char) if char.isprintable() else f"\\U{ord(char):08x}" for char in text)
    return "".join(escaped).replace("/", r"\/")


def _parse_filter_terms(expression: str) -> Iterator[Term]:
    """Yield the terms of a filter expression in order."""
    position, end = 0, len(expression)
    while position < end:
        if expression[position].isspace():
            position += 1
            continue
        is_negated = (
            expression[position] == "!" and not expression[position + 1 : position + 2].isspace() and position + 1 < end
        )
        position += is_negated
        field = _FIELD.match(expression, position)
        if field:
            position = field.end()
        pattern, position = _parse_term_pattern(expression, position, field[1] if field else "")
        yield Term(pattern, field[1] if field else "", is_negated)


def _parse_term_pattern(expression: str, position: int, field: str) -> tuple[re.Pattern[str], int]:
    """Parse the search text of a filter term from `position` on: a quoted text, a regular expression or a word.

    Returns the compiled pattern and the position after it.
    """
    is_part = field.startswith(_PATH) and expression[position : position + 1] == _PART
    position += is_part
    is_whole_value = field.startswith(_PATH) and not is_part
    quoted = _QUOTED.match(expression, position)
    if quoted:
        return _compile_words(quoted[2], is_whole_value=is_whole_value), quoted.end()
    regular_expression = _PATTERN.match(expression, position)
    if regular_expression:
        return compile_filter_pattern(regular_expression[1].replace(r"\/", "/")), regular_expression.end()
    plain_word = _WORD.match(expression, position)
    if plain_word is None:
        raise UsageError(f'the filter ends after "{field}:"; write what to find, as in {field}:timeout.')
    if not field and plain_word[0] in _OPERATORS:
        raise UsageError(
            f'the filter has no comparisons, so "{plain_word[0]}" would be searched as text: '
            f"quote it, as in '\"{plain_word[0]}\"', if that is meant."
        )
    return _compile_words(plain_word[0], is_whole_value=is_whole_value), plain_word.end()


def _compile_words(words: str, *, is_whole_value: bool) -> re.Pattern[str]:
    """Compile words to a pattern that matches them anywhere in a text, or only a text that is equal to them."""
    pattern = re.escape(words)
    if not is_whole_value:
        return re.compile(pattern, re.IGNORECASE)
    if _DECIMAL.fullmatch(words):
        pattern += f"|{re.escape(json.dumps(float(words)))}"
    return re.compile(rf"\A(?:{pattern})\Z", re.IGNORECASE)


def compile_filter_pattern(pattern: str) -> re.Pattern[str]:
    """Compile the regular expression of a filter term, ignoring case. Raises UsageError if Python's `re` refuses it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # Python warns of `[[a]`, which may mean nested sets one day; that is no help to the user.
            return re.compile(pattern, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"the filter's expression /{pattern}/ cannot be read: {error}.") from None


def _decode_body(body: bytes) -> str:
    """Return a body as text. For MessagePack, a pickle or compressed data the decoded JSON is added."""
    if body[:1] < b"\x80" and body[:1] != b"x":
        return _decode_text(body)
    from rqtui.text.body import convert_binary_to_json  # Imported late because most bodies are JSON.

    return f"{_decode_text(body)}\n{convert_binary_to_json(body)}"


def _yield_values_at_path(body: bytes, path: str) -> Iterator[str]:
    """Yield the values at a path of a body, such as `customer.plan`, as text."""
    from rqtui.text import paths  # Imported late because most filters read no body.

    return map(paths.format_searchable_value, paths.find_values_at_path(paths.decode_body(body), path.split(".")))


def _decode_text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
