"""The logs of commands that run on, on stderr: as text, or as JSON lines with `--log-format json`."""

from __future__ import annotations

import logging
import sys


def set_up_logging(log_format: str) -> None:
    """Logs of our own loggers go to stderr, as text or as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if log_format == "json" else _Lines("rqtui: %(levelname)s %(message)s"))
    logger = logging.getLogger("rqtui")
    logger.handlers = [handler]
    logger.setLevel(logging.WARNING)


class _Lines(logging.Formatter):
    """A log record as text, made harmless: messages name queues and jobs."""

    def format(self, record: logging.LogRecord) -> str:
        """The lines."""
        from rqtui.text.sanitise import safe_lines

        return "\n".join(safe_lines(super().format(record)))


class _JsonLines(logging.Formatter):
    """A log record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        import json

        line = {"at_ms": int(record.created * 1000), "level": record.levelname.lower(), "logger": record.name}
        line["text"] = record.getMessage()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line).replace("\x7f", "\\u007f")
