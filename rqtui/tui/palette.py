"""Palette: every command by its name (`:`), and words with an argument: `interval 5s`, `filter err:timeout`.

What can be chosen comes from the tables, and from every part of the app that has a method `commands_…` (commands as
`(title, help, function)`) or `words_…` (a `Word` each). What is data in it is made safe and is never read as markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from textual.app import SystemCommand
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.screen import Screen

from rqtui.errors import RqtuiError, UsageError
from rqtui.tui import display, keys, theme
from rqtui.tui.part import Part

if TYPE_CHECKING:
    from rqtui.tui.app import Cockpit
    from rqtui.verbs import Verb

Command = tuple[str, str, Callable[[], Any]]
MOST = 12  # completions of one word
_WIDE, _TITLE = 84, 24  # cells of a line, and of what stands before its words
_NOT_HERE = ("back", "quit", "palette", "place", "help")  # looks that are no commands, or stand there by another name


class Word(NamedTuple):
    """A word that takes an argument. `takes` says which; `choices` are arguments to offer; `run` raises RqtuiError in
    words for an argument that is none."""

    name: str
    takes: str
    help: str
    run: Callable[[str], Any]
    choices: Callable[[], Iterable[str]] = tuple


class Commands(Provider):
    """Finds commands for what is typed in the palette."""

    @property
    def _cockpit(self) -> Cockpit:
        return cast("Cockpit", self.app)

    async def discover(self) -> Hits:
        """Nothing is typed: all of them."""
        for command in self._cockpit.get_system_commands(self.screen):
            yield DiscoveryHit(self._line(Content(display.safe(command.title)), command.help), command.callback)
        for word in self._cockpit.words():
            yield DiscoveryHit(self._line(_form(word), word.help), partial(self._say_how, word))

    async def search(self, query: str) -> Hits:
        """Commands with these letters, and the word that was typed with its argument."""
        matcher = self.matcher(query)
        for command in self._cockpit.get_system_commands(self.screen):
            if (score := matcher.match(command.title)) > 0:
                shown = matcher.highlight(display.safe(command.title))
                yield Hit(score, self._line(shown, command.help), command.callback, command.title)
        typed, _, argument = query.strip().partition(" ")
        for word in self._cockpit.words():
            if word.name == typed.lower() and argument.strip():
                for hit in self._with_argument(word, argument.strip()):
                    yield hit
            elif not argument and word.name.startswith(typed.lower()):
                yield Hit(0.9, self._line(_form(word), word.help), partial(self._say_how, word), word.name)

    def _line(self, title: Content, words: str) -> Content:
        """A title and what it does, on one line."""
        room = min(_WIDE, round(self.app.size.width * 0.96)) - 8
        lead = max(_TITLE, title.cell_length + 2)
        said = display.fit(display.safe(words), max(0, room - lead)).rstrip()
        return Content.assemble(title, " " * (lead - title.cell_length), (said, "$muted"))

    def _with_argument(self, word: Word, argument: str) -> Iterator[Hit]:
        """What was typed, unless it only begins what can be chosen; then those."""
        choices = list(word.choices())
        fitting = [choice for choice in choices if argument.lower() in choice.lower()]
        begun = sorted(fitting, key=lambda choice: not choice.lower().startswith(argument.lower()))[:MOST]
        if argument not in begun and not (choices and begun):
            begun.insert(0, argument)
        for number, choice in enumerate(begun):
            shown = self._line(Content.assemble(f"{word.name} ", (display.safe(choice), "$accented")), word.help)
            # Above every match by letters: who types an argument means it.
            yield Hit(2 - number / 100, shown, partial(self._run, word, choice), f"{word.name} {choice}")

    def _run(self, word: Word, argument: str) -> None:
        try:
            word.run(argument)
        except RqtuiError as error:
            self._cockpit.say(f"{word.name}: {error}", "error")

    def _say_how(self, word: Word) -> None:
        self._cockpit.say(f"{word.name} takes {word.takes}: {keys.key('palette')} {word.name} …")


def _form(word: Word) -> Content:
    return Content.assemble(word.name, (f" {word.takes}", "$muted"))


class Palette(Part):
    """A mixin of the app."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Commands}

    def get_system_commands(self, _screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every command: verbs of what is under the cursor first, then looks and views, then the rest."""
        for command in self._commands():
            yield SystemCommand(*command[:3])

    def _commands(self) -> Iterator[Command]:
        app = self.cockpit
        for verb, summary in app.offered():
            yield verb.name, summary, partial(self._begin, verb)
        yield from self._looks()
        yield from self._contributed("commands_")
        yield "keys", f"every key  ({keys.key('help')})", app.action_help
        yield "theme", "other colours, from a list", app.action_change_theme
        yield "quit", "stop rqtui", app.exit

    def _begin(self, verb: Verb) -> None:
        self.cockpit.begin(verb, self.cockpit.target(), is_chosen=True)

    def _looks(self) -> Iterator[Command]:
        """Every key that looks and works here, by its name."""
        app = self.cockpit
        name = app.view.NAME if app.view else ""
        for look in keys.LOOKS:
            is_here = not look.screens or name in look.screens
            is_plain = bool(look.action) and look.id not in _NOT_HERE and (app.demo or not look.in_demo)
            if is_plain and is_here and app.check_action(look.action.partition("(")[0], (look.action,)) is not False:
                said = f"{look.help}  ({keys.key(look.id)})"
                yield _name(look), said, partial(self._do, look.action)

    def _do(self, action: str) -> None:
        self.cockpit.call_later(self.cockpit.run_action, action)

    def words(self) -> list[Word]:
        """Every word that takes an argument."""
        return list(self._contributed("words_"))

    def _contributed(self, prefix: str) -> Iterator[Any]:
        for name in dir(type(self)):
            if name.startswith(prefix):
                yield from getattr(self, name)()

    def words_of_the_palette(self) -> Iterator[Word]:
        """The words that belong to no other part."""
        app = self.cockpit
        yield Word("interval", "a time, as in 5s", "how often the picture is taken anew", self._interval)
        yield Word("theme", "a name", "other colours", self._theme, lambda: sorted(app.available_themes))
        yield Word("filter", "an expression", "show only what fits, as / does", self._filter)
        yield Word("queue", "a name", "open its board", self._queue, self._queues)
        yield Word("view", "a name", "go there", self._view, self._views_there)

    def _interval(self, argument: str) -> None:
        from rqtui.durations import parse

        self.cockpit.set_interval_s(parse(argument, "the interval") / 1000)

    def _theme(self, argument: str) -> None:
        if argument not in self.cockpit.available_themes:
            raise UsageError(f'there is none called "{argument}".')
        self.cockpit.theme = argument

    def _filter(self, argument: str) -> None:
        view = self.cockpit.view
        if view is None or not view.FILTER_HINT:
            raise UsageError("there is nothing to filter on this screen.")
        view.hold_filter(argument)

    def _queues(self) -> list[str]:
        """The queues by name, with their system where two have one name."""
        names = Counter(ref.queue for ref in self.cockpit.refs)
        return sorted(str(ref) if names[ref.queue] > 1 else ref.queue for ref in self.cockpit.refs)

    def _queue(self, argument: str) -> None:
        app = self.cockpit
        ref = next((ref for ref in app.refs if argument in (str(ref), ref.queue)), None)
        if ref is None:
            raise UsageError(f'no queue "{argument}" was seen here.')
        app.open_board(ref)

    def _views_there(self) -> list[str]:
        from rqtui.tui.views import VIEWS

        return sorted(VIEWS)

    def _view(self, argument: str) -> None:
        if argument not in self._views_there():
            raise UsageError(f'there is none called "{argument}"; there are: {", ".join(self._views_there())}.')
        self.cockpit.action_open_view(argument)

    def on_theme_chosen(self, name: str) -> None:
        """Another theme was chosen: says what keeps it."""
        settings = self.cockpit.settings
        if name in (settings.theme or theme.DARK, theme.ANSI if self.cockpit.is_colourless else ""):
            return
        where = f"[profiles.{settings.profile}] of " if settings.profile else ""
        self.cockpit.say(
            f'To keep these colours, write  theme = "{name}"  into {where}{settings.config or "the config file"}.'
        )


def _name(look: keys.Look) -> str:
    """What a look is called in the palette: its label, and more where two share one."""
    same = [other for other in keys.LOOKS if other.label == look.label]
    return look.label if len(same) == 1 else look.id.replace("_", " ")
