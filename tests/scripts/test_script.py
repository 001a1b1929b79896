"""Scripts called by names: the header's grammar, the Lua below it, calls, answers, recovery, errors."""

from __future__ import annotations

import math
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from fakeredis import FakeRedis, FakeServer
from families import run_in_one_test
from proxy import Proxy
from redis.backoff import NoBackoff
from redis.retry import Retry
from versions import is_server_older
from waiting import wait_until

from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer
from rqtui.connection.meter import Meter
from rqtui.errors import (
    Denied,
    Refused,
    ReplicaOnly,
    ScriptError,
    ServerError,
    Unknown,
    Unreachable,
    UsageError,
    WrongType,
)
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Arg, Key, Move, Reply
from rqtui.scripts.values import convert_rows_to_argv
from rqtui.testing.keyspace import dump
from rqtui.testing.script_lint import find_header_differences

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "lua").glob("*/*.lua"))

PROMOTE = """\
-- Make a scheduled job
-- ready now.
--
-- It says `gone` for a job that is
-- somewhere else.
--
-- Second paragraph.
--
-- moves    scheduled -> ready
-- KEYS     scheduled  zset  id by due (ms)
--          ready      zset  id by priority, then arrival
-- ARGV     id         str   the job
-- returns  moved      jobs moved: 1
--          gone       it is not scheduled
local scheduled, ready = KEYS[1], KEYS[2]
local id = ARGV[1]
if not redis.call('ZSCORE', scheduled, id) then return 'gone' end
redis.call('ZADD', ready, 0, id)
redis.call('ZREM', scheduled, id)
return {'moved'}
"""

ECHO = """\
-- Answer with what was asked.
--
-- KEYS     first  any
-- ARGV     number?  int
--          each     (id bytes, note? str, size? int, share? float, urgent? bool)
-- returns  echo  (number? int, count int) rows (id bytes, note str, size? int, share? float, urgent bool)
--                all of it
local first, number, rows = KEYS[1], ARGV[1], {}
for i = 2, #ARGV, 5 do
  rows[#rows + 1] = {ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]}
end
if first == '' then return redis.error_reply('ERR no key') end
return {'echo', number, #rows, rows}
"""

FIND = """\
-- Say of each id what its score is.
--
-- KEYS     ready  zset  id by score
-- ARGV     each   (id bytes)
-- returns each  found  (score int)  it is there
--               gone   it is not
local ready, words = KEYS[1], {}
for i = 1, #ARGV do
  local score = redis.call('ZSCORE', ready, ARGV[i])
  words[i] = score and {'found', score} or 'gone'
end
return words
"""


def script(signature: str, code: str, name: str = "trial") -> scripts.Script:
    """Parse a script with a summary, the given signature and the given Lua."""
    lines = "".join(f"-- {line}\n" for line in signature.strip("\n").splitlines())
    return scripts.parse_script(f"-- Try something.\n--\n{lines}{code}\n", f"lua/trials/{name}.lua")


def put(code: str = "redis.call('SET', KEYS[1], ARGV[1])\nreturn 'moved'") -> scripts.Script:
    """Parse a script that changes one string."""
    return script(
        "writes   value\nKEYS     value  string  it\nARGV     id  str  what\nreturns  moved  written", code, "put"
    )


# -- the grammar


def test_a_header_is_parsed_completely() -> None:
    promote = scripts.parse_script(PROMOTE, "lua/native/promote.lua")
    assert promote.name == "promote"
    assert promote.summary == "Make a scheduled job ready now."
    assert promote.text == "It says `gone` for a job that is somewhere else.\n\nSecond paragraph."
    assert promote.moves == (Move(("scheduled",), ("ready",)),)
    assert promote.keys == (
        Key("scheduled", "zset", "id by due (ms)"),
        Key("ready", "zset", "id by priority, then arrival"),
    )
    assert promote.args == (Arg("id", "str", False, "the job"),)
    assert {word.word: word.text for word in promote.returns.values()} == {
        "moved": "jobs moved: 1",
        "gone": "it is not scheduled",
    }
    assert (promote.sources, promote.targets, promote.done_word) == (("scheduled",), ("ready",), "moved")
    assert not promote.read_only and not promote.per_row and promote.each == ()


def test_moves_enter_leave_branch_and_span_several_lines() -> None:
    keys = "KEYS     a  zset\n         b  zset\n         c  zset\n         d  zset\nreturns  moved"
    several = script(
        f"moves    a b -> c | d\n         -> a\n         d ->\nmoves    a -> | c\n{keys}", "return 'moved'"
    )
    assert several.moves == (
        Move(("a", "b"), ("c", "d")),
        Move((), ("a",)),
        Move(("d",), (), leaves=True),
        Move(("a",), ("c",), leaves=True),
    )
    assert several.sources == ("a", "b", "d")


def test_forgets_writes_and_derived_are_read() -> None:
    gc = script(
        "forgets  done\nwrites   jobs\n         meta\nderived  <id>-lock  made from ids\n         q:data:<id>\n"
        "KEYS     done  zset\n         jobs  hash\n         meta  hash\nreturns  moved",
        "return 'moved'",
    )
    assert (gc.forgets, gc.writes, gc.derived) == (("done",), ("jobs", "meta"), ("<id>-lock", "q:data:<id>"))
    assert not gc.read_only


def test_tails_wrap_over_lines_and_columns_may_be_optional() -> None:
    counts = script(
        "KEYS     each (place any,\n  kind any)  any plain places\n"
        "ARGV     now_ms?  int  a clock\n         each  (id str,\n                delay_ms? int)\n"
        "returns  counts  (a int,\n b? str) rows (c bytes,\n     d float)\n"
        "                 the text\n                 goes on",
        "return {'counts', 1, '', {}, ARGV[7], KEYS[9]}",
    )
    assert [key.name for key in counts.keys_each] == ["place", "kind"]
    assert counts.each == (Arg("id", "str"), Arg("delay_ms", "int", True))
    word = counts.returns["counts"]
    assert word.values == (Arg("a", "int"), Arg("b", "str", True))
    assert word.rows == (Arg("c", "bytes"), Arg("d", "float"))
    assert word.text == "the text goes on"
    assert counts.read_only


