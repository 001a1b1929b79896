"""Fold an error message: replace the parts that differ from job to job by `#`, so that equal errors have equal texts.

Replaced are URLs, mail addresses, hosts, IP addresses, paths, dates, UUIDs, digests, numbers, quoted text, and tokens
that mix letters and digits (`cus_NffrFeUfNV`, `req_a1f2`). Kept are words, names in a program (`KeyError: 'vat_id'`,
`undefined method 'name'`, the code in a JSON reply), the status of an HTTP reply and the exit code of a process, which
distinguish causes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_PASSES = 20  # two are enough for usual messages
MAX_CHARS = 300  # characters of a folded message; a wrapped error has its reason at the end

# Exceptions whose quoted words are names in a program, which distinguish causes.
_NAMES_CODE = frozenset(
    {
        "KeyError",
        "AttributeError",
        "NameError",
        "TypeError",
        "ImportError",
        "ModuleNotFoundError",
        "NoMethodError",
        "ReferenceError",
        "NotRegistered",
    }
)
_NOUNS = (
    r"method|attribute|module|modules?\s+named|property|properties\s+of\s+\w+|reading|setting|column|columns|relation"
    r"|table|function|constant|constant|array\s+key|index|for\s+key|variable|class|argument|import\s+name|constraint"
    r"|field|parameter|template|command|database|role|type|keyword\s+argument|codec|label"
)
_STATUS_BEFORE = (
    r"(?:status(?:\s?code)?|http(?:/[\d.#]+)?|http\s?error|(?:response|error)\s?code|error|code)['\"]?[ :=#(\['`]{1,3}"
)
_EXIT_BEFORE = r"(?:exit(?:ed)?(?:\s+with)?\s?(?:code|status)|signal|errno)['\"]?[ :=#(\['`]{1,3}"
_STATUS_AFTER = (
    r"client\s+error|server\s+error|bad\s+request|unauthorized|payment\s+required|forbidden|not\s+found|gone|conflict"
    r"|request\s+timeout|payload\s+too|unprocessable|too\s+many|internal\s+server|bad\s+gateway"
    r"|service\s+(?:temporarily\s+)?unavailable|gateway\s+time-?out"
)
_TOP_LEVELS = (
    "com|net|org|io|dev|app|co|cloud|local|localdomain|internal|example|test|invalid|info|biz|edu|gov|mil|ai|me|tv|arpa"
    "|at|au|be|br|ca|ch|cn|cz|de|dk|es|eu|fi|fr|in|it|jp|nl|no|pl|ru|se|uk|us"
)
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"

_KEPT = (
    # The value of a field that gives the reason of a reply; its variable parts are folded.
    r"(?P<field>\\?[\"'](?:code|type|error|message|msg|reason|error_?code|error_?type|detail|details|title|status"
    r"|error_description|name)\\?[\"']\s*(?::|=>?)\s*)(?P<quote>\\?[\"'])(?P<value>.*?)(?P=quote)"
    # A field's name in such an answer.
    r"|(?P<key>(?<=[{,\s])\\?[\"'][A-Za-z_]\w{0,40}\\?[\"'](?=\s?(?::|=>)))"
    # A name in a program, or in a database.
    rf"|(?P<named>\b(?i:{_NOUNS})\s+[\"'`‘“«][A-Za-z_$][A-Za-z_$.:\\?!=-]*[\"'`’”»])"
    # The status of an HTTP reply, the exit code or signal of a process, the number of a system error.
    rf"|(?P<status>(?i:\b{_EXIT_BEFORE}-?\d{{1,3}}\b|\b{_STATUS_BEFORE}[45]\d\d\b|(?<![\w.,:-])[45]\d\d(?=\s(?:{_STATUS_AFTER}))"
    rf"|[\"'`][45]\d\d\s(?:{_STATUS_AFTER})[^\"'`]*[\"'`]))"
)
_QUOTED = r"""(?<!\w)'[^']*'(?!\w)|"[^"]*"|`[^`']*[`']|“[^”]*”|«[^»]*»"""
_DATA = (
    r"(?<!\w)\w[\w+]{0,20}://[^\s'\"`<>)\]]+"  # URLs
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)*"  # mails, and user@host
    r"|(?<![\w#.])(?:[A-Za-z]:|\.{1,2}|~)?[\\/](?:[\w.#+@=-]+[\\/])+[\w.#+@=-]*"  # paths
    r"|(?<![\w#/.])(?:[\w.#+@-]+/)+[\w#+@-]+\.[A-Za-z]\w{0,5}(?![\w/])"  # relative ones, of a file
    rf"|(?:\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s)?\b(?:(?:{_MONTHS})[a-z]*\s\d{{1,2}}|\d{{1,2}}[\s-](?:{_MONTHS})[a-z]*)\b(?:[\s,-]\d{{4}})?"
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?"
    r"|(?<![\w#-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w#-])"  # UUIDs
    r"|(?<![\w:])(?=[0-9A-Fa-f:]*\d)\[?[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){3,7}\]?(?::\d+)?(?![\w:])"  # IPv6, MAC
    rf"|(?<![\w.#-])(?:[\w-]+\.)+(?:{_TOP_LEVELS})(?::\d+)?(?![\w.(-])"  # hosts
    r"|(?<![\w.#-])(?:localhost|[\w-]+(?:\.[\w-]+)+):\d{2,5}(?![\w.])"
    r"|0[xX][0-9A-Fa-f]+"
)
_NUMBER = r"|(?<![A-Za-z0-9_#-])\d+(?:[.,:_/-]\d+)*(?![A-Za-z0-9_])"
# A token with a digit in it; an id without one: `cus_NffrFeUfNV`.
_MIXED = (
    r"|(?P<token>(?<![A-Za-z0-9_#-])(?=[A-Za-z_-]*\d)[A-Za-z0-9]+(?:[_-]+[A-Za-z0-9]+|\.\d+)*(?![A-Za-z0-9]))"
    r"|(?<![\w#-])(?P<named_id>[a-z]{1,8}_)(?=[A-Za-z]{8,}(?![\w-]))(?=[A-Za-z]*(?:[a-z][A-Z]|[A-Z]{2}[a-z]))"
    r"(?=[a-z]{1,2}[A-Z]|[A-Za-z]*(?:[A-Z][a-z]{0,2}[A-Z]|[A-Z](?![A-Za-z])))[A-Za-z]+"
    # Letters whose case does not distinguish an id from words: `cus_FtgmywArto`, `err_CardDeclined`.
    r"|(?<![\w#-])(?P<letters>[a-z]{1,8}_(?=[A-Za-z]{8,}(?![\w-]))(?=[A-Za-z]*[a-z][A-Z])[A-Za-z]+)"
)
_DIGITS = r"|\d+(?:[.,:_/-]\d+)*"
_ANY = re.compile(f"{_KEPT}|{_QUOTED}|{_DATA}{_NUMBER}{_MIXED}{_DIGITS}")
_ANY_BUT_QUOTED = re.compile(f"{_KEPT}|{_DATA}{_NUMBER}{_MIXED}{_DIGITS}")
_TELLS = re.compile(r"[\d'\"`“«@\\/:_.-]")  # a text without any of these has nothing to fold
_LEFT = re.compile(r"[\d'\"`“«@\\/]")  # after the first pass, a text without any of these has nothing left to fold
_REPR = re.compile(r"(?<=\w\()[\"'](?=\w)")
_REPR_END = re.compile(r"(?<=[^\s(])[\"'](?:,?\)+)")
_ARGUMENTS = re.compile(r"\((\d{1,6}|#), (?P<quote>[\"'])(?P<said>.*?)(?P=quote)(?=[),])")
_AS_A_WHOLE = re.compile(r"^\s*(?P<quote>[\"'])(?P<said>(?:(?!(?P=quote)).)*)(?P=quote)\s*$")
_REPEATED = re.compile(r"#(?:[ ,;|]{1,2}#)+(?![\w])")

