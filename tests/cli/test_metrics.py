"""`rqtui metrics`: what Prometheus reads, held against the rules of its format, and the server that serves it."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from families import run_in_one_test
from redis import Redis
from shell import shell, start_process
from truth.simulated_clock import SimulatedClock
from truth.situations import CARD
from truth.ways import create_world
from truth.worlds import WORLDS

from rqtui.cli.metrics import parse_listen_address
from rqtui.client.queue import Queue
from rqtui.errors import UsageError
from rqtui.model import Count, Snapshot, State
from rqtui.model import Queue as Counted
from rqtui.reports.prometheus import build_families, format_exposition

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"'
_SAMPLE = re.compile(rf"({_NAME})(?:\{{((?:{_LABEL})(?:,{_LABEL})*)\}})? (-?[0-9.e+-]+|NaN|[+-]Inf)")
Parsed = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse_samples(text: str) -> Parsed:
    """Parse metrics in Prometheus format into samples. Fail if the text breaks a rule of the format."""
    assert text.endswith("\n")
    types: dict[str, str] = {}
    found: Parsed = {}
    current = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in types, "a metric stands in one group"
        elif line.startswith("# TYPE "):
            _hash, _type, name, kind = line.split(" ")
            assert name == current and kind in ("gauge", "counter")
            types[name] = kind
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == current and current in types
            labels = tuple(
                (name, value.replace(r"\"", '"').replace(r"\n", "\n").replace(r"\\", "\\"))
                for name, value in re.findall(_LABEL, match[2] or "")
            )
            assert (match[1], labels) not in found, "no two samples have the same labels"
            assert types[current] != "counter" or (current.endswith("_total") and float(match[7]) >= 0)
            found[match[1], labels] = float(match[7])
    return found


def build_counted(name: str, ready: int = 1, **more: object) -> Counted:
    return Counted(name, "native", (Count("ready", State.READY, ready),), counters={"in": ready, "dead_max": 5}, **more)  # type: ignore[arg-type]


def read_value(found: Parsed, metric: str, **labels: str) -> float:
    (value,) = (
        value
        for (name, sentence), value in found.items()
        if name == metric and labels.items() <= dict(sentence).items()
    )
    return value


def test_depth_age_workers_and_counters_are_reported(client: Redis, url: str) -> None:
    mail = Queue("mail", client)
    mail.put(1, id="a")
    mail.put(2, id="b")
    mail.put(3, id="later", delay="1h")
    mail.reserve(1, worker="w")[0].ack()
    ran = shell(url, "metrics")
    found = parse_samples(ran.out)
    assert ran.code == 0 and read_value(found, "rqtui_up") == 1 and read_value(found, "rqtui_queues") == 1
    assert read_value(found, "rqtui_jobs", queue="mail", place="ready", state="ready") == 1
    assert read_value(found, "rqtui_jobs", queue="mail", place="scheduled") == 1
    assert read_value(found, "rqtui_job_transitions_total", queue="mail", event="in") == 3
    assert read_value(found, "rqtui_job_transitions_total", queue="mail", event="out") == 1
    assert 0 <= read_value(found, "rqtui_oldest_ready_seconds", queue="mail") < 60
    assert "rqtui_workers" in ran.out and "rqtui_scrape_duration_seconds" in ran.out
    assert '"a"' not in ran.out and "later" not in ran.out, "no ids"


def test_deleting_jobs_decreases_no_counter_of_sidekiq(client: Redis, url: str) -> None:
    client.sadd("queues", "mail")
    client.set("stat:processed", 9)
    client.set("stat:failed", 2)
    message = b'{"class":"Send","args":[],"jid":"%024x","queue":"mail","created_at":1.0,"enqueued_at":1.0}'
    client.lpush("queue:mail", message % 1, message % 2)
    client.zadd("dead", {message % 3: time.time(), message % 4: time.time()})

    def scrape() -> dict[str, float]:
        found = parse_samples(shell(url, "metrics").out)
        return {
            dict(sentence)["event"]: value
            for (name, sentence), value in found.items()
            if name.endswith("transitions_total")
        }

    before = scrape()
    client.delete("dead", "queue:mail")
    assert before == scrape() == {"out": 7, "failed": 2}


COUNTED_EVENTS = {
    "native": {"in", "out", "failed", "dead", "reserved", "dispatched"},
    "bullmq": {"in"},  # with metrics of its workers also out, failed and dead
    "sidekiq": {"out", "failed"},
}


@pytest.mark.parametrize("system", WORLDS)
def test_a_number_that_a_system_does_not_count_is_a_gauge_and_no_counter(system: str, client: Redis, url: str) -> None:
    clock = SimulatedClock(client)
    with pytest.MonkeyPatch.context() as patch:
        clock.install(patch)
        world = create_world(WORLDS[system], client, clock, f"{url.partition('?')[0].rstrip('/').removesuffix('/0')}/0")
        world.start("w1")
        world.put(20)
        world.run(5)
        if world.keeps_failures:
            world.run(5, CARD)
        found = parse_samples(shell(world.url, "--system", world.spec, "metrics").out)
        world.close()
    labels = [dict(sentence) | {"metric": name} for name, sentence in found if dict(sentence).get("layout") == system]
    events = {label["event"] for label in labels if label["metric"] == "rqtui_job_transitions_total"}
    assert events == COUNTED_EVENTS.get(system, set())
    states = {label["state"] for label in labels if label["metric"] == "rqtui_jobs"}
    assert "ready" in states and ("dead" in states) == (world.keeps_failures and system != "celery")


@run_in_one_test("name", ['say "hi"', "back\\slash", "two\nlines", "\x1b[31mred", "caf\udce9", "\u202eevil", "名前"])
def test_the_text_stays_readable_with_any_name_of_a_queue(name: str) -> None:
    text = format_exposition(Snapshot(0, (build_counted(name),)), 0.1)
    found = parse_samples(text)
    assert read_value(found, "rqtui_jobs", place="ready") == 1
    assert all(line.isprintable() for line in text.splitlines())


def test_beyond_the_limit_queues_are_summed_as_other() -> None:
    queues = [build_counted(f"q{n:03}", ready=1, oldest_ready_ms=n * 1000) for n in range(20)] + [
        build_counted("other", ready=7)
    ]
    found = parse_samples(format_exposition(Snapshot(0, tuple(queues)), 0.1, max_queues=5))
    names = {dict(labels)["queue"] for (_name, labels), _value in found.items() if dict(labels).get("queue")}
    assert len(names) <= 6 and "other" in names
    assert sum(v for (name, _labels), v in found.items() if name == "rqtui_jobs") == 27
    assert read_value(found, "rqtui_oldest_ready_seconds", queue="other") == 19, "of ages the greatest counts"
    assert read_value(found, "rqtui_queues") == 21


def test_a_queue_that_cannot_be_counted_has_a_verdict_and_no_numbers() -> None:
    broken = Counted("mail", "native", workers=None, error="WRONGTYPE")
    found = parse_samples(format_exposition(Snapshot(0, (broken,)), 0.1))
    assert read_value(found, "rqtui_unread_queues") == 1 and not [
        name for name, _labels in found if name == "rqtui_jobs"
    ]


def test_only_counters_that_never_shrink_are_reported_as_counters() -> None:
    (moved,) = (family for family in build_families([build_counted("mail")]) if family.type == "counter")
    assert {dict(labels)["event"] for labels in moved.samples} == {"in"}


def test_a_redis_that_is_away_is_reported_with_exit_code_3() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ran = shell(f"redis://127.0.0.1:{closed.getsockname()[1]}", "metrics")
    assert ran.code == 3 and read_value(parse_samples(ran.out), "rqtui_up") == 0
    assert "refused" in ran.err


@contextlib.contextmanager
def serve_metrics(url: str, *words: str) -> Iterator[str]:
    """Run `rqtui metrics --listen` on a free port, and return its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = start_process(url, "metrics", "--listen", f"127.0.0.1:{port}", *words)
    assert running.stderr is not None
    try:
        actual = running.stderr.readline().decode()
        assert f":{port}/metrics" in actual
        yield f"http://127.0.0.1:{port}"
    finally:
        running.send_signal(signal.SIGTERM)
        assert running.wait(10) == 0, "SIGTERM is the end that was asked for"
        running.stderr.close()
        assert running.stdout is not None
        running.stdout.close()


