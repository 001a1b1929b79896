"""Check docstrings and function names for the words that CONTRIBUTING.md replaces: `.ci/check_words.py [PATH…]`.

A docstring or a name that has such a word is printed with its file, its line and the word to write instead. Code
between backticks is not checked: stored names stay as they are. Exit code 1 when anything was found.
"""

from __future__ import annotations

import ast
import re
import sys
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

# The word as it appears in a docstring, and what to write instead.
INSTEAD_IN_DOCSTRINGS = {
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
DOCSTRING_WORD = re.compile(
    "|".join(rf"(?P<w{at}>\b(?:{pattern})\b)" for at, pattern in enumerate(INSTEAD_IN_DOCSTRINGS)), re.IGNORECASE
)

# Names of functions that do not say what is done to what.
VAGUE_NAMES = frozenset(
    (
        *("made", "told", "said", "heard", "kept", "shown", "counted", "judged", "named", "known", "asked", "given"),
        *("taken", "found", "looked", "met", "left", "sought", "wanted", "line", "row", "same", "of", "at", "below"),
        *("whole", "rest", "what", "how", "way", "go_on", "tell", "anew", "once", "about", "besides", "instead"),
    )
)


def find_replaced_words(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line, word, what to write instead) for each unwanted word in the module at `path`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.lstrip("_") in VAGUE_NAMES:
            yield node.lineno, node.name, "an imperative verb with its object; for a property a noun"
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = re.sub(r"`[^`]*`", "", ast.get_docstring(node, clean=False) or "")
            for match in DOCSTRING_WORD.finditer(text):
                line = getattr(node, "lineno", 1) + text.count("\n", 0, match.start())
                yield line, match[0], list(INSTEAD_IN_DOCSTRINGS.values())[int(str(match.lastgroup)[1:])]


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
