"""Find secrets in text and data, and mask them for every view, command, log, report and copy to the clipboard.

A value is secret if its name says so (`password`, `api_key`, `[redact] keys` of the config file), wherever the name is:
a key of JSON, msgpack or a pickle, an argument, a header, a query string, or a repr inside a traceback. Texts are
masked by pattern and never parsed, because a traceback or a slow-log entry is often truncated inside its JSON.

`mask_text` is for data. `mask_printed_text` is for finished lines and sentences, in which a queue may be called
`password-reset: `, so only text that cannot be a name is masked. Undo records, raw bodies and everything sent back to
Redis are never masked.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import unquote

from rqtui.errors import UsageError

MASK = "••••••••"
_NAMES = "password|passwd|passphrase|token|secret|authorization|cookie|credential"
_WORDS = _NAMES + "|api[_ -]?key|private[_ -]?key|access[_ -]?key"
# Every text with a secret contains one of these.
_HINTS = ("pass", "token", "secret", "autho", "cookie", "credential", "key", "://", "bearer")
_ENCODED = ("eyJ", "eyA", "eyI", "W1", "Wy", "W3")  # the beginnings of JSON in base64
_is_revealed: ContextVar[bool] = ContextVar("is_revealed", default=False)


class _Rules(NamedTuple):
    """The compiled patterns that find secrets: secret names, names with their value, lists of a name and a value."""

    name: re.Pattern[str]
    pair: re.Pattern[str]  # a name with its value, in data
    output_pair: re.Pattern[str]  # a name with its value, in finished output
    couple: re.Pattern[str]  # a list of a name and a value
    near: re.Pattern[str]  # a name in binary data, with the bytes after it
    has_own_words: bool  # True: a user's pattern may match a text without any of `_HINTS`


# A value after `:` or `=`. Each repetition before it is bounded: otherwise 64 kB of one letter take two minutes.
_VALUE = rf"""(?!\\{{0,15}}["']?(?:{MASK}|\*\*\*)(?!\w))
    (?: (?P<quote>\\{{1,15}}["']) .*? (?: (?<!\\)(?P=quote) | \Z )      # a string inside a string
      | b?"[^"\\]*(?:\\.[^"\\]*)*"? | b?'[^'\\]*(?:\\.[^'\\]*)*'? | [\[{{].*   # a list or an object: to the end
      | (?:bearer|basic|digest|token)\s{{1,8}}[^\s,;&"'}}\]\\]+
      | (?<=cookie:\ )[^\n"'}}\]\\]+                                     # all cookies of the header
      | (?<=:\ )[^\n,;&"'}}\]\\]+ | [^\s,;&"'}}\]\\]+ )                   # to the end of the line; a word
    (?: (?<=[:=]) \s{{0,8}}+ (?: "[^"\\]*(?:\\.[^"\\]*)*"? | '[^'\\]*(?:\\.[^'\\]*)*'? ) )?  # `x=a(token: "y"`
"""


def _compile_mask_rules(patterns: Sequence[str]) -> _Rules:
    words = "|".join([_WORDS, *(f"(?:{pattern})" for pattern in patterns)])
    flags = re.IGNORECASE | re.VERBOSE | re.DOTALL
    name = rf"(?:(?-x:{words}))[\w.-]{{0,64}}"
    pair = rf"""(?P<key>{name} \\{{0,15}}["']? \s{{0,8}}+ [:=]>?+ \s{{0,8}}+) {_VALUE}"""
    headers = r"(?:authorization|cookie|api[_-]?key)[\w.-]{0,64}:\s{1,8}+"
    output_pair = (
        rf"""(?P<key>{name} (?:\\{{0,15}}["']\s{{0,8}}[:=] | \s{{0,8}}=)>?+ \s{{0,8}}+ | {headers}) {_VALUE}"""
    )
    couple = rf"""(?P<key>[(\[]\s?b?["'][\w.-]{{0,64}}{name}["'],\s?) b?(?:"[^"]*"?|'[^']*'?)"""
    near = re.compile(rf"(?P<key>{words}).{{1,48}}", re.IGNORECASE | re.DOTALL)
    return _Rules(
        re.compile(words, re.IGNORECASE),
        re.compile(pair, flags),
        re.compile(output_pair, flags),
        re.compile(couple, flags),
        near,
        bool(patterns),
    )


_in_force = [_compile_mask_rules(())]


def set_mask_patterns(patterns: Sequence[str]) -> None:
    """Mask also the values whose name matches one of these regular expressions. Replaces the patterns of earlier calls.

    Raises UsageError for a pattern that Python's `re` refuses.
    """
    for pattern in patterns:
        try:
            _compile_mask_rules((pattern,))
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"the redaction pattern {pattern!r} cannot be read: {error}.") from None
    _in_force[:] = [_compile_mask_rules(patterns)]


@contextmanager
def reveal_secrets(is_revealed: bool = True) -> Iterator[None]:
    """Show secrets unmasked inside this `with` block, in this thread only. `mask_url` still masks passwords."""
    before = _is_revealed.set(is_revealed)
    try:
        yield
    finally:
        _is_revealed.reset(before)


def build_masking_cache_key() -> object:
    """Return a cache key of the current masking rules, which changes with `set_mask_patterns` and `reveal_secrets`."""
    return None if _is_revealed.get() else _in_force[0].name


def is_secret_name(name: str) -> bool:
    """Return whether a value with this name (`password`, `api_key`, …) is masked."""
    return not _is_revealed.get() and bool(_in_force[0].name.search(name))


def may_have_secret(text: str) -> bool:
    """Return whether a text may contain a secret: a fast check that saves running all patterns on most texts."""
    if _in_force[0].has_own_words:
        return True
    # `map` takes half the time of a generator, which counts for the many short texts of a job.
    return any(map(text.lower().__contains__, _HINTS)) or any(map(text.__contains__, _ENCODED))


def mask_text(text: str) -> str:
    """Mask the secrets in data: `password=x`, `"token": "x"`, headers, JSON in strings or base64, passwords of URLs."""
    if _is_revealed.get() or not may_have_secret(text):
        return text
    rules = _in_force[0]
    text = rules.couple.sub(_mask_matched_value, rules.pair.sub(_mask_matched_value, text))
    text = _BASE64.sub(_mask_base64, _BEARER.sub(_mask_matched_value, text))
    return _LOGIN_IN_TEXT.sub(r"\1:***@", text)


def mask_text_chunks(chunks: Iterable[str]) -> Iterator[str]:
    """Mask the secrets in a long text that arrives in chunks, as `mask_text` does for a complete text.

    Little more than a chunk is kept in memory, unless a secret itself is longer.
    """
    text = ""
    needed_length = _CHUNK
    for chunk in chunks:
        text += chunk
        if len(text) >= needed_length:
            cut = _find_safe_cut(text)
            yield mask_text(text[:cut])
            text = text[cut:]
            needed_length = max(_CHUNK, 2 * len(text))
    yield mask_text(text)


_CHUNK = 32 * 1024  # characters
_MARGIN = 4096  # characters: no name of a secret with the signs around it, and no login of a URL, is longer


def _find_safe_cut(text: str) -> int:
    """Return where a text that continues can be cut without cutting a secret, or a secret that may continue."""
    cut = len(text) - _MARGIN
    if not may_have_secret(text):
        return cut
    rules = _in_force[0]
    patterns = (rules.pair, rules.couple, _BEARER, _BASE64, _LOGIN_IN_TEXT)
    spans = [match.span() for pattern in patterns for match in pattern.finditer(text)]
    for start, end in sorted(spans, reverse=True):
        cut = start if start < cut < end else cut
    return cut


def mask_printed_text(text: str) -> str:
    """Mask the secrets in a line, a cell or a sentence that is ready to be printed. Names of queues and keys stay."""
    if _is_revealed.get() or not may_have_secret(text):
        return text
    text = _BEARER.sub(_mask_matched_value, _in_force[0].output_pair.sub(_mask_matched_value, text))
    return _LOGIN_IN_TEXT.sub(r"\1:***@", text)


def mask_json_value(value: Any) -> Any:
    """Mask the secrets in parsed JSON: values under a secret's name, and secrets inside texts."""
    if _is_revealed.get():
        return value
    if isinstance(value, Mapping):
        return {key: MASK if is_secret_name(str(key)) else mask_json_value(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [mask_json_value(member) for member in mask_name_value_pair(value)]
    return mask_text(value) if isinstance(value, str) else value


def mask_name_value_pair(value: Sequence[Any]) -> Sequence[Any]:
    """Mask the second text of a list such as `["X-Api-Key", "…"]`, as headers are written.

    Any other list is unchanged.
    """
    is_couple = len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str)
    return [value[0], MASK] if is_couple and _FIELD.fullmatch(value[0]) and is_secret_name(value[0]) else value


def mask_json_document(document: Any) -> Any:
    """Mask the texts of a `--json` document as printed text.

    Ids, queues and keys stay, since other commands take them.
    """
    if isinstance(document, Mapping):
        return {key: member if key in _EXACT else mask_json_document(member) for key, member in document.items()}
    if isinstance(document, list | tuple):
        return [mask_json_document(member) for member in document]
    return mask_printed_text(document) if isinstance(document, str) else document


_EXACT = frozenset({"id", "ids", "queue", "queues", "others", "keys", "job", "next", "undo", "url"})


def mask_redis_command(words: Sequence[str]) -> tuple[str, ...]:
    """Mask the secrets in the words of a Redis command, which may be truncated.

    Masked are secrets in texts and binary data, and the word after a secret field name.
    """
    masked_words = []
    is_value = False
    for word in words:
        masked_word = MASK if is_value else mask_text(word)
        if masked_word == word and not _PRINTABLE.fullmatch(word) and not _is_revealed.get():
            masked_word = _in_force[0].near.sub(_mask_matched_value, word)
        masked_words.append(masked_word)
        is_value = bool(_FIELD.fullmatch(word)) and is_secret_name(word)
    return tuple(masked_words)


def flag_secret_bytes(raw: bytes) -> bytearray:
    """Return a 1 for each byte that may belong to a secret, and a 0 for each other byte; empty if there is no secret.

    The bytes of a secret are the value of a name with its value, and up to 48 bytes after a secret name.
    """
    flags = bytearray()
    if _is_revealed.get():
        return flags
    text = raw.decode("latin-1")  # one character per byte
    rules = _in_force[0]
    for match in chain(rules.pair.finditer(text), rules.near.finditer(text), _LOGIN_IN_TEXT.finditer(text)):
        flags = flags or bytearray(len(raw))
        flags[match.end(1) : match.end()] = b"\x01" * (match.end() - match.end(1))
    return flags


_FIELD = re.compile(r"[\w.-]{1,64}")  # of a hash; a key of Redis has a colon or braces
_PRINTABLE = re.compile(r"[\x20-\x7e\t\r\n]*")
_BEARER = re.compile(r"""(?P<key>\bbearer\s{1,8})(?=[^\s\d"']{0,64}\d)[^\s"'\\,;]+""", re.IGNORECASE)
_BASE64 = re.compile(r"(?:ey[JAI]|W[13y])[A-Za-z0-9+/_-]{12,}={0,2}")


def _mask_matched_value(match: re.Match[str]) -> str:
    return match["key"] + MASK


def _mask_base64(match: re.Match[str]) -> str:
    """Mask base64 text whose decoded JSON contains a secret, such as the body of a Celery message."""
    return MASK if any(map(_in_force[0].pair.search, _decode_base64_parts(match[0].rstrip("=")))) else match[0]


def _decode_base64_parts(text: str) -> Iterator[str]:
    """Yield the decoded bytes of base64 as characters, in overlapping parts. Stops at a part that is invalid."""
    for start in range(0, len(text), _CHUNK):
        part = text[start : start + _CHUNK + _MARGIN]
        try:
            inner = base64.urlsafe_b64decode(part[: len(part) // 4 * 4].replace("+", "-").replace("/", "_"))
        except (binascii.Error, ValueError):
            return
        yield inner.decode("latin-1")


# ── URLs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

# The password of a URL inside a text. Digits and a slash behind the colon are a port: `http://host:80/@me`.
_LOGIN_IN_TEXT = re.compile(
    r"""([a-z][a-z0-9+.-]{0,31}://[^\s:@/"'?#<>]{0,256}):(?!\*\*\*@|\d{1,5}[/?#])[^\s"'<>]{1,512}@""", re.IGNORECASE
)
_HARMLESS = re.compile(
    r"db|(?:sentinel_)?username|client_name|socket_(?:connect_)?timeout|ssl_(?:ca_certs|ca_path|certfile|keyfile"
    r"|cert_reqs|check_hostname|ciphers)"
)
_OPTION = re.compile(r"([?&])([^=&]*)=([^&]*)")
_LOGIN = re.compile(r"(://[^:@/?#]*):.+@", re.DOTALL)  # to the *last* @: an unquoted @ or / must not show the rest
_OPEN_END = re.compile(r"(://[^:@/?#]*):.*", re.DOTALL)
_NO_SCHEME = re.compile(r"^((?:[\w+.-]+:/+|/+)?+[^:@?#]*):.+@", re.DOTALL)  # `redis:/:secret@host`, `user:secret@host`
_NO_HOST = re.compile(r"(://[\w.-]*):(?!\d*(?:[/?#,]|$))[^/?#,]*")  # `redis://:secret`: it would be the port


def mask_url(url: str) -> str:
    """Return the URL of a Redis server without its passwords, also if the URL is not valid."""
    masked_url = _OPTION.sub(_mask_url_option, url)
    if masked_url.count("@") < url.count("@") and _LOGIN.search(url):
        return _OPEN_END.sub(r"\1:***", url)  # the @ was in an option, or in the password: nothing behind it is shown
    if "@" not in masked_url:
        return _NO_HOST.sub(r"\1:***", masked_url)
    without_login = _LOGIN.sub(r"\1:***@", masked_url)
    return without_login if without_login != masked_url else _NO_SCHEME.sub(r"\1:***@", masked_url)


def _mask_url_option(match: re.Match[str]) -> str:
    """Mask the value of an option in a Redis URL, unless an option of this name never holds a secret."""
    sign, name, value = match.groups()
    return f"{sign}{name}={value if _HARMLESS.fullmatch(unquote(name)) else '***'}"
