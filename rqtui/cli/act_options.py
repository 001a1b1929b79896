"""Check the options of `act` and convert them: what the verb changes, how fast, and under which lease."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from rqtui.durations import parse_duration
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.model import Ref
    from rqtui.operations.rate_limit import Limits
    from rqtui.scripts.script import Script
    from rqtui.system_base.system import System
    from rqtui.verbs import Verb

BATCH = 1000  # the most jobs per call of a script


@dataclass(frozen=True, slots=True)
class ActRequest:
    """The options of one `act` command: which jobs or queue it changes, and how."""

    ref: Ref
    ids: tuple[bytes, ...] = ()
    place: str = ""
    expression: str | None = None
    everything: bool = False
    limit: int | None = None
    is_dry_run: bool = False
    is_confirmed: bool = False
    rate_limit: Limits | None = None

    @property
    def has_filter(self) -> bool:
        """Whether `--filter` was given, even an empty one."""
        return self.expression is not None

    @property
    def selects_jobs(self) -> bool:
        """Whether an option selects jobs of a place; jobs named by id do not count."""
        return bool(self.place) or self.has_filter or self.everything

    @property
    def is_whole_place(self) -> bool:
        """Whether all jobs of the place are selected, however many there are."""
        return self.everything and self.limit is None


def find_place(system: System, script: Script, place_or_state: str) -> str:
    """Return the place that `--place` names: by its name, or the only place of that state that the verb takes.

    Raises UsageError.
    """
    matching_places = [place.name for place in system.find_places(place_or_state)]
    able = [name for name in matching_places if system.can(script.name, name)]
    system.refuse_event_places(script.name, able or matching_places)
    if not able:
        takes = ", ".join(place.name for place in system.places if system.can(script.name, place.name))
        raise UsageError(f"{script.name} takes no jobs from {', '.join(matching_places)}; it takes jobs from {takes}.")
    if len(able) > 1:
        names = ", ".join(able)
        raise UsageError(
            f"{place_or_state} means {len(able)} places of {system.name}: {names}; "
            f"name with --place the one that {script.name} shall take."
        )
    return able[0]


class CanaryOptions(NamedTuple):
    """The options of a canary as they were typed: the number of first jobs, and how long they may take."""

    jobs: int | None = None
    wait: str | None = None
    run: str | None = None


def parse_rate_limit(
    variant: Verb | None, rate: str | None, failures: int | None, depth: int | None, canary: CanaryOptions
) -> Limits | None:
    """Convert `--rate`, the options of a canary and the `--stop-at-…` options to limits; None without a speed.

    Raises UsageError. Without `--rate`, the jobs after a canary have the rate RATE_AFTER_CANARY. A variant of a
    verb, such as `drip-requeue`, has a default rate and a default number of failures.
    """
    from rqtui.operations import rate_limit

    if variant is not None:
        defaults = {field.name: field.default for field in variant.form}
        rate, failures = rate or defaults["rate"], failures or int(defaults["stop_at_failures"])
    if canary.jobs is not None:
        if canary.jobs < 1:
            raise UsageError("--canary is a whole number from 1 on.")
        rate = rate or rate_limit.RATE_AFTER_CANARY
    times_s = {}
    times = (("--canary-wait", "canary_wait_s", canary.wait), ("--canary-run", "canary_run_s", canary.run))
    for option, name, text in times:
        if text is not None:
            if canary.jobs is None:
                raise UsageError(f"{option} is a limit of the first jobs, and goes with --canary N.")
            times_s[name] = parse_duration(text, option) / 1000
            if times_s[name] < 1:
                raise UsageError(f"{option} is a time of one second or more, such as 10m.")
    for name, value in (("--stop-at-failures", failures), ("--stop-at-depth", depth)):
        if value is not None and (rate is None or value < 1):
            raise UsageError(f"{name} is a whole number from 1 on, and goes with --rate 5/s.")
    if rate is None:
        return None
    return rate_limit.Limits(rate_limit.parse_rate(rate), failures, depth, canary.jobs, **times_s)


def check_canary_verb(system: System, script: Script) -> None:
    """Raise UsageError unless a verb makes jobs ready, so that workers run them and the canary ends."""
    if not any(system.place(place).state == "ready" for place in script.targets):
        raise UsageError(
            f"{script.name} makes no job ready, so that no worker tries the first ones; leave --canary away."
        )


def build_force_and_token(script: Script, id_count: int, token: str | None, *, is_forced: bool) -> dict[str, object]:
    """Return the script's arguments for `--force` and `--token`. Raises UsageError if the verb does not take them."""
    guards: dict[str, object] = {}
    if is_forced:
        _require_script_field(script, "force", "--force")
        guards["force"] = True
    if token is None:
        return guards
    if id_count != 1:
        raise UsageError("--token belongs to one lease; name one job with it.")
    if token:  # an empty token means that the job has no lease
        _require_script_field(script, "token", "--token")
    return {**guards, "token": token} if takes_field(script, "token") else guards


