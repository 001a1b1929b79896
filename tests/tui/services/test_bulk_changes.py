"""Changes of many jobs: the dry run, the chunks, what is said of each, from one queue and from several."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from screens import NARROW, WIDE, Screen, Seeded, run_on_event_loop, screen
from shell import shell
from textual.widgets import Button, Input

from rqtui.cli.act_confirmation import confirm_dangerous_verb
from rqtui.cli.act_options import ActRequest
from rqtui.cli.session import Session
from rqtui.config.settings import Settings
from rqtui.engine.engine import build_engine
from rqtui.errors import Refused
from rqtui.model import Job, Ref, State
from rqtui.operations.journal import Operation, load_operations
from rqtui.reports import plans
from rqtui.systems import registry
from rqtui.tui.app import Cockpit
from rqtui.tui.target import Target
from rqtui.tui.widgets.question_dialog import Question
from rqtui.verbs import VERBS_BY_NAME

_NONE = Operation(0, "", "", "", "")


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    return Seeded(client)


def many_dead(seeded: Seeded, errors: dict[str, int]) -> None:
    """Dead jobs by their errors."""
    for error, number in errors.items():
        head = error[:1].lower()
        seeded.put(*(f"{head}{n:04}" for n in range(number)), priority=-100)
        while held := seeded.reserve(number):
            seeded.engine.apply_verb("reject", seeded.ref, held, {"error": error, "final": True})


# ── the dry run ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_counts_by_error_place_and_age_and_shows_five(seeded: Seeded) -> None:
    many_dead(seeded, {"TimeoutError: smtp 17": 7, "SMTPError: 18": 2, "KeyError: 'user'": 3})
    *_steps, plan = plans.yield_place_plans(seeded.engine, seeded.ref, "dead")
    assert (plan.total, plan.looked, plan.exact) == (12, 12, True)
    assert plan.by_error == (("TimeoutError: smtp #", 7), ("KeyError: 'user'", 3), ("SMTPError: #", 2))
    assert plan.by_place == (("dead", 12),)
    assert plan.by_age == (("under 1 min", 12),)
    assert len(plan.samples) == plans.SAMPLES
    assert plan.seconds is not None and plan.seconds >= 0


def test_a_plan_reads_a_bounded_part_and_reports_it(seeded: Seeded) -> None:
    many_dead(seeded, {"Boom": 30})
    *_steps, plan = plans.yield_place_plans(seeded.engine, seeded.ref, "dead", max_jobs=10)
    assert (plan.total, plan.looked, plan.exact) == (30, 10, False)


@pytest.mark.parametrize(
    ("age_ms", "label"),
    [(0, "under 1 min"), (60_000, "under 1 h"), (3_600_000, "under 1 day"), (10**9, "1 week and more")],
)
def test_ages_fall_into_classes(age_ms: int, label: str) -> None:
    job = Job(b"a", "mail", "native", "dead", State.DEAD, b"a", since_ms=10**12 - age_ms)
    assert plans.classify_age(job, 10**12) == label


LONG_ERROR = (
    "shop.errors.CardDeclined: the charge of the customer was declined by the bank of the card, which names neither "
    "a reason nor a time after which the charge may be sent again"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "error"),
    [(("e", "R"), f'"{LONG_ERROR}".'), (("enter", "5", "asterisk", "R"), LONG_ERROR.removeprefix("shop.errors."))],
)
@run_on_event_loop
async def test_a_question_shows_a_long_error_in_full(
    keys: tuple[str, ...], error: str, url: str, seeded: Seeded
) -> None:
    many_dead(seeded, {LONG_ERROR: 3, "KeyError: 'user'": 1})
    async with screen(url, NARROW) as ui:
        await ui.until_shown("mail")
        await ui.press(*keys)
        await ui.until(lambda: isinstance(ui.app.screen, Question), "a question")
        await ui.until(lambda: "e.g." in ui.text(), "the dry run")
        region = ui.app.screen.query_one("#words").content_region
        lines = [line[region.x : region.right] for line in ui.text().split("\n")[region.y : region.bottom]]
        assert error in " ".join(" ".join(lines).split()), ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_a_question_about_jobs_in_several_places_names_none_of_them_as_the_place(
    url: str, seeded: Seeded
) -> None:
    many_dead(seeded, {"KeyError: 'user'": 2})
    seeded.put("again")
    seeded.engine.apply_verb(
        "reject", seeded.ref, seeded.reserve(), {"error": "KeyError: 'user'", "delay_ms": 3_600_000}
    )
    assert seeded.ids("scheduled") == ["again"]
    async with screen(url, NARROW) as ui:
        await ui.until_shown("mail")
        await ui.press("e")
        await ui.until_shown("KeyError")
        await ui.press("D")
        await ui.until_shown("Delete 3 jobs?", "They are in mail, on redis", "2 dead", "1 scheduled")
        await ui.press("escape", "R")
        await ui.until_shown("Requeue 2 jobs?", "They are in dead of mail, on redis")


@pytest.mark.slow
@pytest.mark.parametrize(("key", "first_jobs"), [("R", ""), ("R", "5"), ("D", "")])
@run_on_event_loop
async def test_a_question_about_jobs_in_several_places_shows_the_undo_and_some_jobs_at_80_columns(
    key: str, first_jobs: str, url: str, client: Redis
) -> None:
    error = "TimeoutError: the server of the shop gave no answer to the request"
    for number in range(8):
        seeded = Seeded(client, f"shop:orders:{number}")
        many_dead(seeded, {error: 2})
        seeded.put("again")
        seeded.engine.apply_verb("reject", seeded.ref, seeded.reserve(), {"error": error, "delay_ms": 3_600_000})
    async with screen(url, NARROW) as ui:
        await ui.until_shown("shop:orders:")
        await ui.press("e")
        await ui.until_shown("TimeoutError")
        await ui.press("quotation_mark")
        await ui.until_shown("waiting for a retry 8")
        await ui.press(key)
        await ui.until_shown("of 8 queues?", "undo    z undoes it", "e.g.", "others")
        if first_jobs:
            ui.app.screen.query_one("#field-canary").value = first_jobs  # type: ignore[attr-defined]
            await ui.until_shown("stop if one runs for", "undo    z undoes it", "e.g.", "others")
        assert "PgDn more" not in ui.text(), ui.text()


def test_act_dry_run_prints_the_same_counts_and_changes_nothing(url: str, seeded: Seeded, client: Redis) -> None:
    many_dead(seeded, {"TimeoutError: smtp 17": 3, "KeyError: 'user'": 1})
    before = client.dump(seeded.engine.systems["native"].keys("mail")["dead"])  # type: ignore[attr-defined]
    ran = shell(url, "act", "requeue", "mail", "--place", "dead", "--all", "--dry-run", "--json")
    assert ran.code == 0
    assert ran.json["dry_run"] is True and len(ran.json["results"]) == 4
    purge = shell(url, "act", "purge", "mail", "--place", "dead", "--dry-run", "--json")
    assert (ran.json["moved"], purge.code, purge.json["moved"], purge.json["plan"]["total"]) == (0, 0, 0, 4)
    plan = ran.json["plan"]
    assert (plan["total"], plan["looked_at"], plan["exact"]) == (4, 4, True)
    assert plan["by_error"] == [
        {"error": "TimeoutError: smtp #", "count": 3},
        {"error": "KeyError: 'user'", "count": 1},
    ]
    assert plan["by_place"] == [{"place": "dead", "count": 4}]
    assert plan["undo"] == "rqtui undo undoes it"
    assert client.dump(seeded.engine.systems["native"].keys("mail")["dead"]) == before  # type: ignore[attr-defined]
    words = shell(url, "act", "requeue", "mail", "--place", "dead", "--all", "--dry-run")
    assert "TimeoutError: smtp #" in words.out and "dry run: 4 jobs; rqtui undo undoes it" in words.err


# ── on the screen ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_all_in_a_place_get_a_dry_run_before_anything_happens(url: str, seeded: Seeded) -> None:
    many_dead(seeded, {"TimeoutError: smtp 17": 600, "KeyError: 'user'": 400})
    async with screen(url) as ui:
        await ui.press("enter", "5", "asterisk", "D")
        await ui.until_shown("Delete all 1 000 jobs in dead", "600  TimeoutError: smtp #", "400  KeyError: 'user'")
        await ui.until_shown(
            "They are in dead of mail", "lost", "z undoes it", "All at once this takes about", "under 1 min", "e.g."
        )
        assert ui.app.screen.focused is ui.app.screen.query_one("#no")
        await ui.press("n")
        assert len(seeded.jobs("dead")) == 500 and not [toast for toast in ui.toasts if "deleted" in toast]
        await ui.press("D")
        await ui.until_shown("about")
        await ui.press("y")
        await ui.until_toast("1 000 deleted")
        assert seeded.jobs("dead") == ()


@pytest.mark.slow
@run_on_event_loop
async def test_a_job_that_moved_meanwhile_is_reported_in_one_sentence(url: str, seeded: Seeded) -> None:
    many_dead(seeded, {"Boom": 30})
    async with screen(url) as ui:
        await ui.press("enter", "5", "a")
        await ui.until_shown("30 marked")
        gone = seeded.jobs("dead")[:3]
        seeded.engine.apply_verb("requeue", seeded.ref, gone[:2])
        seeded.engine.apply_verb("delete", seeded.ref, gone[2:])
        await ui.press("R")
        await ui.until_shown("Requeue 30 jobs?")
        await ui.press("y")
        await ui.until_toast("27 requeued", "2 already moved (2 ready)", "1 no such job")
        assert len(seeded.ids("ready")) == 29


@pytest.mark.slow
@run_on_event_loop
async def test_a_change_of_many_shows_how_far_it_is_and_x_stops_it_between_two_chunks(url: str, seeded: Seeded) -> None:
    rows = [{"id": f"j{n:05}", "body": b"{}"} for n in range(6_000)]
    for start in range(0, len(rows), 1000):
        seeded.engine.send_request(seeded.engine.systems["native"].put_request("mail", rows[start : start + 1000]))
    seeded.engine.register_queue(seeded.ref)
    async with screen(url) as ui:
        await ui.press("enter", "2", "asterisk", "K")
        await ui.until_shown("Kill all 6 000 jobs in ready")
        chunks = _hold_chunks(ui)
        await ui.press("y")
        await ui.until_shown("kill 500 of 6 000", "X stop")
        await ui.press("X")
        chunks.set()
        await ui.until_toast("stopped: the rest was not sent")
        page = seeded.engine.fetch_page(seeded.ref, "dead", 0, 1)
        assert 500 <= page.total < 6_000
        assert page.total + seeded.engine.fetch_page(seeded.ref, "ready", 0, 1).total == 6_000


def _hold_chunks(ui: Screen) -> Any:
    """Make the engine's thread wait after its first chunk until the event is set."""
    import threading

    go, engine = threading.Event(), ui.app.session.engine
    assert engine is not None
    real = engine.apply_verb_to_place

    def held(*args: Any) -> Any:
        steps = real(*args)
        yield next(steps)
        go.wait(5)
        yield from steps

    engine.apply_verb_to_place = held  # type: ignore[method-assign]
    return go


