"""Measure how well errors are grouped: 2 500 messages of failed jobs with known causes, from public issue trackers.

    python benchmarks/error_groups.py               prints the figures and the wrong groups
    python benchmarks/error_groups.py --messages 5000 --seed 2

`errors/messages.txt` holds the reports, each with its cause and its issue; this program fills their slots. A group is
pure if it has one cause. A cause is split if it has several groups.
"""

from __future__ import annotations

import argparse
import random
import re
import string
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rqtui.text.causes import Grouping, Key, parse_error
from rqtui.text.widths import Width

FILE = Path(__file__).parent / "errors" / "messages.txt"
MESSAGES, SEED = 2_500, 1
_HEAD = re.compile(r"^\[(?P<cause>[^\]]+)\] (?P<source>[\w.-]+/[\w.-]+#\d+)$")
_SLOT = re.compile(r"<<(\w+)>>")


@dataclass(frozen=True, slots=True)
class Report:
    """A reported error: its cause, its issue (`owner/name#number`), and the text with its slots."""

    cause: str
    source: str
    text: str

    @property
    def has_slots(self) -> bool:
        """Whether two jobs have different texts."""
        return _SLOT.search(self.text) is not None


@dataclass(frozen=True, slots=True)
class GroupingResult:
    """The result of grouping. `mixed` are groups of several causes, `split` are causes of several groups."""

    messages: int
    distinct: int
    causes: int
    groups: int
    mixed: dict[Key, Counter[str]]
    split: dict[str, list[Key]]
    seconds: float


def read_reports() -> list[Report]:
    """Read all reports of the file."""
    found: list[Report] = []
    head: re.Match[str] | None = None
    lines: list[str] = []
    for line in [*FILE.read_text(encoding="utf-8").split("\n"), ""]:
        if line.startswith("#") and head is None:
            continue
        if not line:
            if head is not None:
                found.append(Report(head["cause"], head["source"], "\n".join(lines)))
            head, lines = None, []
        elif head is None:
            head = _HEAD.match(line)
            if head is None:
                raise ValueError(f"{FILE.name}: a block begins with [cause] owner/name#number, not with {line!r}")
        else:
            lines.append("" if line == "." else line)
    return found


def build_messages(number: int = MESSAGES, seed: int = SEED) -> list[tuple[str, str]]:
    """Build `(cause, text)` pairs in random order: every report once, those with slots several times."""
    rng, all_reports = random.Random(seed), read_reports()
    varied = [report for report in all_reports if report.has_slots]
    chosen = [*all_reports, *(varied[at % len(varied)] for at in range(max(0, number - len(all_reports))))][:number]
    messages = [(report.cause, _fill_slots(report.text, rng)) for report in chosen]
    rng.shuffle(messages)
    return messages


def measure_groups(some: Sequence[tuple[str, str]], width: Width = Width.CAUSE) -> GroupingResult:
    """Group the given messages and compare the groups with the known causes."""
    began = time.perf_counter()
    read = [(cause, parse_error(text)) for cause, text in some]
    grouping = Grouping((what for _cause, what in read), width)
    by_group: dict[Key, Counter[str]] = defaultdict(Counter)
    for cause, what in read:
        by_group[grouping.find_group_key(what)][cause] += 1
    seconds = time.perf_counter() - began
    by_cause: dict[str, list[Key]] = defaultdict(list)
    for key, causes in by_group.items():
        for cause in causes:
            by_cause[cause].append(key)
    mixed = {key: causes for key, causes in by_group.items() if len(causes) > 1}
    split = {cause: keys for cause, keys in by_cause.items() if len(keys) > 1}
    return GroupingResult(
        len(some), len({text for _cause, text in some}), len(by_cause), len(by_group), mixed, split, seconds
    )


# -- slots -------------------------------------------------------------------------------------------------------------

_WORDS = ("mail", "orders", "billing", "reports", "photos", "search", "imports", "users", "teams", "checkout", "ledger")


def _build_hex(length: int) -> Callable[[random.Random], str]:
    return lambda rng: "".join(rng.choices("0123456789abcdef", k=length))


def _build_random_text(letters: str, length: int) -> Callable[[random.Random], str]:
    return lambda rng: "".join(rng.choices(letters, k=length))


def _build_uuid(rng: random.Random) -> str:
    return "-".join(_build_hex(length)(rng) for length in (8, 4, 4, 4, 12))


