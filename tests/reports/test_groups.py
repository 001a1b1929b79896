"""The groups of the jobs of a place: their counts, the filters that select them, and what is unknown."""

from __future__ import annotations

import time

import pytest
from redis import Redis

from rqtui.client import Queue
from rqtui.engine.engine import Engine, build_engine
from rqtui.engine.filters import parse_filter
from rqtui.errors import UsageError
from rqtui.model import KindStatistics, Ref, State
from rqtui.reports import groups, hosts
from rqtui.reports.groups import Groups
from rqtui.system_base.system import Request
from rqtui.systems import registry
from rqtui.testing.keyspace import plant
from rqtui.text.masking import MASK

REF = Ref("native", "mail")


@pytest.fixture
def engine(client: Redis) -> Engine:
    return build_engine(client, [registry.create_system(name) for name in ("native", "sidekiq", "safe_pop")])


def group(engine: Engine, by: str, word: str = "ready", expression: str = "", ref: Ref = REF) -> Groups:
    reports = [report for report in groups.yield_group_reports(engine, ref, word, by, expression) if report]
    return reports[-1]


def put_tenants(client: Redis, *tenants: object) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": {"tenant": tenant}, "name": "send"} for tenant in tenants])


def test_groups_are_counted_largest_first_and_their_filters_select_exactly_them(client: Redis, engine: Engine) -> None:
    values = ["acme"] * 5 + ["FR"] * 3 + ["fr"] * 2 + ["two words", 'say "hi"', 'it\'s "x" y', "a/b", "/x", "~x", 7]
    values += [12.5, "12.50", True, [1, 2], {"a": 1}, "", "tab\there", "ESC\x1b", "日本"]
    put_tenants(client, *values)
    with Queue("mail", client) as mail:
        mail.put({"other": 1})
    report = group(engine, ".tenant")
    assert [(each.value, each.jobs) for each in report.groups[:3]] == [("acme", 5), ("FR", 3), ("fr", 2)]
    assert sum(each.jobs for each in report.groups) == report.matched == len(values) + 1
    assert report.size.is_complete and report.is_random and report.groups[0].by_place == {"ready": 5}
    jobs = engine.fetch_page(REF, "ready", 0, 500, 4096).jobs
    for each in report.groups:
        accepts = parse_filter(each.filter_text)
        assert sum(map(accepts, jobs)) == each.jobs, each
    assert report.groups[0].filter_text == ".tenant:acme" and {each.problem for each in report.groups} == {""}


def test_jobs_without_the_field_are_a_group_of_their_own(client: Redis, engine: Engine) -> None:
    put_tenants(client, "acme")
    with Queue("mail", client) as mail:
        mail.put_many([{"body": {"n": 1}}, {"body": {"n": 2}}])
    [none, acme] = group(engine, ".tenant").groups
    assert (none.value, none.jobs, none.is_unknown, none.filter_text) == (None, 2, False, "!.tenant:/^/")
    [without_kind, _send] = group(engine, "kind").groups
    assert (without_kind.value, without_kind.filter_text) == (None, "!job:/./") and acme.value == "acme"


def test_long_bodies_have_an_unknown_value_and_no_filter_takes_them_for_missing_ones(
    client: Redis, engine: Engine
) -> None:
    put_tenants(client, "acme")
    with Queue("mail", client) as mail:
        mail.put({"tenant": "globex", "text": "x" * 5000})
        mail.put({"n": 1})
    found = {(each.value, each.is_unknown): each for each in group(engine, ".tenant").groups}
    assert found[None, True].jobs == 1 and "longer than 4096 bytes" in found[None, True].problem
    assert found[None, True].filter_text == found[None, False].filter_text == "" and found[None, False].problem


def test_a_masked_value_is_one_group_without_a_filter(client: Redis, engine: Engine) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": {"password": word}} for word in ("hunter2", "hunter3")])
    [secret] = group(engine, ".password").groups
    assert (secret.value, secret.jobs, secret.filter_text, secret.problem) == (MASK, 2, "", "the value is masked")


def test_a_path_that_no_filter_can_name_gives_no_filter(client: Redis, engine: Engine) -> None:
    with Queue("mail", client) as mail:
        mail.put({"a b": "x"})
    [found] = group(engine, ".a b").groups
    assert (found.value, found.filter_text, found.problem) == ("x", "", "a filter cannot name this path")


