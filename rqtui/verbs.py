"""What a person can do: one table that feeds keys, footer, help, palette, dialogs and `docs/keys.md`.

A verb is offered where the layout's folder holds a script of that name and the script's `moves` (or `takes` here)
starts at the place under the cursor. A script without a row here appears in the palette and in `rqtui act`, labelled
by its first line and treated as dangerous.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

HERE = "here"


@dataclass(frozen=True, slots=True)
class Field:
    """One input of a verb's form; `name` is the script's argument; kinds: text, body, duration, int, rate, bool."""

    name: str
    label: str
    kind: str = "text"
    default: str = ""
    verb: str = ""  # the verb this field belongs to, where a form serves two; HERE: it is read here and sent nowhere


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing a person can do.

    `scope` is what it acts on: job, place or queue. `takes` names the states whose jobs it may be asked for, where the
    script's `moves` cannot tell. `question` is what is asked before a dangerous verb; `lost` what cannot be undone.
    `fixed` are arguments that the key always passes. Verbs that share a key differ in `takes`. `script` is what it is
    made with, where that has another name: such a verb is a way to use the script, known to the screen alone. `effect`
    says what will happen: a verb that has one asks first, though nothing may be lost by it. One that `needs_form` means
    nothing before a person has filled something in.
    """

    name: str
    label: str
    past: str
    key: str = ""
    scope: str = "job"
    takes: tuple[str, ...] = ()
    danger: bool = False
    question: str = ""
    lost: str = ""
    effect: str = ""
    form: tuple[Field, ...] = ()
    needs_form: bool = False
    fixed: tuple[tuple[str, object], ...] = ()
    hidden: bool = False  # reached by the API, the loops or the shell, not from a menu
    script: str = ""
    summary: str = ""  # of one that has no script of its own


_WHEN = (
    Field("delay_ms", "due from now", "duration", verb="reschedule"),
    Field("priority", "priority (lower first)", "int", verb="reprioritise"),
)

_NEW = (
    Field("body", "body", "body", "{}"),
    Field("id", "id (made when empty)"),
    Field("name", "kind of job"),
    Field("delay_ms", "delay", "duration"),
    Field("priority", "priority (lower first)", "int"),
    Field("ttr_ms", "lease", "duration"),
    Field("max_attempts", "attempts at most", "int"),
    Field("keep_ms", "keep when done", "duration"),
    Field("opts", "other options (JSON)"),
)
_AGAIN = (Field("keep_attempts", "keep attempts", "bool"),)
DRIP = (
    Field("rate", "by drips, per second", "rate", verb=HERE),
    Field("stop_at_failures", "  stop after failures", "int", verb=HERE),
    Field("stop_at_depth", "  stop when so many wait", "int", verb=HERE),
)
SCREEN_WORKER = "rqtui"  # the name under which a screen leases a job for the person before it
ALL_STATES = ("scheduled", "ready", "reserved", "done", "dead")

