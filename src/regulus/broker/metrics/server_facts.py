"""What only the server of a broker knows at the moment when the page is asked for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    connections: int = 0
    longest_step_ms: float = 0.0
    """The longest step of the event loop in the last one to two minutes."""
    is_ready: bool = True
    complaints: int = 0
    """Faults that the server reports of itself."""
    refused: int = 0
    """Requests that were answered with an error code."""
