"""What a table shows and posts after each of many steps is what `table_steps.txt` says.

One table is taken through its actions, clicks and updates, so that one start of an application tries many states of
cursor, marks and window. After a wanted change, `RQTUI_WRITE_SNAPSHOTS=1 pytest
tests/tui/widgets/test_table_steps.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kept_text import assert_lines_match_file
from table_app import TableApp, build_row, run_table_app
from textual.actions import parse
from textual.message import Message
from textual.pilot import Pilot

from rqtui.tui.format.rows import Row
from rqtui.tui.widgets.table import Table

STEPS = """
press j | rows 1-4 | press j | press space | press space | press k | press k | press enter | press G | press j | press g
rows 2-5 | rows 1 3-5 | press j | rows 1-5 | blur | rows 0-5 | rows 1 2 | focus | press G | blur | rows 0-3 | rows 7-9
focus | rows 1-9 | press j j v j j | rows 0-9 | rows 3-9 | press space | press v k | press escape | press v G v | rows 8
press u | press a | press a | unmark 8 | marks 1 2 | press u | rows | rows 1-30 | press pagedown | press pagedown
press pagedown | press j | press pageup | rows 5-30 | rows 1-12 | press G space | rows 1-11 | press G | rows 1-11
press g k | rows 2-11 | rows 1 2 gone3 4 | press j j | press j | rows 1-8 | replace 2 99 | press j | replace 8 | press G
replace 8 7 | rows 1-10 of 200 | press G | rows 190-200 at 190 of 201 | press k | rows 180-188 at 180 of 190
rows 181-189 at 181 of 190 | press pageup | press pageup | rows 160-188 at 160 of 190 | press pageup g
rows 1-40 of 190
press j j | rows 4-40 at 2 of 190 | rows 3-40 at 3 of 190 | rows 50-60 at 49 of 190 | next 55 | next 52 | next 3
first | rows 1-20 | move 7 | move 77 | similar | rows 5-9 | similar 2 | rows 1-6 | similar 9 | rows 1-6 | first | clear
first | rows 1-6 | blur | clear | rows 1-6 | rows 0-6 | focus | press G | flag follow_head | rows 0-9 | rows 0-8
flag follow_head | press j | rows 1-9 | clear | flag stays_first | rows 1-5 | rows 0-5 | press j | rows 9 0-5 | press g
rows 7 9 0-5 | rows 9 0-5 | flag stays_first | clear | flag skips_missing_rows | rows 1-5 | rows 2-5 | rows 3 gone2 4
rows 4 | rows | rows 1-3 | press j | rows 1 3 | press space | press k | rows 3 | flag skips_missing_rows | press u
click 10 2 | rows 1-9 | click 10 2 | click 20 3 | click 10 1 | click 30 1 | double 10 3 | click 10 0 | click 10 9
click 0 3 | flag tints_arrivals | rows 0-12 | rows 0-11 | flag tints_arrivals | rows 0-12 | foot there | dim | rows 1-3
dim | size 60 6 | press G | rows 1-30 | press G | size 60 12 | size 20 12 | size 9 12 | size 60 12 | rows
flag has_marks
press a | rows 1-3 | press space | press a | press v | press j j | flag has_marks | keep | blur | rows 0-3
press G | replace 3 | rows 0-2 | press k | clear | rows 1-40
press pagedown j j j j | scroll 3 | rows 1-6 99 7-40 | scroll 5 | rows 1-40
"""


def parse_rows(words: list[str]) -> Iterator[Row]:
    """Yield rows for words such as `1-4`, `7` and `gone3`."""
    for word in words:
        if word.startswith("gone"):
            yield build_row(word[4:])._replace(is_gone=True)
        else:
            first, _, last = word.partition("-")
            yield from (build_row(number) for number in range(int(first), int(last or first) + 1))


def parse_numbers(words: list[str]) -> tuple[list[str], dict[str, int]]:
    """Split `1-4 at 2 of 9` into its rows and {"offset": 2, "total": 9}."""
    names = {"at": "offset", "of": "total"}
    places = [index for index, word in enumerate(words) if word in names]
    return words[: min(places, default=len(words))], {names[words[at]]: int(words[at + 1]) for at in places}


async def press_keys(table: Table, pressed: list[str]) -> None:
    """Run the actions of keys without the detour over the terminal, which takes 20 ms a key."""
    actions = {key: binding.action for binding in table.BINDINGS for key in binding.key.split(",")}  # type: ignore[union-attr]
    for key in pressed:
        _, name, parameters = parse(actions[key])
        if table.check_action(name, parameters):
            await table.run_action(actions[key])


async def take_step(app: TableApp, pilot: Pilot[None], name: str, words: list[str]) -> object:
    """Do one step, and return what the called method returned."""
    table = app.table
    if name == "rows":
        texts, numbers = parse_numbers(words)
        return table.update([*parse_rows(texts)], **numbers)
    if name == "press":
        return await press_keys(table, words)
    if name in ("click", "double"):
        x, y = map(int, words)
        await pilot.click("#table", offset=(x, y), times=1 if name == "click" else 2)
        return None
    if name == "size":
        await pilot.resize_terminal(*map(int, words))
        return None
    if name in ("flag", "dim"):
        flag = words[0] if words else "dimmed"
        setattr(table, flag, not getattr(table, flag))
        return None
    ids = [f"j{word}".encode() for word in words]
    steps = {
        "replace": lambda: table.replace_rows(build_row(word, "9s") for word in words),
        "unmark": lambda: table.unmark_rows(ids),
        "marks": lambda: table.set_marks(ids),
        "move": lambda: table.move_to(ids[0]),
        "next": lambda: table.move_to_next(lambda row: row.id == ids[0]),
        "similar": lambda: table.expect_similar_list(*map(int, words)),
        "first": table.move_to_first,
        "scroll": lambda: table.scroll_to_line(int(words[0])),
        "clear": table.clear_rows,
        "keep": table.keep_cursor_on_row,
        "foot": lambda: setattr(table, "foot", words[0]),
        "focus": table.focus,
        "blur": lambda: app.query_one("#filter").focus(),
    }
    result = steps[name]()
    return result if isinstance(result, bool) else None


def describe_message(message: Message) -> str:
    names = ("id", "ids", "offset", "limit", "column", "at")
    return f"{type(message).__name__} { {name: value for name, value in vars(message).items() if name in names} }"


def describe_table(table: Table) -> Iterator[str]:
    """Yield the state of a table and its drawn lines."""
    marks = b" ".join(table.marks)  # type: ignore[arg-type]
    yield (
        f"  cursor {table.cursor_id!r}, marks {marks!r}, sees {table.visible_range} of {len(table.rows)}, "
        f"touched {table.is_touched}, "
        f"missing {table.is_cursor_row_missing}, at end {table.is_at_end}"
    )
    lines = [table.render_line(y).text.rstrip() for y in range(table.size.height)]
    width = table.scrollable_content_region.width
    painted = [table.build_line(y, width, table.first_visible_line) for y in range(len(lines))]
    for line, parts in zip(lines, painted, strict=True):
        states = ("is_missing", "has_arrived", "is_dimmed")
        facts = [parts.cursor, parts.mark_style, *(state for state in states if getattr(parts, state))]
        yield f"    {line:40} {' '.join(filter(None, facts))}"


@pytest.mark.slow
def test_a_table_shows_and_posts_after_each_step_what_the_stored_text_contains(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []
    posted: list[Message] = []
    post_message = Table.post_message

    def record_message(table: Table, message: Message) -> bool:
        if isinstance(message, Table.TableMessage):
            posted.append(message)
        return post_message(table, message)

    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        previous: list[str] = []
        for step in STEPS.replace("\n", "|").split("|"):
            if not (words := step.split()):
                continue
            result = await take_step(app, pilot, words[0], words[1:])
            await pilot.pause()
            state = [*describe_table(app.table)]
            described.append(f"{step.strip()}{'' if result is None else f': {result}'}")
            described.extend(f"  {describe_message(message)}" for message in posted)
            described.extend(line for line in state if line not in previous or not line.startswith("    "))
            posted.clear()
            previous = state

    monkeypatch.setattr(Table, "post_message", record_message)
    run_table_app(test, size=(60, 12))
    assert_lines_match_file(described, Path(__file__).with_name("table_steps.txt"))
