"""Makes the pictures of the README from seeded data: `python screenshots/make.py`.

The same commit makes the same files, byte for byte. Fonts are whatever monospace the reader has.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

from rqtui import server  # noqa: E402
from rqtui.embedded import embedded  # noqa: E402
from rqtui.tui import theme  # noqa: E402
from screenshots.seeded import seed, still, stop_the_clock  # noqa: E402

PICTURES: dict[str, tuple[tuple[int, int], tuple[str, ...], str]] = {
    # name: size, keys, theme
    "overview-160x45": ((160, 45), (), theme.DARK),
    "overview-80x24": ((80, 24), (), theme.DARK),
    "board-160x45": ((160, 45), ("mail", "j", "j", "j", "j"), theme.DARK),
    "board-80x24": ((80, 24), ("mail", "space", "j", "j", "space", "j"), theme.DARK),
    "job-160x45": ((160, 45), ("mail", "5", "j", "enter"), theme.DARK),
    "delete-80x24": ((80, 24), ("mail", "5", "space", "space", "space", "D"), theme.DARK),
    "new-80x24": ((80, 24), ("mail", "N"), theme.DARK),
    "board-light-160x45": ((160, 45), ("mail", "3", "j"), theme.LIGHT),
}


async def picture(url: str, size: tuple[int, int], keys: tuple[str, ...], theme_name: str) -> str:
    """The screen as SVG, after these keys; a first word that is no key is a queue whose board is opened."""
    async with still(url, size, keys, theme_name=theme_name) as app:
        return portable(app.export_screenshot(title="rqtui"))


def portable(svg: str) -> str:
    """The picture without web fonts and without what differs from run to run."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: Fira Code[^;]*;", "font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace;", svg)
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    return svg.replace("<svg ", '<svg xml:space="preserve" ', 1)


def main() -> None:
    """Writes every picture, or those that are named."""
    stop_the_clock()
    with embedded("auto") as running, server.connect(running.url) as client:
        seed(client)
        for name, (size, keys, theme_name) in PICTURES.items():
            if len(sys.argv) > 1 and name not in sys.argv[1:]:
                continue
            (FOLDER / f"{name}.svg").write_text(asyncio.run(picture(running.url, size, keys, theme_name)))
            print(f"screenshots/{name}.svg")


if __name__ == "__main__":
    main()
