r"""Parse filter expressions into predicates over jobs, for `--filter` and for `/` on the screen.

    filter     = { term }                 all terms must match; an empty filter matches every job
    term       = [ "!" ] ( [ field ":" ] what | comparison )          "!" negates the term
    field      = id | job | call | err | worker | body    without one: any of them
               | "." path                          a member of the body: .customer.plan, .items.sku
    what       = [ "~" ] ( word | "words" | 'words' ) | /regular expression/
    comparison = ( age | attempts | "." path ) ( "<" | "<=" | ">" | ">=" ) number

A word matches anywhere in a field, ignoring case. After a path it must be the whole value: `.id:47` does not match 147.
With `~` after the path, as in `.id:~47`, it matches anywhere in the value. A number also matches if it is written in
another way: `12.50` matches 12.5. An expression is Python's, ignoring case too; `\/` is a slash in it,
and the closing slash may be omitted at the end of the line. A quote or slash counts only at the start of a term, so
`welcome:42`, `it's` and `a/b` are plain words. Bodies are searched as far as they were fetched, MessagePack also as the
JSON that the screen shows. A call is read from a body, and only some systems have calls. A path selects a value in any
of these; a body that was not fetched whole has no paths. A word that begins with a dot is a plain word without a colon.

A comparison may have spaces around its operator: `age > 10m`, `attempts>=3`, `.amount<100`. `age` is a duration: how
long the job is in its place, or since it was enqueued if the system does not store that (`job_times.find_start_ms`).
A job without the number matches no comparison.
"""

from __future__ import annotations

import json
import operator
import re
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from rqtui.durations import parse_duration
from rqtui.engine.job_times import find_start_ms
from rqtui.errors import UsageError
from rqtui.model import Job
from rqtui.system_base.system import System
from rqtui.text.names import join_names

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
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_QUOTED = re.compile(r"""(["'])(.*?)\1(?=\s|$)""", re.DOTALL)
_PATTERN = re.compile(r"/((?:[^/\\]|\\.)*)(?:/(?=\s|$)|$)", re.DOTALL)
_WORD = re.compile(r"\S+")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARISON = re.compile(r"(age|attempts|\.[^\s:\"'/!.<>=][^\s:\"'/<>=]*)\s*(<=|>=|<|>)\s*([^\s<>=]\S*)")
_LONE_OPERATORS = frozenset({*_OPERATORS, "=", "==", "!="})  # between words that cannot be compared they are a mistake


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a filter: a pattern that is searched in one field, in a path of the body, or in all fields.

    `field` is a key of `FIELDS`, a path that begins with a dot, or empty for all fields.
    """

    pattern: re.Pattern[str]
    field: str = ""
    is_negated: bool = False

    def __call__(self, job: Job, _now_ms: int) -> bool:
        """Return whether the job matches the term."""
        return any(map(self.pattern.search, self._yield_searched_texts(job))) != self.is_negated

    def _yield_searched_texts(self, job: Job) -> Iterator[str]:
        """Yield the texts of a job in which the pattern of this term is searched."""
        if self.field.startswith(_PATH):
            return _yield_values_at_path(job.body or b"", self.field.removeprefix(_PATH))
        return (FIELDS[field](job) for field in ((self.field,) if self.field else FIELDS))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition of a filter that compares a number of a job: its age in ms, its attempts, or a path of its body."""

    field: str  # age, attempts, or a path that begins with a dot
    operator: str
    number: float
    is_negated: bool = False
    systems_without_attempts: frozenset[str] = frozenset()

    def __call__(self, job: Job, now_ms: int) -> bool:
        """Return whether the job matches the comparison."""
        compare = _OPERATORS[self.operator]
        return any(compare(number, self.number) for number in self._yield_numbers(job, now_ms)) != self.is_negated

    def _yield_numbers(self, job: Job, now_ms: int) -> Iterator[float]:
        if self.field == "attempts":
            if job.system not in self.systems_without_attempts:
                yield job.attempts
        elif self.field == "age":
            if (start_ms := find_start_ms(job)) is not None:
                yield max(0, now_ms - start_ms)
        else:
            for text in _yield_values_at_path(job.body or b"", self.field.removeprefix(_PATH)):
                if _NUMBER.fullmatch(text):
                    yield float(text)


