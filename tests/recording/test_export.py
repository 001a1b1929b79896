"""Export a time span: the copy has exactly the records of the span, and one file that can be read anywhere."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from recordings import END_MS, MAIL, NOW_MS, build_minutes, open_writer

from rqtui.errors import RecordingError
from rqtui.model import Ref
from rqtui.recording.export import export_recording
from rqtui.recording.records import HOUR_MS, MINUTE_MS, ErrorCount, RecordedChange, RecordedFinding
from rqtui.recording.store import Batch, Reader, Writer

OTHER = Ref("rq", "m\udcffail")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Create a recording of two hours with a finding, a cause and a change in each, and return its path."""
    path = tmp_path / "recordings" / "a.rqt"
    batch = build_minutes(NOW_MS - 2 * HOUR_MS, 60)
    later = build_minutes(NOW_MS - HOUR_MS, 60, MAIL, OTHER)
    findings = [
        RecordedFinding(MAIL, "early", "warning", "early", "", 0, NOW_MS - 2 * HOUR_MS, NOW_MS - 2 * HOUR_MS + 5),
        RecordedFinding(OTHER, "late", "critical", "läte \udcff", "", 0, NOW_MS - HOUR_MS, NOW_MS - 5),
        RecordedFinding(None, "memory", "critical", "full", "", 0, NOW_MS - 3 * HOUR_MS, NOW_MS),
    ]
    errors = [ErrorCount(MAIL, NOW_MS - hours * HOUR_MS, f"cause {hours}", hours) for hours in (1, 2)]
    changes = [RecordedChange(NOW_MS - hours * HOUR_MS, str(hours), {"verb": "requeue"}) for hours in (1, 2)]
    with open_writer(path, batch, later, Batch(later.queues, (), (), findings, findings[:1], errors, changes)):
        pass
    return path


def test_a_copy_has_the_records_of_its_span_and_no_others(source: Path, tmp_path: Path) -> None:
    target, begin_ms = tmp_path / "incident.rqt", NOW_MS - HOUR_MS
    with Reader.open(source) as reader:
        export = export_recording(reader, target, begin_ms + 30_000, NOW_MS)
        with Reader.open(target) as copy:
            for ref in (MAIL, OTHER):
                assert copy.read_periods(ref, 0, END_MS) == reader.read_periods(ref, begin_ms, END_MS)
            assert copy.read_server_periods(0, END_MS) == reader.read_server_periods(begin_ms, END_MS)
            assert copy.read_findings(0, END_MS) == reader.read_findings(begin_ms, END_MS)
            assert {finding.kind for finding in copy.read_findings(0, END_MS)} == {"late", "memory"}
            assert [error.cause for error in copy.read_errors(0, END_MS)] == ["cause 1"]
            assert [change.key for change in copy.read_changes(0, END_MS)] == ["1"]
            assert copy.list_queues() == reader.list_queues() and copy.read_meta()["url"] == "redis://jobs-1:6379"
    assert export.rows["period"] == 120 and export.size_bytes == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert {file.name for file in tmp_path.iterdir()} == {"recordings", "incident.rqt"}, "one file"
    assert stat.S_IMODE(tmp_path.stat().st_mode) & 0o077 == stat.S_IMODE(source.parent.parent.stat().st_mode) & 0o077


def test_the_first_hour_of_a_merged_span_is_copied_as_a_whole(source: Path, tmp_path: Path) -> None:
    with Writer.open(source) as writer:
        assert writer.merge_oldest_hour(NOW_MS - HOUR_MS)
    with Reader.open(source) as reader:
        export_recording(reader, tmp_path / "b.rqt", NOW_MS - HOUR_MS - 10 * MINUTE_MS, NOW_MS)
    with Reader.open(tmp_path / "b.rqt") as copy:
        assert copy.read_periods(MAIL, 0, END_MS)[0].span_ms == HOUR_MS


@pytest.mark.parametrize("begin_ms", [END_MS, 0])
def test_a_span_without_records_leaves_no_file(source: Path, tmp_path: Path, begin_ms: int) -> None:
    with Reader.open(source) as reader, pytest.raises(RecordingError, match="nothing is recorded in this time"):
        export_recording(reader, tmp_path / "b.rqt", begin_ms, begin_ms + 10)
    assert not (tmp_path / "b.rqt").exists()


def test_an_existing_file_or_link_is_not_overwritten(source: Path, tmp_path: Path) -> None:
    (tmp_path / "b.rqt").write_text("mine")
    (tmp_path / "c.rqt").symlink_to(tmp_path / "nowhere")
    with Reader.open(source) as reader:
        for name in ("b.rqt", "c.rqt"):
            with pytest.raises(RecordingError, match="exists already; name a new file"):
                export_recording(reader, tmp_path / name, 0, END_MS)
        with pytest.raises(RecordingError, match="cannot be used: No such file or directory"):
            export_recording(reader, tmp_path / "nowhere" / "b.rqt", 0, END_MS)
    assert (tmp_path / "b.rqt").read_text() == "mine" and not (tmp_path / "nowhere").exists()
