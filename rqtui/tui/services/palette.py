"""Search queues, jobs, views, commands, profiles and used filters in one line (`:`), and run commands with an argument.

Commands with an argument are for example `interval 5s` and `filter err:timeout`. The choices come from the tables of
keys and verbs, from the profiles of the config file and from the cached queues; `CommandProvider` searches them for
`widgets/finder`. Jobs are requested in one round trip (`engine.find_jobs_by_id`). Data from Redis is sanitised and
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
from rqtui.text.sanitise import restore_unprintable_characters, safe
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
SEARCH_SCORE = 0.1  # below every match: the last line offers to search the jobs of all queues
# These keys are no commands, or have another name in the palette.
_EXCLUDED_IDS = ("back", "quit", "palette", "place", "help", "leave")


class Command(NamedTuple):
    """A command of the palette: its title, its help, the function that runs it, and another name that finds it."""

    title: str
    help: str
    run: Callable[[], Any]
    alias: str = ""


class ArgumentCommand(NamedTuple):
    """A palette command with an argument.

    `argument_help` describes the argument, `list_choices` returns arguments to offer. `run` raises RqtuiError with an
    error message for an invalid argument.
    """

    name: str
    argument_help: str
    help: str
    run: Callable[[str], Any]
    list_choices: Callable[[], Iterable[str]] = tuple


class HasPalette(Protocol):
    """The app as seen by Textual's command provider: an object with the attribute `palette`."""

    palette: Palette


class CommandProvider(Provider):
    """A Textual search provider for queues, commands, commands with an argument, and filters used before.

    Each typed word must match. Scores: 1 or more for a good match, `JOB_SCORE` for a job with exactly this id, less
    than 1 if only the help text matches.
    """

    @property
    def _palette(self) -> Palette:
        return cast("HasPalette", self.app).palette

    async def discover(self) -> Hits:
        """Yield all commands of the palette, for an empty search line."""
        for command in self._palette.list_commands():
            yield DiscoveryHit(Content(safe(command.title)), command.run, help=command.help)
        for argument_command in self._palette.argument_commands:
            yield DiscoveryHit(
                _format_command_usage(argument_command),
                partial(self._show_command_usage, argument_command),
                help=argument_command.help,
            )

    async def search(self, query: str) -> Hits:
        """Yield the queues, commands and filters that match the typed words, and a typed command with its argument."""
        typed, _, argument = query.strip().partition(" ")
        for word in self._palette.argument_commands:
            if word.name == typed.lower() and argument.strip():
                for hit in self._find_argument_hits(word, argument.strip()):
                    yield hit
            elif not argument and word.name.startswith(typed.lower()):
                yield Hit(
                    0.9,
                    _format_command_usage(word),
                    partial(self._show_command_usage, word),
                    word.name,
                    word.help,
                )
        words = query.lower().split()
        for name, ref, score in self._palette.find_queues(words):
            title = _highlight_typed_words("queue ", name, words)
            yield Hit(
                score,
                title,
                partial(self._palette.open_board, ref),
                name,
                self._palette.describe_queue(ref),
            )
        for command in self._palette.list_commands():
            alias_score = score_command_match(words, command.alias) if command.alias else 0.0
            if score := max(score_command_match(words, command.title, command.help), alias_score):
                yield Hit(
                    score,
                    _highlight_typed_words("", command.title, words),
                    command.run,
                    help=command.help,
                )
        for expression in self._palette.find_recent_filters(words):
            title = _highlight_typed_words("filter ", expression, words)
            run = partial(self._run_argument_command, self._palette.filter_word, expression)
            yield Hit(1.1, title, run, help="a filter used before")

        if words:
            run = partial(self._run_argument_command, self._palette.search_word, query.strip())
            title = Content.assemble(("search ", "$muted"), (safe(query.strip()), "$accented"))
            yield Hit(SEARCH_SCORE, title, run, help=self._palette.search_word.help)

    def build_job_hit(self, ref: Ref, job: Job) -> Hit:
        """Build the search result for a job that Redis has under the typed id."""
        title = Content.assemble(("job ", "$muted"), (formats.shorten_job_id(job.id, 30), "b $accented"))
        description = " · ".join(filter(None, (safe(ref.queue), job.place, format_field_value(job.name))))
        return Hit(JOB_SCORE, title, partial(self._palette.open_job, ref, job), help=description)

    def _find_argument_hits(self, command: ArgumentCommand, argument: str) -> Iterator[Hit]:
        """Yield a search result for the typed argument, or for the choices that contain it."""
        fitting = [choice for choice in command.list_choices() if argument.lower() in choice.lower()]
        fitting.sort(key=lambda choice: not choice.lower().startswith(argument.lower()))
        for rank, choice in enumerate(fitting[:MAX_HITS] or [argument]):
            # A typed argument ranks above every match of letters, because it is deliberate.
            yield Hit(
                ARGUMENT_SCORE - rank / 100,
                Content.assemble(f"{command.name} ", (safe(choice), "$accented")),
                partial(self._run_argument_command, command, choice),
                f"{command.name} {choice}",
                command.help,
            )

    def _run_argument_command(self, command: ArgumentCommand, argument: str) -> None:
        try:
            command.run(argument)
        except RqtuiError as error:
            self._palette.show_message(f"{command.name}: {error}", "error")

    def _show_command_usage(self, command: ArgumentCommand) -> None:
        self._palette.show_message(
            f"{command.name} takes {command.argument_help}: {keys.find_current_key('palette')} {command.name} …"
        )


