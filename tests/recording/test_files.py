"""The file of a recording: one per server and database, whatever user, password or options its URL has."""

from __future__ import annotations

from pathlib import Path

from rqtui.recording.files import find_recording_path, normalise_address

STATE = Path("/state")


def test_urls_of_the_same_redis_have_the_same_file_without_any_part_of_a_login() -> None:
    same = ("redis://jobs-1", "redis://jobs-1:6379/0", "rediss://ann:geheim@jobs-1:6379/0?ssl_cert_reqs=none",
            "redis://:pw@jobs-1/", "redis://jobs-1:6379?db=0")  # fmt: skip
    (path,) = {find_recording_path(STATE, url) for url in same}
    assert path.parent == STATE / "recordings"
    assert path.name.startswith("jobs-1-6379-0-") and path.suffix == ".rqt"


def test_other_servers_databases_and_kinds_have_other_files() -> None:
    urls = ("redis://a", "redis://a/1", "redis://a:6380", "redis://a?db=2", "redis://b", "unix:///run/redis.sock",
            "unix:///run/redis.sock?db=1", "redis+sentinel://a:26379,b/main/0", "redis+sentinel://a:26379,b/other/0",
            "redis+cluster://a,b", "redis://[::1]:6379/0")  # fmt: skip
    assert len({find_recording_path(STATE, url) for url in urls}) == len(urls)


def test_an_address_is_printed_without_login_and_options() -> None:
    assert normalise_address("redis://ann:geheim@jobs-1/2?socket_timeout=1") == "jobs-1:6379/2"
    assert normalise_address("unix://ann:geheim@/run/redis.sock?db=3") == "unix:/run/redis.sock/3"
    assert "geheim" not in normalise_address("redis+sentinel://ann:geheim@a,b/main/0")
    assert "geheim" not in normalise_address("redis://ann:geheim@[broken")


def test_a_hostile_url_names_a_file_in_the_folder() -> None:
    for url in ("redis://../../etc", "redis://a/../../../x", "redis://" + "a" * 5000, "\x1b[31m://\x00", "redis://a:b"):
        path = find_recording_path(STATE, url)
        assert path.parent == STATE / "recordings" and len(path.name) < 100 and path.name.isprintable()
