"""Resolve a key to a verb, and a verb to its form fields and scripts, without any side effect.

The functions decide which verb a key means for the current row, whether a question comes first, and which inputs a form
has. `verb_starter` calls them, sends the verb and shows the dialogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rqtui import ids
from rqtui.tui import keys
from rqtui.tui.target import Target
from rqtui.verbs import HERE, THROTTLE_FIELDS, VERBS, Field, Verb

if TYPE_CHECKING:
    from rqtui.model import Ref
    from rqtui.system_base.system import System

Values = dict[str, object]
QUEUE_FIELD = Field("queue", "queue", default="default")
# These verbs lose no data, and their forms are rarely needed. With one job they run at once by key. Several jobs,
# the palette, and a job that a worker would lose lead to a question first.
WITHOUT_QUESTION = frozenset({"requeue", "release"})
# Not every script accepts these arguments.
_FIXED_ARGUMENTS = frozenset(name for verb in VERBS for name, _value in verb.fixed)
PURGE_CHUNK = 1000  # jobs per call, the maximum of the script
UNLIMITED_JOBS = 10**12  # limit for systems that purge job by job
MAX_WITHOUT_DRY_RUN = 20  # a dry run comes before a change of more marked jobs, or of all matching ones


def find_verb_of_key(systems: Mapping[str, System], key: str, target: Target) -> Verb | None:
    """Return the verb that a key starts for a target, in the words of its system; None if the key does nothing."""
    if target.ref is None:
        return next((verb for verb in keys.find_verbs_on_key(key) if verb.name == "enqueue"), None)
    system = systems[target.ref.system]
    verbs = (verb for verb in keys.find_verbs_on_key(key) if _accepts_target(system, verb, target))
    return next((add_system_texts(system, verb) for verb in verbs), None)


def is_verb_offered(system: System, verb: Verb, target: Target) -> bool:
    """Return whether the palette offers this verb for the target."""
    if verb.is_hidden and verb.scope != "worker":
        return False
    if verb.scope == "place":
        return bool(target.place) and system.can(verb.name, target.place)
    return _accepts_target(system, verb, target)


def _accepts_target(system: System, verb: Verb, target: Target) -> bool:
    """Return whether a verb of the system can act on what the target has: jobs, workers or a queue."""
    if not system.can(verb.script or verb.name):
        return False
    if verb.scope == "worker":
        return bool(target.workers)
    if verb.scope == "queue":
        is_paused = target.queue is not None and system.can_resume(target.queue)
        return verb.name not in ("pause", "resume") or is_paused == (verb.name == "resume")
    if verb.scope != "job" or not target.place or not (target.jobs or target.is_whole_place):
        return False
    if verb.script == "enqueue" and (target.is_whole_place or len(target.jobs) != 1):
        return False
    is_one_place = bool(target.filter) or not target.jobs  # avoids a loop over a filter's 100 000 jobs of one place
    places = {target.place} if is_one_place else {job.place for job in target.jobs}
    return all(_accepts_place(system, verb, place) for place in places)


def _accepts_place(system: System, verb: Verb, place: str) -> bool:
    """Return whether a verb of the system takes jobs from this place."""
    if not verb.script:
        return system.can(verb.name, place)
    return system.place(place).state in verb.takes and system.can(verb.script, place)


def needs_dry_run(verb: Verb, target: Target) -> bool:
    """Return whether a verb on this target is a change of many jobs, which a dry run precedes."""
    if verb.scope != "job" or verb.script == "enqueue":
        return False
    is_all = target.is_whole_place or (bool(target.filter) and len(target.jobs) > 1)
    return is_all or len(target.jobs) > MAX_WITHOUT_DRY_RUN or verb.script != ""


def needs_question(verb: Verb, target: Target, has_form: bool, is_from_palette: bool = False) -> bool:
    """Return whether a question or form comes before the verb. With `is_from_palette` a form is always shown."""
    is_many = target.is_whole_place or len(target.jobs) > 1
    has_form = has_form and (is_from_palette or verb.name not in WITHOUT_QUESTION)
    is_careful = verb.is_dangerous or bool(verb.effect) or (verb.name == "release" and bool(target.other_holders))
    return is_careful or has_form or (is_many and verb.scope == "job")


def add_system_texts(system: System, verb: Verb) -> Verb:
    """Return the verb with the label that the users of a system know, and with its effect in that system.

    The footer shows the label, and the question before the change shows both.
    """
    label = system.verb_labels.get(verb.name, verb.label)
    question = verb.question if label == verb.label else label.capitalize()
    effect = system.verb_effects.get(verb.script or verb.name, verb.effect)
    return replace(verb, label=label, question=question, effect=effect)


def list_form_fields(system: System, verb: Verb) -> tuple[Field, ...]:
    """Return the inputs of a verb's form that its scripts accept in this system.

    A body that is not JSON in this system becomes an input of raw bytes.
    """
    script = verb.script or verb.name
    accepted_arguments = {
        (name, argument.name)
        for name in {script, *(field.verb for field in verb.form)}
        if name in system.scripts
        for argument in (*system.scripts[name].args, *system.scripts[name].each)
    }
    fields = (
        field for field in verb.form if field.verb == HERE or (field.verb or script, field.name) in accepted_arguments
    )
    if verb.script == "enqueue" and not system.can("delete"):
        fields = (field for field in fields if field.name != "delete_original")
    if system.has_json_bodies:
        is_new = verb.name == "enqueue"  # any other verb starts with the body of an existing job
        return tuple(
            replace(field, default=system.body_template) if is_new and field.name == "body" else field
            for field in fields
        )
    return tuple(replace(field, kind="bytes", default="") if field.kind == "body" else field for field in fields)


def add_queue_choices(fields: tuple[Field, ...], ref: Ref, refs: Iterable[Ref]) -> tuple[Field, ...]:
    """Add the names of the other queues of the same system to the inputs that ask for a queue."""
    names = tuple(other.queue for other in refs if other.system == ref.system and other != ref)
    return tuple(replace(field, choices=names) if field.kind == "queue" else field for field in fields)


def add_rate_fields(system: System, verb: Verb, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Add the rate-limit inputs to the form of a verb that moves jobs to a ready place."""
    makes_ready = "ready" in {system.place(place).state for place in system.script(verb.script or verb.name).targets}
    return fields if not makes_ready or any(field.kind == "rate" for field in fields) else (*fields, *THROTTLE_FIELDS)