def score_command_match(words: Sequence[str], title: str, help: str = "") -> float:
    """Score how well typed words match a command.

    The score is up to 2 for its title, below 1 if its help text is needed, and 0 for no match.
    """
    name = title.lower()
    if all(word in name for word in words):
        phrase = " ".join(words)
        return 2.0 if name == phrase else 1.6 if name.startswith(phrase) else 1.2
    text = f"{name} {help.lower()}"
    return 0.5 if all(word in text for word in words) else 0.0


def _highlight_typed_words(prefix: str, name: str, words: Sequence[str]) -> Content:
    """Return a name after `prefix`, with the typed words in the name highlighted."""
    highlighted = Content(safe(name))
    lower_name = safe(name).lower()
    for word in words:
        start = lower_name.find(word)
        if start >= 0 and len(lower_name) == len(highlighted.plain):
            highlighted = highlighted.stylize("b $accented", start, start + len(word))
    return Content.assemble((prefix, "$muted"), highlighted)


def _format_command_usage(command: ArgumentCommand) -> Content:
    return Content.assemble(command.name, (f" {command.argument_help}", "$muted"))


class Palette:
    """The commands of a session: those of the tables of keys and verbs, and one for each profile of the config file."""

    def __init__(
        self,
        host: Host,
        session: Session,
        navigation: Navigation,
        list_verbs: Callable[[], Iterable[tuple[Verb, str]]],
        list_profiles: Callable[[], Iterable[Command]],
        go_to_url: Callable[[str], None],
    ) -> None:
        self.show_message = host.show_toast
        self._host, self._session, self._navigation = host, session, navigation
        self._list_verbs, self._list_profiles = list_verbs, list_profiles
        # Cache: queues, and (displayed name, queue, search text).
        self._names_cache: tuple[list[Ref], list[tuple[str, Ref, str]]] = ([], [])
        self.filter_word = ArgumentCommand(
            "filter", "an expression", "show rows that match, as / does", self._run_filter_command
        )
        self.search_word = ArgumentCommand(
            "search", "a text or .path:value", "find it in the jobs of all queues", navigation.open_search
        )
        self.argument_commands = (
            ArgumentCommand("url", "a URL", "go over to another Redis", go_to_url),
            ArgumentCommand(
                "interval", "a time, as in 5s", "how often the screen refreshes", self._run_interval_command
            ),
            ArgumentCommand(
                "theme", "a name", "other colours", self._run_theme_command, lambda: sorted(host.app.available_themes)
            ),
            self.filter_word,
            self.search_word,
            ArgumentCommand("queue", "a name", "open its board", self._run_queue_command, self._list_queue_names),
            ArgumentCommand("view", "a name", "go there", self._run_view_command, lambda: sorted(keys.VIEWS)),
        )

    def list_commands(self) -> Iterator[Command]:
        """Yield every command of the palette.

        Verbs for the current row come first, then views and other keys, profiles and the rest.
        """
        for verb, summary in self._list_verbs():
            # The verb's own name finds it where the users of the system call it otherwise.
            yield Command(verb.label, summary, partial(self._start_verb, verb), verb.name)
        for general_key in (*keys.GENERAL_KEYS, *keys.REPLAY_KEYS):
            if (
                bool(general_key.action)
                and general_key.id not in _EXCLUDED_IDS
                and self.is_general_key_usable(general_key)
            ):
                description = f"{general_key.help}  ({keys.find_current_key(general_key.id)})"
                yield Command(
                    _name_general_key(general_key), description, partial(self._run_action, general_key.action)
                )
        if not self._session.is_replay:
            yield from self._list_profiles()
        for general_key in keys.COMMANDS:
            if self.is_general_key_usable(general_key):
                yield Command(
                    general_key.label,
                    keys.apply_keymap(general_key.help),
                    partial(self._run_action, general_key.action),
                )

    # -- searching ------------------------------------------------------------------------------------------------

    def open_finder(self) -> None:
        """Open the search line of the palette, unless a dialog is open."""
        from rqtui.tui.widgets.finder import Finder

        if not self._navigation.has_dialog:
            self._host.app.push_screen(Finder(CommandProvider, self._request_jobs_by_id))

    def find_queues(self, words: Sequence[str]) -> list[tuple[str, Ref, float]]:
        """Return (displayed name, queue, score) of the best `MAX_HITS` queues whose names contain all typed words."""
        refs = self._session.refs
        if refs != self._names_cache[0]:
            displayed = [(safe(self._session.format_name(ref)), ref) for ref in refs]
            self._names_cache = refs, [(name, ref, f"{name} {ref.system}".lower()) for name, ref in displayed]
        matches = [
            (
                name,
                ref,
                0.3 + (score_command_match(words, name) or 0.8),
            )  # queues rank above commands that match equally well
            for name, ref, text in self._names_cache[1]
            if all(word in text for word in words)
        ]
        return sorted(matches, key=lambda match: (-match[2], len(match[0]), match[0]))[:MAX_HITS]

    def describe_queue(self, ref: Ref) -> str:
        """Describe a queue by its system and its counts in the last snapshot."""
        queue = self._session.snapshot.find_queue(ref) if self._session.snapshot else None
        counts = [count for count in queue.counts if count.count] if queue else []
        system = self._session.find_foreign_system_name(ref)
        count_texts = [f"{formats.format_short_count(count.count, count.is_exact)} {count.place}" for count in counts]
        return " · ".join(filter(None, (system, *count_texts))) or "open its board"

    def find_recent_filters(self, words: Sequence[str]) -> list[str]:
        """Return earlier filters that contain the typed words, newest first; none on a view without a filter."""
        view = self._navigation.view
        recent_filters = reversed(self._session.filters) if view is not None and view.FILTER_HINT else ()
        return [expression for expression in recent_filters if score_command_match(words, expression)][:MAX_HITS]

    def open_board(self, ref: Ref) -> None:
        """Open the board of a queue that was found."""
        self._navigation.open_board(ref)

    def open_job(self, ref: Ref, job: Job) -> None:
        """Open the page of a job that was found, above the board of its queue."""
        self._navigation.open_job_on_board(ref, job)

    def _request_jobs_by_id(self, text: str, handle_hits: Callable[[RedisHits], None]) -> str:
        """Request the jobs with the typed id from all queues. Return the message to show until the reply arrives."""
        from rqtui.tui.widgets.finder import RedisHits

        session = self._session
        if session.connection_loss or session.engine is None or not session.refs:
            return ""
        ids = parse_typed_job_ids(text)

        def show_found_jobs(call_result: CallFinished) -> None:
            if call_result.error:
                handle_hits(RedisHits((), call_result.error))
                return
            job_search: JobSearch = call_result.result
            finder = self._host.app.screen
            provider = CommandProvider(finder)
            hits = [provider.build_job_hit(ref, job) for ref, job in job_search.jobs[:MAX_HITS]]
            handle_hits(RedisHits(hits, _describe_skipped_queues(job_search)))

        session.call_engine(lambda engine: engine.find_jobs_by_id(ids), show_found_jobs)
        return f"looking for this id in {formats.format_quantity(len(session.refs), 'queue')} …"

    def _start_verb(self, verb: Verb) -> None:
        self._host.start_verb(verb, self._navigation.find_target(), is_chosen=True)

    def is_general_key_usable(self, general_key: keys.GeneralKey) -> bool:
        """Return whether a general key or palette command works on the current view."""
        view = self._navigation.view
        is_here = not general_key.screens or (view is not None and view.NAME in general_key.screens)
        if view is not None and not view.offers_action(general_key.action):
            return False
        is_available = bool(self._session.demo) or not general_key.in_demo
        if self._session.is_replay and not keys.is_used_in_replay(general_key):
            return False
        action = general_key.action.partition("(")[0]
        return is_available and is_here and self._host.app.check_action(action, (general_key.action,)) is not False

    def _run_action(self, action: str) -> None:
        self._host.app.call_later(self._host.app.run_action, action)

    # -- commands with an argument ------------------------------------------------------------------------------------

    def _run_interval_command(self, argument: str) -> None:
        from rqtui.durations import parse_duration

        self._session.change_refresh_interval(parse_duration(argument, "the interval") / 1000)

    def _run_theme_command(self, argument: str) -> None:
        if argument not in self._host.app.available_themes:
            raise UsageError(f'there is none called "{argument}".')
        self._host.app.theme = argument

    def _run_filter_command(self, argument: str) -> None:
        view = self._navigation.view
        if view is None or not view.FILTER_HINT:
            raise UsageError("there is nothing to filter on this screen.")
        view.confirm_filter(argument)

    def _list_queue_names(self) -> list[str]:
        """Return the displayed names of the queues, with their system where two queues share a name."""
        return sorted(safe(self._session.format_name(ref)) for ref in self._session.refs)

    def _run_queue_command(self, argument: str) -> None:
        ref = next(
            (ref for ref in self._session.refs if argument in (str(ref), ref.queue, safe(str(ref)), safe(ref.queue))),
            None,
        )
        if ref is None:
            raise UsageError(f'no queue "{argument}" was seen here.')
        self._navigation.open_board(ref)

    def _run_view_command(self, argument: str) -> None:
        if argument not in keys.VIEWS:
            raise UsageError(f'there is none called "{argument}"; there are: {", ".join(sorted(keys.VIEWS))}.')
        self._navigation.open_view(argument)


def parse_typed_job_ids(text: str) -> tuple[bytes, ...]:
    """Return the job ids that a typed text may mean: as typed, with screen symbols decoded, or `base64:` decoded."""
    candidates = [text, restore_unprintable_characters(text)]
    ids: list[bytes] = []
    for candidate in candidates:
        with suppress(UsageError):
            ids.append(parse_base64_name(candidate) or to_bytes(candidate))
    return tuple(dict.fromkeys(ids))


def _describe_skipped_queues(search: JobSearch) -> str:
    """Describe in which systems and queues a typed job id was not looked up."""
    notices = []
    if search.skipped_systems:
        notices.append(f"ids cannot be searched in {' and '.join(search.skipped_systems)}: / searches a place")
    if search.failed_queues:
        notices.append(f"{formats.format_quantity(search.failed_queues, 'queue')} could not be asked")
    return " · ".join(notices)


def _name_general_key(general_key: keys.GeneralKey) -> str:
    """Return the palette name of a general key: its label, or its id if two keys share the label."""
    same_label = [other for other in keys.GENERAL_KEYS if other.label == general_key.label]
    return general_key.label if len(same_label) == 1 else general_key.id.replace("_", " ")
