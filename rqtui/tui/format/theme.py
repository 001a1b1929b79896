"""Define the colours: the theme `rqtui`, its light version, and `rqtui-ansi` in the terminal's own sixteen colours.

There is one accent (cursor, keys, focused frame) and one hue per state, used for nothing else; everything else is a
shade of the background. The stylesheet names colours only by the variables defined here. `compute_default_variables`
gives the same variables to a theme that lacks them, so that Textual's own themes work as well. The dark colours are
those of the design drawings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from rich.console import Console
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.theme import Theme

from rqtui.model import State

DARK, LIGHT, ANSI = "rqtui", "rqtui-light", "rqtui-ansi"


# {style of a cell, row or title: (variable of its colour, of its background, of its text style)}. Textual's component
# classes are not used, because they create a node for each name in each table whenever the focus moves.
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


def resolve_style(variables: Mapping[str, str], style_name: str) -> Style:
    """Return the Rich style of a cell, row or title style name (see `INKS`) in a theme with these variables.

    Unknown names have an empty style.
    """
    return _build_rich_style(*(variables.get(variable, "") for variable in INKS.get(style_name, ("", "", ""))))


@cache
def _build_rich_style(colour: str, background: str, text_style: str) -> Style:
    return Style(
        color=Color.parse(colour).rich_color if colour else None,
        bgcolor=Color.parse(background).rich_color if background else None,
        bold=text_style == "bold" or None,
        dim=text_style == "dim" or None,
    )


def register_themes(app: App[object], theme_name: str = DARK) -> None:
    """Register rqtui's three themes with the app, and switch to the theme of this name.

    The theme may also be one of Textual's own.
    """
    for theme in THEMES:
        app.register_theme(theme)
    app.theme = theme_name


def choose_theme_name(environ: Mapping[str, str], configured: str | None = None) -> str:
    """Return the name of the theme to start with: `configured`, or the dark theme; under NO_COLOR always `rqtui-ansi`.

    A terminal with 16 colours or fewer, such as TERM=xterm or TERM=screen, has `rqtui-ansi` as its default: the shades
    of the other themes would become equal there.
    Textual turns NO_COLOR into shades of grey for 24-bit themes; only a theme in ANSI colours loses its colours. Call
    this function before the `App` is created, because the app removes NO_COLOR from the environment. If the result is
    `ANSI`, create the app with `ansi_color=True`, because the app chooses its NO_COLOR filter at once.
    """
    return ANSI if environ.get("NO_COLOR") else configured or (ANSI if _has_few_colours(environ) else DARK)


def _has_few_colours(environ: Mapping[str, str]) -> bool:
    """Return whether Rich, which writes the colours of the screen, uses at most 16 of them on this terminal."""
    return Console(force_terminal=True, _environ=environ).color_system in (None, "standard", "windows")


def compute_default_variables(theme: Theme) -> dict[str, str]:
    """Return the colour variables for a theme that does not define them. Used by `App.get_theme_variable_defaults`."""
    if theme.ansi:
        return dict(_ANSI_COLOURS)
    colours = _DARK_COLOURS if theme.dark else _LIGHT_COLOURS
    generated = theme.to_color_system().generate()
    background, text = Color.parse(generated["background"]), Color.parse(generated["foreground"])
    # The colours are blended here, because styles read by the line API have no alpha.
    shades = {"frame": 0.2, "muted": 0.55, "cursor-row": 0.12, "arrived-row": 0.06}
    return {
        **colours,
        "ground": background.hex,
        "raised": generated["panel"],
        "data": text.hex,
        "strong": text.hex,
        "accented": generated["accent"],
        "state-scheduled": generated["primary"],
        "state-ready": generated["success"],
        "state-reserved": generated["warning"],
        "state-dead": generated["error"],
        **{name: background.blend(text, share).hex for name, share in shades.items()},
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
# Every hue has a contrast of 4.5 or more on the background (measured by a test).
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
# The theme sets no background: the cursor's row is bold after its mark, and muted text is dim.
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


def _build_theme(name: str, colours: Mapping[str, str], is_dark: bool, is_ansi: bool = False) -> Theme:
    """Build a Textual theme in which Textual's own widgets (inputs, toasts, palette, scrollbars) look like rqtui's."""
    return Theme(
        name=name,
        ansi=is_ansi,
        dark=is_dark,
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
            "block-cursor-background": colours["accented"] if is_ansi else colours["cursor-row"],
            "block-cursor-foreground": colours["strong"],
            "block-cursor-text-style": "bold",
            "footer-background": colours["ground"],
            "footer-key-foreground": colours["accented"],
            "footer-description-foreground": colours["muted"],
            "input-selection-background": "ansi_bright_black" if is_ansi else f"{colours['accented']} 30%",
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
    _build_theme(DARK, _DARK_COLOURS, is_dark=True),
    _build_theme(LIGHT, _LIGHT_COLOURS, is_dark=False),
    _build_theme(ANSI, _ANSI_COLOURS, is_dark=True, is_ansi=True),
)
