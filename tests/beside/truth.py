"""Situations of the truth suite that the stock programs of a system bring about, and what rqtui must report of each.

`tests/truth` plays these situations under a simulated clock, in programs that imitate the systems. Here the programs
are real, and so is the clock. What must be reported is the same in both: the situations in `truth/situations.py` name
the findings, and `truth/verdicts.toml` names what cannot be known, with the reason.

`beside/<system>/test_truth.py` has the scene of a system. A scene has the attributes of `truth.worlds.World` that the
asking needs, so that `truth/ways.py` asks both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from beside.stock import SLOW_S, Worker
from truth import verdicts
from truth.situations import SITUATIONS, Situation
from truth.ways import Answer, Screen, Verdict, compute_verdict, run_health_once
from waiting import wait_until

LIMIT_S = 150.0  # until a finding must be reported on a busy machine, longer than each time in `docs/health.md`
REFRESH_INTERVAL_S = 0.25
REFRESHES_AFTERWARDS = 4  # of the screen after a situation, before its answers are compared


class RealClock:
    """The clock of this machine, with the methods of the simulated clock."""

    def __call__(self) -> float:
        return time.time()

    def advance(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class Scene:
    """A queue of stock programs: it puts jobs, starts workers, and waits for the ends of jobs."""

    system = ""
    queue = "default"
    slots = 5  # jobs that one worker runs at once
    keeps_ends = True
    words: Mapping[tuple[str, str], str] = MappingProxyType({})  # verdicts of a version, by situation and way

    def __init__(self, stock: Any) -> None:
        self.stock, self.url, self.client, self.clock = stock, stock.url, stock.client, RealClock()
        self.answers: list[Answer] = []  # of the open screen

    @property
    def spec(self) -> str:
        """The value of `--system`."""
        return self.system

    def until_listed(self) -> None:
        """Wait until the open screen lists the queue."""
        wait_until(lambda: any(answer.is_listed for answer in self.answers), SLOW_S, "the screen lists the queue", 0.05)

    def beat(self) -> None:
        """Do nothing: the programs send their heartbeats themselves."""

    def ready_key(self) -> str:
        """Return the key of the ready jobs."""
        return self.queue

    def put(self, *ids: str) -> None:
        """Put jobs that end at once."""
        raise NotImplementedError

    def put_failing(self, *ids: str) -> None:
        """Put jobs whose first attempt fails."""
        raise NotImplementedError

    def put_due(self, *ids: str) -> None:
        """Put jobs that were due a while ago and that no program moves."""
        raise NotImplementedError

    def put_held(self, *ids: str) -> None:
        """Put jobs that run until the key `go` exists."""
        raise NotImplementedError

    def start(self, name: str) -> Worker:
        """Start a worker with `slots` slots."""
        raise NotImplementedError

    def are_done(self, ids: Sequence[str]) -> bool:
        """Return whether all of the jobs succeeded."""
        raise NotImplementedError

    def are_failed(self, ids: Sequence[str]) -> bool:
        """Return whether an attempt of each job failed."""
        raise NotImplementedError

    def until_held(self, *ids: str) -> None:
        """Wait until the jobs run, and until Redis shows that."""
        for id in ids:
            self.stock.until_ran(id)

    def silence(self, worker: Worker) -> None:
        """Let the last heartbeat of a killed worker be old enough to be missed, where that takes long."""

    def quiet(self, worker: Worker) -> None:
        """Let a worker take no more jobs of the queue."""
        raise NotImplementedError

    def pause(self) -> None:
        """Pause the queue."""
        raise NotImplementedError

    def fail_parent(self) -> None:
        """Let a job fail for good that three jobs wait for."""
        raise NotImplementedError


def list_ids(start: str, number: int) -> list[str]:
    """Return ids for jobs."""
    return [f"{start}-{at:02}" for at in range(number)]


def run_to_end(scene: Scene, start: str, number: int) -> None:
    """Put jobs, and wait until workers have ended them."""
    ids = list_ids(start, number)
    scene.put(*ids)
    wait_until(lambda: scene.are_done(ids), SLOW_S, f"{start} is done", 0.05)


def stop(worker: Worker) -> None:
    """Stop a worker the polite way, and wait for its end."""
    worker.process.terminate()
    worker.process.wait(SLOW_S)


# -- what happens ------------------------------------------------------------------------------------------------------


def play_busy(scene: Scene) -> None:
    scene.start("w1")
    for batch in range(4):
        run_to_end(scene, f"batch-{batch}", 5)
    scene.put(*list_ids("last", 5))


def play_paused(scene: Scene) -> None:
    scene.start("w1")
    run_to_end(scene, "early", 3)
    scene.pause()
    scene.put(*list_ids("waits", 20))


def play_polite_stop(scene: Scene) -> None:
    worker = scene.start("w1")
    run_to_end(scene, "early", 5)
    scene.until_listed()
    stop(worker)


def play_failing(scene: Scene) -> None:
    scene.start("w1")
    run_to_end(scene, "early", 5)
    scene.until_listed()  # not every system stores when its jobs failed
    ids = list_ids("bad", 20)
    scene.put_failing(*ids)
    wait_until(lambda: scene.are_failed(ids), SLOW_S, "all have failed", 0.05)


def play_no_worker(scene: Scene) -> None:
    scene.put(*list_ids("waits", 20))


def play_killed_idle(scene: Scene) -> None:
    workers = [scene.start(name) for name in ("w1", "w2")]
    run_to_end(scene, "early", 5)
    for worker in workers:
        worker.kill()
        scene.silence(worker)
    scene.put(*list_ids("waits", 30))


def play_killed_busy(scene: Scene) -> None:
    ids = list_ids("held", scene.slots)
    scene.put_held(*ids)
    worker = scene.start("w1")
    scene.until_held(*ids)
    scene.start("w2")
    worker.kill()
    scene.silence(worker)


def play_due(scene: Scene) -> None:
    scene.put_due(*list_ids("due", 20))


def play_quiet_workers(scene: Scene) -> None:
    worker = scene.start("w1")
    run_to_end(scene, "early", 5)
    scene.until_listed()
    scene.quiet(worker)
    scene.put(*list_ids("waits", 20))


def play_failed_parent(scene: Scene) -> None:
    scene.fail_parent()


PLAYS: dict[str, Callable[[Any], None]] = {
    "Q2": play_busy,
    "Q6": play_paused,
    "Q13": play_polite_stop,
    "L1": play_failing,
    "L3": play_no_worker,
    "L4": play_killed_idle,
    "L5": play_killed_busy,
    "L9": play_due,
    "L12": play_quiet_workers,
    "L15": play_failed_parent,
}
"""What happens in each situation."""
PATTERNS = {"L1": r"^(8\d|9\d|100) % .*\(\w*Error [12]?\d\)"}
"""The text of the first finding where the numbers of jobs differ from those of the simulated situation."""
_BY_ID = {each.id: each for each in SITUATIONS}


def find_rows(system: str) -> list[str]:
    """Return the situations that apply to a system."""
    cells = verdicts.load()[system]
    return [id for id in PLAYS if "does_not_apply" not in cells.get(id, {})]


# -- what is reported --------------------------------------------------------------------------------------------------


@contextmanager
def open_screen(scene: Scene) -> Iterator[list[Answer]]:
    """Refresh a screen in a thread during the block. Yield its answers, to which each refresh adds one."""
    errors: list[BaseException] = []
    is_over = threading.Event()
    screen = Screen(scene, discovery_interval_s=0)  # type: ignore[arg-type]
    scene.answers = screen.answers

    def refresh() -> None:
        try:
            while not is_over.wait(REFRESH_INTERVAL_S):
                screen.refresh()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=refresh, daemon=True)
    thread.start()
    try:
        yield screen.answers
    finally:
        is_over.set()
        thread.join(SLOW_S)
        screen.close()
    assert not errors, errors


def check(scene: Scene, id: str) -> None:
    """Let a situation happen, and check what a screen that was open before reports, and one `rqtui health`."""
    situation = _BY_ID[id]
    expected = [each._replace(pattern=PATTERNS.get(id, each.pattern)) for each in situation.expected]
    # Findings become critical with time, and the programs need more of it on a busy machine.
    situation = replace(situation, expected=[each._replace(severity=each.severity or "loud") for each in expected])
    cell = verdicts.load()[scene.system].get(id, {})
    words = {way: scene.words.get((id, way), cell.get(way, "right")) for way in ("before", "once")}
    with open_screen(scene) as answers:
        PLAYS[id](scene)
        scene.until_listed()
        played = len(answers)
        wait_until(lambda: len(answers) >= played + REFRESHES_AFTERWARDS, LIMIT_S, "the screen is refreshed", 0.05)
        _check_verdict(situation, scene, lambda: answers, words["before"])
        _check_verdict(situation, scene, lambda: [run_health_once(scene)], words["once"])  # type: ignore[arg-type]


def _check_verdict(situation: Situation, scene: Scene, ask: Callable[[], Sequence[Answer]], word: str) -> None:
    """Check that the verdict is `word`. A finding may come later; what must be quiet must be quiet all the time."""
    found: list[Verdict] = []

    def is_expected() -> bool:
        found[:] = [compute_verdict(situation, ask(), scene)]  # type: ignore[arg-type]
        return found[0].word == word

    if is_expected():
        return
    if situation.is_loud:
        with suppress(AssertionError):
            wait_until(is_expected, LIMIT_S, every_s=REFRESH_INTERVAL_S)
    assert found[0].word == word, f"{situation.id}, {situation.title}: {found[0]}"
