"""Bodies, ids and names of simulated jobs, all from a seeded generator; the scenarios call it for their plans.

The bodies resemble real ones: JSON with addresses and amounts in several scripts. A few test what a screen must
survive: markup, escape sequences, wide characters, MessagePack, plain binary, a secret, a long text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from rqtui.ids import DIGITS

BodyBuilder = Callable[[Random], bytes]

_EPOCH_MS = 1_764_547_200_000  # December 2025: ids contain a time, and must follow from the seed alone
_PEOPLE = (
    ("Ada Lovelace", "ada@analytical.example"),
    ("Zoë Krüger", "zoe@münchen.example"),
    ("José Peña", "jose@correo.example"),
    ("山田 花子", "hanako@yamada.example"),
    ("Olga Иванова", "olga@pochta.example"),
    ("नेहा शर्मा", "neha@sharma.example"),
    ("Ngọc Trần", "ngoc@tran.example"),
    ("Sam O'Neill", "sam+orders@oneill.example"),
)
_CITIES = ("Wien", "São Paulo", "東京", "Kraków", "Aarhus", "Łódź", "Montréal", "القاهرة")
_WARES = ("tea pot", "crème brûlée torch", "寿司 knife", "wool socks", "Gießkanne", "jigsaw, 1000 pieces", "☕ beans")
_PAGES = ("/", "/cart", "/search?q=寿司", "/pay")


def generate_id(rng: Random, number: int) -> str:
    """Return an id of 22 characters like those of `ids.create_id`: sortable, and unique per `number`."""
    value = ((_EPOCH_MS + number * 7) << 80) | 7 << 76 | rng.getrandbits(76)
    letters = []
    for _ in range(22):
        value, digit = divmod(value, len(DIGITS))
        letters.append(DIGITS[digit])
    return "".join(reversed(letters))


def encode_json(body: Any) -> bytes:
    """Return a JSON body as the queue's codec writes it."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def build_invoice(rng: Random) -> bytes:
    """Return the body of an invoice with lines and a total."""
    name, address = rng.choice(_PEOPLE)
    bought = [(rng.choice(_WARES), rng.randrange(1, 4), rng.randrange(199, 24_900)) for _ in range(rng.randrange(1, 4))]
    return encode_json(
        {
            "to": address,
            "name": name,
            "invoice": rng.randrange(10_000, 99_999),
            "lines": [{"item": ware, "qty": qty, "cents": cents} for ware, qty, cents in bought],
            "total_cents": sum(qty * cents for _, qty, cents in bought),
            "currency": rng.choice(("EUR", "JPY", "BRL")),
        }
    )


def build_welcome(rng: Random) -> bytes:
    """Return the body of a welcome mail to a new user."""
    name, address = rng.choice(_PEOPLE)
    locale = rng.choice(("de", "en", "pt", "ja"))
    return encode_json(
        {"to": address, "subject": f"Welcome, {name.split()[0]}!", "template": "welcome-2", "locale": locale}
    )


def build_reminder(rng: Random) -> bytes:
    """Return the body of a reminder of an appointment."""
    name, address = rng.choice(_PEOPLE)
    text = f"{name}: {rng.choice(_CITIES)}, {rng.randrange(8, 19)}:{rng.choice(('00', '15', '30'))}"
    return encode_json({"to": address, "text": text, "channel": rng.choice(("mail", "sms", "push"))})


def build_digest(rng: Random) -> bytes:
    """Return the longer body of a weekly digest."""
    titles = [f"{rng.choice(_WARES)} · {rng.choice(_CITIES)}" for _ in range(rng.randrange(4, 12))]
    items = [{"title": title, "reads": rng.randrange(9_000)} for title in titles]
    return encode_json({"to": rng.choice(_PEOPLE)[1], "week": rng.randrange(1, 53), "items": items})