def test_returns_each_gives_one_answer_per_row() -> None:
    find = scripts.parse_script(FIND, "find.lua")
    assert find.per_row and list(find.returns) == ["found", "gone"]
    below = script("ARGV     each  (id str)\nreturns each  moved  it did", "return {}")
    assert below.per_row and below.returns["moved"].text == "it did"


BROKEN = {
    "no header": ("return 'a'", "1: the header has no signature"),
    "no summary": ("-- returns  a\nreturn 'a'", "1: the header has no summary"),
    "no answers": ("-- S.\n--\n-- KEYS     a  zset\nreturn 'a'", "3: the signature has no answers"),
    "unknown clause": ("-- S.\n--\n-- KEYS     a  zset\n-- argv     b  str\n-- returns  a", "4: 'argv' is no clause"),
    "wrong order": ("-- S.\n--\n-- returns  a\n-- KEYS     b  zset", "4: KEYS is there twice or in the wrong place"),
    "twice": ("-- S.\n--\n-- KEYS     b  zset\n-- KEYS     c  zset\n-- returns  a", "4: KEYS is there twice"),
    "after it": ("-- S.\n--\n-- returns  a\n--\n-- More.", "5: nothing may follow the signature"),
    "not aligned": ("-- S.\n--\n-- KEYS     a  zset\n--     b  zset\n-- returns  a", "4: the line is not aligned"),
    "nothing said": ("-- S.\n--\n-- moves\n-- KEYS     a  zset\n-- returns  a", "3: moves is followed by nothing"),
    "a word with a dash": ("-- S.\n--\n-- returns  not-moved  x", "3: 'not-moved  x' is no answer"),
    "open": ("-- S.\n--\n-- ARGV     each (a str,\n-- returns  a", "3: a parenthesis is not closed"),
    "open at the end": ("-- S.\n--\n-- returns  a (b int", "3: a parenthesis is not closed"),
    "no arrow": ("-- S.\n--\n-- moves    a b\n-- returns  a", "3: 'a b' is no move"),
    "from nowhere": ("-- S.\n--\n-- moves    ->\n-- returns  a", "3: a move without a source"),
    "capitals": ("-- S.\n--\n-- KEYS     Ready  zset\n-- returns  a", "3: 'Ready  zset' is no key"),
    "key type": ("-- S.\n--\n-- KEYS     ready  sorted\n-- returns  a", "3: 'sorted' is no type"),
    "optional key": ("-- S.\n--\n-- KEYS     each (ready? zset)\n-- returns  a", "3: a key cannot be optional"),
    "argument type": ("-- S.\n--\n-- ARGV     n  number\n-- returns  a", "3: 'number' is no type"),
    "column": ("-- S.\n--\n-- ARGV     each (id)\n-- returns  a", "3: 'id' is no column"),
    "empty tail": ("-- S.\n--\n-- ARGV     each ()\n-- returns  a", "3: '' is no column"),
    "after the tail": (
        "-- S.\n--\n-- ARGV     each (id str)\n--          n  int\n-- returns  a",
        "4: nothing may follow",
    ),
    "derived": ("-- S.\n--\n-- derived  lock\n-- returns  a", "3: 'lock': expected the template"),
    "writes": ("-- S.\n--\n-- writes   a, b\n-- returns  a", "3: 'a, b': expected names of keys"),
    "no such key": ("-- S.\n--\n-- writes   meta\n-- KEYS     a  zset\n-- returns  a", "3: meta is named here"),
    "no such place": (
        "-- S.\n--\n-- moves    a ->\n--          b ->\n-- KEYS     a  zset\n-- returns  a",
        "4: b is named",
    ),
    "twin keys": ("-- S.\n--\n-- KEYS     a  zset\n--          a  hash\n-- returns  a", "3: KEYS names a twice"),
    "twin columns": ("-- S.\n--\n-- ARGV     a  int\n--          each (a str)\n-- returns  a", "3: ARGV names a twice"),
    "twin words": ("-- S.\n--\n-- returns  a\n--          a", "4: the word a is declared twice"),
    "twin values": ("-- S.\n--\n-- returns  a (b int, b int)", "3: the name b is declared twice"),
    "each without tail": ("-- S.\n--\n-- returns each  a", "3: `returns each` needs a tail"),
    "rows of each": (
        "-- S.\n--\n-- ARGV     each (id str)\n-- returns each  a rows (b int)",
        "4: an answer of `returns each` has values, but no rows",
    ),
}


@run_in_one_test("case", BROKEN)
def test_a_script_that_breaks_the_contract_is_refused_with_file_and_line(case: str) -> None:
    source, expected = BROKEN[case]
    with pytest.raises(ScriptError) as caught:
        scripts.parse_script(source, "lua/x/y.lua")
    assert str(caught.value).startswith(f"lua/x/y.lua:{expected}")


# -- the Lua below it

UNDECLARED = {
    "key index": ("-- S.\n--\n-- KEYS     a  zset\n-- returns  a\n\nlocal b = KEYS[2]", "6: KEYS[2] is used"),
    "index nought": ("-- S.\n--\n-- KEYS     a  zset\n-- returns  a\nlocal b = KEYS[0]", "5: KEYS[0] is used"),
    "arg index": ("-- S.\n--\n-- returns  a\nlocal b = ARGV[1]", "4: ARGV[1] is used, but the header declares 0"),
    "word": ("-- S.\n--\n-- returns  a\n--          b\nreturn 'c'", "5: 'c' is returned, but the header declares: a b"),
    "word in a table": ("-- S.\n--\n-- returns  a\nif x then\n  return {\n    'c', 1}\nend\nreturn 'a'", "5: 'c' is"),
}


@pytest.mark.parametrize("case", UNDECLARED)
def test_a_name_that_the_header_does_not_declare_is_found_with_file_and_line(case: str) -> None:
    source, expected = UNDECLARED[case]
    found = find_header_differences(scripts.parse_script(source, "lua/x/y.lua"), source, "lua/x/y.lua")
    assert any(sentence.startswith(f"lua/x/y.lua:{expected}") for sentence in found), found


