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
    made = Terminal(80, 24)
    yield made
    made.close()


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

    def start(*options: str, before: str = "", shows: str = "▶ idle") -> Terminal:
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
    terminal.until_gone("a queue, the id of a job")


SIDE_VIEWS = {
    "w": ("no worker gives a sign of life",),
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
    it = opened()
    for key, words in SIDE_VIEWS.items():
        it.keys(key)
        it.until(*words)
    it.keys("Escape")
    it.until("queues", "sort")
    it.keys("Enter")
    it.until("a1")
    it.keys("e")
    it.until("TimeoutError: smtp")
    it.keys("Enter")
    it.until("dead-1")
    it.keys("Escape")
    it.until_gone("dead-1")
    it.until("TimeoutError: smtp")
    it.keys("Escape")
    it.until("2 ready", "a1")


@pytest.mark.matrix
def test_a_filter_is_typed_then_left_by_esc_and_n_says_when_there_is_none(opened: Opened) -> None:
    it = opened()
    it.keys("Enter")
    it.until("a1", "a2")
    it.keys("n")
    it.until("n goes to the next job that a filter lets through")
    it.keys("/")
    it.type("id:a2")
    it.keys("Enter")
    it.until_gone(" a1 ")
    it.until("a2", "id:a2")
    it.keys("Escape")
    it.until(" a1 ", " a2 ")
    it.until("2 ready")


def test_pasted_capitals_end_in_the_filter_line_and_change_nothing(opened: Opened, mail: Seeded) -> None:
    it = opened()
    it.keys("Enter")
    it.until("a1")
    it._run_tmux("set-buffer", "--", "DDyAAKP")
    it._run_tmux("paste-buffer", "-p")
    it.keys("/")
    it._run_tmux("paste-buffer", "-p")
    it.until("DDyAAKP")
    it.keys("Escape")
    it.until("a1")
    assert mail.ids("ready") == ["a1", "a2", "a3"]
    assert mail.client.hget("rqtui:{mail}:meta", "paused") is None


@pytest.mark.matrix
def test_marks_one_by_one_by_range_and_all_loaded(opened: Opened, mail: Seeded) -> None:
    it = opened()
    it.keys("Enter")
    it.until("a1")
    it.keys("Space")
    it.until("1 marked")
    it.keys("u")
    it.until_gone("1 marked")
    it.keys("g", "v", "j", "v")
    it.until("2 marked")
    it.keys("a")
    it.until("3 marked")
    it.keys("D")
    it.until("Delete 3 marked jobs", "z undoes it")
    it.keys("Escape")
    it.until_gone("Delete 3")
    assert mail.ids("ready") == ["a1", "a2", "a3"]


@pytest.mark.matrix
def test_nothing_is_marked_where_nothing_is_done_to_several_rows(opened: Opened) -> None:
    it = opened()
    it.keys("Space", "v", "a")
    for key in "wbeo":
        it.keys(key, "Space", "a")
        it.until(*SIDE_VIEWS[key])
        assert "◆" not in it.text()
    it.keys("Escape")
    it.until("sort")
    assert "◆" not in it.text()


@pytest.mark.matrix
def test_everything_matching_is_told_before_it_is_deleted_and_comes_back_by_undo(opened: Opened, mail: Seeded) -> None:
    it = opened()
    it.keys("Enter", "5")
    it.until("dead-1")
    it.keys("*", "D")
    it.until("Delete all 3 jobs in dead", "3  TimeoutError: smtp", "z undoes it")
    it.keys("y")
    it.until("3 deleted")
    assert mail.ids("dead") == []
    it.keys("z")
    it.until("undo of delete")
    wait_until(lambda: sorted(mail.ids("dead")) == ["dead-1", "dead-2", "dead-3"], PATIENCE_S)


@pytest.mark.matrix
def test_the_frame_says_that_y_does_it_and_enter_leaves_it(opened: Opened, mail: Seeded) -> None:
    it = opened()
    it.keys("Enter", "5")
    it.until("dead-1")
    it.keys("*", "R")
    it.until("Requeue all 3 jobs in dead", "y requeue   Tab next   Enter, Esc cancel", "keep attempts")
    it.keys("Enter", "R", "y")
    it.until("3 requeued")
    assert mail.ids("dead") == []


@pytest.mark.matrix
def test_a_throttled_requeue_is_started_and_stopped_by_x(opened: Opened, mail: Seeded) -> None:
    mail.bury(*(f"more-{number}" for number in range(30)))
    it = opened()
    it.keys("Enter", "5", "*")
    it.until("dead-1")
    command(it, "throttled requeue")
    it.until("Requeue all 33 jobs in dead?", "5/s")
    it.keys("y")
    it.until("X stop")
    it.keys("X")
    it.until("stopped by X")
    left = len(mail.ids("dead"))
    assert 0 < left < 33
    it.until("dead")
    assert len(mail.ids("dead")) == left


@pytest.mark.matrix
def test_unlock_and_lock_by_the_palette(opened: Opened, mail: Seeded) -> None:
    it = opened("--read-only", shows="read-only")
    it.keys("Enter")
    it.until("a1")
    it.keys("D", "y")
    it.until("copy a1")  # D did nothing, so y is the key of the board
    it.keys("Escape")
    it.until_gone("copy a1")
    assert mail.ids("ready") == ["a1", "a2", "a3"]
    command(it, "unlock 15m")
    it.until("Changes are on: write until")
    it.keys("P", "y")
    wait_until(
        lambda: mail.engine.take_snapshot(_counts(mail)).find_queue(mail.ref).is_paused, PATIENCE_S, "it is paused"
    )
    command(it, "lock now")
    it.until("Locked: this screen changes nothing now", "read-only")


def _counts(mail: Seeded):  # type: ignore[no-untyped-def]
    from rqtui.model import Focus

    return Focus((mail.ref,))


@pytest.mark.matrix
def test_freeze_lets_the_rows_stand_while_the_counters_run(opened: Opened, mail: Seeded) -> None:
    it = opened()
    it.keys("Enter", "p")
    it.until("a3", "frozen")
    mail.put("newcomer")
    it.until("ready 4")
    assert "newcomer" not in it.text()
    it.keys("p")
    it.until("newcomer")


@pytest.mark.matrix
def test_groups_fold_the_queues_and_zoom_gives_one_place_the_width(opened: Opened, client: Redis) -> None:
    Seeded(client, "mail-eu").put("e1")
    Seeded(client, "mail-us").put("u1")
    it = opened()
    it.until("mail-us")
    it.keys('"')
    it.until("mail-", "3 queues")
    it.keys('"')
    it.until("mail-us")
    resize(it, 160, 45)
    it.keys("g", "Enter")
    it.until("╭─  5 dead", "a1")
    it.keys("+")
    it.until_gone("╭─  5 dead")
    it.keys("+")
    it.until("╭─  5 dead", "a1")


def test_what_is_copied_lies_in_the_buffer_of_tmux(opened: Opened) -> None:
    it = opened()
    it.keys("Enter")
    it.until("a3")
    it.keys("y")
    it.until("Esc nothing", "redis-cli", "Python")
    it.keys("i")
    it.until("sent")
    wait_until(lambda: it._run_tmux("list-buffers") != "", PATIENCE_S, "tmux has a buffer")
    assert it._run_tmux("show-buffer") == "a1"


@pytest.mark.matrix
def test_a_body_goes_through_the_editor_into_a_new_job(opened: Opened, mail: Seeded, tmp_path: Path) -> None:
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nprintf \'{"by": "editor"}\' > "$1"\n')
    script.chmod(0o700)
    it = opened(before=f"VISUAL= EDITOR={shlex.quote(str(script))}")
    it.keys("Enter", "N")
    it.until("Enqueue a job in mail")
    it.keys("C-e")
    it.until('"by": "editor"')
    it.keys("Tab")
    it.type("edited")
    it.keys("Enter")
    it.until("enqueue: enqueued")
    made = mail.job("edited")
    assert made is not None
    assert made.body == b'{"by": "editor"}'


