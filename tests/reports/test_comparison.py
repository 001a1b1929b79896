"""The comparison of two groups of jobs: which jobs are in which group, what is left out, and what the texts state."""

from __future__ import annotations

import pytest
from redis import Redis

from rqtui.client import Queue
from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import UsageError
from rqtui.model import Ref
from rqtui.reports import comparison as report
from rqtui.reports.comparison import Comparison, Selection
from rqtui.systems import registry
from rqtui.text.masking import MASK

REF = Ref("native", "mail")
DEAD, DONE = Selection(("dead",)), Selection(("done",))


@pytest.fixture
def engine(client: Redis) -> Engine:
    return build_engine(client, [registry.create_system("native")])


@pytest.fixture
def shop(client: Redis) -> None:
    """Plant 60 dead and 60 done jobs: all dead ones are of FR, and half of them failed with CardDeclined."""
    with Queue("mail", client) as mail:
        mail.put_many(
            [
                {
                    "body": {"country": "FR" if n % 2 else "DE", "password": f"hunter{n % 7}", "plan": "abc"[n % 3]},
                    "name": "charge",
                    "keep": "1h",
                    "id": f"{n}",
                }
                for n in range(120)
            ]
        )
        for job in mail.reserve(120, worker="w1"):
            if int(job.id) % 2:
                job.reject("shop.CardDeclined: no" if int(job.id) % 4 == 1 else "TimeoutError: no", final=True)
            else:
                job.ack()


def compare(engine: Engine, a: Selection, b: Selection) -> Comparison:
    comparisons = [each for each in report.yield_comparisons(engine, REF, a, b) if each]
    assert len(comparisons) == 1
    return comparisons[0]


@pytest.mark.usefixtures("shop")
def test_a_field_that_differs_between_dead_and_done_jobs_is_found_with_its_shares(engine: Engine) -> None:
    found = compare(engine, DEAD, DONE)
    [country] = found.differences.found
    assert report.format_difference(found, country) == ".country = FR in 100 % of dead, 0 % of done"
    assert (found.a.jobs, found.a.looked, found.a.of, found.b.jobs, found.a.is_random) == (60, 60, 60, 60, True)
    assert report.format_side(found.a) == "dead (60 of 60 read)" and found.left_out == ()


@pytest.mark.usefixtures("shop")
def test_an_error_is_compared_with_all_other_jobs_and_no_job_is_in_both_groups(engine: Engine) -> None:
    found = compare(engine, Selection(("dead",), "err:CardDeclined"), Selection(("dead", "done")))
    assert (found.a.jobs, found.b.jobs, found.b.looked, found.left_out) == (30, 90, 120, ("err",))
    [country] = found.differences.found
    assert report.format_difference(found, country) == ".country = FR in 100 % of A, 33 % of B"
    assert report.format_side(found.a) == "dead with err:CardDeclined (30 match, 60 of 60 read)"


@pytest.mark.usefixtures("shop")
def test_the_attribute_by_which_the_groups_were_selected_is_left_out(engine: Engine) -> None:
    both = ("dead", "done")
    found = compare(engine, Selection(both, ".country:FR job:charge"), Selection(both, ".country:DE"))
    assert found.left_out == (".country", "kind")
    assert {each.conditions[0].attribute for each in found.differences.found} <= {"ended_hour", "enqueued_hour"}


@pytest.mark.usefixtures("shop")
def test_without_a_difference_the_text_states_what_would_have_been_found(engine: Engine) -> None:
    dead = compare(engine, Selection(("dead",), "err:CardDeclined"), Selection(("dead",)))
    text = report.explain_no_difference(dead)
    assert dead.differences.found == () and text.startswith("no field differs more than by chance: ")
    assert text.endswith("pairs were compared; a difference of 45 percentage points would probably have been found")
    few = compare(engine, Selection(("dead",), "id:/^1$/"), Selection(("dead",)))
    assert report.explain_no_difference(few) == "too few jobs to find a difference: 1 and 59"
    empty = compare(engine, DEAD, Selection(("ready",)))
    assert report.explain_no_difference(empty) == "nothing to compare: no job that was read is ready"


@pytest.mark.usefixtures("shop")
def test_masked_values_stay_masked_and_differ_in_nothing(client: Redis, engine: Engine) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": {"password": "hunter2"}, "id": f"r{n}"} for n in range(60)])
    found = compare(engine, Selection(("ready",)), DONE)
    texts = [report.format_difference(found, each) for each in found.differences.found]
    assert texts and not any("hunter" in text for text in texts) and not any(MASK in text for text in texts)


@pytest.mark.usefixtures("shop")
def test_long_places_are_sampled_at_random(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_PER_PLACE", 40)
    found = compare(engine, DEAD, DONE)
    assert (found.a.looked, found.a.of, found.size.looked, found.size.of) == (40, 60, 80, 120)
    assert report.format_side(found.a) == "dead (40 of 60 read at random)"
    assert [each.conditions[0].value for each in found.differences.found] == ["FR"]


def test_equal_groups_unknown_places_and_wrong_filters_are_refused(engine: Engine) -> None:
    for a, b in (
        (DEAD, DEAD),
        (DEAD, Selection(("nowhere",))),
        (DEAD, Selection(("dead",), "/[/")),
    ):
        with pytest.raises(UsageError):
            compare(engine, a, b)
