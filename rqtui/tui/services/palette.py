"""Search queues, jobs, views, commands, profiles and used filters in one line (`:`), and run words with an argument.

Words with an argument are for example `interval 5s` and `filter err:timeout`. The choices come from the tables of keys
and verbs, from the profiles of the config file and from the cached queues; `Commands` searches them for
`widgets/finder`. Jobs are requested in one round trip (`engine.jobs_of_any_queue`). Data from Redis is sanitised and
never read as markup.
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
from rqtui.text.names import parse_base64_name, to_bytes
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import convert_symbols_back, safe
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.session import Session

if TYPE_CHECKING:
    from rqtui.engine.engine import JobSearch
    from rqtui.engine.ticker import CallFinished
    from rqtui.tui.widgets.finder import RedisHits
    from rqtui.verbs import Verb

MAX_HITS = 12  # most completions of one word, and most queues
ARGUMENT_SCORE, JOB_SCORE = 5.0, 4.0  # scores above those of name matches
_MAX_CELLS, _TITLE_CELLS = 84, 24  # cells of a line, and of the title before its description
_EXCLUDED_IDS = (
    "back",
    "quit",
    "palette",
    "place",
    "help",
    "leave",
)  # keys that are no commands, or have another name in the palette


class Command(NamedTuple):
    """A command of the palette: its title, its help and the function that runs it."""

    title: str
    help: str
    run: Callable[[], Any]


class ArgumentCommand(NamedTuple):
    """A command with an argument. `argument_help` describes the argument, `list_choices` returns arguments to offer.

    `run` raises RqtuiError with an error message for an invalid argument.
    """

    name: str
    argument_help: str
    help: str
    run: Callable[[str], Any]
    list_choices: Callable[[], Iterable[str]] = tuple


class HasPalette(Protocol):
    """The app as seen by Textual's command provider: an object with a palette."""

    palette: Palette