def _require_script_field(script: Script, field: str, option: str) -> None:
    """Raise UsageError unless the script takes the field that `option` sets."""
    if not takes_field(script, field):
        raise UsageError(f"{script.name} knows no {option}.")


def takes_field(script: Script, field: str) -> bool:
    """Return whether the script of a verb has this argument or column."""
    return any(arg.name == field for arg in (*script.args, *script.each))


def require_one_id(verb: str, ids: Sequence[str], unfit_options: Iterable[object]) -> str:
    """Return the only job id given to `act`. Raises UsageError for another number of ids or an unfit option."""
    if len(ids) != 1 or any(unfit_options):
        raise UsageError(f"{verb} is about one job: name it by its id; beside it go --set and --force.")
    return ids[0]


class Target(StrEnum):
    """What the script of a verb changes: given jobs, the next jobs, workers, or a queue."""

    NEXT_JOBS = "next jobs"  # handed out by the verb, whichever they are
    JOBS = "jobs"
    WORKERS = "workers"
    QUEUE = "queue"  # or one place of the queue, or its settings


def find_verb_target(script: Script) -> Target:
    """Return what a verb changes (jobs, workers or the queue), according to its script's header."""
    from rqtui import verbs

    columns = {column.name for column in script.each}
    scope = verbs.find_verb(script.name).scope
    if any({"id", "head"} & {arg.name for arg in returned_word.rows} for returned_word in script.returns.values()):
        return Target.NEXT_JOBS
    if {"id", "member"} & columns and scope == "job":
        return Target.JOBS
    return Target.WORKERS if scope == "worker" else Target.QUEUE


def check_act_options(request: ActRequest, script: Script, target: Target, system: System) -> None:
    """Raise UsageError with the first reason why the options of `act` do not fit the verb."""
    name, has_ids = script.name, bool(request.ids)
    has_place = takes_place(script)
    places = (
        f"one of {', '.join(script.sources)}" if changes_one_place(script, system) else "or --all for the whole queue"
    )
    of_queue = (
        (request.rate_limit is not None, f"{name} is no verb for many jobs; leave --rate away."),
        (has_ids and target is Target.QUEUE, f"{name} is about the whole queue; leave the ids away."),
        (request.has_filter, f"{name} takes no --filter."),
        (
            has_place and bool(request.place) == request.everything,
            f"{name} needs --place PLACE, {places}.",
        ),
        (bool(request.place) and not has_place, f"{name} takes no --place."),
        (not has_ids and target is Target.WORKERS, f"{name} needs the names of workers."),
    )
    problems = {
        Target.NEXT_JOBS: (
            (
                has_ids or request.selects_jobs,
                f"{name} takes the next jobs: it accepts only --limit N.",
            ),
            (
                request.is_dry_run,
                f"{name} has no dry run; to see the jobs: rqtui jobs {request.ref.queue} ready "
                f"--limit {choose_hand_out_limit(request)}",
            ),
        ),
        Target.JOBS: (
            (
                has_ids and request.selects_jobs,
                "name the jobs by id, or by --place with --filter or --all; not both.",
            ),
            (
                not has_ids and not request.place,
                f"which jobs shall {name} take? Give ids, or --place with --filter or --all.",
            ),
            (
                not has_ids and request.everything == request.has_filter,
                "--place goes with one of --filter EXPR and --all.",
            ),
        ),
        Target.WORKERS: of_queue,
        Target.QUEUE: of_queue,
    }
    for is_wrong, reason in problems[target]:
        if is_wrong:
            raise UsageError(reason)


def takes_place(script: Script) -> bool:
    """Return whether a verb accepts `--place`, so that it changes only one place of the queue."""
    return any(arg.name == "place" for arg in script.args)


def changes_one_place(script: Script, system: System) -> bool:
    """Return whether a verb of a system changes one place at a time, so that `--all` cannot mean the whole queue."""
    needs_place = any(arg.name == "place" and not arg.optional for arg in script.args)
    return needs_place and not system.purges_by_job("")


def choose_hand_out_limit(request: ActRequest) -> int:
    """Return how many jobs a verb such as `reserve` hands out: `--limit`, or one."""
    return min(request.limit or 1, BATCH)