def test_a_filter_limits_the_jobs_and_is_part_of_the_filters_of_the_groups(client: Redis, engine: Engine) -> None:
    with Queue("mail", client) as mail:
        mail.put_many(
            [{"body": {"tenant": tenant, "plan": plan}} for tenant in "ab" for plan in ("pro", "free", "free")]
        )
    report = group(engine, ".tenant", expression=".plan:/free")
    assert [(each.value, each.jobs, each.filter_text) for each in report.groups] == [
        ("a", 2, ".tenant:a .plan:/free"), ("b", 2, ".tenant:b .plan:/free"),
    ]  # fmt: skip
    assert (report.matched, report.size.looked) == (4, 6)
    with pytest.raises(UsageError):
        group(engine, ".tenant", expression="/[/")
    with pytest.raises(UsageError):
        group(engine, ".tenant", "nowhere")


def test_dead_jobs_are_grouped_by_cause_and_a_cause_that_is_part_of_another_has_no_filter(
    client: Redis, engine: Engine
) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": 1}] * 4)
        errors = ("shop.CardDeclined: a", "shop.CardDeclined: b", "TimeoutError: c", "TimeoutErrorHandler: d")
        for job, error in zip(mail.reserve(4, worker="w1"), errors, strict=True):
            job.reject(error, final=True)
    report = group(engine, "error", "dead")
    assert [(each.value, each.jobs, each.filter_text) for each in report.groups] == [
        ("CardDeclined", 2, "err:CardDeclined"),
        ("TimeoutError", 1, ""),
        ("TimeoutErrorHandler", 1, "err:TimeoutErrorHandler"),
    ]
    assert "view of errors" in report.groups[1].problem and report.rate_problem == "a done job has no error"
    assert report.find_usual_verb(report.groups[0]) == "requeue" and "delete" in report.verbs
    [of_worker] = group(engine, "worker", "dead").groups
    assert (of_worker.value, of_worker.jobs, of_worker.filter_text) == ("w1", 4, r"worker:/^w1\Z/")


def put_dead_jobs(client: Redis, *workers: str) -> None:
    """Add dead jobs that failed on these workers; an empty name stands for a job that was killed without a run."""
    with Queue("mail", client) as mail:
        mail.put_many([{"body": n} for n, worker in enumerate(workers) if worker])
        for worker in filter(None, workers):
            [job] = mail.reserve(1, worker=worker)
            job.reject("Oops", final=True)
        for killed in mail.put_many([{"body": n} for n, worker in enumerate(workers) if not worker]):
            mail.kill(killed.id)


def test_jobs_are_grouped_by_the_host_of_their_worker_and_its_filter_selects_exactly_them(
    client: Redis, engine: Engine
) -> None:
    workers = ["box:1:0a1b2", "box:2:0a1b3", "box:2:0a1b3", "Box:1:0a1b4", "box-2:1:0a1b5", "w1", ""]
    put_dead_jobs(client, *workers)
    report = group(engine, "host", "dead")
    found = {(each.value, each.is_unknown): each for each in report.groups}
    assert {key: each.jobs for key, each in found.items()} == {
        ("box", False): 3, ("Box", False): 1, ("box-2", False): 1, (None, True): 1, (None, False): 1,
    }  # fmt: skip
    jobs = engine.fetch_page(REF, "dead", 0, 500, 4096).jobs
    for each in report.groups:
        if not each.is_unknown:
            assert sum(map(parse_filter(each.filter_text), jobs)) == each.jobs, each
    assert found[None, False].filter_text == "!worker:/./"
    assert (found[None, True].filter_text, found[None, True].problem) == ("", "the hosts of their workers are unknown")
    assert report.has_hosts and report.rate_problem


def test_a_queue_without_a_known_host_says_so(client: Redis, engine: Engine) -> None:
    put_dead_jobs(client, "w1", "w2")
    report = group(engine, "kind", "dead")
    assert not report.has_hosts
    [unknown] = group(engine, "host", "dead").groups
    assert unknown.is_unknown and unknown.jobs == 2
    put_tenants(client, "acme")
    [ready] = group(engine, "host").groups
    assert (ready.value, ready.is_unknown, ready.filter_text) == (None, False, "!worker:/./")