def test_ctrl_c_ends_an_editor_and_leaves_the_form_as_it_was(opened: Opened, mail: Seeded, tmp_path: Path) -> None:
    script = tmp_path / "editor"
    script.write_text("#!/bin/sh\necho it edits\nsleep 600\n")
    script.chmod(0o700)
    it = opened(before=f"VISUAL= EDITOR={shlex.quote(str(script))}")
    it.keys("Enter", "N")
    it.until("Enqueue a job in mail")
    it.keys("C-e")
    it.until("it edits")
    it.keys("C-c")
    it.until("Enqueue a job in mail", "was ended by signal 2; the body")
    it.keys("Escape")
    it.until("a1")


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("editor", "said"), [("false", "false ended with 1"), ("./none", "./none cannot be run: No such")]
)
def test_an_editor_that_fails_gives_the_terminal_back(opened: Opened, mail: Seeded, editor: str, said: str) -> None:
    it = opened(before=f"VISUAL= EDITOR={editor}")
    it.keys("Enter", "N")
    it.until("Enqueue a job in mail")
    it.keys("C-e")
    it.until("Enqueue a job in mail", said)
    it.keys("Escape")
    it.until("a1")


@pytest.mark.matrix
def test_duplicate_puts_another_and_edit_and_retry_takes_the_place_of_the_first(opened: Opened, mail: Seeded) -> None:
    it = opened()
    it.keys("Enter")
    it.until("a1")
    it.keys("C")
    it.until("Duplicate a1")
    it.keys("Tab", "Enter")
    it.until("enqueue: enqueued")
    wait_until(lambda: len(mail.ids("ready")) == 4, PATIENCE_S)
    it.keys("5")
    it.until("dead-1")
    it.keys("g")
    command(it, "edit and retry")
    it.until("Edit and retry dead-", "[x] delete the original")
    it.keys("Tab", "Enter")
    wait_until(lambda: len(mail.ids("dead")) == 2 and len(mail.ids("ready")) == 5, PATIENCE_S)


