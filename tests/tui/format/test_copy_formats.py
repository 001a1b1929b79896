"""What is copied of a job, by the type of the key that holds the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_type_hints

import pytest
from redis import Redis

from rqtui.model import Job, Place, State
from rqtui.scripts.header import KEY_TYPES
from rqtui.system_base.system import System
from rqtui.systems.orizuru import SYSTEM
from rqtui.systems.registry import create_system
from rqtui.tui.format.copy_formats import COPY_FORMATS, JobSource, convert_jobs

REDIS_CLI = next(form for form in COPY_FORMATS if form.key == "r")


def build_system(type: str) -> System:
    """Build a system of another package whose only place has this type."""

    class Boxes(SYSTEM):
        places = (Place("box", State.READY, "box:<queue>", type),)

        def keys(self, queue: str) -> Mapping[str, str]:
            return {"box": f"box:{queue}"}

    return Boxes()


def line_for(type: str, url: str = "redis://localhost:6379") -> str:
    system = build_system(type)
    job = Job(id=b"1-1", queue="q", system="orizuru", place="box", state=State.READY, member=b"m")
    return convert_jobs(REDIS_CLI, [job], JobSource(system, "q", url)).data.decode()


@pytest.mark.parametrize("type", [*KEY_TYPES, "", "vectorset"])
def test_a_place_of_any_type_has_a_line_that_reads_it(type: str) -> None:
    assert get_type_hints(Place)["type"] is str, "a package may say any text"
    line = line_for(type)
    assert line.startswith("redis-cli -h localhost -p 6379 ") and " box:q" in line


def test_the_lines_for_a_string_and_a_stream_read_the_job(client: Redis) -> None:
    client.set("box:q", "body")
    assert client.execute_command(*line_for("string").split()[5:]) == b"body"
    client.delete("box:q")
    client.xadd("box:q", {"a": "b"}, id="1-1")
    [(id, fields)] = client.xrange("box:q", "1-1", "1-1")
    assert line_for("stream").split()[5:] == ["XRANGE", "box:q", "1-1", "1-1"] and (id, fields) == (
        b"1-1",
        {b"a": b"b"},
    )
    assert client.execute_command(*line_for("any").split()[5:]) == b"stream"


def test_a_job_that_is_a_key_of_its_own_is_read_by_that_key() -> None:
    job = Job(id=b"a b", queue="arq:queue", system="arq", place="failed", state=State.DEAD, member=b"\x80")
    source = JobSource(create_system("arq"), "arq:queue", "redis://localhost:6379")
    line = convert_jobs(REDIS_CLI, [job], source).data.decode()
    assert line == "redis-cli -h localhost -p 6379 GET 'arq:result:a b'"