@run_on_event_loop
async def test_a_group_over_several_queues_is_asked_once_and_reported_once(url: str, client: Redis) -> None:
    mail, bill = Seeded(client), Seeded(client, "bill")
    mail.bury("m1", "m2")
    bill.bury("b1")
    async with screen(url) as ui:
        chosen = [(mail.ref, mail.jobs("dead")), (bill.ref, bill.jobs("dead"))]
        ui.app.start_verb_on_jobs("requeue", chosen, 'error "TimeoutError: smtp"')
        await ui.until_shown("Requeue 3 jobs of 2 queues", 'error "TimeoutError: smtp"', "2  mail", "1  bill")
        await ui.press("y")
        await ui.until_toast("3 requeued")
        assert (mail.ids("ready"), bill.ids("ready")) == (["m1", "m2"], ["b1"])
        assert [toast for toast in ui.toasts if "requeued" in toast] == ["3 requeued"]


@pytest.mark.slow
@run_on_event_loop
async def test_a_change_over_several_systems_is_filed_under_each_of_them(
    url: str, client: Redis, state_folder: Path
) -> None:
    mail = Seeded(client)
    mail.bury("m1", "m2")
    rq = build_engine(client, [registry.create_system("rq")])
    there = Ref("rq", "mail")  # of the same name
    client.sadd("rq:queues", "rq:queue:mail")
    client.hset("rq:job:r1", mapping={"status": "failed", "data": b"x", "origin": "mail"})
    client.zadd("rq:failed:mail", {"r1": 4 * 10**9})
    jobs = [job for job in rq.send_requests([rq.systems["rq"].job_request("mail", b"r1", 0)]) if job]
    async with screen(url, WIDE) as ui:
        ui.app.start_verb_on_jobs("requeue", [(mail.ref, mail.jobs("dead")), (there, jobs)], 'error "Boom"')
        await ui.until_shown("Requeue 3 jobs of 2 queues")
        await ui.press("y")
        await ui.until_toast("3 requeued")
        await ui.press("o")
        await ui.until_shown("native:mail and 1 more of native, rq", "native:mail, rq:mail")
        await ui.until(lambda: "rq:mail" in (load_operations(state_folder) or [_NONE])[0].after, "the counts after it")
        await ui.press("z")
        await ui.until_toast("undo of requeue")
    undone, result = load_operations(state_folder)
    assert result.refs == undone.refs == (mail.ref, there)
    assert result.before.keys() == result.after.keys() == {"native:mail", "rq:mail"}
    table = shell(url, "operations")
    assert table.out.count("native:mail and 1 more of native, rq") == 2
    assert shell(url, "operations", "--json").json["operations"][1]["other_systems"] == ["rq"]
    assert client.zcard("rqtui:{mail}:dead") == 2 and client.zcard("rq:failed:mail") == 1


