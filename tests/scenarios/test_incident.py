"""The cause that the demo `incident` plants in the bodies, and the commands of the shell that find it."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from redis import Redis
from shell import shell

from rqtui.connection.embedded import start_server
from rqtui.scenarios import create_run, find_scenario
from rqtui.scenarios.incident import INCIDENT, choose_card_country, is_card_declined


@pytest.mark.slow
def test_all_declined_cards_of_the_past_are_of_one_country_and_no_duplicate_is() -> None:
    countries: dict[str, Counter[bool]] = {}
    for group in INCIDENT.past(1):
        cause = group.error.strip().rpartition("\n")[2].partition(":")[0]
        for job in group.jobs:
            country = json.loads(job.body)["card_country"]
            assert country == choose_card_country(job.id.encode())
            countries.setdefault(cause, Counter())[country == "FR"] += 1
    assert countries["shop.errors.CardDeclined"] == Counter({True: 2_500})
    assert countries["IntegrityError"] == Counter({False: 1_200})
    for cause in ("TimeoutError", ""):
        share = countries[cause][True] / countries[cause].total()
        assert 0.25 < share < 0.35, (cause, share)


def test_attempts_fail_with_a_declined_card_only_where_the_country_is_the_cause() -> None:
    outcomes = Counter()
    for number in range(3_000):
        id = b"%d" % number
        for name in ("charge_card", "refund_card", "notify_warehouse"):
            error = INCIDENT.choose_attempt_outcome(1, name, id, 1).error
            outcomes[is_card_declined(id) and name != "notify_warehouse", "CardDeclined" in error] += 1
    assert outcomes[False, True] == 0 and outcomes[True, True] > 10 * outcomes[True, False]


@pytest.mark.slow
def test_the_shell_finds_the_planted_field_and_acts_on_its_jobs() -> None:
    with (
        start_server("auto") as server,
        create_run(find_scenario("incident"), server.url, 1, server.pid),
        Redis.from_url(server.url) as client,
    ):
        words = ("dead", "dead,ready", "--filter", "err:CardDeclined")
        document = shell(server.url, "diff", "orders", *words, "--json").json
        first = document["differences"][0]
        assert first["conditions"] == [{"field": ".card_country", "operator": "=", "value": "FR"}], document
        assert first["a_share"] == 1.0 and first["b_share"] < 0.4
        assert "in 100 % of A" in shell(server.url, "diff", "orders", *words).out
        groups = shell(server.url, "group", "orders", "dead", "--by", ".card_country", "--json").json["groups"]
        assert groups[0]["value"] == "FR" and groups[0]["share"] > 0.5
        dead = client.zcard("rqtui:{orders}:dead")
        expression = "err:CardDeclined .card_country:FR"
        requeued = shell(server.url, "act", "requeue", "orders", "--place", "dead", "--filter", expression, "--yes")
        assert requeued.code == 0 and client.zcard("rqtui:{orders}:dead") <= dead - 2_400
