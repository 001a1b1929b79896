"""What people type and write: headers of scripts, config files, filters, URLs, key maps, times, whole command lines.

Whatever it is, it is understood or refused with an error of ours: no other exception, no warning on the terminal, and
never a part of a password in what is said.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import fuzzing
import hostile_text
import pytest
from hypothesis import strategies as st
from shell import shell

from rqtui import durations
from rqtui.cli import main, set_fields
from rqtui.config import file as files
from rqtui.config import resolve
from rqtui.connection import connect
from rqtui.engine.filters import parse_filter
from rqtui.errors import RqtuiError
from rqtui.model import Job, Ref, State
from rqtui.reports import events
from rqtui.reports.jobs import parse_id
from rqtui.scripts import script as scripts
from rqtui.scripts.script import load_scripts
from rqtui.systems import registry
from rqtui.text.msgpack import convert_json_to_msgpack
from rqtui.tui.services import keymap

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ANY = st.text(max_size=6)  # with surrogates, as bytes that are no text come from a command line
HOSTILE = [piece for piece in hostile_text.PIECES if len(piece) < 60]
NUMBERS = [number.decode("utf-8", "surrogateescape") for number in fuzzing.NUMBERS]


def build_texts(*pieces: str, other: st.SearchStrategy[str] = TEXT, most: int = 14) -> st.SearchStrategy[str]:
    """Text put together from these pieces, numbers, hostile ones and any other."""
    each = st.one_of(st.sampled_from(pieces), st.sampled_from(pieces), st.sampled_from(NUMBERS + HOSTILE), other)
    return st.lists(each, max_size=most).map("".join)


@contextmanager
def refused_or_not() -> Iterator[None]:
    """Accept errors of rqtui in the block, but no warning of Python, which a terminal would get."""
    with warnings.catch_warnings(), suppress(RqtuiError):
        warnings.simplefilter("error")
        yield


# -- headers -----------------------------------------------------------------------------------------------------------

SOURCES = [script.source for folder in ("native", "orizuru", "shared") for script in load_scripts(folder).values()]
HEADER_LINES = sorted({line for source in SOURCES for line in source.splitlines() if line.startswith("--")})
PIECES = build_texts(
    "--", "-- ", " ", "->", "|", "?", "(", ")", ",", "each", "each (", "rows (", "KEYS", "ARGV[9]", "KEYS[0]", "moves",
    "returns", "zset",
    "int", "id", "'", '"', "[[", "]]", "-- moves  a b", "-- KEYS a zset", "-- returns x", "return 'x'",
    "local a = KEYS[1]", most=3,
)  # fmt: skip
CHANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 3), st.one_of(PIECES, st.sampled_from(HEADER_LINES))), max_size=4
)


def change_script(source: str, changes: list[tuple[int, int, str]]) -> str:
    """Return a script's text with lines replaced, inserted, removed, or padded in the middle."""
    lines = source.splitlines()
    for number, how, piece in changes:
        at = number % (min(len(lines), 40) or 1)
        middle = [line[: len(line) // 2] + piece + line[len(line) // 2 :] for line in lines[at : at + 1]]
        lines[at : at + (how != 1)] = ([piece], [piece], [], middle)[how]
    return "\n".join(lines)


HEADERS = st.builds(change_script, st.sampled_from(SOURCES), CHANGES)


def read_header(text: str) -> None:
    with refused_or_not():
        scripts.parse_script(text, "lua/trials/x.lua")


# -- config ------------------------------------------------------------------------------------------------------------

CONFIGS = build_texts(
    "[columns]\nboard = 1\n", "[redact]\nkeys = [1]\n", "[profiles.a]\nlayouts = true\n", "deny = { a = 1 }\n",
    "[profiles.a]\n", "[profiles]\n", "[keymap]\n", "[columns]\n", "[redact]\n", "[[profiles]]\n", "[", "]", "\n",
    " = ", '"', "'''",
    '"""', "{", "}", ",", "url = ", '"redis://u:p@h/0"\n', '"redis://${HOME}:${NO}@h"\n', "read_only = ", '"always"\n',
    "true\n", "deny = ",
    '{ "billing*" = ["delete", "x"] }\n', "guarded = 1\n", "theme = ", '"nord"\n', '"rqtui-dark"\n', "interval = ",
    '"2s"\n', "nan\n", "-inf\n",
    "calm = ", "ascii = false\n", "keys = ", '["a", ""]\n', "board = ", '["id", "body.x"]\n', "default_profile = ",
    '"a"\n', "systems = ",
    '["native", "no:x=1"]\n', 'filter = "f,comma"\n', 'quit = "ctrl+"\n', "delete = ", "1979-05-27T07:32:00Z\n", "0x",
    "1_000\n", "#",
    "profiles.a.url = 1\n", "a.b.c = 1\n", "\\u0000", "\\U0011ffff", "\t", "badge = ", '"PROD"\n', "[" * 200,
)  # fmt: skip


def read_config(text: str) -> None:
    with refused_or_not():
        use(files.parse_config_text(Path("config.toml"), text))


def use(config: files.Config) -> None:
    assert all(sentence.startswith(f"{config.path}:") for sentence in config.format_problem_lines())
    keymap.validate_keymap(config.keymap, config)
    keymap.find_theme_problems(config)
    for name in ["", *config.profiles]:
        settings = resolve.resolve_profile_settings(config, name, environ={}).settings
        assert "hunter2" not in repr(settings.problems)
        registry.create_systems(settings.systems)


# -- filters -----------------------------------------------------------------------------------------------------------

FILTERS = build_texts("/(", " /[", "err:/*", "!/a{2}{3}/", "id:", "job:", "err:", "body:", "worker:", "!", "/", "\\/",
                  "\\", '"', "'", " ", "[", "[[a]", "(?",
                  "(?P<a>", ")", "{2}",
                  "*", "+", "|", "^", "$", "\\b", "\\x", "\\N{", "(?i)", "&&", "~~", "--", "[a--b]", "timeout",
                  other=ANY)  # fmt: skip
JOB = Job(
    b"\xff1",
    "mail",
    "native",
    "dead",
    State.DEAD,
    b"",
    body=b"b\xff{",
    body_bytes=3,
    error="Timeout: x",
    worker="w\udcff",
)
EVENT = events.Event(Ref("native", "mail"), 1, 0, "reject", b"\xff1", "w\udcff")


def read_filter(text: str) -> None:
    with refused_or_not():
        parse_filter(text)(JOB)
    with refused_or_not():
        events.build_event_matcher(text)(EVENT)


# -- URLs --------------------------------------------------------------------------------------------------------------

URLS = build_texts("redis://", "rediss://", "unix://", "unix:///tmp/x", "redis:", "//", "/", "@", ":", "?", "#", "&",
        "=",
               "[::1]", "[", "]", "%",
               "%41", "%zz", "localhost", ":6379", "/0", "?db=", "?password=", "?ssl_cert_reqs=", "none",
               "?socket_timeout=", "?retry=1",
               "user:", ".", "..", "\\", " ", "xn--", other=ANY)  # fmt: skip
SECRET = "hunter2"
PARTS = st.text("ab:/?#@%[]&=. é", max_size=5)
SECRETS = st.builds(
    lambda scheme, user, before, after, rest: f"{scheme}://{user}:{before}{SECRET}{after}@{rest}",
    st.sampled_from(["redis", "rediss", "unix", "REDIS", "http"]), st.text("abé.%", max_size=4), PARTS, PARTS, PARTS,
)  # fmt: skip


def read_url(text: str) -> None:
    with refused_or_not():
        connect.connect(text)
    for error in (ConnectionError("no"), OSError(2, "no"), ValueError("no")):
        connect.describe_connection_error(error, text)
    connect.hide_url_passwords(text)


def keep_a_password(text: str) -> None:
    assert SECRET not in connect.hide_url_passwords(text), connect.hide_url_passwords(text)
    try:
        connect.connect(text)
    except RqtuiError as error:
        assert SECRET not in str(error), str(error)


# -- words of a command line -------------------------------------------------------------------------------------------

DURATIONS = build_texts("ms", "s", "m", "h", "d", ".", "..", " ", "-", "+", "1", "30", "1e5", "0", other=ANY)
IDS = build_texts("base64:", "QQ==", "=", "Q", "\\x", "$'", other=ANY)
SPECS = build_texts("native", "orizuru", "safe_pop", "redisched", "timeout_sets", "dispatcher", ":", ",", "=", "source",
                "queue", "timeout_s=", "topic=",
                "unit=", "ms", "ttr_ms=", "silent_ms=", "ready=", "delayed=", "todos=", "lock_ms=", "prefix=",
                "items=", other=ANY)  # fmt: skip
SETS = build_texts(
    "ttr_ms=",
    "ttr=",
    "priority=",
    "delay_ms=",
    "delay=",
    "due_ms=",
    "max_attempts=",
    "=",
    "-",
    "1",
    "5m",
    "yes",
    "force=",
    other=ANY,
)
VERBS = [script for name in ("native", "safe_pop", "orizuru") for script in load_scripts(name).values()]


def read_duration(text: str) -> None:
    for read in (durations.parse_duration, durations.parse_duration_range):
        with refused_or_not():
            read(text)


def read_id(text: str) -> None:
    with refused_or_not():
        parse_id(text)
    with refused_or_not():
        convert_json_to_msgpack(text.encode("utf-8", "surrogatepass"))


def read_spec(text: str) -> None:
    with refused_or_not():
        system = registry.create_system(text)
        for queue in [*system.named_queues(), text]:
            with refused_or_not():
                system.keys(queue)
                system.queue_request(queue)
                system.queue_argument(queue)


def read_field(text: str) -> None:
    for script in VERBS[::3]:
        with refused_or_not():
            set_fields.parse_set_options(script, [text])


WISHES = st.dictionaries(
    st.one_of(st.sampled_from(sorted(keymap.map_keymap_names_to_ids())), TEXT),
    build_texts("d", "D", "ctrl+", "shift+", ",", "comma", "enter", "escape", "f1", "+", " ", "é", most=6),
    max_size=4,
)


def read_keys(wishes: dict[str, str]) -> None:
    new_keymap = keymap.validate_keymap(wishes, files.Config(Path("config.toml")))
    taken = [key for keys in new_keymap.keymap.values() for key in keys.split(",")]
    assert all(taken) and len(new_keymap.keymap) + len(new_keymap.problems) >= min(1, len(wishes))


FUZZERS: dict[str, tuple[st.SearchStrategy[object], Callable[..., None]]] = {
    "headers of scripts": (HEADERS, read_header),
    "config": (CONFIGS, read_config),
    "filters": (FILTERS, read_filter),
    "URLs": (URLS, read_url),
    "passwords in URLs": (SECRETS, keep_a_password),
    "durations": (DURATIONS, read_duration),
    "ids and bodies": (IDS, read_id),
    "systems and queues": (SPECS, read_spec),
    "fields of a verb": (SETS, read_field),
    "keymap": (WISHES, read_keys),
}


@fuzzing.parametrize_cases(25)
@pytest.mark.parametrize("fuzzer", FUZZERS)
def test_any_typed_text_is_understood_or_refused_in_a_sentence(fuzzer: str, cases: int) -> None:
    strategy, read = FUZZERS[fuzzer]
    with fuzzing.print_figures(fuzzer, cases):
        fuzzing.check_examples(cases, strategy, read)


# -- files of any bytes ------------------------------------------------------------------------------------------------


@fuzzing.parametrize_cases(10)
def test_a_config_file_of_any_bytes_is_reported_in_sentences(cases: int, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    raw = st.lists(
        st.one_of(CONFIGS.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=8)), max_size=4
    )

    def read(parts: list[bytes]) -> None:
        path.write_bytes(b"".join(parts))
        with refused_or_not():
            use(files.load_config(str(path), {}))

    with fuzzing.print_figures("config files of bytes", cases):
        fuzzing.check_examples(cases, raw, read)


# -- whole command lines -----------------------------------------------------------------------------------------------

COMMANDS = ("acl", "act", "check", "config", "diff", "errors", "events", "group", "health", "jobs", "kinds", "layouts",
            "loops", "metrics",
            "migrate", "operations", "put", "redis", "show", "snapshot", "stats", "undo", "workers")  # fmt: skip
WORDS = ("--place", "--filter", "--all", "--limit", "--token", "--force", "--set", "--dry-run", "--rate", "--yes",
         "--json", "--repair", "--example",
         "--cursor", "--id", "--name", "--delay", "--due", "--priority", "--ttr", "--backoff", "--keep", "--lines",
         "--raw", "--reveal", "--body",
         "--minutes", "--list", "--markdown", "--system", "--profile", "--user", "--redis6", "--help", "--", "-",
         "mail", "native:mail", "ready",
         "dead", "delete", "purge", "viewer", "worker", "safe_pop:queue=x", "1", "base64:QQ==", "5m", "2030-01-01",
         "redis://127.0.0.1:1")  # fmt: skip
VALUED = [word for word in WORDS if word.startswith("--") and len(word) > 2]
WORD = build_texts("mail", "-", "=", ":", "/", other=ANY, most=3)
LINES = st.builds(
    lambda command, named, words: [*command, *named, *words],
    st.one_of(
        st.sampled_from(COMMANDS).map(lambda name: [name]),
        st.sampled_from([["jobs", "mail", "ready"], ["show", "mail"], ["act", "delete", "mail"], ["put", "mail"]]),
        build_texts(*COMMANDS, "redis:", "://", other=ANY, most=3).map(lambda word: [word, "x"]),
    ),
    st.one_of(st.just([]), st.tuples(st.sampled_from(VALUED), WORD).map(list)),
    st.lists(st.one_of(st.sampled_from(WORDS), WORD), max_size=5),
)


@fuzzing.parametrize_cases(15)
def test_every_command_line_ends_with_a_declared_code_and_changes_nothing_where_it_may_not(
    cases: int, client: object, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import typer
    from redis import Redis

    assert isinstance(client, Redis)
    command = typer.main.get_command(main.build_application())
    monkeypatch.setattr(main, "build_application", lambda: command)  # made once: that is most of the time
    client.hset("rqtui:{mail}:meta", "version", 1)
    before = client.info("persistence")["rdb_changes_since_last_save"]

    def run(line: list[str]) -> None:
        words = [word.replace("\x00", "") for word in line]  # no argument of a program holds one
        ran = shell(url, "--read-only", *words)
        assert ran.code in (0, 1, 2, 3), ran
        assert "Traceback" not in ran.err and "should not happen" not in ran.err, ran.err
        assert not hostile_text.find_harmful_character(ran.err), (hostile_text.find_harmful_character(ran.err), ran.err)
        assert client.info("persistence")["rdb_changes_since_last_save"] == before

    with fuzzing.print_figures("command lines", cases):
        fuzzing.check_examples(cases, LINES, run)