@run_on_event_loop
async def test_a_group_without_jobs_is_reported_and_nothing_is_asked(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    async with screen(url) as ui:
        ui.app.start_verb_on_jobs("requeue", [(seeded.ref, ())], "error Boom")
        await ui.until_toast("nothing to requeue")
        assert not isinstance(ui.app.screen, Question)


@pytest.mark.slow
@run_on_event_loop
async def test_a_few_marked_jobs_keep_the_plain_question(url: str, seeded: Seeded) -> None:
    many_dead(seeded, {"Boom": 3})
    async with screen(url) as ui:
        await ui.press("enter", "5", "a", "D")
        await ui.until_shown("Delete 3 marked jobs", "z undoes it")
        assert "Reading the jobs" not in ui.text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "size", [(60, 16), *(pytest.param(size, marks=pytest.mark.matrix) for size in ((80, 24), (160, 45)))]
)
@run_on_event_loop
async def test_the_buttons_of_a_dry_run_stay_in_sight(url: str, seeded: Seeded, size: tuple[int, int]) -> None:
    many_dead(seeded, {f"{word}Error: x": 2 for word in ("A", "B", "C", "D", "E", "F", "G")})
    async with screen(url, size) as ui:
        await ui.press("enter", "5", "asterisk", "R")
        await ui.until_shown("requeue", "cancel", "speed")
        for width, height in ((60, 14), (80, 24)):
            await ui.pilot.resize_terminal(width, height)
            await ui.until_shown("cancel", "Requeue all 14 jobs")


