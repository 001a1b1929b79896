"""Palette: every command by its name (`:`), and words with an argument: `interval 5s`, `filter err:timeout`.

What can be chosen comes from the tables that bindings, footer, help and keymap are made from, too, and from the config
file's profiles; Textual's palette gets it from `Commands`. What is data in it is made safe and is never read as markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from rqtui.errors import RqtuiError, UsageError
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.session import Session

if TYPE_CHECKING:
    from rqtui.verbs import Verb

MOST = 12  # completions of one word
_WIDE, _TITLE = 84, 24  # cells of a line, and of what stands before its words
_NOT_HERE = ("back", "quit", "palette", "place", "help")  # looks that are no commands, or stand there by another name


class Command(NamedTuple):
    """A command: what it is called, what it does, and how."""

    title: str
    help: str
    run: Callable[[], Any]


class Word(NamedTuple):
    """A word that takes an argument. `takes` says which; `choices` are arguments to offer; `run` raises RqtuiError in
    words for an argument that is none."""

    name: str
    takes: str
    help: str
    run: Callable[[str], Any]
    choices: Callable[[], Iterable[str]] = tuple


class HasPalette(Protocol):
    """The app, as Textual's palette finds it."""

    palette: Palette


class Commands(Provider):
    """Finds commands for what is typed in the palette."""

    @property
    def _palette(self) -> Palette:
        return cast("HasPalette", self.app).palette

    async def discover(self) -> Hits:
        """Nothing is typed: all of them."""
        for command in self._palette.commands():
            yield DiscoveryHit(self._line(Content(safe(command.title)), command.help), command.run)
        for word in self._palette.words:
            yield DiscoveryHit(self._line(_form(word), word.help), partial(self._say_how, word))

    async def search(self, query: str) -> Hits:
        """Commands with these letters, and the word that was typed with its argument."""
        matcher = self.matcher(query)
        for command in self._palette.commands():
            if (score := matcher.match(command.title)) > 0:
                shown = matcher.highlight(safe(command.title))
                yield Hit(score, self._line(shown, command.help), command.run, command.title)
        typed, _, argument = query.strip().partition(" ")
        for word in self._palette.words:
            if word.name == typed.lower() and argument.strip():
                for hit in self._with_argument(word, argument.strip()):
                    yield hit
            elif not argument and word.name.startswith(typed.lower()):
                yield Hit(0.9, self._line(_form(word), word.help), partial(self._say_how, word), word.name)

    def _line(self, title: Content, words: str) -> Content:
        """A title and what it does, on one line."""
        room = min(_WIDE, round(self.app.size.width * 0.96)) - 8
        lead = max(_TITLE, title.cell_length + 2)
        said = formats.fit(safe(words), max(0, room - lead)).rstrip()
        return Content.assemble(title, " " * (lead - title.cell_length), (said, "$muted"))

    def _with_argument(self, word: Word, argument: str) -> Iterator[Hit]:
        """What was typed, unless it only begins what can be chosen; then those."""
        choices = list(word.choices())
        fitting = [choice for choice in choices if argument.lower() in choice.lower()]
        begun = sorted(fitting, key=lambda choice: not choice.lower().startswith(argument.lower()))[:MOST]
        if argument not in begun and not (choices and begun):
            begun.insert(0, argument)
        for number, choice in enumerate(begun):
            shown = self._line(Content.assemble(f"{word.name} ", (safe(choice), "$accented")), word.help)
            # Above every match by letters: who types an argument means it.
            yield Hit(2 - number / 100, shown, partial(self._run, word, choice), f"{word.name} {choice}")

    def _run(self, word: Word, argument: str) -> None:
        try:
            word.run(argument)
        except RqtuiError as error:
            self._palette.say(f"{word.name}: {error}", "error")

    def _say_how(self, word: Word) -> None:
        self._palette.say(f"{word.name} takes {word.takes}: {keys.key('palette')} {word.name} …")


def _form(word: Word) -> Content:
    return Content.assemble(word.name, (f" {word.takes}", "$muted"))


