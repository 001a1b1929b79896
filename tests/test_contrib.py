"""`contrib/`: every unit, image and manifest can be read, and every `rqtui …` in them is a command line of rqtui."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from families import in_one
from pages import is_taken

from rqtui.reports.prometheus import families_of

CONTRIB = Path(__file__).resolve().parents[1] / "contrib"
UNITS = sorted(CONTRIB.glob("systemd/*.service"))
YAML = sorted(CONTRIB.glob("**/*.y*ml"))


def lines_of_units() -> list[str]:
    """What the units start, with the specifiers of systemd filled in."""
    found = []
    for unit in UNITS:
        (line,) = re.findall(r"^ExecStart=/usr/bin/env (.*)$", unit.read_text(), re.MULTILINE)
        filled = {"%I": "mail", "%i": "mail", "${RQTUI_CONCURRENCY}": "1", "$RQTUI_COMMAND": "true"}
        for sign, value in filled.items():
            line = line.replace(sign, value)
        found.append(line)
    return found


def lines_of_yaml() -> list[str]:
    """The commands of containers and probes, and the remedies of alerts."""
    found = []
    for file in YAML:
        text = file.read_text()
        for array in re.findall(r"command: (\[.*\])", text):
            words = json.loads(array)
            found += words[2].split(";")[:1] if words[0] == "sh" else [shlex.join(words)]
        found += [each.replace("{{ $labels.queue }}", "mail") for each in re.findall(r'remedy: "(rqtui [^"]*)"', text)]
    return [line.split(" says ")[0] for line in found]


def lines_of_pages() -> list[str]:
    """Those between backticks in the page and in comments."""
    texts = [file.read_text() for file in (CONTRIB / "README.md", *YAML)]
    return [line for text in texts for line in re.findall(r"`(rqtui [a-z][^`]*)`", text) if "…" not in line]


LINES = sorted({*lines_of_units(), *lines_of_yaml(), *lines_of_pages()})


def test_there_are_lines_to_look_at() -> None:
    assert len(UNITS) == 4 and len(YAML) >= 4
    assert {line.split()[1] for line in LINES} >= {"dispatch", "reap", "work", "metrics", "health", "acl"}


@in_one("line", LINES)
def test_every_command_line_is_one_of_rqtui(line: str) -> None:
    assert is_taken(line)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_has_its_three_sections_and_no_root(unit: Path) -> None:
    text = unit.read_text()
    assert re.findall(r"^\[(\w+)\]$", text, re.MULTILINE) == ["Unit", "Service", "Install"]
    assert "DynamicUser=yes" in text and "NoNewPrivileges=yes" in text
    assert all(re.match(r"(#|\[|\w+=|$)", line) for line in text.splitlines())


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(unit: Path) -> None:
    ran = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert unit.name not in ran.stderr, ran.stderr


@pytest.mark.parametrize("file", YAML, ids=lambda file: file.name)
def test_yaml_is_indented_by_spaces_and_can_be_read(file: Path) -> None:
    text = file.read_text()
    assert "\t" not in text and not re.search(r" +$", text, re.MULTILINE)
    assert all(isinstance(document, dict) for document in yaml.safe_load_all(text))


def test_the_image_runs_without_root_from_the_wheel() -> None:
    text = (CONTRIB / "docker/Dockerfile").read_text()
    instructions = [line.split()[0] for line in text.replace("\\\n", " ").splitlines() if line and line[0] != "#"]
    known = {"FROM", "LABEL", "RUN", "COPY", "ENV", "USER", "WORKDIR", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT"}
    assert set(instructions) <= known and instructions[0] == "FROM"
    assert instructions.index("USER") < instructions.index("ENTRYPOINT")
    assert "USER 10001" in text and "dist/*.whl" in text


def test_alerts_are_about_metrics_that_there_are() -> None:
    text = (CONTRIB / "prometheus/rqtui-alerts.yml").read_text()
    there = {"rqtui_up", *(family.name for family in families_of([]))}
    asked = set(re.findall(r"\b(rqtui_\w+)", text))
    assert asked and asked <= there
