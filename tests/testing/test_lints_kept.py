"""Which Lua scripts and blocks the lints accept, and what they say about the others: `lints_kept.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/testing/test_lints_kept.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kept_text import assert_lines_match_file

from rqtui.scripts.script import Script, parse_script
from rqtui.testing import include_lint, lua_names, script_lint
from rqtui.text.source_lines import Piece

KEPT = Path(__file__).with_name("lints_kept.txt")
PATH = "lua/tried/x.lua"
HEADER = (
    "-- Try.\n--\n-- writes   a\n-- KEYS     a       zset\n--          repeat  hash\n-- ARGV     id      str\n"
    "--          limit   int\n-- returns  moved\n--          gone\n"
)
NO_KEYS = "-- Try.\n--\n-- ARGV     id      str\n-- returns  moved\n"
TAILS = (
    "-- Try.\n--\n-- KEYS     a       zset\n--          each (b list)\n-- ARGV     id      str\n"
    "--          each (c str)\n-- returns  moved\n"
)
USES = "local a, repeat_, id, limit = KEYS[1], KEYS[2], ARGV[1], ARGV[2]\nlocal used = a .. repeat_ .. id .. limit\n"
OK = "return {'moved'}\n"


def block_at(name: str, text: str) -> Piece:
    return Piece(f"lua/tried/blocks/{name}.lua", 1, text)


def parse(header: str, code: str, **blocks: str) -> Script:
    return parse_script(header + code, PATH, {name: block_at(name, text) for name, text in blocks.items()})


# ── the header of a script ───────────────────────────────────────────────────────────────────────────────────────────

SCRIPTS = {
    "everything is named": (HEADER, USES + OK),
    "the first index": (HEADER, USES + "local b = KEYS[0]\n" + OK),
    "the last declared index": (HEADER, USES + "local b = ARGV[2]\n" + OK),
    "one index more": (HEADER, USES + "redis.call('GET', KEYS[3], ARGV[ 3 ])\n" + OK),
    "indexes behind a tail": (
        TAILS,
        "local a, id = KEYS[1], ARGV[1]\nlocal b = a .. id, KEYS[9], KEYS, ARGV[0]\n" + OK,
    ),
    "tails without a use": (TAILS, "local a, id = KEYS[1], ARGV[1]\nlocal b = a .. id .. KEYS[2] .. ARGV[2]\n" + OK),
    "tails by number": (TAILS, "local a, id = KEYS[1], ARGV[1]\nlocal b = a .. id .. KEYS[i] .. #ARGV\n" + OK),
    "an index in a comment": (HEADER, USES + "-- KEYS[9]\n--[[ ARGV[8]\n return 'x' ]] --[==[ KEYS[7] ]] ]==]\n" + OK),
    "an index in a string": (HEADER, USES + "local b = 'KEYS[9]'\n" + OK),
    "a declared word": (HEADER, USES + "if used then return 'gone' end\n" + OK),
    "an undeclared word": (HEADER, USES + 'if used then return { "lost" } end\n' + OK),
    "a joined word": (HEADER, USES + "if used then return 'lo' .. 'st' end\n" + OK),
    "a word of a function": (HEADER, USES + "local function f() if a then return 'x' end return 'y' end\n" + OK),
    "a word behind a function": (HEADER, USES + "local f = function() return 'x' end return 'lost'\n"),
    "a word in blocks": (HEADER, USES + "for i = 1, 2 do repeat return 'b' until a end end return 'c'\n"),
    "a word in a block of a function": (HEADER, USES + "function f() while a do return 'x' end return 'y' end " + OK),
    "an end too many": (HEADER, USES + "end end return 'c'\n"),
    "words of blocks in a string": (HEADER, USES + "local b = 'function' return 'c'\n"),
    "an if in a comment": (HEADER, USES + "-- function\nreturn 'c'\n"),
    "another name": (HEADER, USES.replace("id,", "job,").replace(".. id", ".. job") + OK),
    "another name on a later line": (HEADER, "\n\n" + USES.replace("repeat_", "again") + OK),
    "another name of a number": (HEADER, USES + "local most = tonumber( ARGV[2] ) or 5\nlocal b = most\n" + OK),
    "another name of a flag": (HEADER, USES + "local is_on = ARGV[1] == '1'\nlocal b = is_on\n" + OK),
    "a comparison with another text": (HEADER, USES + "local is_on = ARGV[1] == '12'\nlocal b = is_on\n" + OK),
    "a part of an argument": (HEADER, USES + "local b = ARGV[1] .. 'x'\n" + OK),
    "a name of two letters, and a use only in a string": (HEADER, USES.replace(".. id", ".. 'id'") + OK),
    "expressions without spaces": (HEADER, USES + "local x,job = 1,ARGV[1]\nlocal b = job\n" + OK),
    "an assignment of more names": (HEADER, USES + "local b, c, d = ARGV[2]\n" + OK),
    "unpacked": (
        HEADER,
        "local a, b = unpack(KEYS)\nlocal id, limit = unpack( ARGV )\nlocal c = a, b, id, limit\n" + OK,
    ),
    "unpacked more than declared": (
        HEADER,
        "local a, repeat_, c = unpack(KEYS)\nlocal id, limit = unpack(ARGV)\nlocal d = a, repeat_, id, limit\n" + OK,
    ),
    "unpacked together with another": (
        HEADER,
        "local x, y = unpack(KEYS), 5\nlocal id, limit = ARGV[1], ARGV[2]\n" + OK,
    ),
    "unused": (HEADER, "local a, id = KEYS[1], ARGV[1]\n" + OK),
    "used once by index": (HEADER, "local b = f(KEYS[1], KEYS[2], ARGV[1], ARGV[2])\n" + OK),
    "named, and used by index": (HEADER, USES.replace("a ..", "KEYS[1] ..") + OK),
    "named, and used only in a string": (HEADER, USES.replace("a ..", "'a b' ..") + OK),
    "named, and its name is part of another": (HEADER, USES.replace("a ..", "ab ..") + OK),
    "expressions with commas": (
        HEADER,
        "local x, job, y = f(1, 2), ARGV[1], {3, (4)}\nlocal a, repeat_, limit = KEYS[1], KEYS[2], ARGV[2]\n"
        "local used = job .. a .. repeat_ .. limit\n" + OK,
    ),
    "expressions in brackets": (HEADER, USES + "local x, job = f[g(1, 2)], ARGV[1]\nlocal b = job\n" + OK),
    "expressions on two lines": (HEADER, USES + "local x, job = f(1,\n 2), ARGV[1]\nlocal b = job\n" + OK),
    "an expression on the next line": (HEADER, USES + "local job =\n  ARGV[1]\nlocal b = job\n" + OK),
    "expressions before a semicolon": (
        HEADER,
        USES + "local x, job = f(); ARGV[1]\nlocal job = ARGV[1]; b = job\n" + OK,
    ),
    "no declared key": (NO_KEYS, "local id, other = ARGV[1], KEYS[1]\nlocal b = id\n" + OK),
    "the end of the text": (NO_KEYS, "local id = ARGV[1] f(id) return 'moved' local job = ARGV[1]"),
}


def describe_scripts() -> Iterator[str]:
    for title, (header, code) in SCRIPTS.items():
        script = parse(header, code)
        yield f"== {title}"
        yield from (f"  {each}" for each in script_lint.find_header_differences(script, script.source, script.path))
    script = parse(HEADER, "-- include: b\n" + OK, b="-- Uses.\n" + USES + "local c = KEYS[3]\n\nlocal job = ARGV[1]\n")
    yield "== in a block"
    yield from (f"  {each}" for each in script_lint.find_header_differences(script, script.source, script.path))


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

COUNT = "-- Count.\n--\n-- needs    a\n-- gives    number\nlocal number = a\n"
BLOCKS = {
    "it fits": COUNT,
    "no comment": "local number = 1\n",
    "an empty comment": "--\n-- gives    number\nlocal number = 1\n",
    "only a comment": "-- Nothing.\n",
    "a need without a name": COUNT.replace("needs    a", "needs    b"),
    "a gift without a name": COUNT.replace("gives    number", "gives    total"),
    "a name from outside": COUNT.replace("= a", "=\n  a + c + c"),
    "a text behind a name": COUNT.replace("needs    a", "needs    a  the key"),
    "several names": COUNT.replace("needs    a", "needs    a b"),
    "several names and a text": COUNT.replace("needs    a", "needs    a b c  two words"),
    "a continued text": COUNT.replace("needs    a", "needs    a  the key\n--            of jobs"),
    "names on two lines": COUNT.replace("needs    a", "needs    a\n--          b"),
    "names on a line with less indent": COUNT.replace("needs    a", "needs    a\n--         b"),
    "a line with more indent": COUNT.replace("needs    a", "needs    a\n--           b"),
    "a broken line": COUNT.replace("needs    a", "needs    a, b"),
    "no such clause": COUNT.replace("needs ", "wants "),
    "an argument": COUNT.replace("needs    a", "needs    a\n--          ARGV[2]  limit").replace(
        "= a", "= a .. ARGV[2]"
    ),
    "an optional argument": COUNT.replace("needs    a", "needs    a\n--          ARGV[2]  limit?  at most"),
    "an argument that is not declared": COUNT.replace("= a", "= a .. ARGV[ 1 ] .. ARGV[12]"),
    "an argument without a name": COUNT.replace("needs    a", "needs    a\n--          ARGV[2]"),
    "it does not compile": COUNT.replace("= a", "= = a"),
    "it does not compile later": COUNT + "\n\nlocal = 1\n",
    "it returns": "-- Return.\n--\n-- needs    a\nreturn a\n",
}
INCLUDES = {
    "it fits": ("local a = KEYS[1]\n-- include: count\nreturn {'moved', number}\n", COUNT),
    "not at the beginning of a line": ("local a = 1\n  -- include: count\nreturn number\n", COUNT),
    "a word before it": ("local a = 1 -- include: count\nreturn {'moved'}\n", COUNT),
    "no such name above": ("\n-- include: count\nreturn {'moved', number}\n", COUNT),
    "nothing uses it": ("local a = 1\n-- include: count\n" + OK, COUNT),
    "one of two names is used": (
        "local a = 1\n-- include: count\nreturn two\n",
        COUNT.replace("number", "number two", 1) + "local two = 2\n",
    ),
    "nothing uses a guard": (
        "local a = 1\n-- include: count\n" + OK,
        COUNT + "if a then\n  return redis.error_reply('ERR') end\n",
    ),
    "nothing uses a guard at its beginning": (
        "local a = 1\n-- include: count\n" + OK,
        COUNT + "do\nreturn redis.error_reply('ERR') end\n",
    ),
    "a block gives nothing": ("local a = 1\n-- include: count\n" + OK, "-- Check.\n--\n-- needs    a\nf(a)\n"),
    "a name that it does not give": (
        "local a = 1\n-- include: count\nreturn number + two + one\n",
        COUNT + "local two, one = 2, 1\n",
    ),
    "a name that is used only above": ("local a = two\n-- include: count\nreturn number\n", COUNT + "local two = 2\n"),
    "a name is defined twice": ("local a, number = 1\n-- include: count\nreturn number\n", COUNT),
    "a name is used only by itself": (
        "local a, number = 1\n-- include: count\n" + OK,
        COUNT.replace("a\n", "a number\n", 1).replace("= a", "= number + a"),
    ),
    "a name is defined again below": ("local a = 1\n-- include: count\nlocal f, a = number\nreturn a\n", COUNT),
    "it does not compile": ("local a = 1\nif a then\n-- include: count\nend return number\n", COUNT),
    "the first argument": (
        "local a = 1\n-- include: count\nreturn number\n",
        COUNT.replace("needs    a", "needs    a\n--          ARGV[1]  id"),
    ),
    "another argument": (
        "local a = 1\n-- include: count\nreturn number\n",
        COUNT.replace("needs    a", "needs    a\n--          ARGV[2]  id\n--          ARGV[3]  id"),
    ),
    "an optional argument": (
        "local a = 1\n-- include: count\nreturn number\n",
        COUNT.replace("needs    a", "needs    a\n--          ARGV[2]  limit?"),
    ),
    "in a block": ("local a = 1\n-- include: outer\nreturn number + more\n", COUNT.replace("needs    a", "needs    b")),
}
OUTER = "-- Outer.\n--\n-- needs    a\n-- gives    more\nlocal more = a\n-- include: count\n"


def describe_blocks() -> Iterator[str]:
    for title, text in BLOCKS.items():
        yield f"== a block: {title}: {include_lint.read_block_contract(block_at('count', text))[0]}"
        yield from (f"  {each}" for each in include_lint.list_block_faults(block_at("count", text)))
    for title, (code, text) in INCLUDES.items():
        for header in (HEADER, HEADER.replace("limit   int", "limit?  int")):
            script = parse(header, code, count=text, outer=OUTER)
            yield f"== an include: {title}"
            yield from (f"  {each}" for each in include_lint.list_include_faults(script))


def describe_unused_blocks() -> Iterator[str]:
    shared = "-- Keys.\n--\n-- KEYS     ready  zset\n--          dead   zset\n"
    naming = "-- Try.\n--\n-- KEYS     ready\n-- returns  moved\n"
    included = "local a = 1\n-- include: count\nreturn {'moved', number}\n"
    one, other = block_at("count", COUNT), block_at("two", COUNT.replace("number", "two").replace("a\n", "a\n\n"))
    two_names = block_at("count", COUNT.replace("number", "number zero total", 1) + "local zero, total = 0, 1\n")
    for title, scripts in {
        "none": [],
        "a script without blocks": [parse(NO_KEYS, OK)],
        "used": [parse_script(NO_KEYS + included, PATH, {"count": one})],
        "not included": [parse_script(NO_KEYS + OK, PATH, {"two": other, "count": one})],
        "included, and not used": [parse_script(NO_KEYS + included.replace("number", "1"), PATH, {"count": one})],
        "one name is used": [parse_script(NO_KEYS + included, PATH, {"count": two_names})],
        "one name is used by each script": [
            parse_script(NO_KEYS + included.replace("number", name), PATH, {"count": two_names})
            for name in ("number", "zero")
        ],
        "used by a block below": [
            parse_script(
                NO_KEYS + included.replace("count", "count, two").replace("number", "two"),
                PATH,
                {
                    "count": one,
                    "two": block_at(
                        "two",
                        COUNT.replace("number", "two")
                        .replace("needs    a", "needs    number")
                        .replace("= a", "= number"),
                    ),
                },
            )
        ],
        "a shared key of one script": [
            parse_script(naming + OK, PATH, {"shared_keys": block_at("shared_keys", shared)})
        ],
        "a shared key of two scripts": [
            parse_script(naming + OK, PATH, {"shared_keys": block_at("shared_keys", shared)}) for _ in range(2)
        ],
    }.items():
        yield f"== {title}"
        yield from (f"  {each}" for each in include_lint.list_unused_blocks(scripts))


def describe_names() -> Iterator[str]:
    for code in (
        "",
        "local a = 1",
        "local a = 1\nlocal b, a = c, d",
        "do local a = 1 end local b = a",
        "x = y",
        "local function f(z) return z + w end\nlocal g = f(v)",
        "local f = function()\n  return function() return deep end\nend",
        "\n\nlocal a = one\nlocal b = one + two",
        "local a = function() return late end\nlocal b = early",
        "return KEYS[1], redis, tonumber(cjson), print",
        "if a then return 1.5, nil, true, 'text', \"\\255\" end",
        "return first == nil, first == true, first == 2.5, first == 'x', last",
        "for i, each in ipairs(list) do local inner = each end",
        "while true do break end local last = {}",
        "return a",
    ):
        yield f"{code!r}: {lua_names.read_lua_names(code)}"
    for code in ("local = 1", "a =\n\n= 1", "return 1 local b"):
        try:
            yield f"{code!r}: {lua_names.read_lua_names(code)}"
        except SyntaxError as error:
            yield f"{code!r}: {error}"


def test_the_lints_say_of_each_script_and_block_what_the_stored_text_says() -> None:
    lines = [*describe_scripts(), *describe_blocks(), *describe_unused_blocks(), *describe_names()]
    assert_lines_match_file(lines, KEPT)
