"""What a channel of Redis says in a block: the test's own ear, beside which rqtui's is held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from redis import Redis


@dataclass(slots=True)
class Heard:
    """Messages in order, as (channel, text); `drain` fetches what came since."""

    pubsub: object
    messages: list[tuple[str, str]] = field(default_factory=list)

    def drain(self) -> list[tuple[str, str]]:
        """All that was heard until now."""
        while (told := self.pubsub.get_message(ignore_subscribe_messages=True)) is not None:  # type: ignore[attr-defined]
            self.messages.append((told["channel"].decode(), told["data"].decode("utf-8", "replace")))
        return self.messages

    def channels(self) -> set[str]:
        """Those on which something was said."""
        return {channel for channel, _text in self.drain()}


@contextmanager
def heard(client: Redis, *patterns: str) -> Iterator[Heard]:
    """Listens to these patterns."""
    with client.pubsub() as pubsub:
        pubsub.psubscribe(*patterns)
        for _pattern in patterns:
            pubsub.get_message(timeout=10)
        yield Heard(pubsub)
