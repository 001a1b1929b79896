"""Test bad input to the scripts of foreign systems, in one table that is built from the scripts' headers.

`rqtui.scripts` refuses most of it before it is sent; so these calls use raw strings, as a client in any other language
would send them. The native scripts have tests of their own in `native/test_input.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from families import run_in_one_test
from redis import Redis
from redis.exceptions import ResponseError
from subjects import SUBJECTS

from rqtui.scripts.script import Script
from rqtui.testing.keyspace import dump
from rqtui.testing.subject import PreparedScript, Subject

NO_NUMBERS = ("nan", "inf", "-inf", "1e400", "1.5", "0x10", "abc", " 1", "1 ", "-9" * 9, "9" * 20, "\0", "1e3", "--1")
FOREIGN = tuple(subject for system, subject in SUBJECTS.items() if system != "native")
CASES = [pytest.param(subject, name, id=f"{subject.name}/{name}") for subject in FOREIGN for name in subject.uses]
ROWS = 1000
MOST_ROWS = {("celery", "grow"): 1, ("celery", "shrink"): 1}  # scripts that take fewer rows, because one worker replies
OF_THE_WRITER = {  # columns that the client writes into the message, and the script does not read
    ("celery", "enqueue"): {"priority", "delay_ms", "due_ms"},
    ("celery", "reschedule"): {"delay_ms", "due_ms"},
}
_RANGE = re.compile(r"\b([01]) to (\d+)\b")


@dataclass(frozen=True)
class CallTemplate:
    """A script with arguments that it takes; `run` sends others in their place."""

    client: Redis
    script: Script
    keys: Sequence[object]
    argv: list[object]

    @classmethod
    def build(cls, subject: Subject, client: Redis, name: str) -> CallTemplate:
        script, use = subject.scripts[name], subject.uses[name]
        prepared = PreparedScript.build(subject, client, name, [*use.sources, *sorted(script.sources), ""][0])
        call = prepared.database.call(script, prepared.request)
        return cls(client, script, call.keys, [*call.argv])

    def run(self, argv: Sequence[object]) -> object:
        return self.client.eval(self.script.source, len(self.keys), *self.keys, *argv)  # type: ignore[arg-type]

    def with_value(self, at: int, value: object) -> list[object]:
        return [*self.argv[:at], value, *self.argv[at + 1 :]]

    @property
    def scalars(self) -> list[object]:
        return self.argv[: len(self.script.args)]

    def rows(self, number: int) -> list[object]:
        """Return so many copies of the first row."""
        width = len(self.script.each)
        return self.argv[len(self.script.args) :][:width] * number

    def refuses(self, *wrong: Sequence[object]) -> None:
        """Check that each call is refused with a sentence of the script, and that nothing is written."""
        before = dump(self.client)
        for argv in wrong:
            try:
                answer = self.run(argv)
            except ResponseError as error:
                assert "user_script" not in str(error), f"{argv!r:.200}: {error}"
                assert self.script.read_only or "nothing was changed" in str(error), f"{argv!r:.200}: {error}"
            else:
                raise AssertionError(f"{argv!r:.200} was taken: {answer!r:.200}")
        assert dump(self.client) == before, wrong


@pytest.mark.slow
@run_in_one_test(("subject", "name"), CASES, ids=lambda value: getattr(value, "name", value))
def test_an_argument_that_is_no_number_is_refused(subject: Subject, name: str, client: Redis) -> None:
    asked = CallTemplate.build(subject, client, name)
    for at, arg in enumerate([*asked.script.args, *asked.script.each]):
        if arg.type == "int" and arg.name not in OF_THE_WRITER.get((subject.name, name), ()):
            asked.refuses(*(asked.with_value(at, bad) for bad in NO_NUMBERS))
            if not arg.optional:
                asked.refuses(asked.with_value(at, ""))


@pytest.mark.slow
@run_in_one_test(("subject", "name"), CASES, ids=lambda value: getattr(value, "name", value))
def test_too_few_arguments_are_refused(subject: Subject, name: str, client: Redis) -> None:
    asked = CallTemplate.build(subject, client, name)
    asked.refuses(*(asked.argv[:number] for number in range(len(asked.script.args))))


@pytest.mark.slow
@run_in_one_test(("subject", "name"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_limit_is_what_the_header_says(subject: Subject, name: str, client: Redis) -> None:
    asked = CallTemplate.build(subject, client, name)
    for at, arg in enumerate(asked.script.args):
        if arg.name == "limit":
            found = _RANGE.search(arg.text)
            assert found, f"{asked.script.path}: the header does not say how much"
            least, most = int(found[1]), int(found[2])
            asked.refuses(*(asked.with_value(at, bad) for bad in (least - 1, -1, most + 1)))
            asked.run(asked.with_value(at, most))
            asked = CallTemplate.build(subject, client, name)
            asked.run(asked.with_value(at, least))


@pytest.mark.slow
@run_in_one_test(("subject", "name"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_batch_has_1_to_1000_whole_rows(subject: Subject, name: str, client: Redis) -> None:
    asked = CallTemplate.build(subject, client, name)
    if not asked.script.per_row:
        pytest.skip("it takes no batch")
    most = MOST_ROWS.get((subject.name, name), ROWS)
    asked.refuses(asked.scalars, asked.scalars + asked.rows(most + 1))
    if len(asked.script.each) > 1:
        asked.refuses([*asked.argv, "x"], asked.argv[:-1], asked.scalars + asked.rows(most)[:-1])
    answers = asked.run(asked.scalars + asked.rows(most))
    assert isinstance(answers, list) and len(answers) == most


@pytest.mark.slow
@run_in_one_test(("subject", "name"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_word_that_the_system_has_not_is_refused(subject: Subject, name: str, client: Redis) -> None:
    asked = CallTemplate.build(subject, client, name)
    for at, arg in enumerate(asked.script.args):
        if arg.name in ("place", "unit"):
            asked.refuses(*(asked.with_value(at, bad) for bad in ("nowhere", "") if bad or not arg.optional))


MOST_MS = 10**14 - 1
TIMES = [  # (system, script, argument): the least and the most
    ("arq", "enqueue", "expires_ms", 1, None),
    ("arq", "promote", "expires_ms", 1, None),
    ("arq", "requeue", "expires_ms", 1, None),
    ("arq", "reschedule", "expires_ms", 1, None),
    ("arq", "reschedule", "due_ms", 1, MOST_MS),
    ("orizuru", "reap", "silent_ms", 1, None),
    ("orizuru", "reserve", "ttr_ms", 1, None),
    ("redisched", "extend", "ttr_ms", 1, 31_536_000_000),
    ("redisched", "reserve", "ttr_ms", 1, 31_536_000_000),
    ("safe_pop", "extend", "ttr_ms", 1, None),
    ("safe_pop", "reserve", "ttr_ms", 1, None),
    ("timeout_sets", "extend", "ttr_ms", 1, 10**12),
    ("timeout_sets", "reserve", "ttr_ms", 1, 10**12),
]


@run_in_one_test(("system", "name", "argument", "least", "most"), TIMES)
def test_a_time_is_taken_from_its_least_to_its_most(
    client: Redis, system: str, name: str, argument: str, least: int, most: int | None
) -> None:
    for value, is_taken in ((least, True), (least - 1, False), *([(most, True), (most + 1, False)] if most else [])):
        call = CallTemplate.build(SUBJECTS[system], client, name)
        values = {argument: value, **({"delay_ms": ""} if argument == "due_ms" else {})}
        argv = [values.get(arg.name, given) for arg, given in zip(call.script.args, call.argv, strict=False)]
        argv += call.argv[len(argv) :]
        if is_taken:
            call.run(argv)
        else:
            call.refuses(argv)
