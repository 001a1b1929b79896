"""A verb that changes the bytes of a job: they are rewritten here, and swapped only for those that were seen."""

from __future__ import annotations

import json

from mill_system import Mill, add_mill_jobs
from redis import Redis

from rqtui.engine.engine import build_engine
from rqtui.model import Ref

FLOUR = Ref("mill", "flour")


def test_new_bytes_take_the_place_of_those_that_were_seen(client: Redis) -> None:
    for id, body in (("a", '{"to": 1}'), ("b", '{"to": 2}'), ("c", "no JSON"), ("d", '{"to": 4}')):
        add_mill_jobs(client, "flour", "deferred", id, body=body)
    engine = build_engine(client, [Mill()])
    jobs = [job for page in engine.walk_pages(FLOUR, "deferred", body_bytes=100) for job in page.jobs]
    client.hset("mill:job:b", "body", '{"to": "somebody else"}')
    outcomes = {one.id: one for one in engine.apply_verb("reschedule", FLOUR, jobs, {"due_ms": 9})}
    assert {id: one.word for id, one in outcomes.items()} == {
        b"a": "moved",
        b"b": "gone",
        b"c": "refused",
        b"d": "moved",
    }
    assert outcomes[b"c"].text == "its body is no JSON object"
    bodies = {id: client.hget(f"mill:job:{id}", "body") for id in "abcd"}
    assert json.loads(bodies["a"]) == {"to": 1, "due_ms": 9} and json.loads(bodies["d"]) == {"to": 4, "due_ms": 9}
    assert (bodies["b"], bodies["c"]) == (b'{"to": "somebody else"}', b"no JSON")
    assert [one.word for one in engine.apply_verb("reschedule", FLOUR, [jobs[2]], {"due_ms": 9})] == ["refused"]
    assert client.llen("mill:deferred") == 4
