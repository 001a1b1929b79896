"""`contrib/`: every unit, image and manifest can be read, and every `rqtui …` in them is a command line of rqtui.

Linters that are installed look at them, too; `nox -s contrib` brings those that come from PyPI. Where docker, podman or
buildah and the base image are to be had, the image is built and run (`pytest -m packaging`).
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from doc_pages import is_command_accepted
from families import run_in_one_test
from redis import Redis

from rqtui.reports.prometheus import build_families

CONTRIB = Path(__file__).resolve().parents[1] / "contrib"
DOCKERFILE = CONTRIB / "docker" / "Dockerfile"
MANIFESTS = sorted(CONTRIB.glob("kubernetes/*.yaml"))
UNITS = sorted(CONTRIB.glob("systemd/*.service"))
YAML = sorted(CONTRIB.glob("**/*.y*ml"))


def lines_of_units() -> list[str]:
    """Return the commands that the systemd units start, with systemd's specifiers filled in."""
    found = []
    for unit in UNITS:
        (line,) = re.findall(r"^ExecStart=/usr/bin/env (.*)$", unit.read_text(), re.MULTILINE)
        filled = {"%I": "mail", "%i": "mail", "${RQTUI_CONCURRENCY}": "1", "$RQTUI_COMMAND": "true"}
        for sign, value in filled.items():
            line = line.replace(sign, value)
        found.append(line)
    return found


def lines_of_yaml() -> list[str]:
    """Return the commands of containers and probes, and the fixes of alerts."""
    found = []
    for file in YAML:
        text = file.read_text()
        for array in re.findall(r"command: (\[.*\])", text):
            words = json.loads(array)
            found += words[2].split(";")[:1] if words[0] == "sh" else [shlex.join(words)]
        found += [each.replace("{{ $labels.queue }}", "mail") for each in re.findall(r'remedy: "(rqtui [^"]*)"', text)]
    return [line.split(" says ")[0] for line in found]


def lines_of_pages() -> list[str]:
    """Return the commands between backticks in the page and in comments."""
    texts = [file.read_text() for file in (CONTRIB / "README.md", *YAML)]
    return [line for text in texts for line in re.findall(r"`(rqtui [a-z][^`]*)`", text) if "…" not in line]


LINES = sorted({*lines_of_units(), *lines_of_yaml(), *lines_of_pages()})


def test_there_are_lines_to_look_at() -> None:
    assert len(UNITS) == 5 and len(YAML) >= 5
    assert {line.split()[1] for line in LINES} >= {"dispatch", "reap", "work", "record", "metrics", "health", "acl"}


@run_in_one_test("line", LINES)
def test_every_command_line_is_one_of_rqtui(line: str) -> None:
    assert is_command_accepted(line)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_has_its_three_sections_and_no_root(unit: Path) -> None:
    text = unit.read_text()
    assert re.findall(r"^\[(\w+)\]$", text, re.MULTILINE) == ["Unit", "Service", "Install"]
    assert "DynamicUser=yes" in text and "NoNewPrivileges=yes" in text
    assert all(re.match(r"(#|\[|\w+=|$)", line) for line in text.splitlines())


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(unit: Path) -> None:
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60
    )
    assert unit.name not in ran.stderr, ran.stderr


@pytest.mark.parametrize("file", YAML, ids=lambda file: file.name)
def test_yaml_is_indented_by_spaces_and_can_be_read(file: Path) -> None:
    text = file.read_text()
    assert "\t" not in text and not re.search(r" +$", text, re.MULTILINE)
    assert all(isinstance(document, dict) for document in yaml.safe_load_all(text))