def _build_number(least: int, most: int) -> Callable[[random.Random], str]:
    return lambda rng: str(rng.randint(least, most))


def _build_host(rng: random.Random) -> str:
    name = rng.choice(_WORDS)
    at = rng.choice(("eu-west-1", "us-east-2", "par1"))
    forms = (
        f"{name}.example.com",
        f"{name}-{rng.randint(1, 30)}.{at}.example.net",
        ".".join(str(rng.randint(1, 254)) for _ in range(4)),
        f"ip-10-0-{rng.randint(0, 9)}-{rng.randint(1, 99)}.internal",
    )
    return rng.choice(forms)


def _build_url(rng: random.Random) -> str:
    return f"https://{_build_host(rng)}/{rng.choice(_WORDS)}/{rng.randint(1, 10**8)}?after={_build_hex(10)(rng)}"


def _build_time(rng: random.Random) -> str:
    day = f"20{rng.randint(12, 26)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return f"{day} {rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}.{rng.randint(0, 10**6):06}"


SLOTS: dict[str, Callable[[random.Random], str]] = {
    "n": lambda rng: str(int(10 ** rng.uniform(0, 7))),
    "big": _build_number(10**8, 10**14),
    "digit": _build_number(1, 9),
    "line": _build_number(2, 900),
    "float": lambda rng: f"{rng.uniform(0.5, 200):.{rng.choice((1, 3, 9))}f}",
    "ms": _build_number(1_500_000_000_000, 1_800_000_000_000),
    "port": _build_number(1_024, 60_000),
    "uuid": _build_uuid,
    "host": _build_host,
    "url": _build_url,
    "datetime": _build_time,
    "release": lambda rng: f"20{rng.randint(12, 26)}{rng.randint(101, 1228):04}{rng.randint(0, 235959):06}",
    "version": lambda rng: f"3.{rng.randint(100, 220)}.{rng.randint(0, 9)}",
    "file": lambda rng: f"{rng.choice(('scan', 'Invoice ', 'Letter of ', ''))}{rng.randint(1, 9999):04}",
    "word": lambda rng: rng.choice(_WORDS),
    "b36": _build_random_text(string.ascii_lowercase + string.digits, 8),
    "b62": _build_random_text(string.ascii_letters + string.digits, 24),
    **{f"hex{length}": _build_hex(length) for length in (6, 8, 12, 16, 24, 32)},
}


def _fill_slots(text: str, rng: random.Random) -> str:
    """Replace each slot of a reported error, such as a host or a number, by random text."""
    file = SLOTS["file"](rng)  # the one that the job is about, however often the text names it
    return _SLOT.sub(lambda found: file if found[1] == "file" else SLOTS[found[1]](rng), text)


# -- what is printed ---------------------------------------------------------------------------------------------------


def format_lines(found: GroupingResult) -> Iterator[str]:
    """Yield the figures, then each group of several causes and each cause of several groups."""
    all_reports = read_reports()
    plain = sum(not report.has_slots for report in all_reports)
    sources = len({report.source.partition("#")[0] for report in all_reports})
    yield f"{len(all_reports)} reports of {sources} projects; {plain} of them leave the same text every time"
    yield f"{found.messages} messages, {found.distinct} of them different, of {found.causes} causes"
    yield f"{found.groups} groups in {found.seconds * 1000:.0f} ms"
    pure = found.groups - len(found.mixed)
    yield f"purity: {pure} of {found.groups} groups hold one cause ({100 * pure / found.groups:.1f} %)"
    yield f"split: {len(found.split)} of {found.causes} causes have several groups"
    for key, causes in found.mixed.items():
        yield f"  MIXED {' | '.join(key)}"
        yield from (f"        {number} {cause}" for cause, number in causes.items())
    for cause, keys in found.split.items():
        yield f"  split {cause}: {len(keys)} groups"
        yield from (f"        {' | '.join(key)[:200]}" for key in keys[:5])


def main() -> None:
    """Print how well the messages were grouped, and the wrong groups."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--by", type=Width, default=Width.CAUSE, choices=list(Width))
    arguments = parser.parse_args()
    for line in format_lines(measure_groups(build_messages(arguments.messages, arguments.seed), arguments.by)):
        print(line)


if __name__ == "__main__":
    main()