def build_image_task(rng: Random) -> bytes:
    """Return the body of a job that resizes an image."""
    sizes = [[1600, 1200], [640, 480], [96, 96]][: rng.randrange(1, 4)]
    source = f"s3://photos/{rng.getrandbits(64):016x}.jpg"
    return encode_json({"src": source, "sizes": sizes, "quality": rng.randrange(60, 96)})


def build_order(rng: Random, **fields: str) -> bytes:
    """Return the body of a step of an order, with some more fields."""
    return encode_json(
        {
            "order": rng.randrange(40_000, 60_000),
            "customer": rng.choice(_PEOPLE)[1],
            "total_cents": rng.randrange(500, 90_000),
            "city": rng.choice(_CITIES),
            "vat_id": f"DE{rng.randrange(10**8, 10**9)}",
            **fields,
        }
    )


def build_webhook(rng: Random) -> bytes:
    """Return the body of a webhook with a secret, which a screen has to mask."""
    return encode_json(
        {
            "url": f"https://hooks.example/v1/{rng.getrandbits(48):012x}",
            "event": rng.choice(("order.paid", "order.sent")),
            "authorization": f"Bearer {rng.getrandbits(96):024x}",
        }
    )


def build_upload(rng: Random) -> bytes:
    """Return the body of an upload job, which names an archive that is too large to unpack."""
    source = f"s3://uploads/{rng.getrandbits(40):010x}.zip"
    return encode_json({"upload": source, "bytes": 42_374, "unpacked_bytes": 4_503_599_626_321_920})


def build_event(rng: Random) -> bytes:
    """Return the small body of a frequent event."""
    return encode_json({"user": rng.randrange(1_000_000), "page": rng.choice(_PAGES), "ms": rng.randrange(4, 900)})


def _build_markup(_rng: Random) -> bytes:
    """Return a body with Rich markup, which a screen must show as plain text."""
    return encode_json(
        {"subject": "[bold red]SALE[/bold red] [link=https://evil.example]click[/link] [/]", "text": "[/b]"}
    )


def _build_escapes(_rng: Random) -> bytes:
    """Return a body with terminal escape sequences, which a screen must not obey."""
    return (
        b'{"subject":"\x1b[2J\x1b[31mred\x1b[0m \x1b]0;a new title\x07", "note":"control characters, shown as signs"}'
    )


def _build_bidi(_rng: Random) -> bytes:
    """Return a body with bidirectional control characters, which would reorder a line."""
    return encode_json(
        {
            "file": "invoice\u202egpj.exe",
            "zero": "a\u200bb\ufeffc",
            "family": "👨‍👩‍👧 👍🏽 🇩🇪",
            "wide": "全角文字ＡＢＣ",
            "marks": "Z\u0338\u0322a\u0337l\u0335g\u0334o\u0336",
        }
    )


def _build_binary(rng: Random) -> bytes:
    """Return a body of plain binary data."""
    return b"\x89PNG\r\n\x1a\n" + rng.randbytes(180)


def _build_msgpack(rng: Random) -> bytes:
    """Return a body in MessagePack."""
    import msgpack

    body = {"to": rng.choice(_PEOPLE)[1], "amount": rng.randrange(1000), "raw": rng.randbytes(8), "tags": ["msgpack"]}
    packed: bytes = msgpack.packb(body)
    return packed


def _build_long_text(rng: Random) -> bytes:
    """Return a long body, which a screen must truncate."""
    words = [rng.choice((*_WARES, *_CITIES)) for _ in range(900)]
    return encode_json({"to": rng.choice(_PEOPLE)[1], "text": " ".join(words)})


def _build_secret(rng: Random) -> bytes:
    """Return a body with a secret, which a screen must mask."""
    login = {"user": "robot", "password": f"hunter{rng.randrange(10)}"}
    return encode_json({"smtp": login, "session_token": f"{rng.getrandbits(128):032x}"})


HOSTILE: tuple[BodyBuilder, ...] = (
    _build_markup,
    _build_escapes,
    _build_bidi,
    _build_binary,
    _build_msgpack,
    _build_long_text,
    _build_secret,
)
"""Functions for bodies that a screen has to survive; each takes the generator."""