def test_comments_strings_and_local_functions_are_not_taken_for_answers() -> None:
    code = """
-- KEYS[7] and return 'nothing' in a comment
--[[ ARGV[9]
return 'nothing' ]]
local function where(x)
  if x then for i = 1, 2 do x = i end return 'inside' end
  repeat x = nil until not x
  return 'elsewhere'
end
if #KEYS > 3 or #ARGV > 2 then return 'a' .. 'b' end
return 'a'"""
    read = script("returns  a", code)
    assert read.done_word == "a" and find_header_differences(read, read.source, "a.lua") == []


# -- the files of lua/


def test_there_are_scripts_to_test() -> None:
    assert FILES


@run_in_one_test("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_keeps_its_header(path: Path) -> None:
    loaded = scripts.load_scripts(path.parent.name)[path.stem]
    assert find_header_differences(loaded, loaded.source, loaded.path) == []


PLANTED = {
    "another name for a key": ("KEYS[1], KEYS[2]", "KEYS[2], KEYS[1]", "KEYS[2] is called scheduled"),
    "another name for an argument": (
        "local id = ARGV[1]",
        "local job, id = tonumber(ARGV[1]) or 1, 2",
        "ARGV[1] is called job",
    ),
    "another name by unpack": ("= KEYS[1], KEYS[2]", "= unpack(ARGV)", "ARGV[1] is called scheduled"),
    "a key that is never used": ("redis.call('ZADD', ready, 0, id)", "", "KEYS[2], ready, is declared, but never used"),
    "an argument that is never read": (
        "local id = ARGV[1]",
        "local id = 'x'",
        "ARGV[1], id, is declared, but never used",
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str) -> None:
    old, new, expected = PLANTED[fault]
    assert old in PROMOTE
    planted = scripts.parse_script(PROMOTE.replace(old, new), "p.lua")
    found = find_header_differences(planted, planted.source, "p.lua")
    assert any(re.fullmatch(rf"p\.lua:\d+: {re.escape(expected)}.*", sentence) for sentence in found), found


def test_the_examples_of_this_file_have_no_faults() -> None:
    for source in (PROMOTE, ECHO, FIND):
        parsed = scripts.parse_script(source, "e.lua")
        assert find_header_differences(parsed, source, "e.lua") == []


def test_a_tail_that_is_never_read_is_found() -> None:
    silent = script("ARGV     each  (id str)\nreturns  moved", "return 'moved'")
    assert "the tail" in find_header_differences(silent, silent.source, "s.lua")[0]


def test_a_folder_that_is_not_there_is_named() -> None:
    with pytest.raises(ScriptError, match="lua/nowhere"):
        scripts.load_scripts("nowhere")


# -- calls


def test_a_call_puts_named_things_in_the_headers_order() -> None:
    promote = scripts.parse_script(PROMOTE, "promote.lua")
    call = promote.build_call({"ready": "r", "scheduled": b"s", "jobs": "unused"}, {"id": "ü"})
    assert call.build_command(read_only=False) == [b"EVALSHA", promote.sha, "2", b"s", b"r", "ü".encode()]


def test_rows_are_sequences_or_mappings() -> None:
    echo = scripts.parse_script(ECHO, "echo.lua")
    by_order = echo.build_call({"first": "k"}, {}, [(b"a", "n", 1, 0.5, True), [b"b", None, None, None, None]])
    by_name = echo.build_call(
        {"first": "k"}, {}, ({"note": "n", "id": b"a", "share": 0.5, "urgent": True, "size": 1}, {"id": b"b"})
    )
    assert by_order.argv == by_name.argv
    assert by_order.argv == [b"", b"a", b"n", "1", "0.5", b"1", b"b", b"", b"", b"", b""]


KEYS: dict[str, str | bytes] = {"first": "k"}
WRONG_CALLS: dict[str, tuple[Callable[[scripts.Script], Any], str]] = {
    "a key is missing": (lambda s: s.build_call({}), "trial: the key first is missing"),
    "an unknown argument": (lambda s: s.build_call(KEYS, {"m": 1}), "trial: it has no argument m; it takes: n"),
    "an argument is missing": (lambda s: s.build_call(KEYS), "trial: n is missing"),
    "text for an int": (lambda s: s.build_call(KEYS, {"n": "5"}), "trial: n must be a whole number, not '5'"),
    "a fraction for an int": (lambda s: s.build_call(KEYS, {"n": 1.5}), "trial: n must be a whole number"),
    "NaN for an int": (lambda s: s.build_call(KEYS, {"n": math.nan}), "trial: n must be a whole number, not nan"),
    "a bool for an int": (lambda s: s.build_call(KEYS, {"n": True}), "trial: n must be a whole number"),
    "an int beyond Lua": (lambda s: s.build_call(KEYS, {"n": 2**60}), "trial: n is beyond"),
    "a monstrous int": (lambda s: s.build_call(KEYS, {"n": 10**5000}), "trial: n is beyond"),
    "infinity": (lambda s: s.build_call(KEYS, {"n": 1}, [("a", math.inf, None)]), "trial: f must be a finite number"),
    "a huge float": (
        lambda s: s.build_call(KEYS, {"n": 1}, [("a", 10**400, None)]),
        "trial: f must be a finite number",
    ),
    "text for a float": (lambda s: s.build_call(KEYS, {"n": 1}, [("a", "1", None)]), "trial: f must be a number"),
    "an int for a bool": (lambda s: s.build_call(KEYS, {"n": 1}, [("a", 1.0, 1)]), "trial: b must be true or false"),
    "an int for text": (
        lambda s: s.build_call(KEYS, {"n": 1}, [(1, 1.0, None)]),
        "trial: t must be text or bytes, not 1",
    ),
    "no Unicode": (lambda s: s.build_call(KEYS, {"n": 1}, [("\ud800", 1.0, None)]), "trial: t must be text that UTF-8"),
    "the row": (lambda s: s.build_call(KEYS, {"n": 1}, [("a", 1.0, None), (None, 1.0, None)]), "(row 2)"),
    "a short row": (lambda s: s.build_call(KEYS, {"n": 1}, [("a", 1.0, None), ("a",)]), "trial: row 2 has 1 values"),
    "long rows": (lambda s: s.build_call(KEYS, {"n": 1}, [("a", 1.0, None, 4)]), "expected 3: t, f, b"),
    "text as a row": (
        lambda s: s.build_call(KEYS, {"n": 1}, ["abc"]),
        "trial: a row is a sequence or a mapping, not str",
    ),
    "an unknown column": (
        lambda s: s.build_call(KEYS, {"n": 1}, [{"t": "a", "x": 1}]),
        "trial: a row has no column 'x'",
    ),
    "keys nobody takes": (lambda s: s.build_call(KEYS, {"n": 1}, each_keys=[("a",)]), "trial: it takes no keys beyond"),
}


@run_in_one_test("case", WRONG_CALLS)
def test_a_wrong_call_is_a_sentence_and_nothing_is_sent(case: str) -> None:
    make, expected = WRONG_CALLS[case]
    signature = "KEYS     first  any\nARGV     n  int\n         each  (t str, f float, b? bool)\nreturns  moved"
    with pytest.raises(UsageError) as caught:
        make(script(signature, "return 'moved'"))
    assert expected in str(caught.value)


def test_rows_for_a_script_without_a_tail_are_refused() -> None:
    with pytest.raises(UsageError, match="promote: it takes no rows"):
        scripts.parse_script(PROMOTE, "promote.lua").build_call({"scheduled": "s", "ready": "r"}, {"id": "a"}, [("a",)])


def test_a_whole_float_is_a_whole_number() -> None:
    assert script("ARGV     n  int\nreturns  moved", "return 'moved'").build_call({}, {"n": 5.0}).argv == ["5"]


# -- answers, on every server and on fakeredis


@pytest.mark.each_server
def test_values_and_tables_come_back_by_name_and_type(any_client: redis.Redis) -> None:
    echo = scripts.parse_script(ECHO, "echo.lua")
    rows = [(b"\xff\x00", "ü\udcff", 2**53, 1.25, True), (b"b", "", None, None, False)]
    answer = scripts.run_call(any_client, echo.build_call({"first": "k"}, {"number": -3}, rows))
    assert (answer.word, answer.text) == ("echo", "all of it")
    assert answer.values == {"number": -3, "count": 2}
    assert answer.rows == rows
    assert scripts.run_call(any_client, echo.build_call({"first": "k"})) == Reply(
        "echo", "all of it", {"number": None, "count": 0}
    )


@pytest.mark.each_server
def test_each_row_gets_its_answer(any_client: redis.Redis) -> None:
    any_client.zadd("z", {b"a": 7, b"\xfe": 9})
    find = scripts.parse_script(FIND, "find.lua")
    answer = scripts.run_call(any_client, find.build_call({"ready": "z"}, rows=[(b"a",), (b"nobody",), (b"\xfe",)]))
    assert [(one.word, one.values.get("score")) for one in answer.each] == [("found", 7), ("gone", None), ("found", 9)]
    none = scripts.run_call(any_client, find.build_call({"ready": "z"}, rows=[(b"x",), (b"y",)]))
    assert [one.text for one in none.each] == ["it is not", "it is not"]
    assert scripts.run_call(any_client, find.build_call({"ready": "z"})).each == []


@pytest.mark.each_server
def test_keys_can_repeat_too(any_client: redis.Redis) -> None:
    any_client.rpush("l", 1, 2)
    any_client.set("s", 1)
    types = script(
        "KEYS     first  any\n         each (place any)\nreturns  types  rows (kind str)",
        "local found = {}\nfor i = 1, #KEYS do found[i] = {redis.call('TYPE', KEYS[i]).ok} end\n"
        "return {'types', found}",
    )
    call = types.build_call({"first": "l"}, each_keys=[("s",), {"place": b"none"}])
    assert scripts.run_call(any_client, call).rows == [("list",), ("string",), ("none",)]


BROKEN_ANSWERS = {
    "an undeclared word": ("local w = 'other' return w", "returned b'other'; the header declares: moved"),
    "no word": ("return 5", "does not begin with a word"),
    "nothing": ("return nil", "does not begin with a word"),
    "too many values": ("return {'moved', 1, 2}", "came with 2 values; the header declares 1"),
    "too few values": ("return {'moved'}", "n was returned as None"),
    "a value of another type": ("return {'moved', 'abc'}", "n was returned as b'abc', the header says int"),
}


@run_in_one_test("case", BROKEN_ANSWERS)
def test_an_answer_that_breaks_the_header_is_an_error(client: redis.Redis, case: str) -> None:
    code, expected = BROKEN_ANSWERS[case]
    with pytest.raises(ScriptError, match=re.escape(expected)) as caught:
        scripts.run_call(client, script("returns  moved  (n int)", code).build_call({}))
    assert str(caught.value).startswith("lua/trials/trial.lua:1: ")


def test_a_table_with_a_missing_column_is_an_error(client: redis.Redis) -> None:
    with pytest.raises(ScriptError, match="a, b"):
        scripts.run_call(client, script("returns  t  rows (a int, b int)", "return {'t', {{1}}}").build_call({}))


def test_one_answer_per_row_is_required(client: redis.Redis) -> None:
    short = script("ARGV     each  (id str)\nreturns each  moved", "return {ARGV[1] and 'moved'}")
    with pytest.raises(ScriptError, match="1 answers for 2 rows"):
        scripts.run_call(client, short.build_call({}, rows=[("a",), ("b",)]))


@pytest.mark.each_server
def test_optional_values_may_be_missing_at_the_end(any_client: redis.Redis) -> None:
    maybe = script("returns  moved  (a int, b? int, c? str, d? bool)", "return {'moved', 1, '', false}")
    assert scripts.run_call(any_client, maybe.build_call({})).values == {"a": 1, "b": None, "c": None, "d": None}


@pytest.mark.skipif(not shutil.which("redis-cli"), reason="redis-cli is not installed")
def test_redis_cli_runs_a_file_as_its_header_says(client: redis.Redis, url: str, tmp_path: Path) -> None:
    file = tmp_path / "promote.lua"
    file.write_text(PROMOTE)
    client.zadd("s", {"a b": 1})
    command = ["redis-cli", "-u", url, "--eval", str(file), "s", "r", ",", "a b"]
    actual = [subprocess.run(command, capture_output=True, text=True, timeout=10).stdout for _ in range(2)]
    assert [line.split()[-1] for line in actual] in (['"moved"', '"gone"'], ["moved", "gone"])
    assert client.zrange("r", 0, -1) == [b"a b"]


# -- pipelines, digests, read-only calls


@pytest.mark.each_server
def test_a_pipeline_answers_in_order_and_errors_are_in_their_place(any_client: redis.Redis) -> None:
    any_client.set("z2", "x")
    find = scripts.parse_script(FIND, "find.lua")
    bad = script("returns  moved", "return redis.error_reply('ERR not today')")
    calls = [
        find.build_call({"ready": "z"}, rows=[(b"a",)]),
        bad.build_call({}),
        find.build_call({"ready": "z"}, rows=[(b"b",)]),
    ]
    first, refused, last = scripts.send_calls(any_client, calls)
    assert isinstance(first, Reply) and isinstance(last, Reply)
    assert isinstance(refused, Refused) and str(refused) == "not today"
    assert scripts.send_calls(any_client, []) == []


@pytest.mark.each_server
def test_scripts_the_server_forgot_are_sent_again_in_a_second_trip(any_client: redis.Redis) -> None:
    write, find = put(), scripts.parse_script(FIND, "find.lua")
    for _ in range(2):
        any_client.script_flush()
        scripts.run_call(any_client, find.build_call({"ready": "z"}))  # known, the others are not
        calls = [write.build_call({"value": f"v{i}"}, {"id": str(i)}) for i in range(3)]
        answers = scripts.send_calls(any_client, [*calls, find.build_call({"ready": "z"}, rows=[(b"a",)])])
        assert [answer.word for answer in answers if isinstance(answer, Reply)] == ["moved"] * 3 + [""]
    assert any_client.mget("v0", "v1", "v2") == [b"0", b"1", b"2"]


def test_a_command_that_no_script_may_call_is_sent_with_scripts(client: redis.Redis, url: str) -> None:
    find = scripts.parse_script(FIND, "find.lua").build_call({"ready": "z"}, rows=[(b"a",)])
    first, who, last = scripts.send_calls(client, [find, scripts.build_command("CLIENT LIST", "z"), find])
    assert (
        isinstance(who, Reply) and b" cmd=client" in who.values["reply"] and isinstance(first, Reply) and first == last
    )
    with pytest.raises(UsageError, match="CLIENT KILL is not sent as it is; those that are: CLIENT LIST, "):
        scripts.build_command("CLIENT KILL")
    with Proxy(url) as proxy, connect(proxy.url) as through:
        through.ping()  # its greeting asks the same command
        proxy.fail("lose reply", "CLIENT")
        with pytest.raises(Unreachable, match="^the connection to Redis broke: [^.]*[.]$"):
            scripts.run_call(through, scripts.build_command("CLIENT LIST"))
    client.execute_command("ACL", "SETUSER", "reader", "reset", "on", ">pw", "~*", "+@all", "-client|list")
    with connect(url.replace("redis://", "redis://reader:pw@")) as limited:
        found, denied = scripts.send_calls(limited, [find, scripts.build_command("CLIENT LIST")])
    client.execute_command("ACL", "DELUSER", "reader")
    assert isinstance(found, Reply) and isinstance(denied, Denied)
    sentence = r"Redis denies it: (this user|User reader) has no permissions to run the 'client\|list' command\. "
    assert re.match(sentence + r"The user lacks \+client\|list; ", str(denied)), denied


def test_plain_reads_are_sent_with_scripts_and_their_errors_are_among_their_replies(any_client: redis.Redis) -> None:
    any_client.lpush("l", *(b"x" * 100 for _ in range(2000)))
    any_client.set("v", "1")
    scripts.run_call(any_client, put().build_call({"value": "w"}, {"id": "1"}))
    words = [(b"LRANGE", b"l", b"0", b"-1"), (b"GET", b"l"), (b"GET", b"v"), (b"ZCARD", b"none")] * 25
    reads = scripts.build_read_commands([scripts.pack_command(each) for each in words], len(words))
    answer, after = scripts.send_calls(any_client, [reads, put().build_call({"value": "w"}, {"id": "2"})])
    assert isinstance(answer, Reply) and isinstance(after, Reply) and after.word == "moved"
    replies = answer.values["replies"]
    assert len(replies) == reads.reply_count == 100
    for at in range(0, 100, 4):
        listed, wrong, value, none = replies[at : at + 4]
        assert listed == [b"x" * 100] * 2000 and isinstance(wrong, redis.ResponseError) and (value, none) == (b"1", 0)


def test_one_plain_read_has_its_reply_in_a_list_as_many_have(any_client: redis.Redis) -> None:
    any_client.zadd("z", {"a": 1})
    for words, replies in (((b"ZRANGE", b"z", b"0", b"0"), [[b"a"]]), ((b"ZCARD", b"none"), [0])):
        [answer] = scripts.send_calls(any_client, [scripts.build_read_commands([scripts.pack_command(words)], 1)])
        assert isinstance(answer, Reply) and answer.values["replies"] == replies
    [answer] = scripts.send_calls(any_client, [scripts.build_read_commands([scripts.pack_command((b"GET", b"z"))], 1)])
    assert isinstance(answer, Reply) and isinstance(answer.values["replies"][0], redis.ResponseError)


def test_plain_reads_that_break_report_that_redis_is_unreachable(client: redis.Redis, url: str) -> None:
    with Proxy(url) as proxy, connect(proxy.url) as through:
        through.ping()
        for fault in ("cut before", "lose reply", "half reply"):
            proxy.fail(fault, "LRANGE")
            client.lpush("l", "x")
            reads = scripts.build_read_commands(
                [b"*1\r\n$4\r\nTIME\r\n", scripts.pack_command([b"LRANGE", b"l", b"0", b"9"])], 2
            )
            [answer] = scripts.send_calls(through, [reads])
            assert isinstance(answer, Unreachable), fault


def test_a_known_script_is_one_short_command(client: redis.Redis, url: str) -> None:
    write = put()
    client.script_flush()
    with Proxy(url) as proxy, connect(proxy.url) as through:
        for i in range(3):
            scripts.run_call(through, write.build_call({"value": "v"}, {"id": str(i)}))
        assert proxy.count("EVALSHA") == 3
        assert proxy.count("EVAL") - proxy.count("EVALSHA") == 1


@pytest.mark.each_server
def test_a_script_that_only_reads_is_held_to_it_by_the_server(
    server_client: redis.Redis, server: EmbeddedServer
) -> None:
    if is_server_older(server_client, 7):
        pytest.skip("EVAL_RO needs Redis 7")
    liar = script("KEYS     value  string\nreturns  moved", "redis.call('SET', KEYS[1], 1)\nreturn 'moved'", "liar")
    with pytest.raises(ScriptError, match="liar.lua:5: it writes, but its header"):
        scripts.run_call(server_client, liar.build_call({"value": "v"}))
    assert dump(server_client) == {}
    with Proxy(server.url) as proxy, connect(proxy.url) as through:
        server_client.script_flush()
        scripts.run_call(through, scripts.parse_script(FIND, "f.lua").build_call({"ready": "z"}))
        assert [name for name in proxy.requests if name.startswith("EVAL")] == ["EVALSHA_RO", "EVAL_RO"]


def test_a_server_without_read_only_calls_is_asked_once() -> None:
    fake = FakeRedis(server=FakeServer(), protocol=2)
    seen: list[str] = []
    find = scripts.parse_script(FIND, "find.lua")
    connection_class = fake.connection_pool.connection_class

    class Watching(connection_class):  # type: ignore[misc, valid-type]
        def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            seen.extend(name.decode() for name in re.findall(rb"\r\n(EVAL\w*)\r\n", b"".join(command)))
            super().send_packed_command(command, check_health)

    fake.connection_pool.connection_class = Watching
    for _ in range(3):
        assert scripts.run_call(fake, find.build_call({"ready": "z"}, rows=[(b"a",)])).each[0].word == "gone"
    assert seen == ["EVALSHA_RO", "EVAL", "EVALSHA", "EVALSHA"]


def test_a_client_with_one_connection_works_and_survives_a_restart_of_the_line(client: redis.Redis, url: str) -> None:
    write = put()
    with Proxy(url) as proxy:
        single = redis.Redis.from_url(
            proxy.url, protocol=2, single_connection_client=True, retry=Retry(NoBackoff(), 0), socket_timeout=5
        )
        scripts.run_call(single, write.build_call({"value": "v"}, {"id": "1"}))
        proxy.cut()
        scripts.run_call(single, write.build_call({"value": "v"}, {"id": "2"}))
        single.close()
    assert client.get("v") == b"2"


# -- errors


def test_a_lost_reply_to_a_change_is_unknown_and_is_not_sent_again(client: redis.Redis, url: str) -> None:
    push = script(
        "writes   l\nKEYS     l  list\nreturns  moved", "redis.call('RPUSH', KEYS[1], 1)\nreturn 'moved'", "push"
    )
    with Proxy(url) as proxy:
        through = redis.Redis.from_url(proxy.url, protocol=2)  # with redis-py's own retries on
        scripts.run_call(through, push.build_call({"l": "l"}))
        proxy.fail("lose reply", "EVALSHA")
        with pytest.raises(Unknown, match="push: its reply was lost"):
            scripts.run_call(through, push.build_call({"l": "l"}))
        assert client.llen("l") == 2
        assert proxy.count("EVALSHA") == 2
        scripts.run_call(through, push.build_call({"l": "l"}))  # and the connection is usable again
        through.close()


def test_a_lost_reply_to_a_reader_means_only_that_redis_is_unreachable(client: redis.Redis, url: str) -> None:
    find = scripts.parse_script(FIND, "find.lua")
    with Proxy(url) as proxy, connect(proxy.url) as through:
        proxy.fail("lose reply", "EVAL")
        with pytest.raises(Unreachable, match="^the connection to Redis broke: [^.]*[.]$"):
            scripts.run_call(through, find.build_call({"ready": "z"}))


def test_a_pipeline_that_breaks_says_of_each_call_what_is_known(client: redis.Redis, url: str) -> None:
    write, find, late = (
        put(),
        scripts.parse_script(FIND, "find.lua"),
        put("redis.call('SET', KEYS[1], ARGV[1]) return 'moved'"),
    )
    for one in (write, late):
        scripts.run_call(client, one.build_call({"value": "v"}, {"id": "0"}))
    client.script_flush()
    scripts.run_call(client, write.build_call({"value": "v"}, {"id": "0"}))
    scripts.run_call(client, find.build_call({"ready": "z"}))
    with Proxy(url) as proxy, connect(proxy.url, timeout_s=1.0) as through:
        proxy.delay_s = 0.05  # so that each reply is a packet of its own
        proxy.fail("lose reply", "EVALSHA_RO")
        answered, never_ran, reading, unknown = scripts.send_calls(
            through,
            [
                write.build_call({"value": "v"}, {"id": "1"}),
                late.build_call({"value": "v"}, {"id": "2"}),  # NOSCRIPT: surely did not run
                find.build_call({"ready": "z"}),
                write.build_call({"value": "v"}, {"id": "3"}),
            ],
        )
    assert isinstance(answered, Reply)
    assert isinstance(never_ran, Unreachable) and isinstance(reading, Unreachable)
    assert isinstance(unknown, Unknown)
    assert client.get("v") == b"1"


def test_only_one_of_many_calls_of_an_unknown_script_sends_its_text(client: redis.Redis) -> None:
    write, find = put(), scripts.parse_script(FIND, "find.lua")
    calls = [each.build_call(*value) for _ in range(50) for each, *value in (
        (write, {"value": "v"}, {"id": "1"}), (find, {"ready": "z"}),
    )]  # fmt: skip
    client.script_flush()
    client.config_resetstat()
    assert all(isinstance(answer, Reply) for answer in scripts.send_calls(client, calls))
    stats = client.info("commandstats")
    in_full = [stats[name]["calls"] for name in ("cmdstat_eval", "cmdstat_eval_ro") if name in stats]
    assert sum(in_full) == 2, "one for each script"


def test_where_the_text_may_not_be_sent_each_call_reports_it(client: redis.Redis, url: str) -> None:
    client.script_flush()
    client.execute_command("ACL", "SETUSER", "digests", "on", ">sesame", "~*", "+@all", "-eval")
    try:
        with connect(url.replace("://", "://digests:sesame@")) as narrow:
            answers = scripts.send_calls(narrow, [put().build_call({"value": "v"}, {"id": "1"}) for _ in range(3)])
    finally:
        client.execute_command("ACL", "DELUSER", "digests")
    assert [type(answer) for answer in answers] == [Denied] * 3


def test_no_server_at_all_is_unreachable_for_every_call(url: str) -> None:
    with Proxy(url) as proxy:
        nowhere = connect(proxy.url)
    call = put().build_call({"value": "v"}, {"id": "1"})
    results = scripts.send_calls(nowhere, [call, call])
    assert [type(result) for result in results] == [Unreachable] * 2
    assert "Nothing was sent" in str(results[0])


def test_a_server_that_does_not_answer_times_out_as_unknown(url: str) -> None:
    with Proxy(url) as proxy, connect(proxy.url, timeout_s=0.2) as through:
        proxy.fail("swallow", "EVAL")
        with pytest.raises(Unknown, match="Timeout"):
            scripts.run_call(through, put().build_call({"value": "v"}, {"id": "1"}))


@pytest.mark.parametrize("is_metered", [False, True])
def test_an_interrupted_call_leaves_no_reply_for_the_next(client: redis.Redis, url: str, is_metered: bool) -> None:
    write = put("redis.call('SET', KEYS[1], ARGV[1])\nreturn ARGV[1] == '2' and 'moved' or 'other'")
    client.script_load(write.source)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with Proxy(url) as proxy, connect(proxy.url, meter=Meter() if is_metered else None) as through:
            through.ping()
            proxy.hold()

            def once_held() -> None:
                wait_until(lambda: proxy.held)
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

            threading.Thread(target=once_held, daemon=True).start()
            with pytest.raises(KeyboardInterrupt):
                scripts.run_call(through, write.build_call({"value": "v"}, {"id": "2"}))
            proxy.release()
            with pytest.raises(ScriptError, match="other"):
                scripts.run_call(through, write.build_call({"value": "v"}, {"id": "1"}))
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.each_server
def test_a_key_of_another_type_is_named_with_both_types(any_client: redis.Redis) -> None:
    any_client.rpush("rqtui:{mail}:ready", "x")
    promote = scripts.parse_script(PROMOTE, "promote.lua")
    any_client.zadd("s", {"a": 1})
    before = dump(any_client)
    with pytest.raises(WrongType) as caught:
        scripts.run_call(any_client, promote.build_call({"scheduled": "s", "ready": "rqtui:{mail}:ready"}, {"id": "a"}))
    assert (
        "key rqtui:{mail}:ready holds a list, not a zset: another program uses this name. Nothing was changed."
        in str(caught.value)
    )
    assert dump(any_client) == before


def test_an_error_of_a_read_names_no_script_and_no_change(client: redis.Redis) -> None:
    client.rpush("rqtui:{mail}:ready", "x")
    with pytest.raises(WrongType) as caught:
        scripts.run_call(
            client, scripts.parse_script(FIND, "find.lua").build_call({"ready": "rqtui:{mail}:ready"}, rows=[(b"a",)])
        )
    assert str(caught.value) == "key rqtui:{mail}:ready holds a list, not a zset: another program uses this name"


def test_a_scripts_own_wrongtype_is_recognised(client: redis.Redis) -> None:
    guard = script("writes   z\nKEYS     z  zset\nreturns  moved", "return redis.error_reply('WRONGTYPE z')")
    client.set("z", 1)
    with pytest.raises(WrongType, match="key z holds a string, not a zset"):
        scripts.run_call(client, guard.build_call({"z": "z"}))
    with pytest.raises(WrongType, match="one of its keys"):
        scripts.run_call(client, guard.build_call({"z": "other"}))


@pytest.mark.each_server
def test_a_refusal_is_the_scripts_own_sentence(any_client: redis.Redis) -> None:
    for text in ("ERR limit is 1 to 1000", "limit is 1 to 1000"):
        refusing = script("returns  moved", f"return redis.error_reply('{text}')")
        with pytest.raises(Refused) as caught:
            scripts.run_call(any_client, refusing.build_call({}))
        assert str(caught.value) == "limit is 1 to 1000"


@pytest.mark.each_server
def test_a_bug_in_a_script_names_file_and_line(server_client: redis.Redis) -> None:
    buggy = script("returns  moved", "local a = nil\nreturn a.b", "buggy")
    with pytest.raises(ServerError, match="buggy failed at lua/trials/buggy.lua:5: attempt to index"):
        scripts.run_call(server_client, buggy.build_call({}))
    failing = script(
        "writes   k\nKEYS     k  string\nreturns  moved", "redis.call('INCR', KEYS[1])\nreturn 'moved'", "incr"
    )
    server_client.set("k", "x")
    with pytest.raises(ServerError, match="incr failed at lua/trials/incr.lua:6: .* not an integer"):
        scripts.run_call(server_client, failing.build_call({"k": "k"}))
    broken = script("returns  moved", "this is no Lua", "broken")
    with pytest.raises(ScriptError, match="lua/trials/broken.lua:4: "):
        scripts.run_call(server_client, broken.build_call({}))


@pytest.mark.each_server
def test_an_acl_that_denies_is_denied(server_client: redis.Redis, server: EmbeddedServer) -> None:
    cases = (("-set",), ("-evalsha", "-eval"), ("resetkeys", "~other"))
    for rules in cases:
        server_client.execute_command("ACL", "SETUSER", "limited", "reset", "on", ">pw", "~*", "+@all", *rules)
        with connect(server.url.replace("redis://", "redis://limited:pw@")) as limited, pytest.raises(Denied):
            scripts.run_call(limited, put().build_call({"value": "v"}, {"id": "1"}))
    stranger = connect(server.url.replace("redis://", "redis://limited:wrong@"))
    with pytest.raises(Denied, match="refused the log-in"):
        scripts.run_call(stranger, put().build_call({"value": "v"}, {"id": "1"}))
    server_client.execute_command("ACL", "DELUSER", "limited")
    assert dump(server_client) == {}


def test_without_a_password_every_call_is_denied(client: redis.Redis, url: str) -> None:
    before = connect(url)
    before.ping()
    client.execute_command("ACL", "SETUSER", "admin", "on", ">pw", "~*", "+@all")
    try:
        client.execute_command("ACL", "SETUSER", "default", "-@all", "+acl", "+ping")
        call = put().build_call({"value": "v"}, {"id": "1"})
        assert [type(result) for result in scripts.send_calls(before, [call, call])] == [Denied, Denied]
    finally:
        client.execute_command("ACL", "SETUSER", "default", "+@all")
        client.execute_command("ACL", "DELUSER", "admin")
        before.close()


def test_a_wanted_password_answers_each_call_with_denied(client: redis.Redis, url: str) -> None:
    fresh = connect(url)
    client.config_set("requirepass", "pw")
    try:
        call = put().build_call({"value": "v"}, {"id": "1"})
        assert [type(result) for result in scripts.send_calls(fresh, [call, call])] == [Denied, Denied]
    finally:
        client.config_set("requirepass", "")
        fresh.close()


def test_a_read_only_replica_refuses_a_change_for_now(client: redis.Redis) -> None:
    client.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        with pytest.raises(ReplicaOnly, match="read-only replica"):
            scripts.run_call(client, put().build_call({"value": "v"}, {"id": "1"}))
    finally:
        client.execute_command("REPLICAOF", "NO", "ONE")


def test_over_maxmemory_a_fill_is_refused_in_a_sentence(
    client: redis.Redis, settings: Callable[[str, str], None]
) -> None:
    settings("maxmemory", "1")
    with pytest.raises(ServerError, match="over its maxmemory"):
        scripts.run_call(client, put().build_call({"value": "v"}, {"id": "1"}))
    settings("maxmemory", "0")
    assert client.exists("v") == 0


def test_a_folder_that_lacks_a_needed_script_reports_it() -> None:
    whole = scripts.load_scripts("native")
    partial = scripts.Folder(
        "native", {name: script for name, script in whole.items() if name != "reserve"}, whole.path
    )
    with pytest.raises(ScriptError, match=r"lua/native/reserve.lua:0: it is not there"):
        partial["reserve"]
    assert "reserve" not in partial and partial.get("reserve") is None


def test_a_script_is_parsed_once_and_when_it_is_requested() -> None:
    parsed: list[str] = []

    def parse(name: str) -> Callable[[], scripts.Script]:
        return lambda: (parsed.append(name), scripts.parse_script(PROMOTE, f"{name}.lua"))[1]

    folder = scripts.Folder("tried", {name: parse(name) for name in ("one", "two")}, Path("tried"))
    assert "one" in folder and "three" not in folder and len(folder) == 2 and [*folder] == ["one", "two"]
    assert parsed == []
    assert folder["one"] is folder["one"] is folder.get("one")
    assert parsed == ["one"]
    assert {**folder}.keys() == {"one", "two"} and parsed == ["one", "two"]


def test_a_fault_in_another_programs_script_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "good.lua").write_text(PROMOTE)
    (tmp_path / "bad.lua").write_text("-- no header\n")
    with pytest.raises(ScriptError, match="bad.lua"):
        scripts.load_scripts(tmp_path)


# ── Redis 6.2 says the same in other words ───────────────────────────────────────────────────────────────────────


def test_a_refusal_by_redis_6_2_has_the_same_message(oldest_server: EmbeddedServer) -> None:
    with connect(oldest_server.url) as client:
        client.flushall()
        client.lpush("v", "another program's")
        append = put("redis.call('APPEND', KEYS[1], ARGV[1])\nreturn 'moved'")
        with pytest.raises(WrongType, match="key v holds a list, not a string"):
            scripts.run_call(client, append.build_call({"value": "v"}, {"id": "1"}))
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(ServerError, match="over its maxmemory"):
                scripts.run_call(client, put().build_call({"value": "w"}, {"id": "1"}))
        finally:
            client.config_set("maxmemory", 0)
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            with pytest.raises(ReplicaOnly, match="read-only replica"):
                scripts.run_call(client, put().build_call({"value": "w"}, {"id": "1"}))
        finally:
            client.execute_command("REPLICAOF", "NO", "ONE")


@pytest.mark.parametrize("values", [(-(2**53) - 1, -(2**53) - 2), (2**53 + 1, 2**53 + 2), (0, -(2**60)), (2**60, 0)])
def test_a_column_of_numbers_that_lua_would_change_is_refused(values: tuple[int, int]) -> None:
    columns = [Arg("n", "int")]
    assert convert_rows_to_argv([(2**53,), (-(2**53),)], columns, "x") == [str(2**53), str(-(2**53))]
    with pytest.raises(UsageError, match="beyond"):
        convert_rows_to_argv([(value,) for value in values], columns, "x")


def test_a_place_whose_jobs_are_keys_of_their_own_is_named_by_a_derived_line() -> None:
    text = "-- S.\n--\n-- moves    failed -> queued\n-- derived  q:result:<id>  (complete failed)  a result\n"
    header = "-- KEYS     queued  zset  ids\n-- returns  moved\n"
    script = scripts.parse_script(text + header, "x.lua")
    assert (script.derived, script.sources) == (("q:result:<id>",), ("failed",))
    with pytest.raises(ScriptError, match="failed is named here, but KEYS declares no key"):
        scripts.parse_script(text.replace("(complete failed)", "(complete)") + header, "x.lua")
