"""What is typed in the palette: what it offers commands no terminal, and its words take an argument or refuse it.

No line ends the screen.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import fuzzing
import hostile_text
from redis import Redis
from screens import NARROW, Screen, screen
from textual.command import DiscoveryHit, Hit
from textual.content import Content

from rqtui.client.queue import Queue
from rqtui.errors import RqtuiError
from rqtui.tui.services.palette import CommandProvider

LEADS = (
    "interval ",
    "filter ",
    "queue ",
    "view ",
    "theme ",
    "profile ",
    "INTERVAL ",
    "delete",
    "",
    " ",
    ":",
    "filter err:/",
    "filter !",
)
PAUSE = 50  # cases between two looks at the screen


def build_line(source: random.Random) -> str:
    """Build a line to type in the palette."""
    raw = b" ".join(fuzzing.build_hostile_bytes(source) for _ in range(source.randrange(3)))
    return source.choice(LEADS) + raw.decode("utf-8", "surrogateescape")[:200]


async def search(ui: Screen, text: str) -> int:
    """Return what the palette offers for a line."""
    offered = 0
    commands = CommandProvider(ui.app.screen)
    async for hit in commands.search(text) if text else commands.discover():
        assert isinstance(hit, Hit | DiscoveryHit)
        shown = hit.prompt.plain if isinstance(hit.prompt, Content) else str(hit.prompt)
        assert not hostile_text.find_harmful_character(shown, ""), (text, shown)
        offered += 1
    return offered


def run_typed_word(ui: Screen, text: str, seen: Counter[str]) -> None:
    """Run a typed word if its argument is free text: other arguments open other views."""
    name, _, argument = text.strip().partition(" ")
    word = next(
        (word for word in ui.app.palette.argument_commands if word.name == name and name not in ("url", "profile")),
        None,
    )
    if word is None or not argument.strip() or argument.strip() in word.list_choices():
        seen["no word"] += 1
        return
    try:
        word.run(argument.strip())
        seen["done"] += 1
    except RqtuiError as error:
        assert str(error)
        seen["refused"] += 1


async def type_all(url: str, cases: int, seen: Counter[str]) -> None:
    """Type all lines into one screen, with a hostile queue under the cursor."""
    async with screen(url, NARROW, read_only=True) as ui:
        await ui.until_shown("mail")
        for number in range(cases):
            text = build_line(random.Random(f"palette {number}")).strip()  # as the toolkit hands it on
            try:
                seen["offered"] += await search(ui, text)
                run_typed_word(ui, text, seen)
            except Exception as error:
                raise AssertionError(f"line {number} {text!r}: {error!r}") from error
            if number % PAUSE == 0:
                await ui.pilot.pause()
                assert ui.app.is_running
        ui.app.navigation.view.confirm_filter("") if ui.app.navigation.view else None
        await ui.until_refreshed()


@fuzzing.parametrize_cases(15)
def test_any_text_in_the_palette_is_accepted_or_refused(cases: int, client: Redis, url: str) -> None:
    Queue("mail", url).put(b"{}", id="a")
    with fuzzing.print_figures("palette", cases) as seen:
        asyncio.run(type_all(url, cases, seen))
