"""GET_BROKER_CONFIG (26), SET_COMMITLOG_READ_MODE (2004).

UPDATE_BROKER_CONFIG (25) has a body of `key=value` lines and no header of its own.

Source: GetBrokerConfigResponseHeader, MixAll / AdminBrokerProcessor.setCommitLogReadaheadMode.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, spelled


@dataclass(frozen=True, slots=True)
class GetBrokerConfigResponse(Header):
    """`version` is a DataVersion as JSON text."""

    version: str


@dataclass(frozen=True, slots=True)
class SetCommitlogReadModeRequest(Header):
    """`mode`: 0 normal, 1 random, 2 sequential."""

    read_ahead_mode: str = spelled("READ_AHEAD_MODE")
