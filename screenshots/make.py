"""Create the screenshots of README and docs from seeded data: `python screenshots/make.py`.

The same commit creates the same files, except for the order of a Redis set and the highlight of a row that has just
changed. The reader's own monospace font is used.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

from rqtui.connection import connect  # noqa: E402
from rqtui.connection.embedded import start_server  # noqa: E402
from rqtui.operations import journal  # noqa: E402
from rqtui.reports import redis  # noqa: E402
from rqtui.tui.format import theme  # noqa: E402
from screenshots import canary, systems  # noqa: E402
from screenshots import server as busy  # noqa: E402
from screenshots.replay import open_still_replay, plant_recording  # noqa: E402
from screenshots.seeded import NOW, open_still_app, seed_history, seed_queues, stop_the_clock  # noqa: E402

SIZES = ((160, 45), (80, 24))
THEMES = {"": theme.DARK, "-light": theme.LIGHT}
VIEWS: dict[str, tuple[str, ...]] = {  # every view, by the keys that lead to it; in both sizes and themes
    "overview": (),
    "board": ("mail", "j", "j", "j", "j"),
    "job": ("mail", "5", "j", "enter"),
    "workers": ("mail", "w"),
    "kinds": ("mail", "b"),
    "errors": ("e", "quotation_mark", "j"),
    "groups": ("mail", "2", "quotation_mark"),
    "differences": ("mail", "5", "vertical_line"),
    "search": ("slash", *"smtp", "enter"),
    "events": ("mail", "f"),
    "metrics": ("mail", "m", "3"),
    "incident": ("mail", "apostrophe"),
    "loops": ("t",),
    "redis": ("i",),
    "operations": ("mail", "1", "R", "R", "P", "P", "5", "j", "R", "space", "j", "space", "D", "y", "z", "o"),
}
DIALOGS: dict[str, tuple[tuple[int, int], tuple[str, ...], str]] = {  # size, keys, theme
    "filter-80x24": ((80, 24), ("mail", "5", "slash", "e", "r", "r", "colon", "s", "m", "t", "p", "enter"), theme.DARK),
    "delete-80x24": ((80, 24), ("mail", "5", "space", "space", "space", "D"), theme.DARK),
    "new-80x24": ((80, 24), ("mail", "N"), theme.DARK),
    "help-80x24": ((80, 24), ("mail", "question_mark"), theme.DARK),
}
PICTURES = {
    **{
        f"{view}{suffix}-{width}x{height}": ((width, height), keys, name)
        for view, keys in VIEWS.items()
        for width, height in SIZES
        for suffix, name in THEMES.items()
    },
    **DIALOGS,
}


SYSTEMS = {  # of others: size, the queue whose board is opened, keys
    "systems-160x45": ((160, 45), ()),
    "dispatcher-130x24": ((130, 24), ("dispatcher:readytasklist", "1")),
    "redisched-130x24": ((130, 24), ("redisched:onboarding", "4")),
    "timeout_sets-130x24": ((130, 24), ("timeout_sets:todos", "2")),
    "orizuru-130x24": ((130, 24), ("orizuru:resize", "2")),
    "safe_pop-130x24": ((130, 24), ("safe_pop:crawl", "3")),
    "rq-160x45": ((160, 45), ("rq:default", "8")),
    "celery-160x45": ((160, 45), ("celery:shop", "7")),
    "sidekiq-160x45": ((160, 45), ("sidekiq:default", "2")),
    "bullmq-160x45": ((160, 45), ("bullmq:shop", "8")),
}


REPLAYS = {  # of a recording: size, keys
    "replay-160x45": ((160, 45), ("less_than_sign", "less_than_sign")),
    "replay-80x24": ((80, 24), ("less_than_sign", "less_than_sign")),
}


CANARIES = {  # the page of a canary: size, stage
    "canary-160x45": ((160, 45), "running"),
    "canary-80x24": ((80, 24), "failed"),
}


async def render_canary_as_svg(url: str, size: tuple[int, int], stage: str) -> str:
    """Return the page of a canary over the dead jobs of a board, as SVG."""
    async with open_still_app(url, size, ("mail", "5")) as app:
        page = canary.build_page()
        await app.push_screen(page)
        canary.STAGES[stage](page)
        await asyncio.sleep(0.5)
        return remove_svg_variations(app.export_screenshot(title="rqtui"))


async def render_replay_as_svg(path: Path, size: tuple[int, int], keys: tuple[str, ...]) -> str:
    """Return rqtui's screen on a recording as SVG after these keys."""
    async with open_still_replay(path, size, keys) as app:
        return remove_svg_variations(app.export_screenshot(title="rqtui replay"))


async def render_screen_as_svg(url: str, size: tuple[int, int], keys: tuple[str, ...], **options: Any) -> str:
    """Return rqtui's screen as SVG after these keys. If the first key is a queue, its board is opened."""
    async with open_still_app(url, size, keys, **options) as app:
        return remove_svg_variations(app.export_screenshot(title="rqtui"))


def remove_svg_variations(svg: str) -> str:
    """Return the SVG without web fonts and without ids that differ between runs."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: Fira Code[^;]*;", "font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace;", svg)
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    return svg.replace("<svg ", '<svg xml:space="preserve" ', 1)


def main() -> None:
    """Write every screenshot, or those named on the command line."""
    stop_the_clock()
    redis.read_report = lambda _client: busy.look(NOW)
    journal.find_current_user = lambda: "ana@laptop"
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server("auto") as server,
        connect.connect(server.url) as client,
    ):
        os.environ["RQTUI_STATE_DIR"] = folder
        for name, (size, keys, theme_name) in PICTURES.items():
            if len(sys.argv) > 1 and name not in sys.argv[1:]:
                continue
            seed_queues(client)  # for each screenshot, because some keys change jobs
            seed_history(client)
            save_screenshot(name, asyncio.run(render_screen_as_svg(server.url, size, keys, theme_name=theme_name)))
        for name, (size, keys) in SYSTEMS.items():
            if len(sys.argv) > 1 and name not in sys.argv[1:]:
                continue
            systems.plant(client)  # for each screenshot, because locks and heartbeats expire by the server's clock
            save_screenshot(
                name,
                asyncio.run(
                    render_screen_as_svg(
                        server.url, size, keys, systems=systems.build_stopped_systems(), queues=systems.PLANTS
                    )
                ),
            )
        for name, (size, stage) in CANARIES.items():
            if len(sys.argv) == 1 or name in sys.argv[1:]:
                seed_queues(client)
                save_screenshot(name, asyncio.run(render_canary_as_svg(server.url, size, stage)))
        for name, (size, keys) in REPLAYS.items():
            if len(sys.argv) == 1 or name in sys.argv[1:]:
                svg = asyncio.run(render_replay_as_svg(plant_recording(Path(folder)), size, keys))
                save_screenshot(name, svg)


def save_screenshot(name: str, svg: str) -> None:
    """Write an SVG file of a screenshot to the folder `screenshots`."""
    (FOLDER / f"{name}.svg").write_text(svg)
    print(f"screenshots/{name}.svg")


if __name__ == "__main__":
    main()
