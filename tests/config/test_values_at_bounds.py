"""Values of the config file below, at and above each bound: `values_at_bounds.txt` has what is set, or the problem.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/config/test_values_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kept_text import assert_lines_match_file

from rqtui.config import file, toml_lines
from rqtui.config.file import parse_config_text
from rqtui.config.thresholds import DEFAULTS, RULES, Limit, find_queue_thresholds, format_threshold, parse_threshold

KEPT = Path(__file__).with_name("values_at_bounds.txt")
VALUES = {
    "interval": (
        "0.2",
        "0.249",
        "0.25",
        "1",
        "60",
        "60.001",
        "61",
        "true",
        '"0.25s"',
        '"250ms"',
        '"1m"',
        '"61s"',
        "[1]",
        "{}",
        "1979-05-27",
        "inf",
    ),
    "record_mb": ("9", "10", "11", "99999", "100000", "100001", "true", "10.0"),
    "record_days": ("0", "1", "2", "365", "366", "367"),
    "record_jobs": ("-1", "0", "1", "19", "20", "21", "50", "99", "100", "101", "200", "201", "1000", "1001"),
    "calm": ("true", "0", '"' + "x" * 38 + '"', '"' + "x" * 40 + '"', '"' + "x" * 41 + '"', '"a@b"', "[]", "{}"),
    "theme": ('""', '" "', '" a "', "1"),
}
LIMITS = (
    0, 1e-9, 1, 1.5, 99.9, 100, 100.1, 10**12 - 1, 10**12, 10**12 + 1, True, "0s", "1ms", "999ms", "1s", "59s", "1m",
    "90m", "1h", "1d", "36h", "-1s", [1, 2], [2, 2], [2, 1], [1], [1, 2, 3], ["1m", "1h"], False, None,
)  # fmt: skip


def text() -> Iterator[str]:
    for key, values in VALUES.items():
        for value in values:
            config = parse_config_text(Path("config.toml"), f"{key} = {value}\n")
            yield f"{key} = {value}: {dict(config.top)} {[*config.format_problem_lines()]}"
    profile_keys = [f"profiles.live.{name}" for name in file._PROFILE if name not in file._TOP]
    for key in (*file._TOP, *profile_keys):
        for value in ("1", '""', '" a "', "true", '["", "a"]', '[" a "]', '{"x*" = ["purge", "purg"]}'):
            url = '\nprofiles.live.url = "redis://here"' if key in profile_keys[1:] else ""
            config = parse_config_text(Path("config.toml"), f"{key} = {value}{url}\n")
            found = config.profiles if key.startswith("profiles.") else dict(config.top)
            guards = " (changes are off)" if any(problem.is_guard for problem in config.problems) else ""
            yield f"{key} = {value}: {found} {[*config.format_problem_lines()]}{guards}"
    for name in RULES:
        for value in LIMITS:
            try:
                limit = parse_threshold(name, value)
            except ValueError as error:
                yield f"{name} = {value!r}: {error}"
            else:
                yield f"{name} = {value!r}: {tuple(limit)} {format_threshold(name, limit)}"
    for name, limit in DEFAULTS._asdict().items():
        bounds = [number + by for number in limit if number is not None for by in (-1, 0, 1)]
        yield f"usual {name}: {[(number, limit.find_severity(number)) for number in bounds]}"
    rules = (("mail*", {"dead": Limit(1)}), ("*", {"late": Limit(2)}), ("mail-eu", {"dead": Limit(3)}))
    for queue_names in (("mail",), ("mail-eu",), ("sms", "native:mail"), ("sms", "mail-x")):
        found = find_queue_thresholds(rules, queue_names)
        yield f"{queue_names}: {tuple(found.dead)} {tuple(found.late)}"
    for limit in (Limit(), Limit(5), Limit(None, 7), Limit(5, 7), Limit(0, 0)):
        yield f"{tuple(limit)}: {[limit.find_severity(number) for number in (-1, 0, 4.9, 5, 6.9, 7, 8)]}"


def test_values_of_the_config_file_match_the_stored_text() -> None:
    assert_lines_match_file(text(), KEPT)


def test_a_file_of_too_many_nested_lists_is_refused_in_its_first_line() -> None:
    with pytest.raises(toml_lines.BrokenToml, match="it is nested too deeply") as refused:
        toml_lines.parse_toml_text("a = " + "[" * 100_000)
    assert refused.value.line == 1


def test_a_file_in_the_usual_place_that_cannot_be_read_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(file, "find_config_path", lambda *_: (tmp_path, ""))  # a folder
    config = file.load_config()
    [problem] = config.problems
    assert config.exists and problem.line == 1 and problem.is_guard and problem.text.startswith("it cannot be read: ")
