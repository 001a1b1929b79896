"""No Redis at the start: the screen opens at once, says what is wrong, and offers a way on; it never ends by itself."""

from __future__ import annotations

import asyncio
import re
import stat
from pathlib import Path

import pytest
from proxy import Proxy
from redis import Redis
from screens import Seeded, read_text, run_on_event_loop, screen

from rqtui.config.settings import Settings
from rqtui.tui.app import Cockpit
from rqtui.tui.services import connection_lost, crash
from rqtui.tui.services.connection_lost import EditUrl


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    return Seeded(client)


@pytest.fixture
def nowhere(url: str) -> str:
    """Return a URL at which no server listens."""
    proxy = Proxy(url)
    proxy.listen()
    proxy.refuse()
    return f"redis://:sesame@127.0.0.1:{proxy.port}/3"


@run_on_event_loop
async def test_the_diagnosis_stays_over_every_try_and_hides_the_password(nowhere: str, client: Redis) -> None:
    async with screen(nowhere) as ui:
        await ui.until_shown(
            "No answer from Redis yet", "host", "127.0.0.1", "database  3", "TLS       no", "e edits the"
        )
        first = ui.app.session.connection_loss
        await ui.press("r")
        await ui.until(lambda: ui.app.session.connection_loss is not first, "the second try")
        await ui.until_shown("No answer from Redis yet", "Nothing listens", "The next try is in")
        assert ui.app.session.snapshot is None and ui.app.is_running
        assert "sesame" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_e_edits_the_url_and_connects_to_the_new_one(nowhere: str, url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    async with screen(nowhere) as ui:
        await ui.until_shown("No answer")
        await ui.press("e")
        await ui.until_shown("which Redis?", ":***@")
        assert "sesame" not in ui.text()
        ui.app.screen.query_one("Input").value = "http://nonsense"  # type: ignore[attr-defined]
        await ui.press("enter")
        await ui.until_shown("which Redis?", "redis://")
        ui.app.screen.query_one("Input").value = url  # type: ignore[attr-defined]
        await ui.press("enter")
        await ui.until_shown("mail", "1 queue", "write")
        assert "No answer" not in ui.text()
        await ui.press("enter")
        await ui.until_shown("a1")
        await ui.press("escape")
        await ui.until_shown("queues")


@run_on_event_loop
async def test_escape_leaves_the_url_as_it_was(nowhere: str, client: Redis) -> None:
    async with screen(nowhere) as ui:
        await ui.until_shown("No answer")
        await ui.press("e")
        await ui.until(lambda: isinstance(ui.app.screen, EditUrl))
        await ui.press("escape")
        await ui.until_shown("No answer from Redis yet")
        assert ui.app.session.settings.url == nowhere


@pytest.mark.slow
@run_on_event_loop
async def test_d_opens_a_demo_on_a_redis_of_its_own(nowhere: str, client: Redis) -> None:
    async with screen(nowhere) as ui:
        await ui.until_shown("No answer")
        await ui.press("d")
        await ui.until_shown("readytasklist", "d try")
        assert ui.app.demo is not None
        await ui.press("d")
        await ui.until_shown("try", "watch")
        await ui.press("escape")


@run_on_event_loop
async def test_e_and_d_mean_what_they_always_mean_once_redis_has_answered(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("d")
        assert not ui.app.demo
        await ui.press("e")
        assert ui.app.navigation.view and ui.app.navigation.view.NAME == "errors"
        assert ui.app.check_action("edit_url", ()) is False
        assert ui.app.check_action("open_demo", ()) is False


@pytest.mark.parametrize(
    ("edited", "meant"),
    [
        ("redis://:***@new:1/2", "redis://:sesame@new:1/2"),
        ("redis://new", "redis://new"),
        ("redis://ann:other@new", "redis://ann:other@new"),
    ],
)
def test_the_stars_stand_for_the_old_password_until_they_are_edited(edited: str, meant: str) -> None:
    assert connection_lost.restore_password("redis://:sesame@old:6379", edited) == meant


# ── a fault of ours ──────────────────────────────────────────────────────────────────────────────────────────


class Faulty(Cockpit):
    """Falls over on a key."""

    def action_refresh_now(self) -> None:
        secret = {"password": "hunter2", "url": self.session.settings.url}
        raise RuntimeError(f"cannot reach {self.session.settings.url} with password=hunter2 {len(secret)}")


@pytest.mark.hooks
@pytest.mark.parametrize("is_debug", [False, True])
def test_a_crash_shows_no_password_and_no_variable(client: Redis, url: str, is_debug: bool) -> None:
    async def run() -> str:
        app = Faulty(Settings(url.replace("://", "://:sesame@"), is_debug=is_debug))
        texts: list[str] = []
        app._print_error_renderables = lambda: texts.extend(map(str, app._exit_renderables))  # type: ignore[method-assign]
        with pytest.raises(RuntimeError):
            async with app.run_test() as pilot:
                await pilot.press("r")
                await pilot.pause()
        return "\n".join(texts)

    texts = asyncio.run(run())
    assert "RuntimeError: cannot reach redis://:***@" in texts
    assert ("Traceback" in texts) is is_debug
    assert "sesame" not in texts and "hunter2" not in texts
    report_path = re.search(r"(/\S*rqtui-crash-\S+\.txt)", texts)
    if report_path:
        path = Path(report_path[1])
        text = path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.unlink()
        assert "Traceback" in text and "sesame" not in text and "hunter2" not in text
    assert bool(report_path) is not is_debug


def test_no_password_is_in_what_is_masked() -> None:
    shown = crash.mask_secrets("at redis://ann:a@b:c/d@host:1/2 and\npassword: x1\ntoken=y2")
    assert shown.startswith("at redis://ann:***@host:1/2 and\n")
    assert "x1" not in shown and "y2" not in shown


def test_the_picture_of_the_diagnosis_fits_60_by_16(nowhere: str) -> None:
    async def run() -> None:
        app = Cockpit(Settings(nowhere))
        async with app.run_test(size=(60, 16)) as pilot:
            for _ in range(200):
                if "No answer" in read_text(app):
                    break
                await pilot.pause(0.02)
            text = read_text(app)
            assert "No answer" in text and "tries now" in text and "quits" in text, text

    asyncio.run(run())
