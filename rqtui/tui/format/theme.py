"""Colours: the theme `rqtui`, its light counterpart, and `rqtui-ansi` in the terminal's own sixteen colours.

One accent (cursor, keys, focused frame), one hue per state, used for nothing else; everything else is a shade of
the ground. The stylesheet names colours only by the variables made here. `defaults` gives the same variables to a
theme that lacks them, so Textual's own themes work as well. The dark colours are those of the design drawings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.theme import Theme

from rqtui.model import State

DARK, LIGHT, ANSI = "rqtui", "rqtui-light", "rqtui-ansi"


# Names of styles for cells, rows and titles: of each the variables of its colour, its ground and its text style.
# Textual's own way, component classes, makes a node for each name in each table whenever the focus moves.
INKS = {
    "table--header": ("muted", "", "muted-style"),
    "table--cursor": ("", "cursor-row", "cursor-style"),
    "table--arrived": ("", "arrived-row", ""),
    "data": ("data", "", ""),
    "muted": ("muted", "", "muted-style"),
    "faint": ("frame", "", "muted-style"),
    "strong": ("strong", "", ""),
    "accented": ("accented", "", ""),
    "ok": ("state-ready", "", ""),
    "warning": ("state-reserved", "", ""),
    "critical": ("state-dead", "", ""),
    "paused": ("state-done", "", ""),
    **{name: (name, "", "") for name in (f"state-{state}" for state in State)},
}
STYLES = frozenset(name for name in INKS if not name.startswith("table--"))


def ink(variables: Mapping[str, str], name: str) -> Style:
    """What a name of `INKS` looks like in a theme, given its variables; nothing for a name that is none."""
    return _ink(*(variables.get(each, "") for each in INKS.get(name, ("", "", ""))))


@lru_cache(512)
def _ink(colour: str, ground: str, text: str) -> Style:
    return Style(
        color=Color.parse(colour).rich_color if colour else None,
        bgcolor=Color.parse(ground).rich_color if ground else None,
        bold=text == "bold" or None,
        dim=text == "dim" or None,
    )


def install(app: App[object], name: str = DARK) -> None:
    """Register the three themes and switch to `name` (one of Textual's own is fine too)."""
    for theme in THEMES:
        app.register_theme(theme)
    app.theme = name


def preferred(environ: Mapping[str, str], wanted: str | None = None) -> str:
    """The theme to start with: what the person `wanted`, but the terminal's own colours under NO_COLOR.

    Textual turns NO_COLOR into shades of grey for themes in 24 bits; only a theme in ANSI colours loses its colours.
    Ask before the `App` is made (it takes NO_COLOR out of the environment), and make it with
    `ansi_color=True` where this answers `ANSI`, for it chooses the filter of NO_COLOR at once.
    """
    return ANSI if environ.get("NO_COLOR") else wanted or DARK


def defaults(theme: Theme) -> dict[str, str]:
    """Our variables for a theme that does not define them; for `App.get_theme_variable_defaults`."""
    if theme.ansi:
        return dict(_ANSI_COLOURS)
    mine = _DARK_COLOURS if theme.dark else _LIGHT_COLOURS
    generated = theme.to_color_system().generate()
    ground, text = Color.parse(generated["background"]), Color.parse(generated["foreground"])
    # Blended here: a component style that the line API reads has no alpha.
    shades = {"frame": 0.2, "muted": 0.55, "cursor-row": 0.12, "arrived-row": 0.06}
    return {
        **mine,
        "ground": ground.hex,
        "raised": generated["panel"],
        "data": text.hex,
        "strong": text.hex,
        "accented": generated["accent"],
        "state-scheduled": generated["primary"],
        "state-ready": generated["success"],
        "state-reserved": generated["warning"],
        "state-dead": generated["error"],
        **{name: ground.blend(text, share).hex for name, share in shades.items()},
    }


_DARK_COLOURS = {
    "ground": "#15171c",
    "raised": "#1b1e25",
    "frame": "#2c313a",
    "muted": "#6b7280",
    "data": "#c9ced6",
    "strong": "#eef1f5",
    "accented": "#e2a65a",
    "cursor-row": "#232831",
    "arrived-row": "#1c2721",
    "json-key": "#98a2b3",
    "json-string": "#a9b8a0",
    "json-number": "#a3b1c9",
    "cursor-style": "none",
    "muted-style": "none",
    "state-scheduled": "#7fa7d9",
    "state-ready": "#8cc084",
    "state-reserved": "#e0b866",
    "state-done": "#868e9b",
    "state-dead": "#dd7f73",
}
# Every hue has a contrast of 4.5 or more on the ground (a test measures it).
_LIGHT_COLOURS = {
    "ground": "#f7f7f5",
    "raised": "#ecedea",
    "frame": "#d3d6da",
    "muted": "#686f7a",
    "data": "#333943",
    "strong": "#0f1216",
    "accented": "#9a5b09",
    "cursor-row": "#e6e7e3",
    "arrived-row": "#e3efe0",
    "json-key": "#56606f",
    "json-string": "#446140",
    "json-number": "#3d5678",
    "cursor-style": "none",
    "muted-style": "none",
    "state-scheduled": "#2c63a6",
    "state-ready": "#2d7331",
    "state-reserved": "#856007",
    "state-done": "#646b76",
    "state-dead": "#b53a2d",
}
# No ground of our own: the cursor's row is bold behind its mark, and what is muted is dim.
_ANSI_COLOURS = {
    "ansi-background": "ansi_black",  # these two are Textual's own: its stylesheet fails without them
    "ansi-foreground": "ansi_white",
    "ground": "ansi_default",
    "raised": "ansi_default",
    "frame": "ansi_bright_black",
    "muted": "ansi_default",
    "data": "ansi_default",
    "strong": "ansi_default",
    "accented": "ansi_magenta",
    "cursor-row": "ansi_default",
    "arrived-row": "ansi_default",
    "json-key": "ansi_default",
    "json-string": "ansi_default",
    "json-number": "ansi_default",
    "cursor-style": "bold",
    "muted-style": "dim",
    "state-scheduled": "ansi_blue",
    "state-ready": "ansi_green",
    "state-reserved": "ansi_yellow",
    "state-done": "ansi_default",
    "state-dead": "ansi_red",
}


def _theme(name: str, colours: Mapping[str, str], dark: bool, ansi: bool = False) -> Theme:
    """A Textual theme whose own widgets (inputs, toasts, palette, scrollbars) look like ours."""
    return Theme(
        name=name,
        ansi=ansi,
        dark=dark,
        primary=colours["accented"],
        secondary=colours["state-scheduled"],
        accent=colours["accented"],
        warning=colours["state-reserved"],
        error=colours["state-dead"],
        success=colours["state-ready"],
        foreground=colours["data"],
        background=colours["ground"],
        surface=colours["ground"],
        panel=colours["raised"],
        boost=colours["raised"],
        variables={
            **colours,
            "border": colours["accented"],
            "border-blurred": colours["frame"],
            "block-cursor-background": colours["accented"] if ansi else colours["cursor-row"],
            "block-cursor-foreground": colours["strong"],
            "block-cursor-text-style": "bold",
            "footer-background": colours["ground"],
            "footer-key-foreground": colours["accented"],
            "footer-description-foreground": colours["muted"],
            "input-selection-background": "ansi_bright_black" if ansi else f"{colours['accented']} 30%",
            "scrollbar": colours["frame"],
            "scrollbar-hover": colours["muted"],
            "scrollbar-active": colours["accented"],
            "scrollbar-background": colours["ground"],
            "scrollbar-background-hover": colours["ground"],
            "scrollbar-background-active": colours["ground"],
            "scrollbar-corner-color": colours["ground"],
        },
    )


THEMES = (
    _theme(DARK, _DARK_COLOURS, dark=True),
    _theme(LIGHT, _LIGHT_COLOURS, dark=False),
    _theme(ANSI, _ANSI_COLOURS, dark=True, ansi=True),
)