def test_the_filter_of_a_host_names_the_workers_that_do_not_name_their_host() -> None:
    running = {f"{n:032x}": "box" if n < 3 else "other" for n in range(5)}
    rq_hosts = hosts.Hosts(registry.create_system("rq"), running)
    term, problem = rq_hosts.build_filter("box", list(running))
    accepts = parse_filter(term).text_terms[0].pattern.search
    assert problem == "" and [name for name in running if accepts(name)] == [f"{n:032x}" for n in range(3)]
    many = hosts.Hosts(registry.create_system("rq"), {f"worker-{n}": "box" for n in range(21)})
    assert many.build_filter("box", ["worker-1"]) == ("", "the host is not in the names of its 21 workers")
    renamed = hosts.Hosts(registry.create_system("native"), {"box:1:0a1b2": "other"})
    assert renamed.find_host("box:1:0a1b2") == "other"
    assert renamed.build_filter("box", ["box:1:0a1b2", "box:2:0a1b3"])[0] == ""


def test_ages_are_in_their_own_order_and_have_a_filter(client: Redis, engine: Engine) -> None:
    put_tenants(client, "acme", "acme")
    [young] = group(engine, "age").groups
    assert (young.value, young.jobs, young.filter_text) == ("under 1 minute", 2, "age<1m")
    assert young.oldest_ms is not None and 0 <= young.oldest_ms < 60_000
    [matching] = group(engine, "kind", expression="age<1m").groups
    assert matching.jobs == 2 and not group(engine, "kind", expression="age>=1m").groups


def test_the_rate_of_a_group_is_that_of_the_done_jobs_and_the_time_that_they_cover(
    client: Redis, engine: Engine
) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": {"tenant": tenant}, "keep": "1h"} for tenant in ("acme", "acme", "globex")])
        for job in mail.reserve(3, worker="w1"):
            job.ack()
    put_tenants(client, "acme", "initech")
    until_s = time.monotonic() + 60
    while (report := group(engine, ".tenant")).rate_problem and time.monotonic() < until_s:
        assert "less than a second" in report.rate_problem and not report.done_ms
        assert [each.done_per_s for each in report.groups] == [None, None]
        time.sleep(0.05)
    rates = {each.value: each.done_per_s for each in report.groups}
    assert report.done_ms >= 1000 and rates["initech"] == 0.0
    assert rates["acme"] == pytest.approx(2000 / report.done_ms)


def test_the_rates_of_kinds_are_those_that_the_system_counts(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = (
        KindStatistics("send", 10, 4, window_ms=60_000, queue="mail"),
        KindStatistics("send", 90, 0, window_ms=60_000, queue="news"),
        KindStatistics("old", 5, 0, queue="mail"),
    )
    monkeypatch.setattr(engine.systems["native"], "kinds_request", lambda _queue: Request((), lambda _replies: counted))
    put_tenants(client, "acme")
    report = group(engine, "kind")
    assert (report.groups[0].done_per_s, report.done_ms, report.rate_problem) == (0.1, 60_000, "")
    assert group(engine, ".tenant").rate_problem == "no job is done"


def test_the_rate_is_unknown_where_done_jobs_are_not_kept(client: Redis, engine: Engine) -> None:
    put_tenants(client, "acme")
    report = group(engine, ".tenant")
    assert (report.groups[0].done_per_s, report.rate_problem) == (None, "no job is done")
    plant(client, {"queues": {"pay"}, "queue:pay": ['{"class":"Send","jid":"a","args":[]}']})
    sidekiq = group(engine, "kind", ref=Ref("sidekiq", "pay"))
    assert sidekiq.groups[0].value == "Send" and "no list of done jobs" in sidekiq.rate_problem


def test_a_long_place_is_read_at_random_and_a_part_of_a_list_from_its_start(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MAX_JOBS", 100)
    put_tenants(client, *["acme"] * 150, *["globex"] * 150)
    report = group(engine, ".tenant")
    assert (report.size.looked, report.size.of, report.is_random) == (100, 300, True)
    assert {each.value: each.jobs for each in report.groups} == {"acme": 50, "globex": 50}
    plant(client, {"list": [f"{n}" for n in range(150)], "list:done": {"x"}})
    assert not group(engine, "worker", ref=Ref("safe_pop", "list")).is_random


def test_a_state_with_several_places_counts_each_of_them(client: Redis, engine: Engine) -> None:
    now_s = int(time.time())
    plant(client, {"list": ["a", f"b|{now_s}", f"c|{now_s - 900}"], "list:done": {"x"}})
    [report] = group(engine, "worker", "reserved", ref=Ref("safe_pop", "list")).groups
    assert report.by_place == {"in_progress": 1, "expired": 1}
    assert group(engine, "kind", "reserved").groups == ()
    assert group(engine, "kind", "reserved").states == {"reserved": State.RESERVED}
