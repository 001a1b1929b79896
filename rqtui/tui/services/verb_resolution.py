"""From a key to a verb, and from a verb to its form and its scripts. Pure: `changes` asks, sends and shows.

It decides what a key means for what is under the cursor, whether a question comes first, and which inputs a form has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rqtui import ids
from rqtui.tui import keys
from rqtui.tui.target import Target
from rqtui.verbs import DRIP, HERE, VERBS, Field, Verb

if TYPE_CHECKING:
    from rqtui.layout.layout import Layout

Values = dict[str, object]
QUEUE_FIELD = Field("queue", "queue", default="default")
# Nothing can be lost by these, and their forms are for the rare case: one job goes at once, by key; several jobs ask,
# and so do the palette and a job that a worker would lose.
AT_ONCE = frozenset({"requeue", "release"})
_FIXED = frozenset(name for verb in VERBS for name, _value in verb.fixed)  # not every script takes them
PURGE_LIMIT = 1000  # jobs per call: what the script takes at most
EVERYTHING = 10**12  # jobs, where no script takes them
FEW = 20  # marked jobs: for more, or for all that match, a dry run comes first


def verb_for(layouts: Mapping[str, Layout], key: str, target: Target) -> Verb | None:
    """Which verb a key means for a target; None when it can do nothing there."""
    if target.ref is None:
        return next((verb for verb in keys.verbs_of(key) if verb.name == "enqueue"), None)
    system = layouts[target.ref.layout]
    return next((verb for verb in keys.verbs_of(key) if _fits(system, verb, target)), None)


def offered(system: Layout, verb: Verb, target: Target) -> bool:
    """Whether the palette has this verb for the target."""
    if verb.hidden and verb.scope != "worker":
        return False
    if verb.scope == "place":
        return bool(target.place) and system.can(verb.name, target.place)
    return _fits(system, verb, target)


def _fits(system: Layout, verb: Verb, target: Target) -> bool:
    if not system.can(verb.script or verb.name):
        return False
    if verb.scope == "worker":
        return bool(target.workers)
    if verb.scope == "queue":
        is_paused = target.queue is not None and system.can_resume(target.queue)
        return verb.name not in ("pause", "resume") or is_paused == (verb.name == "resume")
    if verb.scope != "job" or not target.place or not (target.jobs or target.whole):
        return False
    if verb.script == "enqueue" and (target.whole or len(target.jobs) != 1):
        return False
    is_one_place = bool(target.filter) or not target.jobs  # what a filter chose may be 100 000 jobs of one place
    places = {target.place} if is_one_place else {job.place for job in target.jobs}
    return all(_takes(system, verb, place) for place in places)


def _takes(system: Layout, verb: Verb, place: str) -> bool:
    if not verb.script:
        return system.can(verb.name, place)
    return system.place(place).state in verb.takes and system.can(verb.script, place)


def is_bulk(verb: Verb, target: Target) -> bool:
    """Whether a dry run comes before it."""
    if verb.scope != "job" or verb.script == "enqueue":
        return False
    is_all = target.whole or (bool(target.filter) and len(target.jobs) > 1)
    return is_all or len(target.jobs) > FEW or verb.script != ""


def asks_first(verb: Verb, target: Target, has_form: bool, is_chosen: bool = False) -> bool:
    """Whether a question or a form comes before the verb; `is_chosen` from the palette always shows its form."""
    is_many = target.whole or len(target.jobs) > 1
    has_form = has_form and (is_chosen or verb.name not in AT_ONCE)
    is_careful = verb.danger or bool(verb.effect) or (verb.name == "release" and bool(target.others))
    return is_careful or has_form or (is_many and verb.scope == "job")


def of_system(system: Layout, verb: Verb) -> Verb:
    """A verb with what it does in this system, where that is more than usual."""
    return replace(verb, effect=system.effects.get(verb.script or verb.name, verb.effect))


def fields(system: Layout, verb: Verb) -> tuple[Field, ...]:
    """The inputs of a verb's form that its scripts have in this system; the bodies of others are not JSON by nature."""
    script = verb.script or verb.name
    known = {
        (name, arg.name)
        for name in {script, *(each.verb for each in verb.form)}
        if name in system.scripts
        for arg in (*system.scripts[name].args, *system.scripts[name].each)
    }
    form = (each for each in verb.form if each.verb == HERE or (each.verb or script, each.name) in known)
    if verb.script == "enqueue" and not system.can("delete"):
        form = (each for each in form if each.name != "delete_original")
    if system.has_json_bodies:
        is_new = verb.name == "enqueue"  # any other verb begins with the body of a job
        return tuple(
            replace(each, default=system.new_body) if is_new and each.name == "body" else each for each in form
        )
    return tuple(replace(each, kind="bytes", default="") if each.kind == "body" else each for each in form)


def with_drip(system: Layout, verb: Verb, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """A form of many jobs: where they are to run again it may go by drips."""
    runs = "ready" in {system.place(place).state for place in system.script(verb.script or verb.name).targets}
    return fields if not runs or any(each.kind == "rate" for each in fields) else (*fields, *DRIP)


def by_verb(system: Layout, verb: Verb, values: Values) -> list[tuple[str, Values]]:
    """The form's values by the verb they belong to: one form may serve two verbs (due time and priority).

    A script that takes them all gets them all: where one verb rewrites a job, the other would not find it as it was.
    """
    script = verb.script or verb.name
    taken = {arg.name for arg in (*system.script(script).args, *system.script(script).each)}
    owners = {
        each.name: script if each.name in taken and each.verb != HERE else each.verb or script for each in verb.form
    }
    parts: dict[str, Values] = {}
    for name, value in values.items():
        if owners.get(name) != HERE:
            parts.setdefault(owners.get(name, script), {})[name] = value
    if not parts and not any(each.verb not in ("", HERE) for each in verb.form):
        parts[script] = {}
    return [(name, {**form, **dict(verb.fixed)}) for name, form in parts.items()]


def completed(system: Layout, name: str, target: Target, form: Values) -> Values:
    """A form with what nobody had to type: a new id, the place, the size of a chunk, force against a worker's lease."""
    script = system.script(name)
    args = {arg.name for arg in script.args}
    form = dict(form)
    known = args | {column.name for column in script.each}
    form = {key: value for key, value in form.items() if key in known or key not in _FIXED}
    if "force" in args and target.is_held:
        form["force"] = True  # the question has said that a worker holds it
    if name == "enqueue" and any(column.name == "id" and not column.optional for column in script.each):
        form.setdefault("id", ids.new_id())
    if name == "purge":
        limit = EVERYTHING if system.purges_by_job(target.place) else PURGE_LIMIT
        form.update(place=target.place, limit=limit)
    return form
