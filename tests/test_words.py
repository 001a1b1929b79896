"""Words: one per thing, and none that a plain reader stumbles over, wherever a person reads them.

The texts are the pages, the headers of the scripts, and every string of `rqtui/`: help, sentences, toasts, docstrings.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT

from rqtui.system_base.system import System
from rqtui.systems import registry
from rqtui.verbs import VERBS, Verb

SAY_INSTEAD = {  # what no text says, and what it says instead
    r"\bbur(y|ied|ies)\b": "kill, killed",
    r"\bfor good\b": "pull; or: always",
    r"\blet(s|ting)? [\w ]{0,12}\bgo\b(?! on| in| as| there)": "release",
    r"\bgiv(e|es|en) (\w+ )?back by\b": "reaped by, released by",
    r"\btaken? (it )?back\b": "reaped; or: undone",
    r"\bwhom\b": "name the jobs, the worker, the author",
    r"\bin force\b": "the effective settings",
    r"\bwho is there\b": "w shows the workers",
    r"\bfinished is finished\b": "an acked job is finished",
    r"\b1 (jobs|queues|workers|leases|failures)\b": "1 job",
    r"(?<=[a-z])\(s\)": "numbered(number, noun)",
}
ANY_OF_THEM = re.compile("|".join(f"(?:{pattern})" for pattern in SAY_INSTEAD), re.IGNORECASE)
COUNTED = re.compile(
    r"^ (?:more |other |dead |ready )?(?:jobs|queues|workers|leases|failures|screens|copies|retries)\b"
)
LABELS = {
    "drip requeue": "throttled requeue",  # the name is that of `rqtui act drip-requeue`
    "reserve": "lease",  # the name of the script is a contract with clients; people read the other word
    "rate_limit": "limit the rate",  # the names are those of Celery
    "time_limit": "limit the time",
}
IRREGULAR = {"forget": "forgotten"}
NO_ANSWER = frozenset({"beat"})  # its answers are orders to the worker
SYSTEMS = [registry.create_system(name) for name in registry.list_system_names()]


@functools.cache
def texts_in(file: Path) -> tuple[list[tuple[int, str]], list[ast.JoinedStr]]:
    """Yield (line, text) for every string of a module, with docstrings and the parts of f-strings."""
    nodes = [*ast.walk(ast.parse(file.read_text("utf-8")))]
    strings = [
        (node.lineno, node.value) for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return strings, [node for node in nodes if isinstance(node, ast.JoinedStr)]


def header(file: Path) -> str:
    """Return the comment lines at the beginning of a script."""
    lines = file.read_text("utf-8").splitlines()
    at = next((at for at, line in enumerate(lines) if not line.startswith("--")), len(lines))
    return "\n".join(lines[:at])


def texts() -> Iterator[tuple[str, str]]:
    """Yield (place, text) for every text that a person reads."""
    for page in PAGES:
        yield str(page.relative_to(ROOT)), re.sub(r"`[^`\n]*`", "", page.read_text("utf-8"))
    for script in sorted(ROOT.glob("lua/*/*.lua")):
        yield str(script.relative_to(ROOT)), header(script)
    for toml in sorted(ROOT.glob("lua/*/*.toml")):
        yield str(toml.relative_to(ROOT)), toml.read_text("utf-8")
    theirs = ROOT / "rqtui/cli/synonyms.py"  # words typed by people who know other programs; they are not displayed
    for module in sorted({*(ROOT / "rqtui").rglob("*.py")} - {theirs}):
        yield from ((f"{module.relative_to(ROOT)}:{line}", text) for line, text in texts_in(module)[0])


@pytest.mark.slow
def test_no_text_has_a_word_that_a_plain_reader_stumbles_over() -> None:
    found = [
        f'{where}: "{match[0]}"; say: {instead}'
        for where, text in texts()
        if ANY_OF_THEM.search(text)
        for pattern, instead in SAY_INSTEAD.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["Bury it", "Take for good", "L lets go", "whom they take", "1 jobs", "job(s)"])
def test_a_planted_word_is_found(text: str) -> None:
    assert any(re.search(pattern, text, re.IGNORECASE) for pattern in SAY_INSTEAD)


@pytest.mark.slow
def test_a_number_before_a_noun_has_its_singular() -> None:
    found = [
        f"{module.relative_to(ROOT)}:{node.lineno}: …{words.value}"
        for module in sorted((ROOT / "rqtui").rglob("*.py"))
        if module.relative_to(ROOT).parts[1] not in ("tui", "bench")
        for node in texts_in(module)[1]
        for before, value, words in zip([None, *node.values], node.values, node.values[1:], strict=False)
        if isinstance(value, ast.FormattedValue) and _is_counted(before, words)
    ]
    assert not found, "say it by `formats.numbered`:\n" + "\n".join(found)


def _is_counted(before: ast.expr | None, words: ast.expr) -> bool:
    """Return whether a number precedes a plural; `7 of 1 000 jobs` and `at most 10 000 jobs` need no singular."""
    is_of_many = isinstance(before, ast.Constant) and str(before.value).endswith((" of ", " most ", " to "))
    return isinstance(words, ast.Constant) and COUNTED.match(str(words.value)) is not None and not is_of_many


# ── one word per verb ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_label_question_and_toast_of_a_verb_show_its_name(verb: Verb) -> None:
    label = LABELS.get(verb.name, verb.name)
    assert verb.label == label
    assert not verb.question or verb.question.startswith((label.capitalize(), label.split()[-1].capitalize()))
    assert any(word.rstrip("e") in verb.past for word in IRREGULAR.get(label, label).split())


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_the_headers_of_a_system_open_with_the_verb_and_answer_with_its_past(system: System) -> None:
    wrong = []
    for verb in VERBS:
        script = system.scripts.get(verb.name)
        if script is None:
            continue
        if not script.summary.lower().startswith((verb.label + " ", verb.label + ":")):
            wrong.append(f"{verb.name}: {script.summary}")
        answer = script.returns[script.done_word].text
        if verb.name not in NO_ANSWER and not answer.startswith(verb.past):
            wrong.append(f'{verb.name} answers "{answer}", its toast says "{verb.past}"')
    assert not wrong, "\n".join(wrong)
