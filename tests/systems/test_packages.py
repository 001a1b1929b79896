"""Test systems from other packages: found by an entry point, imported late; a broken package stops no other.

`tests/test_systems_of_packages.py` tests what a person installs and runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from shell import shell

from rqtui.client.queue import Queue
from rqtui.config.settings import Settings
from rqtui.errors import UsageError
from rqtui.session import create_engine
from rqtui.systems import by_sight, registry

HOTQUEUE = Path(__file__).resolve().parents[1] / "packages" / "rqtui-hotqueue"
Bring = Callable[..., None]


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bring]:
    """Return a function that installs a package: its name, its entry points (name, value), and a module's text."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name: str, *points: tuple[str, str], module: str = "") -> None:
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(
            "".join(["[rqtui.systems]\n", *(f"{point} = {value}\n" for point, value in points)])
        )
        if module:
            (tmp_path / f"{name}.py").write_text(module)
        registry._load_external_systems.cache_clear()

    yield install
    registry._load_external_systems.cache_clear()
    for name in ("rqtui_hotqueue", "wrong", "sick"):
        sys.modules.pop(name, None)


def test_a_package_brings_a_system(client: Redis, url: str, bring: Bring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HOTQUEUE))
    bring("rqtui-hotqueue", ("hotqueue", "rqtui_hotqueue:HotQueue"))
    assert "hotqueue" in registry.list_system_names() and "hotqueue" not in registry.list_own_system_names()
    assert "rqtui_hotqueue" not in sys.modules, "it is imported when it is asked for"
    client.rpush("hotqueue:mail", "one", "two")
    [queue] = shell(url, "snapshot", "--json").json["queues"]
    assert (queue["queue"], queue["layout"], queue["places"][0]["count"]) == ("mail", "hotqueue", 2)
    assert shell(url, "put", "hotqueue:mail", '{"to": "ada"}').code == 0
    [_one, _two, put] = shell(url, "jobs", "mail", "waiting", "--json").json["jobs"]
    assert b"ada" in client.lindex("hotqueue:mail", 2) and put["state"] == "ready"
    assert shell(url, "act", "delete", "mail", put["id"], "--yes").code == 0 and client.llen("hotqueue:mail") == 2
    result = shell(url, "layouts", "--json")
    assert result.code == 0
    assert {each["layout"]: each["package"] for each in result.json if each["package"]} == {
        "hotqueue": "rqtui-hotqueue 1.0"
    }
    assert "hotqueue: waiting  (brought by rqtui-hotqueue 1.0)" in shell(url, "layouts").out


def test_one_that_cannot_be_used_is_a_sentence_and_stops_no_other(client: Redis, url: str, bring: Bring) -> None:
    bring("sick", ("sick", "sick:Sick"), ("sicker", "sick:Sick"), module="raise RuntimeError('no luck')\n")
    bring("absent", ("absent", "no_such_module:It"))
    bring("clash", ("native", "clash:Other"), ("sick", "clash:Other"))
    bring("wrong", ("wrong", "wrong:It"), ("named", "rqtui.systems.rq.system:Rq"), module="It = dict\n")
    unusable = {
        "the system sick of clash 1.0 cannot be used: ModuleNotFoundError: No module named 'clash'.",
        "the system sicker of sick 1.0 cannot be used: RuntimeError: no luck.",
        "the system absent of absent 1.0 cannot be used: ModuleNotFoundError: No module named 'no_such_module'.",
        "clash 1.0 brings a system native, as rqtui itself does: that of rqtui itself is used.",
        "sick 1.0 brings a system sick, as clash 1.0 does: that of clash 1.0 is used.",
        "the system wrong of wrong 1.0 cannot be used: TypeError: wrong:It is no System.",
        "the system named of wrong 1.0 cannot be used: ValueError: its system is called rq, its entry point named.",
    }
    result = shell(url, "layouts", "--json")
    assert (
        result.code == 1
        and {"native", "rq"} <= {each["layout"] for each in result.json}
        and "Traceback" not in result.err
    )
    assert {line.removeprefix("rqtui: ") for line in result.err.splitlines()} == unusable
    assert shell(url, "put", "mail", "{}").code == 0 and shell(url, "jobs", "mail", "--json").code == 0
    found = shell(url, "health", "--json").json["findings"]
    assert {each["text"] for each in found if each["kind"] == "unusable-system"} == unusable
    asked = shell(url, "--system", "wrong", "snapshot")
    assert asked.code == 2 and "the system wrong of wrong 1.0 cannot be used" in asked.err
    with pytest.raises(UsageError, match="there is no system"):
        registry.create_system("nobody")


MISSPELLED = """
from pathlib import Path
from rqtui_hotqueue import HotQueue

class Broken(HotQueue):
    name = "broken"
    folder = HotQueue.folder
    places = (HotQueue.places[0]._replace(name="later"),)
"""


def test_a_package_whose_places_are_not_counted_is_refused_with_the_correction(
    client: Redis, url: str, bring: Bring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(HOTQUEUE))
    bring("wrong", ("broken", "wrong:Broken"), module=MISSPELLED)
    Queue("mail", client).put("{}")
    result = shell(url, "health", "--json")
    [finding] = [each for each in result.json["findings"] if each["kind"] == "unusable-system"]
    assert finding["text"].startswith("the system broken of wrong 1.0 cannot be used: ")
    assert "`returns` has no value later: return the number of jobs in each place" in finding["text"]
    assert finding["text"].endswith("rqtui systems --check broken lists 2 more.")
    checked = shell(url, "systems", "--check", "broken")
    assert checked.code == 1 and len(checked.out.splitlines()) == 3
    assert len(shell(url, "jobs", "mail", "ready", "--json").json["jobs"]) == 1, "the other systems work"


def test_a_package_for_a_system_replaces_the_row_that_only_recognises_it(
    bring: Bring, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring("wrong", ("resque", "wrong:It"), module="It = dict\n")
    assert "resque" in registry.list_system_names() and "Resque" not in {
        each.title for each in by_sight.list_unsupported_systems()
    }
    engine = create_engine(Settings())
    assert "resque" not in engine.systems and "native" in engine.systems
