"""The cockpit in a real terminal (tmux): each view and each family of changes by the keys that a person presses."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from screens import Seeded
from tmux import PATIENCE_S, RQTUI, Terminal
from waiting import wait_until

pytestmark = pytest.mark.real_terminal


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """Yield a terminal of 80×24 cells."""
    new_terminal = Terminal(80, 24)
    yield new_terminal
    new_terminal.close()


@pytest.fixture
def mail(client: Redis) -> Seeded:
    """Plant a queue with waiting, held, delayed and dead jobs."""
    seeded = Seeded(client)
    seeded.bury("dead-1", "dead-2", "dead-3")
    seeded.put("a1", "a2", "a3")
    seeded.put("later-1", delay_ms=3_600_000)
    return seeded


Opened = Callable[..., Terminal]


@pytest.fixture
def opened(terminal: Terminal, url: str, mail: Seeded, state_folder: Path) -> Opened:
    """Open the screen with some options and environment variables."""

    def start(*options: str, before: str = "", shows: str = "write") -> Terminal:
        terminal.run(
            f"clear; RQTUI_STATE_DIR={shlex.quote(str(state_folder))} {before} {RQTUI} {url} {' '.join(options)}"
        )
        terminal.until("mail", shows)
        return terminal

    return start


def resize(terminal: Terminal, width: int, height: int) -> None:
    terminal._run_tmux("resize-window", "-x", str(width), "-y", str(height))


def command(terminal: Terminal, words: str) -> None:
    """Run a command of the palette."""
    terminal.keys(":")
    terminal.until("a queue, the id of a job")
    terminal.type(words)
    wait_until(lambda: terminal.text().count(words) > 1, PATIENCE_S, "the command was found", every_s=0.05)
    terminal.keys("Enter")
    terminal.wait_until_hidden("a queue, the id of a job")


SIDE_VIEWS = {
    "w": ("no worker sends heartbeats",),
    "b": ("send", "failed"),
    "e": ("TimeoutError: smtp", "dead"),
    "f": ("happened", "recording"),
    "m": ("1 hour", "1 day"),
    "t": ("dispatcher", "reaper"),
    "i": ("memory", "clients"),
    "o": ("no change was made here yet",),
}


@pytest.mark.matrix
def test_every_side_view_opens_by_its_key_and_esc_goes_one_step_back(opened: Opened) -> None:
    ui = opened()
    for key, words in SIDE_VIEWS.items():
        ui.keys(key)
        ui.until(*words)
    ui.keys("Escape")
    ui.until("queues", "sort")
    ui.keys("Enter")
    ui.until("a1")
    ui.keys("e")
    ui.until("TimeoutError: smtp")
    ui.keys("Enter")
    ui.until("dead-1")
    ui.keys("Escape")
    ui.until("errors of mail", "TimeoutError: smtp")
    ui.keys("Escape")
    ui.until("2 ready", "a1")


def test_enter_on_a_finding_opens_the_page_about_it(opened: Opened, mail: Seeded) -> None:
    mail.engine.apply_verb("pause", mail.ref, (), {})
    ui = opened()
    ui.until("paused since", "P resume")
    ui.keys("Tab")
    ui.until("▌ ", "⏎ incident")
    ui.keys("G")
    ui.until("▌ paused since")
    ui.keys("Enter")
    ui.until("incident: mail", "info      paused since")
    ui.keys("Escape")
    ui.until("▌ paused since")
    ui.keys("Escape")
    ui.until("⏎ open")
    ui.keys("Enter", "5")
    ui.until("dead-1")
    ui.keys("Tab")
    ui.until("⏎ incident", "▌ ")
    ui.keys("g", "Enter")
    ui.until("incident: mail", "findings")
    ui.keys("Escape")
    ui.until("⏎ incident")
    ui.keys("Escape")
    ui.until("R requeue", "dead-1")


@pytest.mark.matrix
def test_a_filter_is_typed_and_left_by_esc_and_n_reports_a_missing_filter(opened: Opened) -> None:
    ui = opened()
    ui.keys("Enter")
    ui.until("a1", "a2")
    ui.keys("n")
    ui.until("n goes to the next job that a filter lets through")
    ui.keys("/")
    ui.type("id:a2")
    ui.keys("Enter")
    ui.wait_until_hidden(" a1 ")
    ui.until("a2", "id:a2")
    ui.keys("Escape")
    ui.until(" a1 ", " a2 ")
    ui.until("2 ready")


def test_pasted_capitals_end_in_the_filter_line_and_change_nothing(opened: Opened, mail: Seeded) -> None:
    ui = opened()
    ui.keys("Enter")
    ui.until("a1")
    ui._run_tmux("set-buffer", "--", "DDyAAKP")
    ui._run_tmux("paste-buffer", "-p")
    ui.keys("/")
    ui._run_tmux("paste-buffer", "-p")
    ui.until("DDyAAKP")
    ui.keys("Escape")
    ui.until("a1")
    assert mail.ids("ready") == ["a1", "a2", "a3"]
    assert mail.client.hget("rqtui:{mail}:meta", "paused") is None


@pytest.mark.matrix
def test_marks_one_by_one_by_range_and_all_loaded(opened: Opened, mail: Seeded) -> None:
    ui = opened()
    ui.keys("Enter")
    ui.until("a1")
    ui.keys("Space")
    ui.until("1 marked")
    ui.keys("u")
    ui.wait_until_hidden("1 marked")
    ui.keys("g", "v", "j", "v")
    ui.until("2 marked")
    ui.keys("a")
    ui.until("3 marked")
    ui.keys("D")
    ui.until("Delete 3 marked jobs", "z undoes it")
    ui.keys("Escape")
    ui.wait_until_hidden("Delete 3")
    assert mail.ids("ready") == ["a1", "a2", "a3"]


@pytest.mark.matrix
def test_rows_cannot_be_marked_where_no_verb_takes_several(opened: Opened) -> None:
    ui = opened()
    ui.keys("Space", "v", "a")
    for key in "wbeo":
        ui.keys(key, "Space", "a")
        ui.until(*SIDE_VIEWS[key])
        assert "◆" not in ui.text()
    ui.keys("Escape")
    ui.until("sort")
    assert "◆" not in ui.text()


@pytest.mark.matrix
def test_everything_that_matches_is_listed_before_it_is_deleted_and_undo_restores_it(
    opened: Opened, mail: Seeded
) -> None:
    ui = opened()
    ui.keys("Enter", "5")
    ui.until("dead-1")
    ui.keys("*", "D")
    ui.until("Delete all 3 jobs in dead", "all  TimeoutError: smtp", "z undoes it")
    ui.keys("y")
    ui.until("3 deleted")
    assert mail.ids("dead") == []
    ui.keys("z")
    ui.until("undo of delete")
    wait_until(lambda: sorted(mail.ids("dead")) == ["dead-1", "dead-2", "dead-3"], PATIENCE_S)


@pytest.mark.matrix
def test_the_frame_shows_that_y_confirms_and_enter_cancels(opened: Opened, mail: Seeded) -> None:
    ui = opened()
    ui.keys("Enter", "5")
    ui.until("dead-1")
    ui.keys("*", "R")
    ui.until("Requeue all 3 jobs in dead", "y requeue   Tab next   Enter, Esc cancel", "keep attempts")
    ui.keys("Enter", "R", "y")
    ui.until("3 requeued")
    assert mail.ids("dead") == []


@pytest.mark.matrix
def test_a_throttled_requeue_is_started_and_stopped_by_x(opened: Opened, mail: Seeded) -> None:
    mail.bury(*(f"more-{number}" for number in range(30)))
    ui = opened()
    ui.keys("Enter", "5", "*")
    ui.until("more-9", "all 33 marked")
    command(ui, "throttled requeue")
    ui.until("Requeue all 33 jobs in dead?", "5/s")
    ui.keys("y")
    ui.until("X stop")
    ui.keys("X")
    ui.until("stopped by X")
    left = len(mail.ids("dead"))
    assert 0 < left < 33
    ui.until("dead")
    assert len(mail.ids("dead")) == left


@pytest.mark.matrix
def test_unlock_and_lock_by_the_palette(opened: Opened, mail: Seeded) -> None:
    ui = opened("--read-only", shows="read-only")
    ui.keys("Enter")
    ui.until("a1")
    ui.keys("D", "y")
    ui.until("copy a1")  # D did nothing, so y is the key of the board
    ui.keys("Escape")
    ui.wait_until_hidden("copy a1")
    assert mail.ids("ready") == ["a1", "a2", "a3"]
    command(ui, "unlock 15m")
    ui.until("Changes are on: write until")
    ui.keys("P", "y")
    wait_until(
        lambda: mail.engine.take_snapshot(_counts(mail)).find_queue(mail.ref).is_paused, PATIENCE_S, "it is paused"
    )
    command(ui, "lock now")
    ui.until("Locked: this screen changes nothing now", "read-only")


def _counts(mail: Seeded):  # type: ignore[no-untyped-def]
    from rqtui.model import Focus

    return Focus((mail.ref,))


@pytest.mark.matrix
def test_freeze_keeps_the_rows_while_the_counters_run(opened: Opened, mail: Seeded) -> None:
    ui = opened()
    ui.keys("Enter", "p")
    ui.until("a3", "frozen")
    mail.put("newcomer")
    ui.until("ready 4")
    assert "newcomer" not in ui.text()
    ui.keys("p")
    ui.until("newcomer")


@pytest.mark.matrix
def test_groups_fold_the_queues_and_zoom_gives_one_place_the_width(opened: Opened, client: Redis) -> None:
    Seeded(client, "mail-eu").put("e1")
    Seeded(client, "mail-us").put("u1")
    ui = opened()
    ui.until("mail-us")
    ui.keys('"')
    ui.until("mail-", "3 queues")
    ui.keys('"')
    ui.until("mail-us")
    resize(ui, 160, 45)
    ui.keys("g", "Enter")
    ui.until("╭─  5 dead", "a1")
    ui.keys("+")
    ui.wait_until_hidden("╭─  5 dead")
    ui.keys("+")
    ui.until("╭─  5 dead", "a1")


def test_copied_text_is_in_the_buffer_of_tmux(opened: Opened) -> None:
    ui = opened()
    ui.keys("Enter")
    ui.until("a3")
    ui.keys("y")
    ui.until("Esc nothing", "redis-cli", "Python")
    ui.keys("i")
    ui.until("sent")
    wait_until(lambda: ui._run_tmux("list-buffers") != "", PATIENCE_S, "tmux has a buffer")
    assert ui._run_tmux("show-buffer") == "a1"


@pytest.mark.matrix
def test_a_body_goes_through_the_editor_into_a_new_job(opened: Opened, mail: Seeded, tmp_path: Path) -> None:
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nprintf \'{"by": "editor"}\' > "$1"\n')
    script.chmod(0o700)
    ui = opened(before=f"VISUAL= EDITOR={shlex.quote(str(script))}")
    ui.keys("Enter", "N")
    ui.until("Enqueue a job in mail")
    ui.keys("C-e")
    ui.until('"by": "editor"')
    ui.keys("Tab")
    ui.type("edited")
    ui.keys("Enter")
    ui.until("enqueue: enqueued")
    job = mail.job("edited")
    assert job is not None
    assert job.body == b'{"by": "editor"}'


def test_ctrl_c_ends_an_editor_and_leaves_the_form_as_it_was(opened: Opened, mail: Seeded, tmp_path: Path) -> None:
    script = tmp_path / "editor"
    script.write_text("#!/bin/sh\necho it edits\nsleep 600\n")
    script.chmod(0o700)
    ui = opened(before=f"VISUAL= EDITOR={shlex.quote(str(script))}")
    ui.keys("Enter", "N")
    ui.until("Enqueue a job in mail")
    ui.keys("C-e")
    ui.until("it edits")
    ui.keys("C-c")
    ui.until("Enqueue a job in mail", "was ended by signal 2; the body")
    ui.keys("Escape")
    ui.until("a1")


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("editor", "said"), [("false", "false ended with 1"), ("./none", "./none cannot be run: No such")]
)
def test_an_editor_that_fails_gives_the_terminal_back(opened: Opened, mail: Seeded, editor: str, said: str) -> None:
    ui = opened(before=f"VISUAL= EDITOR={editor}")
    ui.keys("Enter", "N")
    ui.until("Enqueue a job in mail")
    ui.keys("C-e")
    ui.until("Enqueue a job in mail", said)
    ui.keys("Escape")
    ui.until("a1")


@pytest.mark.matrix
def test_duplicate_puts_another_and_edit_and_retry_takes_the_place_of_the_first(opened: Opened, mail: Seeded) -> None:
    ui = opened()
    ui.keys("Enter")
    ui.until("a1")
    ui.keys("C")
    ui.until("Duplicate a1")
    ui.keys("Tab", "Enter")
    ui.until("enqueue: enqueued")
    wait_until(lambda: len(mail.ids("ready")) == 4, PATIENCE_S)
    ui.keys("5")
    ui.until("dead-1")
    ui.keys("g")
    command(ui, "edit and retry")
    ui.until("Edit and retry dead-", "[x] delete the original")
    ui.keys("Tab", "Enter")
    wait_until(lambda: len(mail.ids("dead")) == 2 and len(mail.ids("ready")) == 5, PATIENCE_S)


@pytest.mark.matrix
def test_the_operations_are_written_into_files(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    ui = opened(before=f"cd {shlex.quote(str(folder))} &&")
    ui.keys("Enter", "P", "y")
    ui.until("paused")
    ui.keys("o")
    ui.until("pause", "mail")
    ui.keys("s")
    ui.until("why, in a few words")
    ui.keys("Enter")
    ui.until("Written: rqtui-operations-")
    pages = {each.suffix: each.read_text() for each in folder.iterdir()}
    assert "pause" in pages[".md"]
    assert "pause" in json.dumps(json.loads(pages[".json"]))


@pytest.mark.matrix
def test_the_profile_is_switched_on_the_screen(opened: Opened, url: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.other]\nurl = "{url}/1"\nbadge = "PROD"\nread_only = true\n')
    ui = opened("--config", shlex.quote(str(config)))
    command(ui, "profile other")
    ui.until("PROD", "read-only")


@pytest.mark.matrix
def test_without_colour_and_in_ascii_everything_is_still_reported(opened: Opened, terminal: Terminal) -> None:
    ui = opened(before="NO_COLOR=1")
    hues = {code for run in _styles(ui.text(escapes=True)) for code in run if code.startswith(("38;", "48;"))}
    assert not hues
    ui.keys("q")
    ui.until_back()
    ui = opened("--ascii", shows="no worker")
    ui.keys("Enter")
    ui.until("a1")
    for key, words in SIDE_VIEWS.items():
        ui.keys(key)
        ui.until(*words)
        assert ui.text().isascii(), ui.text()


def _styles(text: str) -> list[list[str]]:
    import re

    return [[code] for code in re.findall(r"\x1b\[([\d;]*)m", text)]


@pytest.mark.matrix
@pytest.mark.parametrize("size", [(60, 16), (40, 10)], ids=["60x16", "40x10"])
def test_a_terminal_may_shrink_under_a_dialog_and_nothing_is_lost(
    opened: Opened, mail: Seeded, size: tuple[int, int]
) -> None:
    ui = opened()
    ui.keys("Enter", "N")
    ui.until("Enqueue a job in mail")
    ui.keys("Tab")
    ui.type("kept")
    resize(ui, *size)
    ui.until("Enqueue a job in mail", "cancel")  # the dialog fits itself, its buttons stay
    resize(ui, 80, 24)
    ui.until("Enqueue a job in mail", "kept")
    ui.keys("Enter")
    ui.until("enqueue: enqueued")
    assert "kept" in mail.ids("ready")


@pytest.mark.matrix
def test_a_demo_runs_with_its_strip(terminal: Terminal) -> None:
    terminal.run(f"{RQTUI} demo poison")
    terminal.until("poison", "▶")
    terminal.keys("d")
    terminal.until("try", "watch")
    terminal.keys("Escape")
    terminal.wait_until_hidden("watch")
    terminal.keys("e")
    terminal.until("dead")
    terminal.keys("q", "q", "q")
    terminal.until_back()