# Words that contain a digit but are not data.
_TECHNICAL = frozenset(
    {
        "2fa",
        "b2b",
        "b2c",
        "base32",
        "base64",
        "e2e",
        "ec2",
        "es256",
        "float32",
        "float64",
        "h2",
        "h264",
        "h265",
        "hs256",
        "http1",
        "http2",
        "http3",
        "i18n",
        "int16",
        "int32",
        "int64",
        "int8",
        "ipv4",
        "ipv6",
        "iso8601",
        "k8s",
        "l10n",
        "latin-1",
        "latin1",
        "md5",
        "mp3",
        "mp4",
        "oauth2",
        "p2p",
        "r2",
        "rs256",
        "s3",
        "sha-1",
        "sha-256",
        "sha1",
        "sha256",
        "sha512",
        "sslv3",
        "tlsv1",
        "uint32",
        "uint64",
        "utf-16",
        "utf-8",
        "utf16",
        "utf8",
        "x509",
    }  # fmt: skip
)


def fold_message(message: str, kind: str = "") -> str:
    """Replace the parts of an error message that differ from job to job by `#`.

    Returns one line of at most 300 characters. `kind` is the class of the exception. Folding is idempotent. The result
    may still contain control characters.
    """
    name = re.split(r"[.:\\]", kind)[-1]
    variable_parts = _ANY_BUT_QUOTED if name in _NAMES_CODE else _ANY
    text = " ".join(message.split())
    for _ in range(MAX_PASSES):  # A replacement or the truncation may reveal another part to fold.
        previous_text, text = text, _fold_message_once(text, variable_parts)[:MAX_CHARS].strip()
        if text == previous_text or not _LEFT.search(text):
            break
    return text


