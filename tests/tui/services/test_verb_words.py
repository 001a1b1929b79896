"""Check that footer, question and palette name a verb as the users of the queue's system do."""

from __future__ import annotations

import time

import pytest
from redis import Redis
from screens import WIDE, run_on_event_loop, screen

from rqtui.systems.registry import create_system, list_own_system_names


@pytest.mark.slow
@run_on_event_loop
async def test_a_dead_job_of_sidekiq_is_retried_and_found_in_the_palette_by_both_words(client: Redis, url: str) -> None:
    job = '{"class":"Mail","args":[],"jid":"0123456789abcdef01234567","queue":"mail","created_at":1,"enqueued_at":1}'
    client.sadd("queues", "mail")
    client.zadd("dead", {job: time.time()})
    async with screen(url, WIDE) as ui:
        await ui.press("enter")
        await ui.until_shown("dead 1")
        await ui.press("end")
        await ui.until_shown("R retry now", "D delete", "Mail")
        commands = {command.title: command for command in ui.app.palette.list_commands()}
        assert commands["retry now"].alias == "requeue" and commands["throttled requeue"].alias == "drip requeue"
        for word in ("retry", "requeue", "drip"):
            await ui.press(":", f'"{word}')
            await ui.until_shown(f"│ {word}", "Requeue" if word != "drip" else "throttled requeue")
            await ui.press("escape")
        await ui.press("R")
        await ui.until(lambda: client.lrange("queue:mail", 0, -1), "the job is enqueued")


@pytest.mark.parametrize("name", list_own_system_names())
def test_each_word_belongs_to_one_verb_of_a_job(name: str) -> None:
    system = create_system(name)
    assert set(system.verb_labels) <= set(system.scripts)
    words = [
        system.verb_labels.get(verb.name, verb.label)
        for verb in system.verbs()
        if verb.scope == "job" and not verb.is_hidden
    ]
    assert words and len(words) == len(set(words))
