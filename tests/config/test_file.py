"""The config file: what it says, what is wrong in it with file and line, the effective settings, and `rqtui config`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from families import run_in_one_test
from redis import Redis
from shell import build_environment, shell

from rqtui.cli.config import EXAMPLE
from rqtui.config import toml_lines
from rqtui.config.file import _PROFILE, _TOP, COLUMNS_OF, Config, find_config_path, parse_config_text
from rqtui.config.resolve import CommandLine, expand_url_variables, resolve_profile_settings, resolve_settings
from rqtui.config.thresholds import DEFAULTS, RULES, Limit, find_queue_thresholds
from rqtui.errors import UsageError

FILE = Path("config.toml")
USED = re.sub(r"(?m)^#(?=[a-z\[])", "", EXAMPLE)
NOWHERE = "redis://127.0.0.1:1"


def reads(text: str) -> Config:
    return parse_config_text(FILE, text)


def written(folder: Path, text: str) -> str:
    file = folder / "config.toml"
    file.write_text(text)
    return str(file)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_example_is_a_file_without_errors_that_names_every_key() -> None:
    config = reads(USED)
    assert config.problems == ()
    assert {*config.top, "profiles", "keymap", "columns", "redact", "thresholds"} == set(_TOP)
    assert {name for _pattern, limits in config.thresholds for name in limits} == set(RULES)
    assert set(config.profiles["prod"]) == set(_PROFILE)
    assert config.columns.keys() <= set(COLUMNS_OF)
    assert reads(EXAMPLE) == Config(FILE, True), "as printed it says nothing"


@run_in_one_test(
    ("text", "sentence"),
    [
        ("interval = 2\ncalm = yes", "config.toml:2: this is no TOML: Invalid value."),
        ('theme = "rqtui', "config.toml:1: this is no TOML: "),
        ("a = 1\na = 2", "config.toml:2: this is no TOML: Cannot overwrite a value."),
        ("calm = 1", "config.toml:1: calm: expected true or false, found 1."),
        ("\n\ntheem = 'x'", 'config.toml:3: the file has no key "theem". Did you mean "theme"?'),
        ('interval = "1h"', "config.toml:1: interval: expected a time between 0.25 s and 60 s"),
        ("[profiles.prod]\nbadge = 'P'", 'config.toml:1: profile "prod" has no url; expected url ='),
        (
            "[profiles.prod]\nurl = 'redis://a'\nread_only = 'alwys'",
            'config.toml:3: profiles.prod.read_only: expected true, false or "always", found "alwys".',
        ),
        (
            "[profiles.prod]\nurl = 'redis://a'\nread-only = true",
            'config.toml:3: profiles.prod has no key "read-only". Did you mean "read_only"?',
        ),
        (
            "[profiles.prod]\nurl = 'redis://a'\ndeny = { 'b*' = ['purg'] }",
            'config.toml:3: profiles.prod.deny.b*: expected names of verbs (did you mean purge?), found "purg"',
        ),
        ("[profiles.a]\nurl = 'http://x'", "config.toml:2: profiles.a.url: expected a URL that begins with redis://"),
        (
            "default_profile = 'prd'\n[profiles.prod]\nurl = 'redis://a'",
            'config.toml:1: there is no profile "prd". Did',
        ),
        ("[columns]\nredy = ['id']", 'config.toml:2: columns has no key "redy". Did you mean "ready"?'),
        (
            "[profiles.prod]\nurl = 'redis://a'\ndeny = { 'b*' = 'purge' }",
            'config.toml:3: profiles.prod.deny.b*: expected a list of texts, as in ["id", "job"], found "purge"',
        ),
        (
            "[profiles.prod]\nurl = 'redis://a'\n[profiles.prod.deny]\n'b*' = ['purge', 7]",
            "config.toml:4: profiles.prod.deny.b*: expected a text that is not empty as entry 2 of a list of texts",
        ),
        ("[redact]\nkeys = ['iban', {}]", "config.toml:2: redact.keys: expected a text that is not empty as entry 2"),
        ("[redact]\nkeys = 'iban'", "config.toml:2: redact.keys: expected a list of texts"),
        ("[keymap]\nworkers = 3", "config.toml:2: keymap.workers: expected keys"),
        (
            "[thresholds.'b*']\nfailing = [50, 10]",
            "config.toml:2: thresholds.b*.failing: expected the warning before what is critical, and not above it,",
        ),
        (
            "[thresholds.'b*']\nfailing = 'often'",
            "config.toml:2: thresholds.b*.failing: expected per cent, as in 10 or [10, 50] (warning, critical)",
        ),
        ("[thresholds.'b*']\nfailing = 101", "config.toml:2: thresholds.b*.failing: expected per cent"),
        ("[thresholds.'b*']\ndead = true", "config.toml:2: thresholds.b*.dead: expected a number of jobs"),
        ("[thresholds.'b*']\nwaiting = 'soon'", "config.toml:2: thresholds.b*.waiting: expected a time, as in"),
        ("[thresholds.'b*']\nwaitng = '5m'", 'config.toml:2: thresholds.b* has no key "waitng". Did you mean'),
        ("thresholds = 3", "config.toml:1: thresholds: expected a table, found 3."),
        ("[thresholds]\nfailing = 3", "config.toml:2: thresholds.failing: expected a table, found 3."),
        (
            "[profiles.a]\nurl = 'redis://a'\nthresholds = { x = { dead = 0 } }",
            "config.toml:3: profiles.a.thresholds.x.dead: expected a number of jobs",
        ),
        ("profiles = 3", "config.toml:1: profiles: expected a table, found 3."),
    ],
)
def test_an_error_names_file_line_and_what_was_expected(text: str, sentence: str) -> None:
    problem_lines = reads(text).format_problem_lines()
    assert any(each.startswith(sentence) for each in problem_lines), problem_lines


def test_valid_settings_beside_an_error_apply() -> None:
    config = reads("calm = 3\nascii = true\n[profiles.a]\nurl = 'redis://a'\ntypo = 1\n")
    assert config.top == {"ascii": True}
    assert config.profiles["a"] == {"url": "redis://a"}
    assert [problem.line for problem in config.problems] == [1, 5]


def test_an_error_never_shows_a_password() -> None:
    text = " ".join(reads("[profiles.a]\nurl = 'http://u:secret@host'").format_problem_lines())
    assert text and "secret" not in text


def test_lines_are_found_past_texts_of_several_lines_and_quoted_names() -> None:
    found = toml_lines.map_keys_to_lines('a = """\nb = 1\n"""\n["x y".z]\n"k.l" = 1\nm.n = 2\n')
    assert found == {("a",): 1, ("x y", "z"): 4, ("x y", "z", "k.l"): 5, ("x y", "z", "m", "n"): 6}
    assert toml_lines.find_key_line(found, ("x y", "z", "nowhere")) == 4


def test_the_file_is_where_the_option_says_else_the_variable_else_the_platforms_folder() -> None:
    assert find_config_path("/a", {"RQTUI_CONFIG": "/b"})[0] == Path("/a")
    assert find_config_path("", {"RQTUI_CONFIG": "/b"})[0] == Path("/b")
    assert find_config_path("", {})[0].parts[-2:] == ("rqtui", "config.toml")


def test_a_file_that_was_named_and_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--config"):
        resolve_settings(CommandLine(config=str(tmp_path / "none.toml")), {})
    with pytest.raises(UsageError, match="RQTUI_CONFIG"):
        resolve_settings(CommandLine(), {"RQTUI_CONFIG": str(tmp_path / "none.toml")})


# ── in force ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_url_comes_from_the_command_line_then_the_environment_then_the_profile(tmp_path: Path) -> None:
    config = written(tmp_path, "[profiles.prod]\nurl = 'redis://file'\nbadge = 'PROD'\n")
    both = {"RQTUI_URL": "redis://first", "REDIS_URL": "redis://second", "RQTUI_CONFIG": config}

    def url(given: CommandLine, environ: dict[str, str]) -> str:
        return resolve_settings(given, environ).settings.url

    assert url(CommandLine("redis://word", profile="prod"), both) == "redis://word"
    assert url(CommandLine(profile="prod"), both) == "redis://first"
    assert url(CommandLine(profile="prod"), {**both, "RQTUI_URL": ""}) == "redis://second"
    assert url(CommandLine(profile="prod"), {"RQTUI_CONFIG": config}) == "redis://file"
    assert url(CommandLine(), {"RQTUI_CONFIG": config}) == "redis://localhost:6379"


def test_a_profile_whose_url_is_not_used_is_reported_and_what_it_forbids_holds(tmp_path: Path) -> None:
    config = written(tmp_path, "[profiles.prod]\nurl = 'redis://file'\nread_only = true\n")
    settings = resolve_settings(CommandLine(profile="prod", config=config), {"REDIS_URL": "redis://other"}).settings
    assert settings.read_only
    assert "REDIS_URL" in settings.notes[0] and "prod" in settings.notes[0]


def test_the_default_profile_is_only_for_where_nothing_else_names_a_redis(tmp_path: Path) -> None:
    text = "default_profile = 'prod'\n[profiles.prod]\nurl = 'redis://file'\nbadge = 'PROD'\n"
    config = written(tmp_path, text)
    assert resolve_settings(CommandLine(config=config), {}).settings.badge == "PROD"
    assert resolve_settings(CommandLine("redis://word", config=config), {}).settings.badge == ""
    assert resolve_settings(CommandLine(config=config), {"REDIS_URL": "redis://other"}).settings.profile == ""


def test_the_badge_prod_guards_unless_the_profile_says_otherwise(tmp_path: Path) -> None:
    text = "[profiles.a]\nurl='redis://a'\nbadge='prod'\n[profiles.b]\nurl='redis://b'\nbadge='PROD'\nguarded=false\n"
    config = reads(text)
    assert resolve_profile_settings(config, "a").settings.is_guarded
    assert not resolve_profile_settings(config, "b").settings.is_guarded


def test_always_read_only_cannot_be_unlocked_and_true_can() -> None:
    config = reads("[profiles.a]\nurl='redis://a'\nread_only='always'\n[profiles.b]\nurl='redis://b'\nread_only=true\n")
    a, b = resolve_profile_settings(config, "a").settings, resolve_profile_settings(config, "b").settings
    assert (a.read_only, a.may_unlock) == (True, False)
    assert (b.read_only, b.may_unlock) == (True, True)


@pytest.mark.parametrize("text", ["calm = yes", "[profiles.a]\nurl='redis://a'\nreadonly = true\n"])
def test_changes_are_off_while_it_is_unknown_what_a_broken_file_forbids(text: str) -> None:
    settings = resolve_profile_settings(reads(text), "a").settings
    assert settings.read_only and not settings.may_unlock
    assert "Changes are off" in settings.problems[-1]


def test_an_error_that_forbids_nothing_leaves_changes_on() -> None:
    settings = resolve_profile_settings(reads("calm = 3\n[profiles.a]\nurl='redis://a'\n"), "a").settings
    assert not settings.read_only
    assert settings.problems


def test_a_password_comes_from_the_environment_and_is_made_fit_for_a_url() -> None:
    assert expand_url_variables("redis://u:${PW}@h:1/0", {"PW": "a@b/c:d"}) == ("redis://u:a%40b%2Fc%3Ad@h:1/0", [])
    assert expand_url_variables("${WHOLE}", {"WHOLE": "redis://h"}) == ("redis://h", [])
    settings = resolve_profile_settings(
        reads("[profiles.a]\nurl = 'redis://:${NO_SUCH}@h'\n"), "a", environ={}
    ).settings
    assert settings.problems == ("config.toml:2: the environment variable NO_SUCH is not set; the URL needs it.",)


def test_calm_comes_from_the_option_the_variable_or_the_file() -> None:
    config = reads("calm = true\n[profiles.a]\nurl='redis://a'\n[profiles.b]\nurl='redis://b'\ncalm = false\n")
    assert resolve_profile_settings(config, "a", environ={}).settings.is_calm
    assert not resolve_profile_settings(config, "b", environ={}).settings.is_calm
    assert resolve_profile_settings(config, "b", environ={"RQTUI_CALM": "1"}).settings.is_calm
    assert not resolve_profile_settings(config, "a", environ={"RQTUI_CALM": "0"}).settings.is_calm
    assert resolve_profile_settings(config, "b", CommandLine(is_calm=True), {"RQTUI_CALM": "0"}).settings.is_calm


def test_the_last_matching_threshold_wins_and_those_of_the_profile_come_last() -> None:
    text = (
        "[thresholds.'*']\ndead = [10, 20]\nwaiting = '2m'\n[thresholds.'billing*']\nfailing = false\ndead = 7\n"
        "[profiles.a]\nurl = 'redis://a'\nthresholds = { 'native:b*' = { waiting = ['1m', 90] } }\n"
    )
    limits = resolve_profile_settings(reads(text), "a", CommandLine(), {}).settings.limits
    found = find_queue_thresholds(limits, ("billing-eu", "native:billing-eu"))
    assert (found.dead, found.failing, found.waiting) == (Limit(7), Limit(), Limit(60_000, 90_000))
    assert found.silent == DEFAULTS.silent
    assert find_queue_thresholds(limits, ("mail", "native:mail")).dead == Limit(10, 20)
    assert resolve_profile_settings(reads(text), "", CommandLine(), {}).settings.limits == limits[:2]


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────


def test_config_shows_every_value_with_its_source_and_no_password(tmp_path: Path) -> None:
    config = written(tmp_path, USED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAIL_PW", "hunter2")
        ran = shell("", "--profile", "prod", "--config", config, "config", "--json")
    assert ran.code == 0, ran.err
    assert "hunter2" not in ran.out
    found = ran.json["in_force"]
    assert ran.json["path"] == config and ran.json["profiles"] == ["dev", "prod"]
    assert found["url"] == {"value": "rediss://ops:***@jobs-1:6379/0", "source": f"{config}:19"}
    assert found["deny"]["value"] == {"billing*": ["delete", "purge"]}
    assert found["profile"] == {"value": "prod", "source": "--profile"}
    assert found["thresholds"]["value"]["mail*"] == ["waiting 10m"]
    assert found["thresholds"]["value"]["billing*"][:2] == ["failing 1..10", "dead 10..100"]
    assert found["keymap"]["value"] == {"delete": "ctrl+d", "workers": "W"}


def test_config_without_json_is_a_table_and_path_and_example_are_alone_on_stdout(tmp_path: Path) -> None:
    config = written(tmp_path, "calm = true\n")
    ran = shell(NOWHERE, "config", "--config", config)
    assert ran.code == 0
    assert re.search(r"^calm +yes +config\.toml:1$", ran.out, re.M)
    assert re.search(r"^url +redis://127\.0\.0\.1:1 +RQTUI_URL$", ran.out, re.M)
    assert shell(NOWHERE, "config", "--path", "--config", config).out == f"{config}\n"
    assert shell(NOWHERE, "config", "--example").out == EXAMPLE


def test_config_shows_every_error_also_of_keys_and_themes_and_ends_with_2(tmp_path: Path) -> None:
    config = written(tmp_path, "calm = 3\ntheme = 'rqtiu'\n[keymap]\nworkers = 'e'\n")
    ran = shell(NOWHERE, "config", "--config", config)
    assert ran.code == 2
    assert f"{config}:1: calm" in ran.err
    assert f'{config}:2: there is no theme "rqtiu". Did you mean "rqtui"?' in ran.err
    assert f'{config}:4: keymap.workers: "e" is taken' in ran.err


def test_other_commands_refuse_a_broken_config_before_anything_is_sent(url: str, client: Redis, tmp_path: Path) -> None:
    config = written(tmp_path, "calm = 3\n")
    ran = shell(url, "--config", config, "put", "mail", "{}")
    assert (ran.code, ran.out) == (2, "")
    assert f"{config}:1: calm" in ran.err
    assert client.dbsize() == 0
    assert shell(url, "health", "--config", config).code == 3, "health's word for: not known"


def test_an_unknown_profile_is_a_slip_that_names_the_nearest(tmp_path: Path) -> None:
    config = written(tmp_path, "[profiles.prod]\nurl = 'redis://a'\n")
    ran = shell("", "snapshot", "--profile", "prdo", "--config", config)
    assert ran.code == 2
    assert 'there is no profile "prdo"' in ran.err and 'Did you mean "prod"?' in ran.err


def test_a_profile_reaches_every_command_before_or_after_its_name(url: str, client: Redis, tmp_path: Path) -> None:
    config = written(tmp_path, f"[profiles.here]\nurl = '{url}'\nread_only = true\n")
    assert shell("", "--config", config, "--profile", "here", "snapshot", "--json").code == 0
    refused = shell("", "put", "mail", "{}", "--profile", "here", "--config", config)
    assert refused.code == 1
    assert client.dbsize() == 0


def complete_words(words: str, config: str = os.devnull) -> tuple[bytes, set[bytes]]:
    """Return what zsh would offer, and which modules were imported for it."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rqtui"],
        capture_output=True,
        env={
            **build_environment(NOWHERE),
            "RQTUI_CONFIG": config,
            "_RQTUI_COMPLETE": "complete_zsh",
            "_TYPER_COMPLETE_ARGS": words,
        },
        check=True,
    )
    return done.stdout, {line.rsplit(b"|", 1)[-1].strip() for line in done.stderr.splitlines()}


def test_the_shell_completes_the_names_of_profiles_and_verbs_and_imports_little(tmp_path: Path) -> None:
    config = written(tmp_path, "[profiles.prod]\nurl = 'redis://a'\n[profiles.dev]\nurl = 'redis://b'\n")
    offered, imported = complete_words("rqtui --profile pr", config)
    assert b"prod" in offered and b"dev" not in offered
    assert not imported & {b"redis", b"textual", b"pydantic", b"rich"}
    offered, imported = complete_words("rqtui act requ")
    assert b"requeue" in offered and b"reject" not in offered
    assert not imported & {b"redis", b"textual", b"pydantic", b"rich"}


def test_without_a_config_file_none_is_read_and_nothing_of_toml_is_imported(tmp_path: Path) -> None:
    words = (
        "from rqtui.config.resolve import *; import sys; resolve_settings(CommandLine('redis://a')); "
        "print('tomllib' in sys.modules)"
    )
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path), "RQTUI_CONFIG": ""}
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, env=env, check=True, text=True)
    assert done.stdout == "False\n"
