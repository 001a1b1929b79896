"""A command per job: what it is given, what its exit code means, and when it is ended."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from proxy import Proxy
from redis import Redis
from shell import shell
from waiting import wait_until

from rqtui.client.queue import Queue
from rqtui.client.subprocess_worker import CHUNK, JobRun, _CommandRun, _WorkState, run_command_per_job
from rqtui.errors import UsageError


@pytest.fixture
def queue(client: Redis, url: str) -> Iterator[Queue]:
    with Queue("mail", url) as new_queue:
        yield new_queue


def python(code: str) -> list[str]:
    """Return a command line that runs `code` in Python."""
    return [sys.executable, "-S", "-c", code]


def counts(queue: Queue) -> dict[str, int]:
    places = ("scheduled", "ready", "reserved", "done", "dead")
    return {place: count for place, count in queue.counts().items() if place in places and count}


def errors(client: Redis, id: str) -> list[str]:
    return [error for *_, error in json.loads(client.hget("rqtui:{mail}:errors", id) or b"[]")]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z" if Path("/proc").exists() else True


@pytest.fixture
def background() -> Iterator[Any]:
    """Return a function that runs `work` in a thread; `.stop` ends it, `.result()` are its counts."""
    with ThreadPoolExecutor() as pool:
        stops: list[threading.Event] = []

        def start(
            queue: Queue, command: list[str], **options: Any
        ) -> tuple[Future[Mapping[str, int]], threading.Event]:
            stop = threading.Event()
            stops.append(stop)
            return pool.submit(run_command_per_job, queue, command, stop=stop, **options), stop

        yield start
        for stop in stops:
            stop.set()


def test_a_command_gets_the_body_on_its_input_and_the_rest_in_its_environment(queue: Queue, tmp_path: Path) -> None:
    out = tmp_path / "out"
    queue.put({"to": "ä"}, id="welcome:42")
    code = (
        "import os,sys; open(sys.argv[1],'wb').write(sys.stdin.buffer.read()+b'|'+"
        "'|'.join(os.environ['RQTUI_'+n] for n in ('QUEUE','ID','ATTEMPT')).encode())"
    )
    assert run_command_per_job(queue, [*python(code), str(out)], burst=True) == {"acked": 1}
    assert out.read_bytes() == '{"to":"ä"}|mail|welcome:42|1'.encode()
    assert counts(queue) == {}


def test_the_arguments_never_pass_a_shell(queue: Queue, tmp_path: Path) -> None:
    out = tmp_path / "out"
    queue.put(1)
    run_command_per_job(
        queue, [*python("import sys; open(sys.argv[1],'w').write(sys.argv[2])"), str(out), "$(id); `id` *"], burst=True
    )
    assert out.read_text() == "$(id); `id` *"


@pytest.mark.parametrize(
    ("code", "outcome", "place"),
    [
        ("pass", "acked", {}),
        ("raise SystemExit(75)", "released", {"ready": 1}),
        ("raise SystemExit(3)", "rejected", {"scheduled": 1}),
    ],
)
def test_the_exit_code_decides(queue: Queue, code: str, outcome: str, place: dict[str, int]) -> None:
    queue.put(1)
    runs: list[JobRun] = []
    assert run_command_per_job(queue, python(code), max_jobs=1, report=runs.append) == {outcome: 1}
    assert counts(queue) == place
    [ran] = runs
    assert (ran.outcome, ran.attempt) == (outcome, 1)


def test_a_command_that_cannot_be_started_costs_no_attempt_and_is_not_tried_again_at_once(
    queue: Queue, client: Redis, tmp_path: Path
) -> None:
    script = tmp_path / "of-an-interpreter-that-is-gone"
    script.write_text("#!/nowhere/at/all\n")
    script.chmod(0o700)
    queue.put(1, id="a")
    runs: list[JobRun] = []
    before_ms = int(time.time() * 1000)
    assert run_command_per_job(queue, [str(script)], max_jobs=1, report=runs.append) == {"released": 1}
    due_ms = client.zscore("rqtui:{mail}:scheduled", "a")
    after_ms = int(time.time() * 1000)
    assert before_ms + 5_000 <= due_ms <= after_ms + 5_000
    assert [(ran.outcome, ran.exit_code) for ran in runs] == [("released", None)]


def test_the_error_of_a_job_names_the_exit_code_or_the_signal(queue: Queue, client: Redis) -> None:
    for id, code, sentence in (
        ("one", "raise SystemExit(1)", "exit code 1"),
        ("most", "raise SystemExit(255)", "exit code 255"),
        ("killed", "import os; os.kill(os.getpid(), 9)", "ended by SIGKILL"),
    ):
        queue.put(1, id=id)
        run_command_per_job(queue, python(code), max_jobs=1)
        assert errors(client, id) == [sentence]


def test_a_line_is_passed_on_complete_or_in_pieces_if_it_is_much_longer_than_a_chunk(queue: Queue) -> None:
    actual: list[tuple[str, int, int]] = []
    for size in (0, CHUNK, 4 * CHUNK + 5):
        actual.clear()
        queue.put(1, id=f"of-{size}")
        code = f"import sys; print('x' * {size}); sys.stderr.write('no end')"
        run_command_per_job(
            queue, python(code), max_jobs=1, say=lambda id, stream, line: actual.append((id, stream, len(line)))
        )
        printed = [length for id, stream, length in actual if (id, stream) == (f"of-{size}", 1)]
        assert sum(printed) == size and max(printed) <= 2 * CHUNK
        assert len(printed) == 1 or size > 2 * CHUNK
        assert [row for row in actual if row[1] == 2] == [(f"of-{size}", 2, 6)]


def test_output_of_a_command_keeps_its_stream_and_a_run_has_its_time(queue: Queue, url: str) -> None:
    code = "import sys, time; print('to out'); sys.stderr.write('first\\nlast\\n'); time.sleep(0.2); sys.exit(4)"
    for as_json in (False, True):
        queue.put(1, id=f"a{as_json}")
        options = ("--json",) if as_json else ()
        ran = shell(url, "work", "mail", "--max-jobs", "1", *options, "--", *python(code))
        assert ran.code == 0 and "first\nlast\n" in ran.err
        if as_json:
            [line] = ran.lines
            assert 200 <= line["run_ms"] < 120_000 and line["error"] == "exit code 4: first\nlast"
            assert "to out" in ran.err
        else:
            actual, ours = ran.out.splitlines()
            assert actual == "to out" and ours.startswith("rqtui: aFalse  rejected  ") and ours.endswith("  last")
            assert "work: 1 rejected" in ran.err


def test_a_failure_is_recorded_with_the_end_of_standard_error(queue: Queue, client: Redis) -> None:
    queue.put(1, id="a")
    run_command_per_job(
        queue, python("import sys; sys.stderr.write('x'*9000+'\\nno such mailbox\\n'); sys.exit(4)"), max_jobs=1
    )
    [error] = errors(client, "a")
    assert len(error) <= 2000
    assert error.endswith("no such mailbox")
    queue.put(1, id="b")
    queue.promote("a")
    run_command_per_job(queue, python("import os; os.kill(os.getpid(), 11)"), max_jobs=2)
    assert errors(client, "b") == ["ended by SIGSEGV"]


def test_a_command_may_ignore_a_large_body_or_close_its_errors(queue: Queue) -> None:
    queue.put(b"x" * 3_000_000)
    queue.put(b"y" * 3_000_000)
    assert run_command_per_job(queue, python("import os; os.close(2)"), burst=True) == {"acked": 2}


def test_a_child_that_outlives_its_command_does_not_hold_it_up(queue: Queue, tmp_path: Path) -> None:
    queue.put(1)
    file = tmp_path / "pid"
    code = (
        "import subprocess,sys; child = subprocess.Popen([sys.executable,'-S','-c','import time; time.sleep(100)'])\n"
        "open(sys.argv[1],'w').write(str(child.pid))"
    )
    assert run_command_per_job(queue, [*python(code), str(file)], burst=True) == {"acked": 1}
    os.kill(int(file.read_text()), signal.SIGKILL)  # it lives


def test_many_commands_run_at_once_and_no_more_than_allowed(queue: Queue, tmp_path: Path) -> None:
    queue.put_many(range(6))
    most = 0
    code = (  # each of the first waits until there are three of them
        "import os,sys,time; here = sys.argv[1]; open(f'{here}/{os.getpid()}', 'w').close()\n"
        "while len(os.listdir(here)) < 3: time.sleep(0.01)"
    )
    here = tmp_path / "running"
    here.mkdir()

    def report(_ran: JobRun) -> None:
        nonlocal most
        most = max(most, queue.counts()["reserved"])

    command = [*python(code), str(here)]
    assert run_command_per_job(queue, command, concurrency=3, burst=True, report=report) == {"acked": 6}
    assert most <= 3


def test_it_ends_after_so_many_jobs(queue: Queue) -> None:
    queue.put_many(range(5))
    assert run_command_per_job(queue, ["true"], max_jobs=2) == {"acked": 2}
    assert counts(queue) == {"ready": 3}


def test_the_lease_is_extended_while_a_command_runs(
    queue: Queue, client: Redis, tmp_path: Path, background: Any
) -> None:
    queue.put(1)
    ended = tmp_path / "ended"
    running, _stop = background(queue, [*python(UNTIL), str(ended)], ttr_ms=3000, max_jobs=1)
    for _ in range(2):
        until_ms = wait_until(lambda: client.zrange(RESERVED, 0, -1, withscores=True))
        wait_until(lambda before=until_ms: client.zrange(RESERVED, 0, -1, withscores=True) != before, what="longer")
    ended.touch()
    assert running.result(30) == {"acked": 1}
    queue._run_verb("reap", {"limit": 10})
    assert client.hget("rqtui:{mail}:meta", "expired") is None


RESERVED = "rqtui:{mail}:reserved"
UNTIL = "import os,sys,time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
BEGUN_UNTIL = f"open(__import__('sys').argv[2],'w').close()\n{UNTIL}"
PID = "import os,sys,time; open(sys.argv[1],'w').write(str(os.getpid())); time.sleep(60)"


@pytest.mark.parametrize(("verb", "outcome", "place"), [("kill", "lost", "dead"), ("cancel", "cancelled", "dead")])
def test_a_command_whose_lease_is_lost_or_cancelled_is_ended(
    queue: Queue, background: Any, tmp_path: Path, verb: str, outcome: str, place: str
) -> None:
    file = tmp_path / "pid"
    queue.put(1, id="a")
    running, _stop = background(queue, [*python(PID), str(file)], ttr_ms=300, max_jobs=1)
    pid = int(wait_until(lambda: file.exists() and file.read_text(), 10))
    assert (queue.kill("a", force=True) if verb == "kill" else queue.cancel("a")) in ("moved", "asked")
    assert running.result(10) == {outcome: 1}
    assert not alive(pid)
    assert counts(queue) == {place: 1}


def test_a_command_that_ignores_sigterm_is_killed(
    queue: Queue, background: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqtui.client.subprocess_worker.TERM_S", 0.3)
    file = tmp_path / "pid"
    queue.put(1, id="a")
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + PID
    running, _stop = background(queue, [*python(code), str(file)], ttr_ms=300, max_jobs=1)
    pid = int(wait_until(lambda: file.exists() and file.read_text(), 10))
    queue.kill("a", force=True)
    assert running.result(10) == {"lost": 1}
    assert not alive(pid)


def test_a_stop_lets_a_command_finish(queue: Queue, background: Any, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    queue.put_many(range(3))
    running, stop = background(queue, [*python(PID.replace("60", "0.7")), str(file)])
    wait_until(file.exists, 10)
    stop.set()
    assert running.result(10) == {"acked": 1}
    assert counts(queue) == {"ready": 2}


def test_a_command_that_does_not_finish_in_time_is_ended_and_its_job_released(
    queue: Queue, background: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqtui.client.subprocess_worker.FINISH_S", 0.3)
    file = tmp_path / "pid"
    queue.put(1)
    running, stop = background(queue, [*python(PID), str(file)])
    pid = int(wait_until(lambda: file.exists() and file.read_text(), 10))
    stop.set()
    assert running.result(10) == {"released": 1}
    assert not alive(pid)
    [job] = queue.reserve()
    assert job.attempt == 1


def test_an_outcome_that_could_not_be_sent_to_redis_is_sent_later(
    client: Redis, url: str, tmp_path: Path, background: Any
) -> None:
    with Queue("mail", url) as direct, Proxy(url) as proxy, Queue("mail", proxy.url) as queue:
        direct.put(1, id="a")
        began, ended = tmp_path / "began", tmp_path / "ended"
        ran: list[JobRun] = []
        running, stop = background(queue, [*python(BEGUN_UNTIL), str(ended), str(began)], report=ran.append)
        wait_until(began.exists, 5, "it runs: the reply of what took it has come through")
        proxy.refuse()
        ended.touch()
        wait_until(lambda: [each.outcome for each in ran] == ["unsettled"], 120, "its outcome could not be told")
        proxy.listen()
        wait_until(lambda: direct.counts()["acked"] == 1, 60)
        stop.set()
        assert running.result(60) == {"unsettled": 1}


@pytest.mark.parametrize(
    ("command", "options"),
    [([], {}), (["no-such-command-here"], {}), (["true"], {"concurrency": 0}), (["true"], {"max_jobs": 0})],
)
def test_an_impossible_option_is_refused_before_a_job_is_taken(queue: Queue, command: list[str], options: Any) -> None:
    queue.put(1)
    with pytest.raises(UsageError):
        run_command_per_job(queue, command, **options)
    assert counts(queue) == {"ready": 1}


def test_only_a_command_that_closed_its_errors_is_waited_for() -> None:
    """While they are open their end wakes us; a wait would hold up what it prints and reads."""
    asked: list[str] = []
    process: Any = SimpleNamespace(poll=lambda: asked.append("poll"), wait=lambda _s: asked.append("wait"))
    job: Any = None
    run = _CommandRun(_WorkState(["true"], lambda _ran: None), job)
    assert not run._has_command_ended(process, is_open=True) and asked == ["poll"]
    assert run._has_command_ended(process, is_open=False) and asked == ["poll", "wait"]