def test_the_image_runs_without_root_from_the_wheel() -> None:
    text = DOCKERFILE.read_text()
    instructions = [line.split()[0] for line in text.replace("\\\n", " ").splitlines() if line and line[0] != "#"]
    values = {"FROM", "LABEL", "RUN", "COPY", "ENV", "USER", "WORKDIR", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT"}
    assert set(instructions) <= values and instructions[0] == "FROM"
    assert instructions.index("USER") < instructions.index("ENTRYPOINT")
    assert "USER 10001" in text and "dist/*.whl" in text


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="needs hadolint (nox -s contrib)")
def test_hadolint_finds_nothing_in_the_image() -> None:
    ran = subprocess.run(["hadolint", DOCKERFILE], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
@pytest.mark.skipif(not find_spec("kubernetes_validate"), reason="needs kubernetes-validate (nox -s contrib)")
def test_kubernetes_would_take_the_manifest_and_not_with_a_slip_in_it(file: Path, tmp_path: Path) -> None:
    check = [sys.executable, "-m", "kubernetes_validate", "--strict"]
    ran = subprocess.run([*check, file], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    slip = tmp_path / file.name
    slip.write_text(file.read_text().replace("containers:", "container:"))
    assert subprocess.run([*check, slip], capture_output=True, timeout=60).returncode != 0


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (apt-get install prometheus)")
def test_prometheus_takes_the_alerts_and_the_scrape() -> None:
    for words in (["rules", "rqtui-alerts.yml"], ["config", "scrape.yml"]):
        ran = subprocess.run(
            ["promtool", "check", *words], cwd=CONTRIB / "prometheus", capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.packaging
@pytest.mark.timeout(900)
def test_the_image_is_built_and_puts_a_job_as_a_user_without_rights(url: str, client: Redis, tmp_path: Path) -> None:
    builder = next(filter(_stepped_calls, BUILDERS), None)
    if builder is None:
        pytest.skip("needs docker, podman or buildah")
    wheel = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(wheel, cwd=CONTRIB.parent, check=True, capture_output=True)
    build, run = BUILDERS[builder]
    command = [*build, "-f", str(DOCKERFILE), "-t", "rqtui-of-a-test", str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=800)
    if built.returncode and re.search("pinging|lookup|registry|no such image|not found|denied", built.stderr):
        pytest.skip(f"{builder} cannot get the base image: {built.stderr.strip().splitlines()[-1]}")
    assert built.returncode == 0, built.stderr
    assert "useradd warning" not in built.stderr, built.stderr
    try:
        start = run(url)
        for words in (["rqtui", "put", "mail", "1", "--id", "a"], ["rqtui", "dispatch", "--once"], ["id", "-u"]):
            ran = subprocess.run([*start, *words], capture_output=True, text=True, timeout=120)
            assert ran.returncode == 0, ran.stdout + ran.stderr
        assert ran.stdout.strip() == "10001"
        assert client.zcard("rqtui:{mail}:ready") == 1
    finally:
        subprocess.run([*build[:1], "rmi", "-f", "rqtui-of-a-test"], capture_output=True)


def _stepped_calls(program: str) -> bool:
    """Return whether a program is installed, with the daemon that docker needs."""
    return bool(shutil.which(program)) and subprocess.run([program, "info"], capture_output=True).returncode == 0


def _in_docker(program: str) -> Callable[[str], list[str]]:
    return lambda url: [
        *(program, "run", "--rm", "--network", "host", "--read-only", "-e", f"RQTUI_URL={url}"),
        *("--entrypoint", "env", "rqtui-of-a-test"),
    ]


def _in_buildah(url: str) -> list[str]:
    result = subprocess.run(["buildah", "from", "--pull=never", "rqtui-of-a-test"], capture_output=True, text=True)
    return ["buildah", "run", "--isolation", "chroot", "-e", f"RQTUI_URL={url}", result.stdout.strip(), "env"]


# How each builds, and how it runs a command in the image.
BUILDERS: dict[str, tuple[list[str], Callable[[str], list[str]]]] = {
    "docker": (["docker", "build", "-q"], _in_docker("docker")),
    "podman": (["podman", "build", "-q"], _in_docker("podman")),
    "buildah": (["buildah", "build", "-q", "--isolation", "chroot"], _in_buildah),
}


def test_alerts_are_about_metrics_that_there_are() -> None:
    text = (CONTRIB / "prometheus/rqtui-alerts.yml").read_text()
    there = {"rqtui_up", *(family.name for family in build_families([]))}
    asked = set(re.findall(r"\b(rqtui_\w+)", text))
    assert asked and asked <= there