VERBS: tuple[Verb, ...] = (
    Verb("enqueue", "enqueue", "enqueued", "N", scope="queue", form=_NEW, needs_form=True),
    Verb(
        "ack",
        "ack",
        "acked",
        "A",
        takes=("reserved",),
        danger=True,
        question="Ack",
        lost="their bodies, where the system does not keep them",
    ),
    Verb(
        "release", "release", "released", "L", takes=("reserved",), form=(Field("delay_ms", "not before", "duration"),)
    ),
    Verb(
        "reject",
        "reject",
        "rejected",
        "K",
        takes=("reserved",),
        danger=True,
        question="Reject",
        form=(
            Field("error", "reason", default="rejected by an operator"),
            Field("final", "no further attempt", "bool"),
        ),
    ),
    Verb(
        "kill",
        "kill",
        "killed",
        "K",
        takes=("scheduled", "ready"),
        danger=True,
        question="Kill",
        form=(Field("reason", "reason", default="killed by an operator"),),
    ),
    Verb(
        "requeue",
        "requeue",
        "requeued",
        "R",
        takes=("dead", "done"),
        form=_AGAIN,
    ),
    Verb("promote", "promote", "promoted", "R", takes=("scheduled",)),
    Verb(
        "delete",
        "delete",
        "deleted",
        "D",
        takes=ALL_STATES,
        danger=True,
        question="Delete",
        lost="the jobs with their bodies and errors",
    ),
    Verb("reschedule", "reschedule", "rescheduled", "T", takes=("scheduled", "ready"), form=_WHEN, needs_form=True),
    Verb(
        "reprioritise",
        "reprioritise",
        "reprioritised",
        takes=("scheduled", "ready"),
        form=_WHEN[1:],
        needs_form=True,
    ),
    Verb("bump", "bump", "bumped", takes=("ready",)),
    Verb(
        "extend",
        "extend",
        "extended",
        "E",
        takes=("reserved",),
        form=(Field("ttr_ms", "lease from now", "duration"),),
        needs_form=True,
    ),
    Verb("cancel", "cancel", "asked to cancel", takes=("reserved",)),
    Verb(
        "duplicate",
        "duplicate",
        "duplicated",
        "C",
        takes=ALL_STATES,
        question="Duplicate",
        form=(*_NEW, Field("delete_original", "delete the original, if it still is as it was read", "bool", verb=HERE)),
        needs_form=True,
        script="enqueue",
        summary="Duplicate a job: enqueue a new one with the same body.",
    ),
    Verb(
        "edit and retry",
        "edit and retry",
        "edited and enqueued",
        takes=("scheduled", "ready", "done", "dead"),
        question="Edit and retry",
        form=(
            *_NEW,
            Field("delete_original", "delete the original, if it still is as it was read", "bool", "x", verb=HERE),
        ),
        needs_form=True,
        script="enqueue",
        summary="Edit and retry a job: enqueue another body, and delete the original.",
    ),
    Verb(
        "drip requeue",
        "drip requeue",
        "requeued",
        takes=("dead", "done"),
        question="Drip requeue",
        form=(*_AGAIN, *(replace(each, default=given) for each, given in zip(DRIP, ("5/s", "20", ""), strict=True))),
        script="requeue",
        summary="Drip requeue: requeue so many jobs per second, until failures or depth pass a limit.",
    ),
    Verb(
        "pause",
        "pause",
        "paused",
        "P",
        scope="queue",
        question="Pause",
        effect="no worker gets a job of it until it is resumed; jobs that are reserved go on",
    ),
    Verb(
        "resume",
        "resume",
        "resumed",
        "P",
        scope="queue",
        question="Resume",
        effect="workers get its jobs again, at once",
    ),
    Verb(
        "limit",
        "limit",
        "limited",
        scope="queue",
        form=(
            Field("concurrency", "jobs at once (0: any)", "int"),
            Field("max", "jobs per window (0: any)", "int"),
            Field("duration_ms", "  the window", "duration"),
        ),
        needs_form=True,
    ),
    Verb(
        "unschedule",
        "unschedule",
        "unscheduled",
        scope="queue",
        danger=True,
        question="Unschedule a scheduler of",
        lost="the scheduler and its next job, until its application makes it anew",
        form=(Field("scheduler", "scheduler"),),
        needs_form=True,
    ),
    Verb(
        "purge",
        "purge",
        "purged",
        scope="place",
        danger=True,
        question="Purge",
        lost="every job in it, with bodies and errors",
    ),
    Verb(
        "reserve",
        "lease",
        "leased",
        scope="queue",
        question="Lease the next job of",
        effect=f"the next ready job goes to {SCREEN_WORKER}; no worker gets it before it is released or the lease ends",
        form=(Field("ttr_ms", "lease from now", "duration"),),
        fixed=(("limit", 1), ("worker", SCREEN_WORKER)),
    ),
    Verb(
        "pull",
        "pull",
        "pulled",
        scope="queue",
        fixed=(("limit", 1),),
        danger=True,
        question="Pull the next job of",
        effect="the next ready job leaves the queue, and no worker will run it",
        lost="the job: no lease, no second try",
    ),
    Verb("dispatch", "dispatch", "dispatched", scope="queue", hidden=True),
    Verb("reap", "reap", "reaped", scope="queue", hidden=True),
    Verb("park", "park", "parked", scope="queue", hidden=True, danger=True, question="Park"),
    Verb("forget", "forget", "forgotten", hidden=True, danger=True, question="Forget"),
    Verb("configure", "configure", "configured", scope="queue", hidden=True),
    Verb("restore", "restore", "restored", hidden=True),
    Verb("revert", "revert", "reverted", hidden=True),
    Verb("repair", "repair", "repaired", hidden=True),
    Verb("beat", "beat", "beat", scope="queue", hidden=True),
    Verb("quiet", "quiet", "asked to go quiet", scope="worker", hidden=True),
    Verb("stop", "stop", "asked to stop", scope="worker", hidden=True),
)

BY_NAME: dict[str, Verb] = {verb.name: verb for verb in VERBS}


def verb(name: str, summary: str = "") -> Verb:
    """The row of `name`; for a script without one, a dangerous verb labelled by the script's first line."""
    known = BY_NAME.get(name)
    if known:
        return known
    return Verb(name, name, f"{name}: done", danger=True, question=summary or name)
