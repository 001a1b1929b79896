"""Tasks of a person on call, in a real terminal (tmux) of 80×24, with the keys counted.

The person knows `?`, and otherwise only the keys that the screen shows. Each task waits for the text that names the
next key, and ends with a look at Redis or at the file that was written.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from rq_subject import KEYS, list_ids, plant_jobs
from screens import Seeded
from tmux import PATIENCE_S, RQTUI, Terminal
from waiting import wait_until

from rqtui.client import Queue

pytestmark = pytest.mark.real_terminal


class Person:
    """A person in front of a terminal, whose pressed keys are counted from the moment the program is on the screen."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self.pressed = terminal, 0

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self.pressed += len(keys)
        self._terminal.keys(*keys)

    def type(self, text: str) -> None:
        """Type a text, one key per character."""
        self.pressed += len(text)
        self._terminal.type(text)

    def read(self, *words: str) -> str:
        """Wait until all these words are on the screen, and return the screen's text."""
        return self._terminal.until(*words)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """Yield a terminal of 80×24 cells."""
    new_terminal = Terminal(80, 24)
    yield new_terminal
    new_terminal.close()


@pytest.fixture
def person(terminal: Terminal) -> Person:
    return Person(terminal)


@pytest.fixture
def rqtui(terminal: Terminal, tmp_path: Path, state_folder: Path) -> Callable[[str], None]:
    """Return a function that starts rqtui with these words in an empty folder."""

    def start(words: str) -> None:
        folders = f"cd {shlex.quote(str(tmp_path))}; RQTUI_STATE_DIR={shlex.quote(str(state_folder))}"
        terminal.run(f"clear; {folders} {RQTUI} {words}")

    return start


@pytest.mark.slow
@pytest.mark.matrix
def test_from_the_alarm_of_an_incident_to_the_report(
    person: Person, rqtui: Callable[[str], None], tmp_path: Path
) -> None:
    rqtui("demo incident")
    person.read("orders", "attempts fail", "e errors")
    person.press("e")
    person.read("CardDeclined", "TimeoutError", "IntegrityError", "charge.py:88")
    person.press("w")
    person.read("silent 2 with 200 jobs", "L release")
    person.press("L")
    person.read("Release 100 jobs of orders-eu-", "y release")
    person.press("y")
    person.read("silent 2 with 100 jobs")
    person.press("g", "L")
    person.read("Release 100 jobs of orders-eu-", "y release")
    person.press("y")
    wait_until(lambda: " with 100 jobs" not in person.read("silent"), PATIENCE_S, "both workers hold nothing")
    person.press("_")  # the developer deploys the fix
    person.read("the code is fixed")
    person.press("e")
    for cause, number in (("CardDeclined", "2 500"), ("TimeoutError", "1 300"), ("IntegrityError", "1 200")):
        wait_until(
            lambda cause=cause: re.search(rf"▌.*{cause}", person.read("R requeue")), PATIENCE_S, f"{cause} comes first"
        )
        person.press("R")
        person.read("Requeue", "y requeue")
        person.press("y")
        person.read(f"{number} requeued")
    person.press("o")
    person.read("requeue", "release")
    person.press("s")
    person.read("why, in a few words")
    person.press("Enter")
    person.read("Written: rqtui-operations-")
    assert person.pressed <= 18
    [page] = tmp_path.glob("*.md")
    assert page.read_text().count("| requeue |") == 3


@pytest.mark.slow
@pytest.mark.matrix
def test_the_cause_is_found_the_fix_is_tried_and_the_rest_follows(
    person: Person, rqtui: Callable[[str], None], tmp_path: Path
) -> None:
    rqtui("demo incident")
    person.read("orders", "attempts fail", "e errors")
    person.press("e")
    wait_until(lambda: re.search(r"▌.*CardDeclined", person.read("R requeue")), PATIENCE_S, "the largest comes first")
    person.press("|")
    person.read(".card_country = FR", "100 %")
    assert person.pressed <= 8
    person.press("Escape")
    person.read("errors of orders", "R requeue")
    person.press("_")  # the developer deploys the fix
    person.read("the code is fixed")
    person.press("R")
    person.read("Requeue 2 500 jobs?", "Tab next")
    person.press("Tab", "Tab")
    person.type("500/s")
    person.press("Tab")
    person.type("5")
    person.read("At 500/s the others take", "Enter goes to requeue")
    person.press("Enter")
    person.read("y, Enter requeue")
    person.press("Enter")
    person.read("5 of 5 done. Requeue the other 2 495 jobs at 500/s?", "y requeue")
    person.press("y")
    person.read("2 500 requeued")
    person.press("o")
    person.read("operations", "requeue")
    person.press("s")
    person.read("why, in a few words")
    person.press("Enter")
    person.read("Written: rqtui-operations-")
    [page] = tmp_path.glob("*.md")
    report = page.read_text()
    assert "CardDeclined" in report and report.count("| requeue |") == 1


