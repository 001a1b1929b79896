"""Write the logs of long-running commands to stderr with secrets masked: as text, or as JSON lines (`--log-format`)."""

from __future__ import annotations

import logging
import sys


def set_up_logging(log_format: str) -> None:
    """Send rqtui's log records to stderr: as JSON lines if `log_format` is `json`, else as text."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if log_format == "json" else _Lines("rqtui: %(levelname)s %(message)s"))
    logger = logging.getLogger("rqtui")
    logger.handlers = [handler]
    logger.setLevel(logging.WARNING)


class _Lines(logging.Formatter):
    """A log formatter that writes sanitised text, because messages contain names of queues and jobs."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record as one or more lines of text."""
        from rqtui.text.masking import mask_printed_text
        from rqtui.text.sanitise import safe_lines

        return "\n".join(safe_lines(mask_printed_text(super().format(record))))


class _JsonLines(logging.Formatter):
    """A log formatter that writes each record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record as one line of JSON."""
        import json

        from rqtui.text.masking import mask_json_document

        line = {"at_ms": int(record.created * 1000), "level": record.levelname.lower(), "logger": record.name}
        line["text"] = record.getMessage()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(mask_json_document(line)).replace("\x7f", "\\u007f")
