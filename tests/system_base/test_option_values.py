"""Values of a system's options: what fits is declared, and anything else is refused before a system is made."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest
from redis import Redis
from shell import shell

from rqtui.errors import UsageError
from rqtui.system_base.option_values import NAME, NAME_OR_NOTHING, accept_listed_words, accept_whole_number
from rqtui.systems import registry


def test_the_defaults_of_each_system_fit() -> None:
    declared = [(name, registry.create_system(name)) for name in registry.list_system_names()]
    assert not [(name, option) for name, item in declared for option in item.option_values.keys() - item.defaults]
    assert not [
        (name, option)
        for name, item in declared
        for option, value in item.option_values.items()
        if not value.accepts(item.defaults[option])
    ]


@pytest.mark.parametrize("value", ["", "0", "61", "1.5", "-3", "1s", " 7", "٧", "9" * 5000])
def test_a_number_out_of_its_range_or_of_another_spelling_does_not_fit(value: str) -> None:
    assert not accept_whole_number(1, 60, "seconds").accepts(value)


def test_matching_jobs_are_described_in_a_sentence() -> None:
    assert (
        accept_whole_number(1, 60, "seconds").accepts("60")
        and accept_whole_number(1, 60, "seconds").description == "a whole number of seconds from 1 to 60"
    )
    assert (
        accept_listed_words("auto", "ms", "s").accepts("s")
        and accept_listed_words("auto", "ms", "s").description == "auto, ms or s"
    )
    assert not accept_listed_words("auto", "ms").accepts("aut")


@pytest.mark.parametrize("value", ["a b", "a*", "a?", "a[", "a]", "a\\", "a,b", "a=b", "a\n"])
def test_a_name_has_no_letter_of_a_pattern_or_of_an_option(value: str) -> None:
    assert not NAME.accepts(value) and not NAME_OR_NOTHING.accepts(value)
    assert NAME_OR_NOTHING.accepts("") and not NAME.accepts("") and NAME.accepts("{app}:")


@pytest.mark.parametrize(
    ("system", "option"), [("rq", "prefix"), ("bullmq", "prefix"), ("celery", "prefix"), ("sidekiq", "namespace")]
)
def test_an_option_of_all_queues_has_one_value_at_a_time(system: str, option: str) -> None:
    with pytest.raises(UsageError, match=f"^system {system}: one --system for each {option}.$"):
        registry.create_system(f"{system}:{option}=a", f"{system}:{option}=b")
    with pytest.raises(UsageError, match=f'^system {system}: {option} is .*, not "a b".$'):
        registry.create_system(f"{system}:{option}=a b")


def test_each_value_of_an_option_of_all_queues_makes_a_system_of_its_own() -> None:
    specs = [
        "celery:prefix=shop:",
        "celery:prefix=shop-",
        "bullmq",
        "celery:prefix=mail:,visibility=60",
        "bullmq:prefix=b",
    ]
    systems = registry.create_systems(specs)
    assert [system.name for system in systems] == ["celery@shop", "celery@shop-2", "celery@mail", "bullmq", "bullmq@b"]
    assert [system.options["prefix"] for system in systems] == ["shop:", "shop-", "mail:", "bull", "b"]
    assert [each.name for each in registry.create_systems(["rq:prefix=app"])] == ["rq"], "one value needs no other name"
    mail = systems[2]
    assert mail.queue_argument("q") == "--system celery:prefix=mail:,visibility=60 celery:q"
    assert registry.create_system(registry.parse_system_name(mail.name)).name == "celery"
    with pytest.raises(UsageError, match="one --system for each prefix"):
        registry.create_systems([*specs, "celery:prefix=mail:"])


PLANTED_QUEUES: Mapping[str, Callable[[Redis, str], object]] = {
    "rq": lambda client, prefix: (
        client.sadd(f"{prefix}:queues", f"{prefix}:queue:q"),
        client.rpush(f"{prefix}:queue:q", "j"),
    ),
    "sidekiq": lambda client, prefix: (client.sadd(f"{prefix}:queues", "q"), client.lpush(f"{prefix}:queue:q", "{}")),
    "bullmq": lambda client, prefix: (
        client.hset(f"{prefix}:q:meta", "version", "bullmq:5.81.5"),
        client.rpush(f"{prefix}:q:wait", "1"),
    ),
    "celery": lambda client, prefix: (
        client.sadd(f"{prefix}_kombu.binding.celery", "celery\x06\x16\x06\x16q"),
        client.lpush(f"{prefix}q", "{}"),
    ),
}
"""Plants one job in a queue `q` of an application with this prefix, by system."""


@pytest.mark.parametrize("system", PLANTED_QUEUES)
def test_one_command_shows_the_applications_of_several_prefixes(system: str, client: Redis, url: str) -> None:
    option = "namespace" if system == "sidekiq" else "prefix"
    for prefix in ("a", "b", "b"):
        PLANTED_QUEUES[system](client, prefix)
    both = ("--system", f"{system}:{option}=a", "--system", f"{system}:{option}=b")
    shown = json.loads(shell(url, *both, "snapshot", "--json").out)["queues"]
    ready = {
        each["layout"]: sum(place["count"] for place in each["places"] if place["state"] == "ready") for each in shown
    }
    assert ready == {f"{system}@a": 1, f"{system}@b": 2} and {each["queue"] for each in shown} == {"q"}
    unclear = shell(url, *both, "jobs", "q", "ready")
    assert unclear.code == 2 and f"is a queue of {system}@a and {system}@b" in unclear.err
    listed = json.loads(shell(url, *both, "jobs", f"{system}@b:q", "ready", "--json").out)
    assert len(listed["jobs"]) == 2