def group_values_by_script(system: System, verb: Verb, values: Values) -> list[tuple[str, Values]]:
    """Group a form's values by the script that receives them: one form may serve two scripts (due time and priority).

    A script that accepts all values receives all of them: if one script rewrote the job first, the other would not find
    it unchanged.
    """
    script = verb.script or verb.name
    accepted_names = {argument.name for argument in (*system.script(script).args, *system.script(script).each)}
    scripts = {
        field.name: script if field.name in accepted_names and field.verb != HERE else field.verb or script
        for field in verb.form
    }
    groups: dict[str, Values] = {}
    for name, value in values.items():
        if scripts.get(name) != HERE:
            groups.setdefault(scripts.get(name, script), {})[name] = value
    if not groups and not any(field.verb not in ("", HERE) for field in verb.form):
        groups[script] = {}
    return [(name, {**arguments, **dict(verb.fixed)}) for name, arguments in groups.items()]


def complete_script_arguments(system: System, script_name: str, target: Target, arguments: Values) -> Values:
    """Add the script arguments that no user types: a new id, the place, the chunk size, and `force` for a lease."""
    script = system.script(script_name)
    argument_names = {arg.name for arg in script.args}
    arguments = dict(arguments)
    accepted_names = argument_names | {column.name for column in script.each}
    arguments = {key: value for key, value in arguments.items() if key in accepted_names or key not in _FIXED_ARGUMENTS}
    if "force" in argument_names and target.is_held:
        arguments["force"] = True  # the question has warned that a worker holds the job
    if script_name == "enqueue" and any(column.name == "id" and not column.optional for column in script.each):
        arguments.setdefault("id", ids.create_job_id())
    if script_name == "purge":
        limit = UNLIMITED_JOBS if system.purges_by_job(target.place) else PURGE_CHUNK
        arguments.update(place=target.place, limit=limit)
    return arguments