def _fold_message_once(text: str, variable_parts: re.Pattern[str]) -> str:
    if not _TELLS.search(text):
        return text
    quoted_message = _AS_A_WHOLE.match(text) if variable_parts is _ANY else None
    if quoted_message and " " in quoted_message["said"]:  # Some exceptions print the repr of their message.
        text = quoted_message["said"]
    if "(" in text:  # Databases print a number and a message: (2006, 'server has gone away').
        text = _ARGUMENTS.sub(lambda match: f"({match[1]}, {match['said']}", text)
    if _REPR.search(text):  # In Failed(Cause("why")) the quotes belong to a repr, not to data.
        text = _REPR_END.sub(lambda match: match[0][1:], _REPR.sub("", text))
    return _REPEATED.sub("#", variable_parts.sub(_replace_variable_part, text))


def _replace_variable_part(match: re.Match[str]) -> str:
    """Return what replaces a matched part of an error message: the part itself if it distinguishes causes, else `#`.

    A prefix that says what an id names may precede the `#`.
    """
    fold_group = _BY_GROUP.get(match.lastgroup or "")
    return fold_group(match) if fold_group else "#"


def _fold_json_field(match: re.Match[str]) -> str:
    value = _ANY_BUT_QUOTED.sub(_replace_variable_part, match["value"]) if match["value"] else ""
    return f"{match['field']}{match['quote']}{value}{match['quote']}"


def _fold_mixed_token(match: re.Match[str]) -> str:
    """Fold a word with a digit in an error message: a technical word stays, of others the first parts stay with `#`."""
    token: str = match[0]
    if token.lower() in _TECHNICAL:
        return token
    words = []  # the parts before the first one with a digit: the prefix `cus_` says what the id names
    for part in re.split(r"([_-]+)", token):
        if any(map(str.isdigit, part)):
            break
        words.append(part)
    numbered_name = None if words or _HASH.fullmatch(token) else _NUMBERED.fullmatch(token)
    return f"{numbered_name[1] if numbered_name else ''.join(words)}#"


def _fold_letters(match: re.Match[str]) -> str:
    """Fold the letters after a prefix in an error message, unless each part of them can be a word.

    No word begins with four consonants or has none but consonants, apart from some names of protocols.
    """
    prefix, _underscore, letters = match[0].partition("_")
    parts = [part for part in _CAPITALISED.findall(letters) if not _PROTOCOL.match(part)]
    return f"{prefix}_#" if any(map(_NO_WORD.match, parts)) else match[0]


_CAPITALISED = re.compile(r"[A-Z]?[a-z]{4,}")
_PROTOCOL = re.compile(r"(?i:x?html|https?|s?ftp|smtp|grpc|mqtt)")
_NO_WORD = re.compile(r"(?i)(?!sch)[bcdfghjklmnpqrstvwxz]{4}|[^aeiouy]{5,}$")
_HASH = re.compile(r"[0-9a-f]{6,}")
_NUMBERED = re.compile(r"([A-Z]?[a-z]{3,}|[A-Z]{3,})\d{1,3}")  # a name with a number, such as worker7
_BY_GROUP: dict[str, Callable[[re.Match[str]], str]] = {
    "value": _fold_json_field,
    "quote": _fold_json_field,
    "field": _fold_json_field,
    "key": lambda found: found[0],
    "named": lambda found: found[0],
    "status": lambda found: found[0],
    "token": _fold_mixed_token,
    "letters": _fold_letters,
    "named_id": lambda found: f"{found['named_id']}#",
}
