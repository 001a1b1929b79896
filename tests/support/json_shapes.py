"""Define the shapes of the `--json` documents, and compare a document with its shape.

A shape is written like its document: a type or a tuple of types for a value, `ANY` for the value of a job's body, a
list with one shape for any number of items. The contract allows new keys in a document, but no missing ones.
"""

from __future__ import annotations

from typing import Any

NONE = type(None)
ANY = object()
JOB = {
    "id": str,
    "queue": str,
    "layout": str,
    "place": str,
    "state": str,
    "name": (str, NONE),
    "due_at_ms": (int, NONE),
    "deadline_at_ms": (int, NONE),
    "token": (str, NONE),
    "attempts": int,
    "max_attempts": (int, NONE),
    "worker": (str, NONE),
    "error": (str, NONE),
    "body": {"bytes": int, "encoding": str, "value": ANY},
}
ATTEMPT = {"start_at_ms": int, "end_at_ms": int, "worker": (str, NONE), "error": str}
FINDING = {
    "kind": str,
    "severity": str,
    "queue": (str, NONE),
    "keys": [str],
    "ids": [str],
    "text": str,
    "detail": str,
    "remedy": str,
    "jobs": int,
    "since_at_ms": (int, NONE),
    "until_at_ms": (int, NONE),
    "left_ms": (int, NONE),
    "causes": [{"text": str, "jobs": int}],
}
COUNT = {"place": str, "state": str, "count": int, "exact": bool}
QUEUE = {
    "queue": str,
    "layout": str,
    "paused": bool,
    "workers": (int, NONE),  # none: the system has no list of workers
    "oldest_ready_ms": (int, NONE),
    "places": [COUNT],
    "verdict": {"severity": str, "text": str},
    "unknown": [str],
}
SNAPSHOT = {"taken_at_ms": int, "server": {"url": str, "version": str}, "queues": [QUEUE]}
PAGE = {"queue": str, "layout": str, "place": str, "total": int, "exact": bool, "next": (str, NONE), "jobs": [JOB]}
HEALTH = {
    "severity": str,
    "findings": [FINDING],
    "unknown": [{"queue": str, "layout": str, "what": [str]}],
}
CHECK = {"queue": str, "checked": int, "findings": [FINDING], "repaired": int}
PUT = {"queue": str, "results": [{"id": str, "word": str}]}
ACT = {"verb": str, "queue": str, "moved": int, "results": [{"id": str, "word": str, "text": str}]}
TAKE = {"verb": str, "queue": str, "moved": int, "results": [{"id": str, "word": str, "job": JOB}]}
DISPATCH = {"queue": str, "dispatched": int, "delayed": (int, NONE), "ready": (int, NONE), "backing_off_ms": int}
REAP = {"queue": str, "reaped": {"ready": int, "dead": int}, "next_ms": (int, NONE)}
VERB = {"from": [str], "to": [str], "text": str}
CONFIG = {"path": str, "exists": bool, "profiles": list, "in_force": dict, "problems": list}
WORKER = {
    "worker": str,
    "queue": str,
    "queues": [str],
    "layout": str,
    "beat_at_ms": (int, NONE),
    "ttl_ms": (int, NONE),
    "late": bool,
    "order": (str, NONE),
    "state": str,
    "system_state": (str, NONE),
    "facts": list,
    "held": [{"id": str, "name": (str, NONE), "reserved_at_ms": (int, NONE), "deadline_at_ms": (int, NONE)}],
    "exact": bool,
}
ERROR = {
    "error": (str, NONE),
    "cause": (str, NONE),
    "frame": (str, NONE),
    "messages": int,
    "dead": int,
    "retrying": int,
    "exact": bool,
    "first_at_ms": (int, NONE),
    "last_at_ms": (int, NONE),
    "names": [str],
    "queues": [{"queue": str, "layout": str}],
    "example": {"id": str, "queue": str, "layout": str, "place": str, "error": (str, NONE)},
}
ERRORS = {"taken_at_ms": int, "looked": int, "of": int, "exact": bool, "by": str, "errors": [ERROR]}
KIND = {
    "name": (str, NONE),
    "queue": str,
    "layout": str,
    "counts": {"scheduled": int, "ready": int, "reserved": int, "done": int, "dead": int},
    "exact": bool,
    "failed": int,
    "wait_ms": (int, NONE),
    "run_ms": (int, NONE),
    "oldest_ready_ms": (int, NONE),
    "figures": (dict, NONE),
}
KINDS = {"taken_at_ms": int, "looked": int, "of": int, "exact": bool, "kinds": [KIND]}
GROUP = {
    "value": (str, NONE),
    "unknown": bool,
    "jobs": int,
    "share": float,
    "estimate": int,
    "places": dict,
    "oldest_ms": (int, NONE),
    "done_per_s": (float, NONE),
    "filter": (str, NONE),
    "no_filter": (str, NONE),
    "dry_run": (str, NONE),
}
GROUPS = {
    **{"taken_at_ms": int, "looked": int, "of": int, "exact": bool, "random": bool},
    **{"queue": str, "layout": str, "place": str, "by": str, "filter": (str, NONE), "matched": int},
    **{"done_over_ms": (int, NONE), "done_unknown": (str, NONE), "verbs": [str], "more": int, "groups": [GROUP]},
}
SIDE = {"places": [str], "filter": (str, NONE), "jobs": int, "looked": int, "of": int, "random": bool}
DIFFERENCE = {
    "conditions": [{"field": str, "operator": str, "value": str}],
    **{"a_jobs": int, "a_share": float, "b_jobs": int, "b_share": float, "difference": float, "p": float},
    **{"more_values": int, "explained": bool, "result": bool, "time": bool},
}
DIFF = {
    **{"taken_at_ms": int, "looked": int, "of": int, "exact": bool, "queue": str, "layout": str, "measure": str},
    **{"a": SIDE, "b": SIDE, "detectable": (float, NONE), "differences": [DIFFERENCE]},
    "compared": {"attributes": int, "values": int, "pairs": int, "left_out": [str]},
}
MINUTE = {"minute_at_ms": int, "in": int, "out": int, "failed": int, "depth": int}
STATS = {
    "queue": str,
    "layout": str,
    "taken_at_ms": int,
    "waiting": int,
    "totals": dict,
    "minutes": [MINUTE],
    "days": NONE,
    "recorded": NONE,
}
REDIS = {"taken_at_ms": int, "server": dict, "memory": dict, "clients": dict, "commands": list, "findings": [FINDING]}
LOOP = {"loop": str, "late": int, "next_ms": (int, NONE), "elsewhere": (int, NONE)}
NEXT_JOB = {
    "loop": str,
    "at_ms": int,
    "in_ms": int,
    "queue": str,
    "layout": str,
    "id": str,
    "worker": (str, NONE),
    "attempts": int,
    "max_attempts": (int, NONE),
    "becomes": (str, NONE),
}
LOOPS = {"taken_at_ms": int, "loops": [LOOP], "next": [NEXT_JOB]}
OPERATIONS = {"operations": [{"at_ms": int, "who": str, "verb": str, "queue": str, "layout": str, "ids": [str]}]}
UNDO = {"undo": [{"n": (int, NONE), "at_ms": int, "verb": str, "queue": str, "others": [str], "jobs": int}]}
SYSTEM = {"layout": str, "places": list, "verbs": dict, "options": dict}


def check_shape(value: Any, shape: Any, where: str = "document") -> None:
    """Fail if a JSON document does not have the given shape. Additional keys are allowed."""
    if shape is ANY:
        return
    if isinstance(shape, dict):
        assert isinstance(value, dict), where
        for name, part in shape.items():
            assert name in value, f"{where}.{name} is missing"
            check_shape(value[name], part, f"{where}.{name}")
    elif isinstance(shape, list) and shape and isinstance(shape[0], type | dict):
        assert isinstance(value, list), where
        for number, each in enumerate(value):
            check_shape(each, shape[0], f"{where}[{number}]")
    elif isinstance(shape, type | tuple):
        kinds = shape if isinstance(shape, tuple) else (shape,)
        assert type(value) in kinds, f"{where} is {value!r}"  # not isinstance: a bool is no number here
    else:
        assert value == shape, f"{where} is {value!r}"