def test_a_group_of_failed_jobs_of_rq_is_requeued(
    person: Person, rqtui: Callable[[str], None], client: Redis, url: str
) -> None:
    plant_jobs(client, "failed", [b"%d" % number for number in range(30)], ripe=False)
    rqtui(url)
    person.read("default", "30")
    person.press("e")
    person.read("30", "R requeue")
    person.press("R")
    person.read("Requeue 30 jobs", "y requeue")
    person.press("y")
    wait_until(lambda: client.llen(KEYS["queued"]) == 30, PATIENCE_S, "all are queued again")
    assert person.pressed <= 3 and not list_ids(client, "failed")


def test_a_job_is_found_by_its_id_retried_and_the_retry_undone(
    person: Person, rqtui: Callable[[str], None], client: Redis, url: str
) -> None:
    here, id = Seeded(client), "order-4711"
    here.bury("order-4710", id, "order-4712")
    rqtui(url)
    person.read("mail", ": palette")
    person.press(":")
    person.type(id)
    person.read(id, "dead")
    person.press("Enter")
    person.read(id, "R requeue", "TimeoutError: smtp")
    person.press("R")
    person.read("requeue: requeued")
    assert here.ids("ready") == [id]
    person.press("z")
    person.read("undo")
    wait_until(lambda: id in here.ids("dead"), PATIENCE_S, "the job is dead again")
    assert person.pressed <= len(id) + 4 and here.ids("ready") == []


def find_group_field(person: Person) -> str:
    """Wait until the jobs on the screen are grouped, and return the name of the field."""
    fields = wait_until(lambda: re.findall(r"groups? by (\S+)", person.read(": palette")), PATIENCE_S, "groups of jobs")
    return str(fields[0])


def test_the_jobs_of_one_tenant_are_found_and_moved_to_another_queue(
    person: Person, rqtui: Callable[[str], None], client: Redis, url: str
) -> None:
    with Queue("mail", client) as mail, Queue("slow", client) as slow:
        tenants = ["acme"] * 6 + ["globex"] * 3
        mail.put_many([{"body": {"tenant": name}, "id": f"j{number}"} for number, name in enumerate(tenants)])
        slow.put({"tenant": "initech"}, id="s0")
    rqtui(url)
    person.read("mail", "9")
    person.press("Enter")
    person.read("ready 9", "j0")
    person.press('"')
    person.read("group by kind")
    while (field := find_group_field(person)) != ".tenant":
        person.press("]")
        wait_until(lambda field=field: find_group_field(person) != field, PATIENCE_S, "groups by the next field")
    person.read("2 groups by .tenant", "acme", "67 %")
    person.press("Enter")
    person.read("/.tenant:acme", "j5")
    person.press("*", "M")
    person.read("Move 6 jobs?", "to the queue", "slow")
    person.type("slow")
    person.press("Enter")
    person.read("6 moved")
    assert client.zcard("rqtui:{slow}:ready") == 7 and client.zcard("rqtui:{mail}:ready") == 3
    person.press("z")
    person.read("undo of move")
    wait_until(lambda: client.zcard("rqtui:{mail}:ready") == 9, PATIENCE_S, "the jobs are back")


@pytest.mark.slow
@pytest.mark.matrix
def test_the_jobs_of_a_stopped_worker_are_released(person: Person, rqtui: Callable[[str], None]) -> None:
    rqtui("demo incident")
    person.read("orders", "more findings")
    person.press("Escape")  # the overview, which lists all findings of the queue
    person.read("s sort", "orders", "hold 200 jobs", "w workers")
    person.press("w")
    person.read("silent 2 with 200 jobs", "L release")
    person.press("L")
    person.read("Release 100 jobs of orders-eu-", "y release")
    person.press("y")
    person.read("silent 2 with 100 jobs")
    assert person.pressed <= 5


def test_memory_that_is_nearly_full_is_seen_without_a_key(
    person: Person, rqtui: Callable[[str], None], client: Redis, url: str, settings: Callable[[str, str], None]
) -> None:
    Seeded(client).put("a")
    client.setrange("ballast", 30_000_000, "x")  # beside which the buffers of connections are small
    settings("maxmemory-policy", "noeviction")
    settings("maxmemory", str(int(client.info("memory")["used_memory"] * 1.06)))
    rqtui(url)
    assert re.search(r"Redis memory is 9\d % full", person.read("Redis memory is 9")) and person.pressed == 0


def test_a_stuck_queue_and_the_command_that_helps_are_seen_without_a_key(
    person: Person, rqtui: Callable[[str], None], client: Redis, url: str
) -> None:
    Seeded(client).put("a", "b")
    rqtui(url)
    person.read("no worker serves this queue, and 2 jobs are ready: start a", "rqtui work mail -- COMMAND")
    assert person.pressed == 0
