"""Which verb a key starts, and which fields and arguments it has, for each kind of target: `verbs_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/services/test_verbs_at_bounds.py` writes the text; review the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kept_text import assert_lines_match_file

from rqtui.model import Job, Queue, Ref, State
from rqtui.system_base.system import System
from rqtui.systems import registry
from rqtui.tui import keys
from rqtui.tui.services import verb_resolution
from rqtui.tui.target import Target
from rqtui.verbs import HERE, VERBS, Verb

KEPT = Path(__file__).with_name("verbs_at_bounds.txt")
SYSTEMS = {name: registry.create_system(name) for name in ("native", "rq", "celery", "sidekiq")}


def build_job(system: System, state: State) -> Job:
    place = next(place.name for place in system.places if place.state is state)
    return Job(b"j1", "q", system.name, place, state, b"j1", worker="w1")


def list_targets(system: System) -> dict[str, Target]:
    ref = Ref(system.name, "q")
    ready, held = build_job(system, State.READY), build_job(system, State.RESERVED)
    usual: dict[str, Any] = {"ref": ref, "place": ready.place, "state": State.READY}
    return {
        "no queue": Target(),
        "a queue": Target(ref),
        "a running queue": Target(ref, queue=Queue("q", system.name)),
        "a paused queue": Target(ref, queue=Queue("q", system.name, is_paused=True)),
        "an empty place": Target(**usual),
        "a job": Target(**usual, jobs=(ready,)),
        "a held job": Target(ref, held.place, (held,), state=State.RESERVED),
        "two jobs": Target(**usual, jobs=(ready, ready)),
        "a job without a place": Target(ref, jobs=(ready,)),
        "jobs of two places": Target(**usual, jobs=(ready, held)),
        "a match": Target(**usual, jobs=(held,), filter="x"),
        "no match": Target(**usual, filter="x"),
        "a whole place": Target(**usual, is_whole_place=True),
        "a worker": Target(ref, workers=("w1",)),
        "a job of a worker": Target(ref, held.place, (held,), workers=("w1",)),
    }


def name_verb(verb: Verb | None) -> str:
    return "" if verb is None else verb.label.replace(" ", "_")


def describe_offers() -> Iterator[str]:
    for system in SYSTEMS.values():
        for title, target in list_targets(system).items():
            found = {key: verb_resolution.find_verb_of_key(SYSTEMS, key, target) for key in keys.VERB_KEYS}
            yield f"{system.name}, {title}: " + " ".join(f"{key}={name_verb(verb)}" for key, verb in found.items())
            offered = [verb for verb in VERBS if verb_resolution.is_verb_offered(system, verb, target)]
            yield f"  offered {' '.join(map(name_verb, offered))}"


def describe_texts() -> Iterator[str]:
    for system in SYSTEMS.values():
        for verb in VERBS:
            shown = verb_resolution.add_system_texts(system, verb)
            if shown != verb:
                yield f"{system.name} {verb.name}: {shown.label!r} {shown.question!r} {shown.effect!r}"


def describe_forms() -> Iterator[str]:
    for system in SYSTEMS.values():
        refs = [Ref(system.name, "q"), Ref(system.name, "p"), Ref("native" if system.name == "rq" else "rq", "o")]
        for verb in VERBS:
            fields = verb_resolution.list_form_fields(system, verb)
            if fields:
                shown = " ".join(f"{field.name}:{field.kind}:{field.default!r}" for field in fields)
                yield f"{system.name} {name_verb(verb)}: {shown}"
                choices = [field.choices for field in verb_resolution.add_queue_choices(fields, refs[0], refs)]
                if any(choices):
                    yield f"  choices {choices}"
            if verb.scope != "job" or (verb.script or verb.name) not in system.scripts:
                continue
            limited = verb_resolution.add_rate_fields(system, verb, fields)
            added = " ".join(field.name for field in limited[len(fields) :])
            is_complete = verb_resolution.add_rate_fields(system, verb, limited) == limited
            yield f"  {system.name} {name_verb(verb)} at a limited rate: {added or 'nothing more'} {is_complete}"


def describe_arguments() -> Iterator[str]:
    for system in SYSTEMS.values():
        targets = list_targets(system)
        for verb in VERBS:
            if (verb.script or verb.name) not in system.scripts:
                continue
            names = [field.name for field in verb.form if field.verb in ("", HERE) or field.verb in system.scripts]
            for filled in dict.fromkeys(((), *((name,) for name in names), tuple(names))):
                values: dict[str, object] = {name: f"<{name}>" for name in filled}
                groups = verb_resolution.group_values_by_script(system, verb, values)
                yield f"{system.name} {name_verb(verb)} with {' '.join(filled) or 'nothing'}: {groups}"
            for title in ("a job", "a held job"):
                typed: dict[str, object] = {"force": False, "nosuch": 1, "place": "typed", "keep": 2}
                script = verb.script or verb.name
                completed = verb_resolution.complete_script_arguments(system, script, targets[title], typed)
                if "id" in completed:
                    completed["id"] = type(completed["id"]).__name__
                yield f"  of {title}: {completed}"


def test_the_verbs_of_each_target_match_the_stored_text() -> None:
    parts = (describe_offers, describe_texts, describe_forms, describe_arguments)
    assert_lines_match_file((line for part in parts for line in part()), KEPT)
