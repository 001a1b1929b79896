"""Palette: one line (`:`) to find anything: a queue by a part of its name, a job by its id in every queue, a view, a
command, a profile, a filter used before; and words with an argument: `interval 5s`, `filter err:timeout`.

What can be chosen comes from the tables that bindings, footer, help and keymap are made from, too, from the config
file's profiles and from what is known of Redis; `Commands` finds it for `widgets/finder`. Jobs are asked for, in one
round trip (`engine.jobs_of_any_queue`). What is data is made safe and is never read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from rqtui.errors import RqtuiError, UsageError
from rqtui.model import Job, Ref
from rqtui.text import formats
from rqtui.text.names import from_base64, to_bytes
from rqtui.text.sanitise import safe, unshown
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.session import Session

if TYPE_CHECKING:
    from rqtui.engine.engine import Sought
    from rqtui.engine.ticker import Answered
    from rqtui.tui.widgets.finder import Found
    from rqtui.verbs import Verb

MOST = 12  # completions of one word, and queues
ARGUMENT, JOB = 5.0, 4.0  # scores above those of names
_WIDE, _TITLE = 84, 24  # cells of a line, and of what stands before its words
_NOT_HERE = (
    "back",
    "quit",
    "palette",
    "place",
    "help",
    "leave",
)  # looks that are no commands, or have another name there


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
    """Finds what is known here for what is typed: queues, commands, words with an argument, filters used before.

    Every word that was typed must be found. Scores: what fits well has 1 or more, a job that Redis has by this very
    id `JOB`; what is only told of by its help has less than 1.
    """

    @property
    def _palette(self) -> Palette:
        return cast("HasPalette", self.app).palette

    async def discover(self) -> Hits:
        """Nothing is typed: all commands."""
        for command in self._palette.commands():
            yield DiscoveryHit(self._line(Content(safe(command.title)), command.help), command.run)
        for word in self._palette.words:
            yield DiscoveryHit(self._line(_form(word), word.help), partial(self._say_how, word))

    async def search(self, query: str) -> Hits:
        """What has these words, and the word that was typed with its argument."""
        typed, _, argument = query.strip().partition(" ")
        for word in self._palette.words:
            if word.name == typed.lower() and argument.strip():
                for hit in self._with_argument(word, argument.strip()):
                    yield hit
            elif not argument and word.name.startswith(typed.lower()):
                yield Hit(0.9, self._line(_form(word), word.help), partial(self._say_how, word), word.name)
        wanted = query.lower().split()
        for name, ref, score in self._palette.queues_named(wanted):
            title = _marked("queue ", name, wanted)
            yield Hit(score, self._line(title, self._palette.told_of(ref)), partial(self._palette.go_to, ref), name)
        for command in self._palette.commands():
            if score := fit(wanted, command.title, command.help):
                yield Hit(score, self._line(_marked("", command.title, wanted), command.help), command.run)
        for expression in self._palette.filters_with(wanted):
            title = _marked("filter ", expression, wanted)
            run = partial(self._run, self._palette.filter_word, expression)
            yield Hit(1.1, self._line(title, "a filter used before"), run)

    def job_hit(self, ref: Ref, job: Job) -> Hit:
        """The line of a job that was found in Redis by its id."""
        title = Content.assemble(("job ", "$muted"), (formats.job_id(job.id, 30), "b $accented"))
        said = " · ".join(filter(None, (safe(ref.queue), job.place, safe(job.name))))
        return Hit(JOB, self._line(title, said), partial(self._palette.go_to_job, ref, job))

    def _line(self, title: Content, words: str) -> Content:
        """A title and what it does, on one line."""
        room = min(_WIDE, round(self.app.size.width * 0.96)) - 8
        title = title.truncate(room - 1, ellipsis=True)
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
            yield Hit(ARGUMENT - number / 100, shown, partial(self._run, word, choice), f"{word.name} {choice}")

    def _run(self, word: Word, argument: str) -> None:
        try:
            word.run(argument)
        except RqtuiError as error:
            self._palette.say(f"{word.name}: {error}", "error")

    def _say_how(self, word: Word) -> None:
        self._palette.say(f"{word.name} takes {word.takes}: {keys.key('palette')} {word.name} …")


def fit(wanted: Sequence[str], title: str, help: str = "") -> float:
    """How well words name something: 2 and less in its title, less than 1 where its help is needed, 0 not at all."""
    name = title.lower()
    if all(word in name for word in wanted):
        whole = " ".join(wanted)
        return 2.0 if name == whole else 1.6 if name.startswith(whole) else 1.2
    text = f"{name} {help.lower()}"
    return 0.5 if all(word in text for word in wanted) else 0.0


def _marked(before: str, name: str, wanted: Sequence[str]) -> Content:
    """A name with the words in it that were typed."""
    shown = Content(safe(name))
    low = safe(name).lower()
    for word in wanted:
        at = low.find(word)
        if at >= 0 and len(low) == len(shown.plain):
            shown = shown.stylize("b $accented", at, at + len(word))
    return Content.assemble((before, "$muted"), shown)


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
        self._named: tuple[list[Ref], list[tuple[str, Ref, str]]] = ([], [])  # the queues, and how each is shown
        self.filter_word = Word("filter", "an expression", "show rows that match, as / does", self._filter)
        self.words = (
            Word("url", "a URL", "go over to another Redis", go_to_url),
            Word("interval", "a time, as in 5s", "how often the screen refreshes", self._interval),
            Word("theme", "a name", "other colours", self._theme, lambda: sorted(host.app.available_themes)),
            self.filter_word,
            Word("queue", "a name", "open its board", self._queue, self._queues),
            Word("view", "a name", "go there", self._view, lambda: sorted(keys.VIEWS)),
        )

    def commands(self) -> Iterator[Command]:
        """Every command: verbs of what is under the cursor first, then looks and views, then the rest."""
        for verb, summary in self._verbs():
            yield Command(verb.label, summary, partial(self._begin, verb))
        for look in keys.LOOKS:
            if bool(look.action) and look.id not in _NOT_HERE and self.is_of_use(look):
                said = f"{look.help}  ({keys.key(look.id)})"
                yield Command(_name(look), said, partial(self._do, look.action))
        yield from self._profiles()
        for look in keys.COMMANDS:
            if self.is_of_use(look):
                yield Command(look.label, keys.renamed(look.help), partial(self._do, look.action))

    # -- what is found ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Opens the line, unless something stands above the view."""
        from rqtui.tui.widgets.finder import Finder

        if not self._navigation.is_asking:
            self._host.app.push_screen(Finder(Commands, self._look_for_jobs))

    def queues_named(self, wanted: Sequence[str]) -> list[tuple[str, Ref, float]]:
        """Queues whose names, as they are shown, have all these words, each with its score; the best `MOST`."""
        refs = self._session.refs
        if refs != self._named[0]:
            shown = [(safe(self._session.named(ref)), ref) for ref in refs]
            self._named = refs, [(name, ref, f"{name} {ref.layout}".lower()) for name, ref in shown]
        found = [
            (name, ref, 0.3 + (fit(wanted, name) or 0.8))  # before commands of the same fit: there are few of those
            for name, ref, text in self._named[1]
            if all(word in text for word in wanted)
        ]
        return sorted(found, key=lambda each: (-each[2], len(each[0]), each[0]))[:MOST]

    def told_of(self, ref: Ref) -> str:
        """What the last picture says of a queue: its counts, where it was counted."""
        queue = self._session.snapshot.queue(ref) if self._session.snapshot else None
        counts = [count for count in queue.counts if count.count] if queue else []
        system = self._session.system_of(ref)
        told = [f"{formats.short_count(count.count, count.exact)} {count.place}" for count in counts]
        return " · ".join(filter(None, (system, *told))) or "open its board"

    def filters_with(self, wanted: Sequence[str]) -> list[str]:
        """Filters used before that have these words, the newest first, where they can hold."""
        view = self._navigation.view
        known = reversed(self._session.filters) if view is not None and view.FILTER_HINT else ()
        return [each for each in known if fit(wanted, each)][:MOST]

    def go_to(self, ref: Ref) -> None:
        """The board of a queue."""
        self._navigation.open_board(ref)

    def go_to_job(self, ref: Ref, job: Job) -> None:
        """The page of a job, on the board of its queue."""
        self._navigation.open_job_on_board(ref, job)

    def _look_for_jobs(self, text: str, then: Callable[[Found], None]) -> str:
        """Asks for the jobs of that id; what is said meanwhile."""
        from rqtui.tui.widgets.finder import Found

        session = self._session
        if session.lost or session.engine is None or not session.refs:
            return ""
        ids = ids_of(text)

        def heard(answered: Answered) -> None:
            if answered.error:
                then(Found((), answered.error))
                return
            sought: Sought = answered.result
            finder = self._host.app.screen
            provider = Commands(finder)
            hits = [provider.job_hit(ref, job) for ref, job in sought.jobs[:MOST]]
            then(Found(hits, _not_looked(sought)))

        session.ask(lambda engine: engine.jobs_of_any_queue(ids), heard)
        return f"looking for this id in {formats.numbered(len(session.refs), 'queue')} …"

    def _begin(self, verb: Verb) -> None:
        self._host.begin(verb, self._navigation.target(), is_chosen=True)

    def is_of_use(self, look: keys.Look) -> bool:
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
        return sorted(safe(self._session.named(ref)) for ref in self._session.refs)

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


def ids_of(text: str) -> tuple[bytes, ...]:
    """The ids that a person may mean: as it is typed, as it is shown with symbols, `base64:` of a document."""
    meant = [text, unshown(text)]
    made: list[bytes] = []
    for each in meant:
        with suppress(UsageError):
            made.append(from_base64(each) or to_bytes(each))
    return tuple(dict.fromkeys(made))


def _not_looked(sought: Sought) -> str:
    """Where nobody looked for the id, in words."""
    words = []
    if sought.systems:
        words.append(f"no id is looked up in {' and '.join(sought.systems)}: / looks through a place")
    if sought.failed:
        words.append(f"{formats.numbered(sought.failed, 'queue')} could not be asked")
    return " · ".join(words)


def _name(look: keys.Look) -> str:
    """What a look is called in the palette: its label, and more where two share one."""
    same = [other for other in keys.LOOKS if other.label == look.label]
    return look.label if len(same) == 1 else look.id.replace("_", " ")
