"""Guard: a read-only screen can be unlocked for a while and locks itself; what a profile denies is not done at all."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from redis import Redis
from screens import Seeded, run_on_event_loop, screen
from shell import shell

from rqtui.config.settings import Settings
from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine
from rqtui.errors import ReadOnly, Refused
from rqtui.model import Ref
from rqtui.operations import undo_files
from rqtui.systems import registry


@run_on_event_loop
async def test_a_read_only_screen_changes_nothing_until_it_is_unlocked(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one", "two")
    async with screen(url, read_only=True) as ui:
        await ui.press("enter")
        await ui.until_shown("read-only")
        assert " D " not in ui.text()
        await ui.press("D")
        assert here.ids("ready") == ["one", "two"] and len(ui.app.screen_stack) == 2
        ui.app.write_lock.unlock_changes("15m")
        await ui.until_shown("write until ", "D delete")
        assert "off" in ui.text(), "the loops stay off"
        await ui.press("D", "y")
        await ui.until(lambda: here.ids("ready") == ["two"], "the deletion")


@run_on_event_loop
async def test_it_locks_itself_when_the_time_is_over_and_stops_the_loops(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one")
    async with screen(url, read_only=True) as ui:
        await ui.press("enter")
        ui.app.write_lock.unlock_changes("5m")
        await ui.press("comma")
        await ui.until(lambda: ui.app.session.loops["dispatch"].is_running, "the dispatcher")
        dispatcher = ui.app.session.loops["dispatch"]
        assert not ui.app.session.loops["reap"].is_running
        ui.app.write_lock._until_s = time.time()
        await ui.until_shown("read-only")
        await ui.until(lambda: not dispatcher.is_running, "the end of the dispatcher")
        assert ui.app.session.engine is not None
        with pytest.raises(ReadOnly):
            ui.app.session.engine.apply_verb("pause", here.ref)
        assert ui.app.session.loops == {}


@pytest.mark.slow
@run_on_event_loop
async def test_the_palette_unlocks_and_locks(url: str, client: Redis) -> None:
    Seeded(client).put("one")
    async with screen(url, read_only=True) as ui:
        names = {command.title for command in ui.app.palette.list_commands()}
        assert {"unlock 5m", "unlock 15m", "unlock 1h"} <= names and "lock now" not in names
        await ui.press("colon", '"unlock 15m', "enter")
        await ui.until_shown("write until ")
        await ui.press("colon", '"lock now', "enter")
        await ui.until_shown("read-only")


@run_on_event_loop
async def test_a_session_that_may_write_can_be_locked_and_unlocked_again(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one")
    async with screen(url) as ui:
        await ui.press("enter")
        await ui.until(lambda: ui.app.session.loops["dispatch"].is_running, "the dispatcher")
        ui.app.write_lock.lock()
        await ui.until_shown("read-only")
        await ui.press("D")
        assert here.ids("ready") == ["one"] and len(ui.app.screen_stack) == 2
        ui.app.write_lock.unlock_changes("1h")
        await ui.until_shown("write until ")


@run_on_event_loop
async def test_a_profile_that_is_read_only_for_good_cannot_be_unlocked(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one")
    async with screen(Settings(url, read_only=True, may_unlock=False)) as ui:
        names = {command.title for command in ui.app.palette.list_commands()}
        assert not any(name.startswith("unlock") for name in names)
        ui.app.write_lock.unlock_changes("5m")
        await ui.until_toast("always read-only")
        assert ui.app.session.is_read_only and ui.app.session.engine is not None and ui.app.session.engine.read_only


# -- denied verbs ------------------------------------------------------------------------------------------------

DENIED = (("mail*", ("delete", "purge")), ("native:pay", ("*",)))


def engine(client: Redis) -> Engine:
    return Engine(client, [registry.create_system("native")], denied=DENIED, profile="prod")


@pytest.mark.parametrize(("verb", "queue"), [("delete", "mail"), ("delete", "mail-2"), ("pause", "pay")])
def test_a_denied_verb_is_refused_with_the_name_of_the_profile(client: Redis, verb: str, queue: str) -> None:
    here = Seeded(client, queue)
    here.put("one")
    ref = Ref("native", queue)
    with pytest.raises(Refused, match='denied on queues like .* by the profile "prod"'):
        engine(client).apply_verb(verb, ref, here.jobs("ready") if verb == "delete" else ())
    assert here.ids("ready") == ["one"]


def test_a_denied_verb_is_refused_on_a_whole_place_too(client: Redis) -> None:
    here = Seeded(client)
    here.put("one")
    with pytest.raises(Refused, match="denied"):
        list(engine(client).apply_verb_to_place("delete", here.ref, "ready"))
    assert here.ids("ready") == ["one"]


@pytest.mark.parametrize("form", [{"place": "ready", "limit": 10}, {}])
def test_a_denied_delete_also_denies_purge(client: Redis, form: dict[str, object]) -> None:
    here = Seeded(client)
    here.put("one")
    careful = Engine(client, [registry.create_system("native")], denied=(("mail", ("delete",)),), profile="prod")
    with pytest.raises(Refused, match='^purge is denied on queues like "mail" by the profile "prod", as delete is'):
        careful.apply_verb("purge", here.ref, (), form)
    assert here.ids("ready") == ["one"]


def test_what_is_not_named_is_allowed(client: Redis) -> None:
    here = Seeded(client)
    here.put("one")
    assert [one.word for one in engine(client).apply_verb("kill", here.ref, here.jobs("ready"))] == ["moved"]
    assert engine(client).explain_denial("delete", Ref("native", "other")) == ""


@pytest.mark.slow
@run_on_event_loop
async def test_the_key_of_a_denied_verb_is_hidden_on_that_queue_alone(url: str, client: Redis) -> None:
    Seeded(client, "mail").put("one")
    Seeded(client, "other").put("one")
    async with screen(Settings(url, denied=DENIED, profile="prod")) as ui:
        await ui.press("enter")
        await ui.until_shown("K kill")
        assert "D delete" not in ui.text()
        await ui.press("escape", "j", "enter")
        await ui.until_shown("D delete")


# -- the same from the shell -------------------------------------------------------------------------------------


def test_act_refuses_what_a_profile_denies(url: str, client: Redis, tmp_path: Path) -> None:
    here = Seeded(client)
    here.put("one")
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.prod]\nurl = "{url}"\n[profiles.prod.deny]\n"mail" = ["delete"]\n')
    done = shell(url, "--config", str(config), "--profile", "prod", "act", "delete", "mail", "one", "--yes")
    assert done.code == 1 and 'denied on queues like "mail" by the profile "prod"' in done.err
    assert here.ids("ready") == ["one"]


def test_a_refused_change_leaves_no_undo_record(url: str, client: Redis, state_folder: Path) -> None:
    Seeded(client).put("one")
    with connect(url) as link:
        assert link.ping()
    done = shell(url, "--read-only", "act", "delete", "mail", "one", "--yes")
    assert done.code == 1 and undo_files.list_records(state_folder / "undo") == []