@dataclass(frozen=True, slots=True)
class Filter:
    """The parsed terms of a filter expression. Call a filter with a job to test whether the job matches.

    `now_ms` returns the time (ms since 1970) by which ages are computed; None if no term compares an age.
    """

    terms: tuple[Term | Comparison, ...] = ()
    now_ms: Callable[[], int] | None = None

    def __call__(self, job: Job) -> bool:
        """Return whether the job matches every term."""
        now_ms = self.now_ms() if self.now_ms is not None else 0
        return all(term(job, now_ms) for term in self.terms)

    @property
    def text_terms(self) -> tuple[Term, ...]:
        """The terms that search a text, without the comparisons."""
        return tuple(term for term in self.terms if isinstance(term, Term))

    @property
    def needs_job_bodies(self) -> bool:
        """Return whether a filter searches the bodies of jobs, which pages do not contain by default."""
        return any(term.field in ("", "call", "body") or term.field.startswith(_PATH) for term in self.terms)


def parse_filter(expression: str, systems: Collection[System] = ()) -> Filter:
    """Parse the filter expression of `--filter` or of `/` on the screen. The module's docstring has the grammar.

    `systems` are those whose jobs are filtered. Ages are computed by their server's clock, without systems by the clock
    of this machine. Raises UsageError for an expression that Python's `re` refuses, a term without a pattern, a
    comparison with no number, and a comparison of attempts if no system stores them.
    """
    without_attempts = frozenset(system.name for system in systems if "tried" not in system.known_fields)
    terms = tuple(
        replace(term, systems_without_attempts=without_attempts) if isinstance(term, Comparison) else term
        for term in _parse_filter_terms(expression)
    )
    fields = {term.field for term in terms if isinstance(term, Comparison)}
    if "attempts" in fields and systems and len(without_attempts) == len(systems):
        names = join_names(sorted(without_attempts))
        raise UsageError(f"the filter cannot compare attempts: {names} does not store how often a job was tried.")
    newest = max(systems, key=lambda system: system.last_reply_s, default=None)
    clock = newest.now_ms if newest is not None else lambda: time.time_ns() // 1_000_000
    return Filter(terms, clock if "age" in fields else None)


def parse_text_filter(expression: str) -> Filter:
    """Parse a filter for rows that are no jobs, such as workers. Raises UsageError for a comparison too."""
    parsed = parse_filter(expression)
    if len(parsed.text_terms) < len(parsed.terms):
        raise UsageError("the filter can compare age, attempts and body fields of jobs only, and these are no jobs.")
    return parsed


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
    pattern = escape_pattern(value)
    return f"{field}:/^(?-i:{pattern})\\Z/" if is_ambiguous else f"{field}:/^{pattern}\\Z/"


def build_part_term(field: str, text: str) -> str:
    """Build a filter term that matches the jobs whose `field`, a key of `FIELDS`, contains `text`, ignoring case."""
    return f"{field}:{_quote_words(text) or f'/{escape_pattern(text)}/'}"


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


def escape_pattern(text: str) -> str:
    """Return an expression that matches `text`, with slashes and unprintable characters escaped."""
    escaped = (re.escape(char) if char.isprintable() else f"\\U{ord(char):08x}" for char in text)
    return "".join(escaped).replace("/", r"\/")


def _parse_filter_terms(expression: str) -> Iterator[Term | Comparison]:
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
        elif comparison := _COMPARISON.match(expression, position):
            yield Comparison(comparison[1], comparison[2], _parse_compared_number(*comparison.groups()), is_negated)
            position = comparison.end()
            continue
        pattern, position = _parse_term_pattern(expression, position, field[1] if field else "")
        yield Term(pattern, field[1] if field else "", is_negated)


def _parse_compared_number(field: str, sign: str, text: str) -> float:
    """Parse the number of a comparison; an age is returned in ms. Raises UsageError for a text that is no number."""
    if field == "age":
        return parse_duration(text, f"the filter: the age in {field}{sign}{text}")
    if not _NUMBER.fullmatch(text):
        example = "attempts>=3" if field == "attempts" else f"{field}>100"
        raise UsageError(f'the filter compares {field} with a number, as in {example}, and "{text}" is none.')
    return float(text)


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
    if not field and plain_word[0] in _LONE_OPERATORS:
        raise UsageError(
            "the filter compares with < <= > >= only age, attempts and body fields, as in age>10m, attempts>=3 or "
            f""".amount>100; write '"{plain_word[0]}"' to search for this text."""
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