class Commands(Provider):
    """Search provider for queues, commands, words with an argument and filters used before.

    Each typed word must match. Scores: 1 or more for a good match, `JOB_SCORE` for a job with exactly this id, less
    than 1 if only the help text matches.
    """

    @property
    def _palette(self) -> Palette:
        return cast("HasPalette", self.app).palette

    async def discover(self) -> Hits:
        """Yield all commands, for an empty search line."""
        for command in self._palette.list_commands():
            yield DiscoveryHit(self._format_line(Content(safe(command.title)), command.help), command.run)
        for word in self._palette.argument_commands:
            yield DiscoveryHit(self._format_line(_format_usage(word), word.help), partial(self._show_usage, word))

    async def search(self, query: str) -> Hits:
        """Yield the queues, commands and filters that match the typed words, and the typed word with its argument."""
        typed, _, argument = query.strip().partition(" ")
        for word in self._palette.argument_commands:
            if word.name == typed.lower() and argument.strip():
                for hit in self._find_argument_hits(word, argument.strip()):
                    yield hit
            elif not argument and word.name.startswith(typed.lower()):
                yield Hit(
                    0.9, self._format_line(_format_usage(word), word.help), partial(self._show_usage, word), word.name
                )
        wanted = query.lower().split()
        for name, ref, score in self._palette.find_queues(wanted):
            title = _highlight_words("queue ", name, wanted)
            yield Hit(
                score,
                self._format_line(title, self._palette.describe_queue(ref)),
                partial(self._palette.open_board, ref),
                name,
            )
        for command in self._palette.list_commands():
            if score := score_match(wanted, command.title, command.help):
                yield Hit(
                    score, self._format_line(_highlight_words("", command.title, wanted), command.help), command.run
                )
        for expression in self._palette.find_filters(wanted):
            title = _highlight_words("filter ", expression, wanted)
            run = partial(self._run_word, self._palette.filter_word, expression)
            yield Hit(1.1, self._format_line(title, "a filter used before"), run)

    def build_job_hit(self, ref: Ref, job: Job) -> Hit:
        """Build the search result for a job that Redis has under the typed id."""
        title = Content.assemble(("job ", "$muted"), (formats.shorten_job_id(job.id, 30), "b $accented"))
        description = " · ".join(filter(None, (safe(ref.queue), job.place, format_field_value(job.name))))
        return Hit(JOB_SCORE, self._format_line(title, description), partial(self._palette.open_job, ref, job))

    def _format_line(self, title: Content, words: str) -> Content:
        """Format a title and its description on one line."""
        cells = min(_MAX_CELLS, round(self.app.size.width * 0.96)) - 8
        title = title.truncate(cells - 1, ellipsis=True)
        lead = max(_TITLE_CELLS, title.cell_length + 2)
        fitted = formats.fit_to_width(safe(words), max(0, cells - lead)).rstrip()
        return Content.assemble(title, " " * (lead - title.cell_length), (fitted, "$muted"))

    def _find_argument_hits(self, word: ArgumentCommand, argument: str) -> Iterator[Hit]:
        """Yield a hit for the typed argument, or for the choices that begin with it."""
        choices = list(word.list_choices())
        fitting = [choice for choice in choices if argument.lower() in choice.lower()]
        offered = sorted(fitting, key=lambda choice: not choice.lower().startswith(argument.lower()))[:MAX_HITS]
        if argument not in offered and not (choices and offered):
            offered.insert(0, argument)
        for number, choice in enumerate(offered):
            shown = self._format_line(Content.assemble(f"{word.name} ", (safe(choice), "$accented")), word.help)
            # A typed argument ranks above every match of letters, because it is deliberate.
            yield Hit(
                ARGUMENT_SCORE - number / 100, shown, partial(self._run_word, word, choice), f"{word.name} {choice}"
            )

    def _run_word(self, word: ArgumentCommand, argument: str) -> None:
        try:
            word.run(argument)
        except RqtuiError as error:
            self._palette.say(f"{word.name}: {error}", "error")

    def _show_usage(self, word: ArgumentCommand) -> None:
        self._palette.say(f"{word.name} takes {word.argument_help}: {keys.find_current_key('palette')} {word.name} …")


def score_match(wanted: Sequence[str], title: str, help: str = "") -> float:
    """Score how well words match a command: up to 2 in its title, below 1 if its help is needed, 0 for no match."""
    name = title.lower()
    if all(word in name for word in wanted):
        whole = " ".join(wanted)
        return 2.0 if name == whole else 1.6 if name.startswith(whole) else 1.2
    text = f"{name} {help.lower()}"
    return 0.5 if all(word in text for word in wanted) else 0.0


def _highlight_words(before: str, name: str, wanted: Sequence[str]) -> Content:
    """Highlight the typed words in a name."""
    highlighted = Content(safe(name))
    low = safe(name).lower()
    for word in wanted:
        at = low.find(word)
        if at >= 0 and len(low) == len(highlighted.plain):
            highlighted = highlighted.stylize("b $accented", at, at + len(word))
    return Content.assemble((before, "$muted"), highlighted)


def _format_usage(word: ArgumentCommand) -> Content:
    return Content.assemble(word.name, (f" {word.argument_help}", "$muted"))


