"""Blocks are included by scripts: what is assembled, which faults the lint names, and where an error is reported."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import redis

from rqtui.errors import Refused, ScriptError, ServerError
from rqtui.scripts import script as scripts
from rqtui.testing import script_lint
from rqtui.testing.include_lint import list_block_faults, list_include_faults, list_unused_blocks
from rqtui.testing.lua_names import read_lua_names
from rqtui.text.source_lines import Piece

ROOT = Path(__file__).resolve().parents[2]
HEADER = "-- Try something.\n--\n-- ARGV     now_ms?  int\n-- returns  moved\n"
LINES = HEADER.count("\n")
CLOCK = Piece(
    "lua/tried/blocks/clock.lua",
    1,
    "-- The time.\n--\n-- needs    ARGV[1]  now_ms?\n-- gives    now_ms\nlocal now_ms = tonumber(ARGV[1]) or 0\n",
)
SINCE = Piece(
    "lua/tried/blocks/since.lua",
    1,
    "-- The time since an instant.\n--\n-- needs    now_ms\n-- gives    since\n-- include: clock\n"
    "local function since(ms) return now_ms - ms end\n",
)
BLOCKS = {"clock": CLOCK, "since": SINCE}


def parse_script(code: str, header: str = HEADER, **blocks: str) -> scripts.Script:
    """Parse a script of this code that can include the blocks clock and since, and blocks of these texts."""
    more = {name: Piece(f"lua/tried/blocks/{name}.lua", 1, text) for name, text in blocks.items()}
    return scripts.parse_script(f"{header}{code}\n", "lua/tried/x.lua", BLOCKS | more)


def test_a_block_is_put_where_it_is_included_once_and_below_those_that_it_includes() -> None:
    source = parse_script(
        "local a = 1\n-- include: since\nlocal b = since(a)\n-- include: clock, since\nreturn {'moved'}"
    ).source
    assert source == (
        f"{HEADER}local a = 1\n"
        "-- from lua/tried/blocks/clock.lua:5\nlocal now_ms = tonumber(ARGV[1]) or 0\n"
        "-- from lua/tried/blocks/since.lua:6\nlocal function since(ms) return now_ms - ms end\n"
        f"-- from lua/tried/x.lua:{LINES + 3}\nlocal b = since(a)\n"
        f"-- from lua/tried/x.lua:{LINES + 5}\nreturn {{'moved'}}\n"
    )


def test_a_header_ends_at_an_include_line() -> None:
    found = parse_script("-- include: clock\nreturn {'moved'}")
    assert found.first_line == LINES + 1 and list(found.returns) == ["moved"]
    assert scripts.parse_script(found.source, found.path).first_line == found.first_line
    assert found.sha == scripts.parse_script(found.source, found.path).sha


def test_a_script_without_includes_is_its_file() -> None:
    assert parse_script("return {'moved'}").source == f"{HEADER}return {{'moved'}}\n"


def test_an_unknown_block_is_an_error_that_names_the_line_and_the_blocks() -> None:
    with pytest.raises(
        ScriptError,
        match=rf"^lua/tried/x.lua:{LINES + 2}: there is no block hour; .* args arguments batch_size clock .* since$",
    ):
        _ = parse_script("\n-- include: clock, hour\nreturn {'moved'}").source
    with pytest.raises(ScriptError, match=r"^lua/tried/blocks/own.lua:2: there is no block hour"):
        _ = parse_script("-- include: own\nreturn {'moved'}", own="-- Own.\n-- include: hour\n").source


def test_blocks_are_read_from_the_folder_and_from_shared(tmp_path: Path) -> None:
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "own.lua").write_text(
        "-- Own.\n--\n-- needs    now_ms\n-- gives    own\nlocal own = now_ms\n"
    )
    (tmp_path / "x.lua").write_text(f"{HEADER}-- include: clock, own\nreturn {{'moved', own}}\n")
    found = scripts.load_scripts(tmp_path)
    assert set(found) == {"x"} and list_include_faults(found["x"]) == []
    assert f"-- from {tmp_path.name}/blocks/own.lua:5\nlocal own = now_ms\n" in found["x"].source
    assert "-- from lua/shared/blocks/clock.lua:" in found["x"].source


def test_a_missing_block_of_another_package_is_reported_when_its_folder_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "x.lua").write_text(f"{HEADER}-- include: nothing\nreturn {{'moved'}}\n")
    with pytest.raises(ScriptError, match="there is no block nothing"):
        scripts.load_scripts(tmp_path)


def test_a_block_is_not_taken_for_a_script() -> None:
    assert set(scripts.load_scripts("shared")) == {"tally", "walk"}
    assert "blocks" not in scripts.load_scripts("native") and "note" in scripts.load_scripts("native").blocks


def test_scripts_are_assembled_when_they_are_first_sent() -> None:
    assembled = [name for name, script in scripts.load_scripts("orizuru").items() if "source" in vars(script)]
    parsed = parse_script("-- include: clock\nreturn {'moved', now_ms}")
    assert "source" not in vars(parsed) and parsed.sha and "source" in vars(parsed)
    assert set(assembled) <= set(scripts.load_scripts("orizuru"))


# --- blocks that are generated from the header ------------------------------------------------------------------------

FULL_HEADER = (
    "-- Try something.\n--\n-- writes   ready repeat\n-- KEYS     ready   zset\n--          repeat  hash\n"
    "--          heard   channel\n-- ARGV     now_ms?  int\n--          place    str\n--          limit    int\n"
    "--          force?   bool\n--          each     (id bytes, body bytes)\n-- returns  moved\n"
)
GENERATED = {  # what a script includes, and the lines that take its place
    "keys": "local ready, repeat_, heard = KEYS[1], KEYS[2], KEYS[3]",
    "keys(repeat)": "local repeat_ = KEYS[2]",
    "args": "local place, limit, force = ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'",
    "args(now_ms place)": "local now_ms, place = tonumber(ARGV[1]), ARGV[2]",
    "columns": "local scalars, columns = 4, 2",
    "key_types": "redis.call('ZCARD', KEYS[1]) redis.call('HLEN', KEYS[2])",
    "key_types(repeat)": "redis.call('HLEN', KEYS[2])",
    "integers(limit)": (
        "if #ARGV < 4 or #ARGV[3] > 15 or not string.find(ARGV[3], '^%-?%d*$') then return redis.error_reply('ERR"
        " arguments: at least 4, whole numbers where the header says int; nothing was changed') end"
    ),
    "arguments(now_ms)": (
        "if #ARGV < 4 or #ARGV[1] > 15 or not string.find(ARGV[1], '^%-?%d*$') then return redis.error_reply('ERR"
        " it takes 4 arguments, whole numbers where the header says int; nothing was changed') end"
    ),
    "batch_size": (
        "if #ARGV < 6 or #ARGV > 2004 or (#ARGV - 4) % 2 > 0 then return redis.error_reply("
        "'ERR a batch has 1 to 1000 rows of id and body; nothing was changed') end"
    ),
    "batch_size(new jobs)": (
        "if #ARGV < 6 or #ARGV > 2004 or (#ARGV - 4) % 2 > 0 then return redis.error_reply("
        "'ERR a batch has 1 to 1000 new jobs; nothing was changed') end"
    ),
}


@pytest.mark.parametrize("item", GENERATED)
def test_a_block_is_generated_from_the_header(item: str) -> None:
    source = parse_script(f"-- include: {item}\nreturn {{'moved'}}", FULL_HEADER).source
    at = FULL_HEADER.count("\n") + 1
    below = f"-- from lua/tried/x.lua:{at}\n{GENERATED[item]}\n-- from lua/tried/x.lua:{at + 1}\nreturn {{'moved'}}\n"
    assert source == FULL_HEADER + below


def test_more_than_four_keys_are_unpacked_together_because_that_costs_less() -> None:
    header = "-- Try.\n--\n-- KEYS     a  any\n" + "".join(f"--          {name}  any\n" for name in "bcde")
    five = parse_script("-- include: keys\nreturn {'moved'}", f"{header}-- returns  moved\n")
    assert "local a, b, c, d, e = unpack(KEYS)\n" in five.source
    tail = parse_script("-- include: keys\nreturn {'moved'}", f"{header}--          each (f any)\n-- returns  moved\n")
    assert "KEYS[4], KEYS[5]\n" in tail.source, "a tail may have more keys than Lua can unpack"


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ("id bytes", "'ERR a batch has 1 to 1000 ids'"),
        ("a str, b str, c? str", "'ERR a batch has 1 to 1000 rows of a, b and c'"),
        ("a str, b str, c str, d str, e str", "'ERR a batch has 1 to 1000 rows of 5 columns'"),
    ],
)
def test_the_guard_of_a_batch_describes_its_rows(columns: str, rows: str) -> None:
    header = f"-- Try.\n--\n-- ARGV     each ({columns})\n-- returns each  moved\n"
    assert f"redis.error_reply({rows})" in parse_script("-- include: batch_size\nreturn {}", header).source


@pytest.mark.each_server
@pytest.mark.parametrize(("rows", "is_refused"), [(0, True), (0.5, True), (1, False), (1000, False), (1001, True)])
def test_the_guard_of_a_batch_refuses_no_rows_incomplete_rows_and_more_than_a_thousand(
    server_client: redis.Redis, rows: float, is_refused: bool
) -> None:
    header = "-- Try.\n--\n-- writes   k\n-- KEYS     k  any\n-- ARGV     each (id str, body str)\n-- returns  moved\n"
    call = parse_script("-- include: batch_size\nreturn {'moved'}", header).build_call({"k": "k"})
    call.argv += [b""] * int(rows * 2)
    if not is_refused:
        assert scripts.run_call(server_client, call).word == "moved"
        return
    with pytest.raises(Refused, match="a batch has 1 to 1000 rows of id and body; nothing was changed"):
        scripts.run_call(server_client, call)


def test_guards_use_the_names_of_keys_that_are_included_above_them() -> None:
    source = parse_script("-- include: keys, key_types, integers\nreturn {'moved'}", FULL_HEADER).source
    assert "redis.call('ZCARD', ready) redis.call('HLEN', repeat_)\n" in source
    assert "#ARGV[1] > 15" in source and "#ARGV[3] > 15" in source and "ARGV[2]" not in source


def test_a_file_of_the_same_name_takes_precedence_over_a_generated_block() -> None:
    own = parse_script("-- include: keys\nreturn {'moved', ready}", FULL_HEADER, keys="-- Own.\nlocal ready = 1\n")
    assert "local ready = 1\n" in own.source and "KEYS[1]" not in own.source


@pytest.mark.parametrize(
    "item", ["keys(done)", "key_types(place)", "key_types(heard)", "args(ready)", "integers(done)"]
)
def test_a_generated_block_refuses_a_name_that_the_header_does_not_declare(item: str) -> None:
    with pytest.raises(
        ScriptError, match=rf"^lua/tried/x.lua:13: {re.escape(item)}: the header does not declare [a-z ]+$"
    ):
        _ = parse_script(f"-- include: {item}\nreturn {{'moved'}}", FULL_HEADER).source


@pytest.mark.parametrize("item", ["keys", "key_types", "integers", "arguments", "batch_size"])
def test_a_generated_block_refuses_a_header_that_declares_nothing_for_it(item: str) -> None:
    header = "-- Try something.\n--\n-- ARGV     place  str\n-- returns  moved\n"
    with pytest.raises(
        ScriptError, match=rf"^lua/tried/x.lua:5: {item}: the header does not declare (any|rows|an int before each)$"
    ):
        _ = parse_script(f"-- include: {item}\nreturn {{'moved'}}", header).source


def test_the_lint_knows_the_names_of_generated_blocks() -> None:
    waits = "-- Waits.\n--\n-- needs    ready\n-- gives    waits\nlocal waits = redis.call('ZCARD', ready)\n"
    script = parse_script("-- include: keys(ready), waits\nreturn {'moved', waits}", FULL_HEADER, waits=waits)
    assert list_include_faults(script) == []
    twice = parse_script("local limit = 1\n-- include: args\nreturn {'moved', limit}", FULL_HEADER)
    assert list_include_faults(twice) == ["lua/tried/x.lua:14: limit is defined in lua/tried/x.lua, and again here"]
    unused = parse_script("-- include: keys\nreturn {'moved', ready, repeat_}", FULL_HEADER)
    differences = script_lint.find_header_differences(unused, unused.source, unused.path)
    assert "lua/tried/x.lua:1: KEYS[3], heard, is declared, but never used" in differences
    assert not [sentence for sentence in differences if "KEYS[2]" in sentence]


@pytest.mark.each_server
def test_a_generated_guard_refuses_another_type_and_a_number_that_is_not_whole(server_client: redis.Redis) -> None:
    guarded = parse_script("-- include: keys, key_types, integers\nreturn {'moved'}", FULL_HEADER)
    keys = {"ready": "a", "repeat": "b", "heard": "c"}
    args = {"place": "x", "limit": 1}
    assert scripts.run_call(server_client, guarded.build_call(keys, args)).word == "moved"
    server_client.set("b", "x")
    with pytest.raises(ServerError, match="key b holds a string, not a hash: .* Nothing was changed"):
        scripts.run_call(server_client, guarded.build_call(keys, args))
    call = guarded.build_call({**keys, "repeat": "d"}, args)
    call.argv[2] = b"1.5"
    with pytest.raises(Refused, match="at least 4, whole numbers where the header says int; nothing was changed"):
        scripts.run_call(server_client, call)


# --- keys that headers only name --------------------------------------------------------------------------------------

SHARED = (
    "-- Keys of several scripts.\n--\n-- KEYS     ready (late due)  zset     id by due\n"
    "--          jobs              hash     body\n--                                     by id\n"
    "--          heard             channel\n"
)
NAMING = (
    "-- Try something.\n--\n-- moves    ready -> late\n-- KEYS     jobs\n--          mine  list  of this script\n"
    "--          ready\n--            heard\n--          each (other list, more set)  of others\n-- returns  moved\n"
)


def parse_naming(code: str, header: str = NAMING) -> scripts.Script:
    return parse_script(code, header, shared_keys=SHARED)


def test_a_header_names_shared_keys_and_the_complete_script_declares_them() -> None:
    found = parse_naming("local a = nil\n-- include: keys\nreturn {'moved', jobs, mine, ready, heard, a}")
    assert [(key.name, key.type, key.text, key.parts) for key in found.keys] == [
        ("jobs", "hash", "body by id", ()),
        ("mine", "list", "of this script", ()),
        ("ready", "zset", "id by due", ("late", "due")),
        ("heard", "channel", "", ()),
    ]
    assert found.shared_keys == {"jobs", "ready", "heard"} and list_include_faults(found) == []
    assert found.source == (
        "-- Try something.\n--\n-- moves    ready -> late\n"
        "-- KEYS     jobs              hash     body by id\n"
        "--          mine              list     of this script\n"
        "--          ready (late due)  zset     id by due\n"
        "--          heard             channel\n"
        "--          each (other list, more set)  of others\n-- returns  moved\n"
        "-- from lua/tried/x.lua:10\nlocal a = nil\n"
        "-- from lua/tried/x.lua:11\nlocal jobs, mine, ready, heard = KEYS[1], KEYS[2], KEYS[3], KEYS[4]\n"
        "-- from lua/tried/x.lua:12\nreturn {'moved', jobs, mine, ready, heard, a}\n"
    )
    complete = scripts.parse_script(found.source, found.path)
    assert (complete.keys, complete.keys_each, complete.sha) == (found.keys, found.keys_each, found.sha)


def test_a_header_may_declare_a_shared_key_by_itself() -> None:
    own = parse_naming("return {'moved'}", "-- Try.\n--\n-- KEYS     jobs  string  otherwise\n-- returns  moved\n")
    assert [(key.type, key.text) for key in own.keys] == [("string", "otherwise")] and not own.shared_keys
    assert own.source == own.file_text


@pytest.mark.each_server
def test_an_error_below_a_header_that_names_keys_has_the_line_of_the_file(server_client: redis.Redis) -> None:
    found = parse_naming("local a = nil\nreturn {'moved', a.b}")
    with pytest.raises(ServerError, match="x failed at lua/tried/x.lua:11: attempt to index"):
        scripts.run_call(server_client, found.build_call({"jobs": "a", "mine": "b", "ready": "c", "heard": "d"}))


@pytest.mark.parametrize(
    ("clause", "says"),
    [
        ("jobs redy", "x.lua:3: 'redy' is neither a type nor a shared key; shared keys: ready jobs heard"),
        ("jobs ready hard", "x.lua:3: 'hard' is neither a type nor a shared key; shared keys: ready jobs heard"),
        ("redy", "x.lua:3: 'redy' is no key; expected: name type text, .* or names of shared keys"),
        ("jobs ready jobs", "x.lua:3: KEYS names jobs twice"),
    ],
)
def test_a_name_that_is_no_shared_key_is_an_error(clause: str, says: str) -> None:
    with pytest.raises(ScriptError, match=f"^lua/tried/{says}"):
        parse_naming("return {'moved'}", f"-- Try.\n--\n-- KEYS     {clause}\n-- returns  moved\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("-- KEYS     ready  zest\n", ":1: 'zest' is no type"),
        ("-- A.\n--\n-- KEYS     ready  zset\n--          ready  list\n", ":4: the name ready is declared twice"),
        ("-- A.\n--\n-- KEYS     list  zset\n", ":3: the name list is declared twice"),
        ("-- A.\n--\n-- KEYS     each (ready zset)\n", ":3: expected a KEYS clause"),
        ("-- A.\n--\n-- KEYS     ready  zset\n-- returns  moved\n", ":4: shared keys are declared by a KEYS clause"),
        ("-- A.\n", ":1: "),
        ("", ":1: expected a KEYS clause"),
    ],
)
def test_a_fault_of_the_shared_keys_is_an_error(text: str, says: str) -> None:
    with pytest.raises(ScriptError, match=f"^lua/tried/blocks/shared_keys.lua{says}"):
        parse_script("return {'moved'}", shared_keys=text)


def test_a_package_has_shared_keys_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "shared_keys.lua").write_text(SHARED)
    (tmp_path / "x.lua").write_text(f"{NAMING}return {{'moved', unpack(KEYS)}}\n")
    found = scripts.load_scripts(tmp_path)["x"]
    assert found.keys[0].text == "body by id" and "--          ready (late due)  zset     id by due\n" in found.source


def test_the_shared_keys_are_no_block_to_include() -> None:
    with pytest.raises(ScriptError, match=r"x.lua:10: there is no block shared_keys; those that are: [a-z_ ]+ since$"):
        _ = parse_naming("-- include: shared_keys\nreturn {'moved'}").source


def test_a_shared_key_that_fewer_than_two_scripts_name_is_reported() -> None:
    once = parse_naming("-- include: since\nreturn {'moved', since(0)}")
    assert list_unused_blocks([once, once]) == []
    assert list_unused_blocks([once]) == [
        f"lua/tried/blocks/shared_keys.lua:1: the shared key {name} is named by 1 scripts, expected two"
        for name in ("ready", "jobs", "heard")
    ]


# --- the lint -------------------------------------------------------------------------------------------------------

AT = f"lua/tried/x.lua:{LINES + 1}: the block lua/tried/blocks/"
USES: dict[str, tuple[str, str]] = {  # the code of a script, and what is said of it
    "a need that is not defined": (
        "-- include: waits\nreturn {'moved', waits}",
        f"{AT}waits.lua needs due_ms, which is not defined above",
    ),
    "a need that is defined below": (
        "-- include: waits\nlocal due_ms = 1\nreturn {'moved', waits + due_ms}",
        f"{AT}waits.lua needs due_ms",
    ),
    "a need that only an inner block defines": (
        "if ARGV[1] then local due_ms = 1 end\n-- include: waits\nreturn {'moved', waits}",
        f"lua/tried/x.lua:{LINES + 2}: the block lua/tried/blocks/waits.lua needs due_ms",
    ),
    "an argument of another name": (
        "-- include: other\nreturn {'moved', other}",
        f"{AT}other.lua needs ARGV[1] to be limit; the header declares now_ms",
    ),
    "an argument that is not declared": (
        "-- include: second\nreturn {'moved', second}",
        f"{AT}second.lua needs ARGV[2] to be limit; the header declares no",
    ),
    "what nobody uses": (
        "-- include: since\nreturn {'moved'}",
        f"{AT}since.lua gives since, and nothing below it uses that",
    ),
    "a name that is not given": (
        "-- include: private\nreturn {'moved', given, kept}",
        f"{AT}private.lua does not give kept, which is used below it",
    ),
    "a name that is defined twice": (
        "local now_ms = 1\n-- include: clock\nreturn {'moved', now_ms}",
        "lua/tried/blocks/clock.lua:5: now_ms is defined in lua/tried/x.lua, and again here",
    ),
    "a name that two blocks define": (
        "-- include: clock, clock_too\nreturn {'moved', now_ms}",
        "lua/tried/blocks/clock_too.lua:4: now_ms is defined in lua/tried/blocks/clock.lua, and again here",
    ),
    "an include that is indented": (
        "do\n  -- include: clock\nend\nreturn {'moved'}",
        f"lua/tried/x.lua:{LINES + 2}: nothing was included here",
    ),
    "an include inside a statement": (
        "if ARGV[1] then\n-- include: clock\nend\nreturn {'moved'}",
        f"lua/tried/x.lua:{LINES + 2}: 'end' expected",
    ),
}  # fmt: skip
PLANTED = {
    "waits": "-- Waits.\n--\n-- needs    due_ms\n-- gives    waits\nlocal waits = due_ms\n",
    "other": "-- Other.\n--\n-- needs    ARGV[1]  limit\n-- gives    other\nlocal other = ARGV[1]\n",
    "second": "-- Other.\n--\n-- needs    ARGV[2]  limit\n-- gives    second\nlocal second = ARGV[2]\n",
    "private": "-- Keeps one.\n--\n-- gives    given\nlocal kept = 1\nlocal given = kept\n",
    "clock_too": "-- The time.\n--\n-- gives    now_ms\nlocal now_ms = 2\n",
}


@pytest.mark.parametrize("fault", USES, ids=lambda fault: fault.replace(" ", "_"))
def test_the_lint_names_the_line_of(fault: str) -> None:
    code, says = USES[fault]
    found = list_include_faults(parse_script(code, **PLANTED))
    assert any(sentence.startswith(says) for sentence in found), found


def test_the_lint_has_nothing_to_say_of_what_fits() -> None:
    assert list_include_faults(parse_script("-- include: since\nreturn {'moved', since(0)}")) == []
    guard = "-- A guard.\n--\n-- gives    n\nlocal n = #ARGV\nif n > 1 then\n  return redis.error_reply('ERR n')\nend\n"
    assert list_include_faults(parse_script("-- include: guard\nreturn {'moved'}", guard=guard)) == []


CONTRACTS = {  # a block, and what is said of it
    "-- A.\n--\n-- gives    a\nlocal a = b\n": ":4: b is used; name it after `needs`",
    "-- A.\n--\n-- gives    a\nlocal a = 1\na = b\n": ":5: b is used; name it after `needs`",
    "-- A.\n--\n-- gives    a\nlocal a = 1\nb = a\n": ":5: b is used; name it after `needs`",
    "-- A.\n--\n-- needs    b\n-- gives    a\nlocal a = 1\n": ":3: it needs b, but no line of it uses that name",
    "-- A.\n--\n-- gives    a b\nlocal a = 1\n": ":3: it gives b, but no line of it defines that name",
    "-- A.\n--\n-- gives    a\nlocal a = ARGV[3]\n": ":4: ARGV[3] is used; name it after `needs`",
    "-- A.\n--\n-- needs    ARGV[3]  c\n-- gives    a\nlocal a = 1\n": ":5: ARGV[3] is declared, but never used",
    "-- A.\n--\n-- gives    a, b\nlocal a, b = 1, 2\n": ":3: expected names, or one name and a text",
    "-- A.\n--\n-- gives    a\nlocal a = = 1\n": ":4: unexpected symbol near '='",
    "local a = 1\n": ":1: a block begins with a comment",
}


@pytest.mark.parametrize("text", CONTRACTS)
def test_the_lint_compares_a_block_with_its_comments(text: str) -> None:
    found = list_block_faults(Piece("lua/tried/blocks/a.lua", 1, text))
    assert any(sentence.startswith("lua/tried/blocks/a.lua" + CONTRACTS[text]) for sentence in found), found


def test_comments_may_explain_each_name() -> None:
    text = (
        "-- What it is.\n--\n-- needs    b c\n--          d        a text that\n--                   goes on\n"
        "--          ARGV[2]  limit  how many\n-- gives    a  what it is\nlocal a = b + c + d + ARGV[2]\n"
    )
    assert list_block_faults(Piece("lua/tried/blocks/a.lua", 1, text)) == []


def test_a_block_that_no_script_includes_and_a_name_that_none_uses_are_named() -> None:
    both = "-- A.\n--\n-- gives    a b\nlocal a, b = 1, 2\n"
    using = parse_script("-- include: clock, both\nreturn {'moved', a, now_ms}", both=both)
    assert list_unused_blocks([using]) == [
        "lua/tried/blocks/both.lua:1: no script uses b",
        "lua/tried/blocks/since.lua:1: no script includes it",
    ]


def test_names_are_those_of_the_compiler() -> None:
    names = read_lua_names(
        "local a, b = c\nif a then local d = e.f end\nlocal function g(h) i = h; return g(redis) end"
    )
    assert (names.free, names.defined) == ({"c": 1, "e": 2, "i": 3}, ["a", "b", "g"])
    assert read_lua_names("local a = b\nreturn a") == ({"b": 1}, [])


# --- the scripts of the repository ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checking() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_scripts", ROOT / ".ci" / "check_scripts.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_every_script_fits_its_header_and_its_blocks(checking: ModuleType) -> None:
    assert checking.list_script_faults() == []


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("luacheck"), reason="luacheck is not installed")
def test_luacheck_runs_on_complete_scripts(checking: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    assert checking.run_luacheck() == 0
    assert (
        f"in {sum(len(scripts.load_scripts(name)) for name in scripts.list_script_folders())} files"
        in capfd.readouterr().out
    )


@pytest.mark.slow
def test_the_check_names_the_line_and_ends_with_1(tmp_path: Path) -> None:
    for folder in ("lua", ".ci", "rqtui"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    note = tmp_path / "lua" / "native" / "blocks" / "note.lua"
    note.write_text(note.read_text().replace("'unnoted'", "unnoted"))
    ran = subprocess.run(
        [sys.executable, ".ci/check_scripts.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 1 and ran.stdout.startswith("lua/native/blocks/note.lua:7: unnoted is used"), ran


# --- errors of Redis ------------------------------------------------------------------------------------------------


@pytest.mark.each_server
def test_an_error_names_the_file_and_line_of_the_block_or_of_the_script(server_client: redis.Redis) -> None:
    fails = "-- Fails.\n--\n-- gives    fail\nlocal function fail(at)\n  return at.b\nend\n"
    in_block = parse_script("-- include: fail\nreturn {'moved', fail(nil)}", fail=fails)
    with pytest.raises(ServerError, match=r"x failed at lua/tried/blocks/fail.lua:5: attempt to index"):
        scripts.run_call(server_client, in_block.build_call({}))
    below = parse_script("-- include: fail\nlocal a = nil\nreturn {'moved', a.b, fail}", fail=fails)
    with pytest.raises(ServerError, match=rf"x failed at lua/tried/x.lua:{LINES + 3}: attempt to index"):
        scripts.run_call(server_client, below.build_call({}))
    writes = HEADER.replace("-- ARGV", "-- writes   k\n-- KEYS     k  string\n-- ARGV")
    adds = "-- Adds.\n--\n-- gives    add\nlocal function add(key)\n  return redis.call('INCR', key)\nend\n"
    command = parse_script("-- include: add\nreturn {'moved', add(KEYS[1])}", writes, add=adds)
    server_client.set("k", "x")
    with pytest.raises(ServerError, match=r"x failed at lua/tried/blocks/add.lua:5: .* not an integer"):
        scripts.run_call(server_client, command.build_call({"k": "k"}))
    broken = parse_script("-- include: broken\nreturn {'moved'}", broken="-- No Lua.\n\nthis is no Lua\n")
    with pytest.raises(ScriptError, match=r"^lua/tried/blocks/broken.lua:3: (?!.*user_script)"):
        scripts.run_call(server_client, broken.build_call({}))
