"""How the servers speak: one line per event on standard error, because standard output is for the ready line."""

import logging

from regulus.errors import ConfigError

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def set_up(level: str = "INFO") -> None:
    """Raises ConfigError for an unknown level."""
    if level.upper() not in LEVELS:
        raise ConfigError(f"log level {level!r}: write one of {', '.join(LEVELS)}")
    logging.basicConfig(level=level.upper(), format=_FORMAT)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