class Palette:
    """The commands and words of a session: those of the tables of keys, and one for each profile."""

    def __init__(
        self,
        host: Host,
        session: Session,
        navigation: Navigation,
        verbs: Callable[[], Iterable[tuple[Verb, str]]],
        profiles: Callable[[], Iterable[Command]],
        go_to_url: Callable[[str], None],
    ) -> None:
        self.say = host.show_toast
        self._host, self._session, self._navigation = host, session, navigation
        self._list_verbs, self._list_profiles = verbs, profiles
        # Cache: queues, and (displayed name, queue, search text).
        self._names_cache: tuple[list[Ref], list[tuple[str, Ref, str]]] = ([], [])
        self.filter_word = ArgumentCommand(
            "filter", "an expression", "show rows that match, as / does", self._set_filter
        )
        self.argument_commands = (
            ArgumentCommand("url", "a URL", "go over to another Redis", go_to_url),
            ArgumentCommand("interval", "a time, as in 5s", "how often the screen refreshes", self._set_interval),
            ArgumentCommand(
                "theme", "a name", "other colours", self._set_theme, lambda: sorted(host.app.available_themes)
            ),
            self.filter_word,
            ArgumentCommand("queue", "a name", "open its board", self._open_queue, self._list_queue_names),
            ArgumentCommand("view", "a name", "go there", self._open_view, lambda: sorted(keys.VIEWS)),
        )

    def list_commands(self) -> Iterator[Command]:
        """Yield every command: verbs for the current row first, then views and other keys, profiles and the rest."""
        for verb, summary in self._list_verbs():
            yield Command(verb.label, summary, partial(self._start_verb, verb))
        for look in keys.GENERAL_KEYS:
            if bool(look.action) and look.id not in _EXCLUDED_IDS and self.is_usable(look):
                description = f"{look.help}  ({keys.find_current_key(look.id)})"
                yield Command(_name_look(look), description, partial(self._run_action, look.action))
        yield from self._list_profiles()
        for look in keys.COMMANDS:
            if self.is_usable(look):
                yield Command(look.label, keys.apply_keymap(look.help), partial(self._run_action, look.action))

    # -- what is found ------------------------------------------------------------------------------------------------

    def open_finder(self) -> None:
        """Open the search line, unless a dialog is open."""
        from rqtui.tui.widgets.finder import Finder

        if not self._navigation.has_dialog:
            self._host.app.push_screen(Finder(Commands, self._request_jobs))

    def find_queues(self, wanted: Sequence[str]) -> list[tuple[str, Ref, float]]:
        """Return (displayed name, queue, score) of the best `MAX_HITS` queues whose names contain all these words."""
        refs = self._session.refs
        if refs != self._names_cache[0]:
            displayed = [(safe(self._session.format_name(ref)), ref) for ref in refs]
            self._names_cache = refs, [(name, ref, f"{name} {ref.system}".lower()) for name, ref in displayed]
        matches = [
            (name, ref, 0.3 + (score_match(wanted, name) or 0.8))  # queues rank above commands that match equally well
            for name, ref, text in self._names_cache[1]
            if all(word in text for word in wanted)
        ]
        return sorted(matches, key=lambda each: (-each[2], len(each[0]), each[0]))[:MAX_HITS]

    def describe_queue(self, ref: Ref) -> str:
        """Describe a queue by its system and its counts in the last snapshot."""
        queue = self._session.snapshot.find_queue(ref) if self._session.snapshot else None
        counts = [count for count in queue.counts if count.count] if queue else []
        system = self._session.find_foreign_system(ref)
        count_texts = [f"{formats.format_short_count(count.count, count.is_exact)} {count.place}" for count in counts]
        return " · ".join(filter(None, (system, *count_texts))) or "open its board"

    def find_filters(self, wanted: Sequence[str]) -> list[str]:
        """Return used filters that contain these words, newest first. The list is empty on a view without a filter."""
        view = self._navigation.view
        recent_filters = reversed(self._session.filters) if view is not None and view.FILTER_HINT else ()
        return [each for each in recent_filters if score_match(wanted, each)][:MAX_HITS]

    def open_board(self, ref: Ref) -> None:
        """Open the board of a queue."""
        self._navigation.open_board(ref)

    def open_job(self, ref: Ref, job: Job) -> None:
        """Open the page of a job above the board of its queue."""
        self._navigation.open_job_on_board(ref, job)

    def _request_jobs(self, text: str, then: Callable[[RedisHits], None]) -> str:
        """Request the jobs with the typed id from all queues. Return the message to show until the reply arrives."""
        from rqtui.tui.widgets.finder import RedisHits

        session = self._session
        if session.connection_loss or session.engine is None or not session.refs:
            return ""
        ids = parse_ids(text)

        def handle_reply(answered: CallFinished) -> None:
            if answered.error:
                then(RedisHits((), answered.error))
                return
            job_search: JobSearch = answered.result
            finder = self._host.app.screen
            provider = Commands(finder)
            hits = [provider.build_job_hit(ref, job) for ref, job in job_search.jobs[:MAX_HITS]]
            then(RedisHits(hits, _describe_unsearched(job_search)))

        session.call_engine(lambda engine: engine.find_jobs_by_id(ids), handle_reply)
        return f"looking for this id in {formats.format_quantity(len(session.refs), 'queue')} …"

    def _start_verb(self, verb: Verb) -> None:
        self._host.start_verb(verb, self._navigation.target(), is_chosen=True)

    def is_usable(self, look: keys.GeneralKey) -> bool:
        """Return whether a command or key works on the current view."""
        name = self._navigation.view.NAME if self._navigation.view else ""
        is_here = not look.screens or name in look.screens
        is_there = bool(self._session.demo) or not look.in_demo
        action = look.action.partition("(")[0]
        return is_there and is_here and self._host.app.check_action(action, (look.action,)) is not False

    def _run_action(self, action: str) -> None:
        self._host.app.call_later(self._host.app.run_action, action)

    # -- words --------------------------------------------------------------------------------------------------------

    def _set_interval(self, argument: str) -> None:
        from rqtui.durations import parse_duration

        self._session.change_interval(parse_duration(argument, "the interval") / 1000)

    def _set_theme(self, argument: str) -> None:
        if argument not in self._host.app.available_themes:
            raise UsageError(f'there is none called "{argument}".')
        self._host.app.theme = argument

    def _set_filter(self, argument: str) -> None:
        view = self._navigation.view
        if view is None or not view.FILTER_HINT:
            raise UsageError("there is nothing to filter on this screen.")
        view.confirm_filter(argument)

    def _list_queue_names(self) -> list[str]:
        """Return the displayed names of the queues, with their system where two queues share a name."""
        return sorted(safe(self._session.format_name(ref)) for ref in self._session.refs)

    def _open_queue(self, argument: str) -> None:
        ref = next(
            (ref for ref in self._session.refs if argument in (str(ref), ref.queue, safe(str(ref)), safe(ref.queue))),
            None,
        )
        if ref is None:
            raise UsageError(f'no queue "{argument}" was seen here.')
        self._navigation.open_board(ref)

    def _open_view(self, argument: str) -> None:
        if argument not in keys.VIEWS:
            raise UsageError(f'there is none called "{argument}"; there are: {", ".join(sorted(keys.VIEWS))}.')
        self._navigation.open_view(argument)


def parse_ids(text: str) -> tuple[bytes, ...]:
    """Return the ids that a typed text may mean: as typed, with screen symbols decoded, or `base64:` decoded."""
    candidates = [text, convert_symbols_back(text)]
    ids: list[bytes] = []
    for each in candidates:
        with suppress(UsageError):
            ids.append(parse_base64_name(each) or to_bytes(each))
    return tuple(dict.fromkeys(ids))


def _describe_unsearched(sought: JobSearch) -> str:
    """Describe where the id was not looked up."""
    words = []
    if sought.skipped_systems:
        words.append(f"no id is looked up in {' and '.join(sought.skipped_systems)}: / looks through a place")
    if sought.failed_queues:
        words.append(f"{formats.format_quantity(sought.failed_queues, 'queue')} could not be asked")
    return " · ".join(words)


def _name_look(look: keys.GeneralKey) -> str:
    """Return the name of a look in the palette: its label, or its id if two looks share the label."""
    same_label = [other for other in keys.GENERAL_KEYS if other.label == look.label]
    return look.label if len(same_label) == 1 else look.id.replace("_", " ")