@pytest.mark.matrix
def test_the_operations_are_written_into_files(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    it = opened(before=f"cd {shlex.quote(str(folder))} &&")
    it.keys("Enter", "P", "y")
    it.until("paused")
    it.keys("o")
    it.until("pause", "mail")
    it.keys("s")
    it.until("why, in a few words")
    it.keys("Enter")
    it.until("Written: rqtui-operations-")
    pages = {each.suffix: each.read_text() for each in folder.iterdir()}
    assert "pause" in pages[".md"]
    assert "pause" in json.dumps(json.loads(pages[".json"]))


@pytest.mark.matrix
def test_the_profile_is_switched_on_the_screen(opened: Opened, url: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.other]\nurl = "{url}/1"\nbadge = "PROD"\nread_only = true\n')
    it = opened("--config", shlex.quote(str(config)))
    command(it, "profile other")
    it.until("PROD", "read-only")


@pytest.mark.matrix
def test_without_colour_and_in_ascii_everything_is_still_said(opened: Opened, terminal: Terminal) -> None:
    it = opened(before="NO_COLOR=1")
    hues = {code for run in _styles(it.text(escapes=True)) for code in run if code.startswith(("38;", "48;"))}
    assert not hues
    it.keys("q")
    it.until_back()
    it = opened("--ascii", shows="idle")
    it.keys("Enter")
    it.until("a1")
    for key, words in SIDE_VIEWS.items():
        it.keys(key)
        it.until(*words)
        assert it.text().isascii(), it.text()


def _styles(text: str) -> list[list[str]]:
    import re

    return [[code] for code in re.findall(r"\x1b\[([\d;]*)m", text)]


@pytest.mark.matrix
@pytest.mark.parametrize("size", [(60, 16), (40, 10)], ids=["60x16", "40x10"])
def test_a_terminal_may_shrink_under_a_dialog_and_nothing_is_lost(
    opened: Opened, mail: Seeded, size: tuple[int, int]
) -> None:
    it = opened()
    it.keys("Enter", "N")
    it.until("Enqueue a job in mail")
    it.keys("Tab")
    it.type("kept")
    resize(it, *size)
    it.until("Enqueue a job in mail", "cancel")  # the dialog fits itself, its buttons stay
    resize(it, 80, 24)
    it.until("Enqueue a job in mail", "kept")
    it.keys("Enter")
    it.until("enqueue: enqueued")
    assert "kept" in mail.ids("ready")


@pytest.mark.matrix
def test_a_demo_runs_with_its_strip(terminal: Terminal) -> None:
    terminal.run(f"{RQTUI} demo poison")
    terminal.until("poison", "▶")
    terminal.keys("d")
    terminal.until("try", "watch")
    terminal.keys("Escape")
    terminal.until_gone("watch")
    terminal.keys("e")
    terminal.until("dead")
    terminal.keys("q", "q", "q")
    terminal.until_back()
