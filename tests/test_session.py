"""Session: the same settings give the same engine to the screen and to every command."""

from __future__ import annotations

import pytest
from redis import Redis
from screens import run_on_event_loop, screen
from shell import shell
from textual.widgets import Input

from rqtui.config.settings import Settings
from rqtui.errors import UsageError
from rqtui.session import create_engine
from rqtui.systems import registry

LEFT_OUT = "means the system orizuru, which --system leaves out"


@pytest.mark.slow
@run_on_event_loop
async def test_a_name_that_means_a_system_left_out_is_refused_on_the_screen(url: str, client: Redis) -> None:
    async with screen(url, systems=("native",)) as ui:
        await ui.press("N")
        await ui.until_shown("Enqueue a job")
        ui.app.screen.query_one("#field-queue", Input).value = "orizuru:mail"
        await ui.press("enter")
        await ui.until_shown("the system orizuru", "leaves out")
        assert client.dbsize() == 0


def test_a_name_that_means_a_system_left_out_is_refused_in_the_shell(url: str, client: Redis) -> None:
    ran = shell(url, "put", "orizuru:mail", "1", "--system", "native")
    assert ran.code == 2 and LEFT_OUT in ran.err
    ran = shell(url, "acl", "viewer", "orizuru:mail", "--system", "native")
    assert ran.code == 2 and LEFT_OUT in ran.err
    assert client.dbsize() == 0


def test_an_engine_knows_every_system_that_it_was_not_given() -> None:
    engine = create_engine(Settings(systems=("native",)))
    assert {*engine.systems, *engine.others} == set(
        registry.list_system_names()
    ) and not engine.systems.keys() & engine.others


def test_an_engine_obeys_its_settings() -> None:
    denied = (("prod-*", ("delete",)),)
    engine = create_engine(Settings(read_only=True, denied=denied, profile="prod"))
    assert (engine.read_only, engine.denied, engine.profile) == (True, denied, "prod")
    assert not engine.others, "without --system every system is there"


@pytest.mark.parametrize("settings", [Settings("no://url"), Settings(systems=("nosuch",))])
def test_settings_that_cannot_be_are_refused(settings: Settings) -> None:
    with pytest.raises(UsageError):
        create_engine(settings)
