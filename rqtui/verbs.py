"""The verbs: all changes a person can make, in one table for keys, footer, help, palette, dialogs and `docs/keys.md`.

A verb is offered if the folder of the system has a script of that name, and the script's `moves` (or `takes` here)
starts at the place under the cursor. A script without a row here appears in the palette and in `rqtui act`. It is
labelled by its first line and treated as dangerous.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

HERE = "here"
TO_QUEUE = "to_queue"  # the argument of a script that moves jobs to another queue: the name of that queue


@dataclass(frozen=True, slots=True)
class Field:
    """One input field of the form that a person fills in before a verb runs."""

    name: str  # the argument of the script
    label: str
    kind: str = "text"  # text | body | duration | int | rate | bool | queue
    default: str = ""
    verb: str = ""  # the verb that uses this field, if a form serves two; HERE: rqtui uses it and does not send it
    needs: str = ""  # the name of another field; this one is shown and used only while the other one is filled in
    choices: tuple[str, ...] = ()  # what a person may want to type, such as the names of the other queues


@dataclass(frozen=True, slots=True)
class Verb:
    """A change that a person can make to a job, a place, a queue or a worker, such as `ack`, `requeue` or `purge`."""

    name: str
    label: str
    past: str  # the past tense, for messages
    key: str = ""  # the keyboard key; verbs that share one differ in `takes`
    scope: str = "job"  # job | place | queue | worker
    takes: tuple[str, ...] = ()  # the states of the jobs it applies to, if the script's `moves` does not say
    is_dangerous: bool = False
    question: str = ""  # asked before a dangerous verb runs
    lost: str = ""  # what cannot be undone
    effect: str = ""  # what will happen; such a verb asks first, even if nothing can be lost
    form: tuple[Field, ...] = ()
    needs_form: bool = False  # the verb does nothing unless a person fills in the form
    fixed: tuple[tuple[str, object], ...] = ()  # arguments that are always passed
    is_rare: bool = False  # a footer names it after the keys of the view
    is_hidden: bool = False  # used by the API, the background threads or the shell, not shown in a menu
    script: str = ""  # the script to run, if it has another name; only the screen has such verbs
    summary: str = ""  # of a verb without a script of its own


_SCHEDULE_FIELDS = (
    Field("delay_ms", "due from now", "duration", verb="reschedule"),
    Field("priority", "priority (lower first)", "int", verb="reprioritise"),
)

_NEW_JOB_FIELDS = (
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
_REQUEUE_FIELDS = (Field("keep_attempts", "keep attempts", "bool"),)
THROTTLE_FIELDS = (
    Field("rate", "speed", "rate", verb=HERE),
    Field("canary", "jobs to try first", "int", verb=HERE),
    Field("canary_wait", "  stop if none is taken", "duration", verb=HERE, needs="canary"),
    Field("canary_run", "  stop if one runs for", "duration", verb=HERE, needs="canary"),
    Field("stop_at_failures", "stop after failures", "int", verb=HERE),
    Field("stop_at_depth", "stop at ready jobs", "int", verb=HERE),
)
_DRIP_DEFAULTS = {"rate": "5/s", "stop_at_failures": "20"}
SCREEN_WORKER = "rqtui"  # the worker name with which the screen leases a job for a person
ALL_STATES = ("scheduled", "ready", "reserved", "done", "dead")

VERBS: tuple[Verb, ...] = (
    Verb("enqueue", "enqueue", "enqueued", "N", scope="queue", form=_NEW_JOB_FIELDS, needs_form=True),
    Verb(
        "ack",
        "ack",
        "acked",
        "A",
        takes=("reserved",),
        is_dangerous=True,
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
        is_dangerous=True,
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
        is_dangerous=True,
        question="Kill",
        form=(Field("reason", "reason", default="killed by an operator"),),
    ),
    Verb(
        "requeue",
        "requeue",
        "requeued",
        "R",
        takes=("dead", "done"),
        form=_REQUEUE_FIELDS,
    ),
    Verb("promote", "promote", "promoted", "R", takes=("scheduled",)),
    Verb(
        "delete",
        "delete",
        "deleted",
        "D",
        takes=ALL_STATES,
        is_dangerous=True,
        question="Delete",
        lost="the jobs with their bodies and errors",
    ),
    Verb(
        "reschedule",
        "reschedule",
        "rescheduled",
        "T",
        takes=("scheduled", "ready"),
        form=_SCHEDULE_FIELDS,
        needs_form=True,
    ),
    Verb(
        "reprioritise",
        "reprioritise",
        "reprioritised",
        takes=("scheduled", "ready"),
        form=_SCHEDULE_FIELDS[1:],
        needs_form=True,
    ),
    Verb("bump", "bump", "bumped", takes=("ready",)),
    Verb(
        "move",
        "move",
        "moved",
        "M",
        takes=("scheduled", "ready", "dead"),
        question="Move",
        form=(Field(TO_QUEUE, "to the queue", "queue"),),
        needs_form=True,
        is_rare=True,
    ),
    Verb(
        "extend",
        "extend",
        "extended",
        "E",
        takes=("reserved",),
        form=(Field("ttr_ms", "lease from now", "duration"),),
        needs_form=True,
    ),
    Verb(
        "cancel",
        "cancel",
        "asked to cancel",
        takes=("reserved",),
        form=(Field("signal", "signal if it runs, or none", default="TERM"),),
    ),
    Verb(
        "duplicate",
        "duplicate",
        "duplicated",
        "C",
        takes=ALL_STATES,
        question="Duplicate",
        form=(
            *_NEW_JOB_FIELDS,
            Field("delete_original", "delete the original, if it still is as it was read", "bool", verb=HERE),
        ),
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
            *_NEW_JOB_FIELDS,
            Field("delete_original", "delete the original, if it still is as it was read", "bool", "x", verb=HERE),
        ),
        needs_form=True,
        script="enqueue",
        summary="Edit and retry a job: enqueue another body, and delete the original.",
    ),
    Verb(
        "drip requeue",
        "throttled requeue",
        "requeued",
        takes=("dead", "done"),
        question="Requeue",
        form=(
            *_REQUEUE_FIELDS,
            *(replace(each, default=_DRIP_DEFAULTS.get(each.name, "")) for each in THROTTLE_FIELDS),
        ),
        script="requeue",
        summary="Throttled requeue: requeue a number of jobs per second, and stop if too many fail or wait.",
    ),
    Verb(
        "pause",
        "pause",
        "paused",
        "P",
        scope="queue",
        question="Pause",
        effect="no worker gets a job of it until it is resumed; reserved jobs continue",
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
        is_dangerous=True,
        question="Unschedule a scheduler of",
        lost="the scheduler and its next job, until its application creates it again",
        form=(Field("scheduler", "scheduler"),),
        needs_form=True,
    ),
    Verb(
        "purge",
        "purge",
        "purged",
        scope="place",
        is_dangerous=True,
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
        is_dangerous=True,
        question="Pull the next job of",
        effect="the next ready job leaves the queue, and no worker will run it",
        lost="the job: no lease, no second try",
    ),
    Verb("dispatch", "dispatch", "dispatched", scope="queue", is_hidden=True),
    Verb("reap", "reap", "reaped", scope="queue", is_hidden=True),
    Verb("park", "park", "parked", scope="queue", is_hidden=True, is_dangerous=True, question="Park"),
    Verb("forget", "forget", "forgotten", is_hidden=True, is_dangerous=True, question="Forget"),
    Verb("configure", "configure", "configured", scope="queue", is_hidden=True),
    Verb("restore", "restore", "restored", is_hidden=True),
    Verb("revert", "revert", "reverted", is_hidden=True),
    Verb("repair", "repair", "repaired", is_hidden=True),
    Verb("beat", "beat", "beat", scope="queue", is_hidden=True),
    Verb("quiet", "quiet", "asked to go quiet", scope="worker", is_hidden=True),
    Verb("stop", "stop", "asked to stop", scope="worker", is_hidden=True),
    Verb(
        "grow",
        "grow",
        "asked to grow",
        scope="worker",
        question="Grow the pool of",
        form=(Field("number", "processes", "int", "1"),),
    ),
    Verb(
        "shrink",
        "shrink",
        "asked to shrink",
        scope="worker",
        question="Shrink the pool of",
        form=(Field("number", "processes", "int", "1"),),
    ),
    Verb(
        "rate_limit",
        "limit the rate",
        "asked to limit",
        scope="queue",
        question="Limit the rate of a task in all workers of",
        form=(Field("task", "task"), Field("rate", "rate: 10/s, 100/m; 0 none")),
        needs_form=True,
    ),
    Verb(
        "time_limit",
        "limit the time",
        "asked to limit",
        scope="queue",
        question="Limit the time of a task in all workers of",
        form=(
            Field("task", "task"),
            Field("soft_ms", "soft limit (none: empty)", "duration"),
            Field("hard_ms", "hard limit (none: empty)", "duration"),
        ),
        needs_form=True,
    ),
    Verb("inspect", "inspect", "asked to inspect", scope="queue", is_hidden=True),
    Verb("collect", "collect", "collected", scope="queue", is_hidden=True),
)

VERBS_BY_NAME: dict[str, Verb] = {verb.name: verb for verb in VERBS}


def find_verb(name: str, summary: str = "") -> Verb:
    """Return the verb called `name` from the table of verbs.

    A script that the table does not list becomes a dangerous verb, labelled with the first line of its header
    (`summary`).
    """
    listed = VERBS_BY_NAME.get(name)
    if listed:
        return listed
    return Verb(name, name, f"{name}: done", is_dangerous=True, question=summary or name)
