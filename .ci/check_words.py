"""Check docstrings, comments and function names for words that CONTRIBUTING.md replaces: `.ci/check_words.py [PATH…]`.

Each such word is printed with its file, its line and the word to write instead. Code between backticks is not checked:
stored names stay as they are. Exit code 1 when anything was found.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKED = [
    "rqtui",
    "benchmarks",
    "screenshots",
    ".ci",
    "noxfile.py",
    "tests",
]

# The word as it appears in a docstring or comment, and what to write instead.
INSTEAD_IN_TEXTS = {
    r"anew|once more": "again; rebuild; retry",
    r"pictures?": "snapshot",
    r"nobody|somebody": "name the worker, the client or the person",
    r"tells?|told(?! to\b)": "report, return, show, print",
    r"overhears?|overheard|heard of": "counted from Pub/Sub events",
    r"beats": "sends heartbeats",
    r"handful": "batch",
    r"drips?": "throttled requeue",
    r"mend(s|ed|ing)?": "fix",
    r"of late|lately": "recently",
    r"whence|thereof|besides|sought": "a word of today",
    r"the floors?( of)?|rooms?|the house": "layer, package, module",
    r"stands?(?! for\b)": "is",
    r"goes on": "continues",
}
TEXT_WORD = re.compile(
    "|".join(rf"(?P<w{at}>\b(?:{pattern})\b)" for at, pattern in enumerate(INSTEAD_IN_TEXTS)), re.IGNORECASE
)

# Names of functions that do not say what is done to what.
VAGUE_NAMES = frozenset(
    (
        *("made", "told", "said", "heard", "kept", "shown", "counted", "judged", "named", "known", "asked", "given"),
        *("taken", "found", "looked", "met", "left", "sought", "wanted", "line", "row", "same", "of", "at", "below"),
        *("whole", "rest", "what", "how", "way", "go_on", "tell", "anew", "once", "about", "besides", "instead"),
    )
)

# Words that no name of a function has, tests included.
WORDS_IN_NAMES = {
    "told|tells|heard|hears": "report, show, receive",
    "anew": "again",
    "nobody|somebody": "no worker, no client; another client, another program",
    "mends?|mended": "fix, repair",
    "besides|lately|whence|sought": "a word of today",
    "overheard|ear": "counted from Pub/Sub events",
}


def find_replaced_words(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line, word, what to write instead) for each unwanted word in the module at `path`."""
    source = path.read_text("utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from ((token.start[0], word, instead) for _line, word, instead in find_words_in_text(token.string))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.lstrip("_") in VAGUE_NAMES:
            yield node.lineno, node.name, "an imperative verb with its object; for a property a noun"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for pattern, instead in WORDS_IN_NAMES.items():
                if re.search(rf"(?<![a-z])({pattern})(?![a-z])", node.name):
                    yield node.lineno, node.name, instead
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first_line = getattr(node, "lineno", 1)
            docstring = ast.get_docstring(node, clean=False) or ""
            yield from ((first_line + line, word, instead) for line, word, instead in find_words_in_text(docstring))


def find_words_in_text(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (lines before it, word, what to write instead) for each unwanted word of a text, except in backticks."""
    text = re.sub(r"`[^`]*`", "", text)
    for match in TEXT_WORD.finditer(text):
        instead = list(INSTEAD_IN_TEXTS.values())[int(str(match.lastgroup)[1:])]
        yield text.count("\n", 0, match.start()), match[0], instead


def list_modules(paths: list[str]) -> Iterator[Path]:
    """Yield the Python files in these files and folders. Patterns such as `**` are allowed."""
    for pattern in paths:
        for path in sorted(ROOT.glob(pattern)):
            yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def main(paths: list[str]) -> int:
    """Print the unwanted words in `paths` (default: CHECKED), and return the exit code."""
    finding_count = 0
    for path in dict.fromkeys(list_modules(paths or CHECKED)):
        for line, word, instead in find_replaced_words(path):
            print(f'{path.relative_to(ROOT)}:{line}: "{word}": write {instead}')
            finding_count += 1
    return 1 if finding_count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
