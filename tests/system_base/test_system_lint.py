"""Each mistake in a system is one sentence with its place: planted in subclasses of RQ and the dispatcher."""

from __future__ import annotations

from typing import Any

import pytest
from shell import shell

from rqtui.model import State
from rqtui.system_base.foreign_system import FindingText
from rqtui.system_base.system import System
from rqtui.system_base.system_lint import find_structure_faults, find_system_faults
from rqtui.systems import registry
from rqtui.systems.dispatcher import Dispatcher
from rqtui.systems.rq.system import Rq

FIRST, *REST = Rq.places
WITHOUT_RESERVED = tuple(
    each._replace(state=State.READY) if each.state is State.RESERVED else each for each in Rq.places
)


@pytest.mark.parametrize("name", registry.list_own_system_names())
def test_no_system_of_rqtui_has_a_mistake(name: str) -> None:
    assert find_system_faults(registry.create_system(name)) == []


def plant(base: type[System] = Rq, **attributes: Any) -> System:
    """Create a system with other class attributes than its base class."""
    return type("Planted", (base,), {"__module__": __name__, **attributes})()


def plant_finding(text: str = "{number:job}", severity: str = "warning", remedy: str = "wait") -> System:
    """Create a system with another text for the finding `abandoned`."""
    system = Rq()
    system.finding_texts = {"abandoned": FindingText(severity, text, remedy)}
    return system


def without_script(name: str) -> System:
    """Create a system whose folder lacks a script."""
    system = Rq()
    rest = {each: script for each, script in system.scripts.items() if each != name}
    system.scripts = type("Scripts", (dict,), {"path": system.scripts.path})(rest)  # type: ignore[assignment]
    return system


STRUCTURE = (
    (lambda: plant(places=()), "`places` is empty"),
    (lambda: plant(places=(*Rq.places, *(FIRST._replace(name=f"more{n}") for n in range(5)))), "has keys for 9"),
    (lambda: plant(places=(*Rq.places, FIRST)), f"two places are called {FIRST.name}"),
    (lambda: plant(places=(FIRST._replace(state="waiting"), *REST)), "state 'waiting' is no State: use one of "),
    (lambda: plant(places=(FIRST._replace(type="sorted set"), *REST)), "type 'sorted set' is no type of Redis"),
    (lambda: plant(keys=lambda self, queue: {"scheduled": "a"}), "KEYS has deferred, but `keys` returns scheduled"),
    (lambda: plant(keys=lambda self, queue: 1 / 0), "keys('sample') raised ZeroDivisionError: division by zero"),
    (lambda: without_script("counts"), "there is no counts.lua: a ForeignSystem needs counts, page, show"),
    (lambda: without_script("show"), "there is no show.lua"),
    (lambda: plant(places=(*REST, FIRST._replace(name="later"))), "`returns` has no value later"),
    (lambda: plant(places=tuple(REST)), f"`moves` names {FIRST.name}, which is no place: "),
    (
        lambda: plant(keys=lambda _self, queue: {**Rq().keys(queue), FIRST.name: "wrong"}),
        f"none of the keys that `keys` returns is {Rq().keys('sample')[FIRST.name]}",
    ),
)
OTHER = (
    (lambda: plant(decode_row=None), "no part of rqtui uses `decode_row`: write `decode_rows`"),
    (lambda: plant(Dispatcher, worker_request=None), "write `workers_request`"),
    (lambda: plant(known_fields=frozenset({"atempts"})), "`known_fields` names 'atempts': use some of error, lease, "),
    (lambda: plant(known_fields=frozenset({"name"})), "without worker in `known_fields`: add it for `workers_request`"),
    (
        lambda: plant(places=WITHOUT_RESERVED),
        "skips a system without a reserved place",
    ),
    (lambda: plant(verb_labels={"requeu": "retry"}), "`verb_labels` names requeu, which is no verb: write requeue"),
    (lambda: plant(verb_effects={"zzz": "?"}), "`verb_effects` names zzz, which is no verb"),
    (lambda: plant(missing_verbs={"requeue": "no"}), "`missing_verbs` says that there is no requeue, but "),
    (lambda: plant(verb_places={"requeue": ("fialed",)}), "`verb_places` of requeue names fialed, which is no place"),
    (lambda: plant_finding(severity="error"), "severity 'error': use one of critical, info, warning"),
    (lambda: plant_finding("{nubmer:job}"), "text has {nubmer}, which is no column of faults.lua: its columns are "),
    (lambda: plant_finding(remedy="rqtui reap {que}"), "remedy has {que}"),
    (lambda: plant_finding("{number:agee}"), "text has {number:agee}: write {number:age} for a duration"),
    (lambda: plant_finding("{number"), "text: expected '}' before end of string"),
    (lambda: without_script("faults"), "there is no faults.lua, so none of its findings is ever reported"),
)


@pytest.mark.parametrize(("create", "expected"), [*STRUCTURE, *OTHER])
def test_a_planted_mistake_is_found(create: Any, expected: str) -> None:
    found = find_system_faults(create())
    assert any(expected in sentence for sentence in found), found


@pytest.mark.parametrize(("create", "expected"), STRUCTURE)
def test_a_mistake_that_prevents_showing_a_queue_is_found_at_load(create: Any, expected: str) -> None:
    assert any(expected in sentence for sentence in find_structure_faults(create()))


@pytest.mark.parametrize(("create", "expected"), OTHER)
def test_a_mistake_in_a_text_does_not_refuse_a_system(create: Any, expected: str) -> None:
    assert find_structure_faults(create()) == []


def test_a_finding_without_a_text_and_a_text_without_a_finding_are_named() -> None:
    system = Rq()
    system.finding_texts = {}
    assert any("there is no faults.toml beside it" in sentence for sentence in find_system_faults(system))
    system.finding_texts = {**Rq().finding_texts, "unheard": FindingText("info", "x", "y")}
    assert any(
        "[unheard]: faults.lua has no quoted word 'unheard'" in sentence for sentence in find_system_faults(system)
    )


def test_a_place_that_is_only_published_needs_no_type_and_no_count() -> None:
    published = FIRST._replace(name="ended", type="", is_from_events=True)
    assert find_system_faults(plant(Dispatcher, places=(*Dispatcher.places, published))) == []


def test_the_command_prints_the_mistakes_and_ends_with_1(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    ran = shell(url, "systems", "--check", "rq")
    assert (ran.code, ran.out) == (0, "rq: no mistake was found in its places, keys, scripts and texts\n")
    monkeypatch.setattr(Rq, "verb_labels", {"requeu": "retry"})
    ran = shell(url, "systems", "--check", "rq")
    assert ran.code == 1 and "`verb_labels` names requeu, which is no verb: write requeue" in ran.out
    ran = shell(url, "systems", "--check", "rq", "--json")
    assert ran.code == 1 and ran.json["layout"] == "rq" and len(ran.json["faults"]) == 1
    assert shell(url, "systems", "--check", "nosuch").code == 2


def test_a_general_finding_whose_fix_has_no_script_is_named() -> None:
    found = find_system_faults(without_script("reap"))
    assert found == [], "the class says what helps instead"
    system = without_script("reap")
    system.finding_remedies = {}  # type: ignore[misc]
    assert any("`returns` has expired, and there is no reap.lua" in sentence for sentence in find_system_faults(system))