class Palette:
    """The commands and the words of a session: those of the tables, and one for each profile."""

    def __init__(
        self,
        host: Host,
        session: Session,
        navigation: Navigation,
        verbs: Callable[[], Iterable[tuple[Verb, str]]],
        profiles: Callable[[], Iterable[Command]],
        go_to_url: Callable[[str], None],
    ) -> None:
        self.say = host.say
        self._host, self._session, self._navigation = host, session, navigation
        self._verbs, self._profiles = verbs, profiles
        self.words = (
            Word("url", "a URL", "go over to another Redis", go_to_url),
            Word("interval", "a time, as in 5s", "how often the screen refreshes", self._interval),
            Word("theme", "a name", "other colours", self._theme, lambda: sorted(host.app.available_themes)),
            Word("filter", "an expression", "show rows that match, as / does", self._filter),
            Word("queue", "a name", "open its board", self._queue, self._queues),
            Word("view", "a name", "go there", self._view, lambda: sorted(keys.VIEWS)),
        )

    def commands(self) -> Iterator[Command]:
        """Every command: verbs of what is under the cursor first, then looks and views, then the rest."""
        for verb, summary in self._verbs():
            yield Command(verb.label, summary, partial(self._begin, verb))
        for look in keys.LOOKS:
            if bool(look.action) and look.id not in _NOT_HERE and self._is_of_use(look):
                said = f"{look.help}  ({keys.key(look.id)})"
                yield Command(_name(look), said, partial(self._do, look.action))
        yield from self._profiles()
        for look in keys.COMMANDS:
            if self._is_of_use(look):
                yield Command(look.label, keys.renamed(look.help), partial(self._do, look.action))

    def _begin(self, verb: Verb) -> None:
        self._host.begin(verb, self._navigation.target(), is_chosen=True)

    def _is_of_use(self, look: keys.Look) -> bool:
        """Whether a key that looks, or a command, works here and now."""
        name = self._navigation.view.NAME if self._navigation.view else ""
        is_here = not look.screens or name in look.screens
        is_there = bool(self._session.demo) or not look.in_demo
        action = look.action.partition("(")[0]
        return is_there and is_here and self._host.app.check_action(action, (look.action,)) is not False

    def _do(self, action: str) -> None:
        self._host.app.call_later(self._host.app.run_action, action)

    # -- words --------------------------------------------------------------------------------------------------------

    def _interval(self, argument: str) -> None:
        from rqtui.durations import parse

        self._session.refresh_every(parse(argument, "the interval") / 1000)

    def _theme(self, argument: str) -> None:
        if argument not in self._host.app.available_themes:
            raise UsageError(f'there is none called "{argument}".')
        self._host.app.theme = argument

    def _filter(self, argument: str) -> None:
        view = self._navigation.view
        if view is None or not view.FILTER_HINT:
            raise UsageError("there is nothing to filter on this screen.")
        view.hold_filter(argument)

    def _queues(self) -> list[str]:
        """The queues by name, with their system where two have one name."""
        refs = self._session.refs
        names = Counter(ref.queue for ref in refs)
        return sorted(safe(str(ref) if names[ref.queue] > 1 else ref.queue) for ref in refs)

    def _queue(self, argument: str) -> None:
        ref = next(
            (ref for ref in self._session.refs if argument in (str(ref), ref.queue, safe(str(ref)), safe(ref.queue))),
            None,
        )
        if ref is None:
            raise UsageError(f'no queue "{argument}" was seen here.')
        self._navigation.open_board(ref)

    def _view(self, argument: str) -> None:
        if argument not in keys.VIEWS:
            raise UsageError(f'there is none called "{argument}"; there are: {", ".join(sorted(keys.VIEWS))}.')
        self._navigation.open_view(argument)


def _name(look: keys.Look) -> str:
    """What a look is called in the palette: its label, and more where two share one."""
    same = [other for other in keys.LOOKS if other.label == look.label]
    return look.label if len(same) == 1 else look.id.replace("_", " ")