# ── a guarded profile ────────────────────────────────────────────────────────────────────────────────────────────────


def open_guarded_app(url: str) -> Cockpit:
    return Cockpit(Settings(url, badge="PROD", is_guarded=True), interval_s=0.25)


@pytest.mark.slow
@run_on_event_loop
async def test_a_guarded_profile_wants_the_queues_name_before_danger(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    app = open_guarded_app(url)
    async with app.run_test(size=NARROW, notifications=True) as pilot:
        ui = Screen(app, pilot)
        await ui.until(lambda: app.session.snapshot is not None)
        await ui.press("enter", "2", "D")
        await ui.until_shown("Delete a1", "type mail")
        assert app.screen.query_one("#yes", Button).disabled
        await ui.press("y")
        assert isinstance(app.screen, Question) and seeded.ids("ready") == ["a1"]
        app.screen.query_one("#guard-word", Input).value = "mai"
        await ui.pilot.pause()
        assert app.screen.query_one("#yes", Button).disabled
        app.screen.query_one("#guard-word", Input).value = "mail"
        await ui.until(lambda: not app.screen.query_one("#yes", Button).disabled)
        app.screen.query_one("#yes").focus()
        await ui.press("enter")
        await ui.until_toast("delete: deleted · a1")
        assert seeded.ids("ready") == []


@pytest.mark.slow
@run_on_event_loop
async def test_a_guarded_profile_does_not_ask_more_where_nothing_can_be_lost(url: str, seeded: Seeded) -> None:
    seeded.bury("d1")
    app = open_guarded_app(url)
    async with app.run_test(size=NARROW, notifications=True) as pilot:
        ui = Screen(app, pilot)
        await ui.until(lambda: app.session.snapshot is not None)
        await ui.press("enter", "5", "R")
        await ui.until_toast("requeue: requeued · d1")


@pytest.mark.parametrize(("typed", "is_done"), [("mail\n", True), ("y\n", False), ("\n", False)])
def test_the_shell_asks_a_guarded_profile_for_the_queues_name(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch, typed: str, is_done: bool
) -> None:
    terminal = io.StringIO(typed)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    asked = (
        Session(Settings(is_guarded=True)),
        seeded.engine,
        ActRequest(seeded.ref),
        seeded.engine.systems["native"].script("delete"),
        3,
    )
    if is_done:
        confirm_dangerous_verb(*asked)
        return
    with pytest.raises(Refused, match="nothing was changed"):
        confirm_dangerous_verb(*asked)


# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@run_on_event_loop
async def test_quiet_and_stop_act_on_the_workers_that_a_view_has_chosen(
    url: str, seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded.put("a1")
    for name in ("w1", "w2"):
        seeded.engine.apply_verb("beat", seeded.ref, (), {"worker": name, "ttl_ms": 60_000})
    async with screen(url) as ui:
        target = Target(seeded.ref, workers=("w1", "w2", "nobody"))
        assert [v.name for v, _ in _list_offered_verbs(ui, target, monkeypatch) if v.scope == "worker"] == [
            "quiet",
            "stop",
        ]
        ui.app.start_verb(VERBS_BY_NAME["stop"], target)
        await ui.until_toast("2 asked", "1 no such worker")
        orders = {worker.name: worker.order for worker in seeded.engine.fetch_workers(seeded.ref)}
        assert orders == {"w1": "stop", "w2": "stop"}


def _list_offered_verbs(ui: Screen, target: Target, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(ui.app.navigation, "find_target", lambda: target)
    return ui.app.verb_starter.list_offered_verbs()


# ── the shell ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["redishced:mail", "natvie:mail", "oriziru:x"])
def test_a_slip_in_a_systems_name_is_no_new_queue(url: str, client: Redis, name: str) -> None:
    ran = shell(url, "put", name, "1")
    assert ran.code == 2 and "did you mean" in ran.err
    assert client.dbsize() == 0


def test_a_queue_that_is_called_so_can_be_created_and_used(url: str, client: Redis) -> None:
    assert shell(url, "put", "native:natvie:mail", "1").code == 0
    assert shell(url, "put", "natvie:mail", "2").code == 0
    assert shell(url, "put", "mail:7", "2").code == 0
    assert Seeded(client, "natvie:mail").engine.fetch_page(Seeded(client, "natvie:mail").ref, "ready").total == 2
