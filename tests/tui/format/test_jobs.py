"""A job, a place and their frames in words."""

from __future__ import annotations

from rqtui.model import Fact, Job, Place, Queue, State
from rqtui.tui.format import jobs

LOOPS = ("dispatch", "reap")  # scripts of the system


def test_the_count_of_a_state_is_shown_at_one_of_its_places() -> None:
    places = (
        Place("parked", State.SCHEDULED, "k", "zset", "since s"),
        Place("later", State.SCHEDULED, "k", "zset", "due s"),
        Place("next", State.READY, "k", "list"),
        Place("waiting", State.READY, "k", "list"),
        Place("taken", State.RESERVED, "k", "list"),
        Place("leased", State.RESERVED, "k", "zset", "deadline s"),
    )
    queue = Queue("q", "s", is_paused=True, overdue=4, next_due_ms=-60_000, expired=2, next_expiry_ms=-60_000)
    expected_texts = {
        place.name: " ".join(words for words, _style in jobs.build_place_hints(queue, place, places, LOOPS))
        for place in places
    }
    assert {name: words.partition(":")[0] for name, words in expected_texts.items() if words} == {
        "later": "4 due",
        "next": "paused",
        "leased": "2 expired",
    }
    unscored = tuple(place._replace(score="") for place in places)
    expected_texts = {
        place.name: " ".join(words for words, _style in jobs.build_place_hints(queue, place, unscored, LOOPS))
        for place in unscored
    }
    assert [name for name, words in expected_texts.items() if words] == ["parked", "next", "taken"], (
        "the first of a state"
    )
    late = (*places[4:], Place("over", State.RESERVED, "k", "zset", "deadline s", "score <= now"))
    late = (late[0], late[1]._replace(where="score > now"), late[2])
    words = [hint for place in late for hint, _style in jobs.build_place_hints(queue, place, late, LOOPS)]
    assert words[0] == "2 expired: 3 shows" and words[1].startswith("2 expired: ") and len(words) == 2


def test_a_time_that_a_system_has_its_own_word_for_is_no_lease() -> None:
    job = Job(b"a", "q", "s", "p", State.READY, b"a", ttr_ms=180_000, facts=(Fact("result ttl", 500_000, "duration"),))
    assert "lease" in jobs.format_job_properties(job, 0, frozenset()).plain
    result = Job(b"a", "q", "s", "p", State.READY, b"a", ttr_ms=180_000, facts=(Fact("timeout", 180_000, "duration"),))
    assert "lease" not in jobs.format_job_properties(result, 0, frozenset()).plain
    assert "lease" in jobs.format_job_properties(result, 0, frozenset({"lease"})).plain


def test_values_of_a_job_are_aligned_whatever_its_facts_are_called() -> None:
    now_ms = 1_790_000_000_000
    facts = (Fact("seen by maintenance", now_ms - 5000, "instant"), Fact("ttl", 60_000, "duration"))
    on = jobs.choose_property_layout(facts, 45)
    lines = jobs.format_job_facts(facts, now_ms, layout=on).plain.splitlines()
    assert [line[:20].rstrip() for line in lines] == ["seen by maintenance", "ttl"]
    assert lines[0].endswith("5s ago") and all(line[19] == " " and line[20] != " " for line in lines)


def test_text_too_long_for_a_pane_continues_below_and_an_id_is_complete() -> None:
    on = jobs.PropertyLayout(12, 36)
    uuid = "da65f154-3c94-4e3e-b14c-02e126e4ddf3"
    assert on.format_line("id", uuid).plain.splitlines() == ["id", uuid]
    assert on.format_line("forgotten", "2027-11-23 01:40:20  in 364d").plain.splitlines() == [
        "forgotten   2027-11-23 01:40:20  in",
        "            364d",
    ]
    assert on.format_line("place", "failed").plain == "place       failed"
    assert on.format_line("call", "shop.invoices.render_all(48105, cents=1614)").plain.splitlines() == [
        "call",
        "  shop.invoices.render_all(48105,",
        "  cents=1614)",
    ]
    assert jobs.PropertyLayout().format_line("call", "x" * 90).plain == "call        " + "x" * 90, (
        "where nobody says how wide it is"
    )


def test_unknown_attempts_and_times_are_not_shown() -> None:
    job = Job(b"a", "q", "s", "p", State.READY, b"a")
    text = jobs.format_job_properties(job, 0, frozenset({"tried"})).plain
    assert "attempts    0\n" in text and "?" not in text and "since" not in text


def test_a_key_that_the_system_has_no_script_for_is_not_offered() -> None:
    places = (Place("later", State.SCHEDULED, "k", "zset", "due s"), Place("taken", State.RESERVED, "k", "zset"))
    queue = Queue("q", "s", overdue=4, next_due_ms=-60_000, expired=2, next_expiry_ms=-60_000)
    hints = [jobs.build_place_hints(queue, place, places, ("enqueue",)) for place in places]
    assert hints == [[("4 due", "state-dead")], [("2 expired", "state-dead")]]