def got(address: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


@pytest.mark.slow
def test_it_is_served_with_a_health_check(client: Redis, url: str) -> None:
    Queue("mail", client).put(1, id="a")
    with serve_metrics(url) as at:
        code, kind, text = got(f"{at}/metrics")
        assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert read_value(parse_samples(text), "rqtui_jobs", queue="mail", place="ready") == 1
        assert got(f"{at}/healthz")[::2] == (200, "ok\n")
        assert got(f"{at}/jobs")[0] == 404
        Queue("mail", client).put(2, id="b")
        assert read_value(parse_samples(got(f"{at}/metrics")[2]), "rqtui_jobs", queue="mail", place="ready") == 2


@pytest.mark.slow
def test_while_redis_is_away_the_server_continues_and_reports_it() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{closed.getsockname()[1]}"
        with serve_metrics(url) as at:
            code, _kind, text = got(f"{at}/metrics")
            assert code == 200 and read_value(parse_samples(text), "rqtui_up") == 0
            assert got(f"{at}/healthz")[0] == 503


def test_a_port_alone_listens_on_the_loopback() -> None:
    assert parse_listen_address("9753") == parse_listen_address(":9753") == ("127.0.0.1", 9753)
    assert parse_listen_address("[::1]:80") == ("::1", 80) and parse_listen_address("0.0.0.0:1") == ("0.0.0.0", 1)


@run_in_one_test("word", ["", "host", "host:", "host:99999", "::1:80", "h:8o"])
def test_an_address_that_is_none_is_refused_in_a_sentence(word: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        parse_listen_address(word)


def test_a_port_that_is_taken_is_reported_in_a_sentence(url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = shell(url, "metrics", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert ran.code == 2 and "nothing can listen" in ran.err
