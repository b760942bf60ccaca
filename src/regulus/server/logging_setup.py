"""The log of the servers: one line per event on standard error, because standard output is for the ready line."""

import json
import logging
from datetime import datetime

from regulus.errors import ConfigError
from regulus.model.wording import one_line

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
FORMATS = ("text", "json")


class TextFormatter(logging.Formatter):
    """One line of text; only the trace of an exception follows on lines of its own. Names and remarks of peers are in
    the messages, and must not be able to imitate lines of ours."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record))


class JsonFormatter(logging.Formatter):
    """One JSON object on each line: `time` (ISO 8601 with the zone), `level`, `logger`, `message`, and `exception` when
    there is one."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds"),
            "level": record.levelname, "logger": record.name, "message": record.getMessage(),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told)


def set_up(level: str = "INFO", log_format: str = "text") -> None:
    """Raises ConfigError for an unknown level or format."""
    if level.upper() not in LEVELS:
        raise ConfigError(f"log level {level!r}: write one of {', '.join(LEVELS)}")
    if log_format not in FORMATS:
        raise ConfigError(f"log format {log_format!r}: write one of {', '.join(FORMATS)}")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.WARNING)
