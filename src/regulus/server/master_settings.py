"""The settings that a slave must have in common with its master: read when a link begins, and differences are logged.

A difference that only matters when the slave becomes the master, or that would let the slave copy what it should not,
is found here and not in the log.
"""

from collections.abc import Mapping
from contextlib import suppress

from regulus.access.credentials import Credentials, sign_as
from regulus.broker.config import BrokerConfig
from regulus.errors import BrokerRefused, ConfigError
from regulus.model.delay_level import parse_ladder
from regulus.transport.config import TransportConfig
from regulus.transport.connector import connect, split_address
from regulus.wire import config_text
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

TIMEOUT_MS = 5_000


async def settings_of(address: str, transport_config: TransportConfig,
                      inner: Credentials | None = None) -> dict[str, str]:
    """The settings of the broker at its address for clients, under RocketMQ's keys, requested as `inner`. Raises
    ClientError, and ValueError for an invalid address."""
    request = RemotingCommand.request(RequestCode.GET_BROKER_CONFIG)
    sign_as(request, inner)
    connection = await connect(*split_address(address), config=transport_config)
    try:
        answer = await connection.request(request, TIMEOUT_MS)
    finally:
        connection.close()
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefused(answer.code, answer.remark, address)
    return config_text.parse_lines(answer.body.decode("utf-8", "replace"))


def check(settings: Mapping[str, str], address: str, config: BrokerConfig, file_size: int) -> list[str]:
    """A sentence for each setting that differs and should not. Raises ConfigError when the broker is not the master of
    this slave, or has other sizes of files."""
    name = settings.get("brokerName", config.broker_name)
    if name != config.broker_name:
        raise ConfigError(f"the broker at {address} is {name!r}, and this is a slave of {config.broker_name!r}: let "
                          "haMasterAddress name its own master, or leave it out")
    number = settings.get("brokerId", "0")
    if number != "0":
        raise ConfigError(f"the broker at {address} is a slave itself, brokerId {number} of {name!r}"
                          f"{', as this one' if number == str(config.broker_id) else ''}: let haMasterAddress name the "
                          "master, or leave it out")
    size = settings.get("mappedFileSizeCommitLog", str(file_size))
    if size != str(file_size):
        raise ConfigError(f"the log of the master at {address} has files of {size} bytes, and the one here of "
                          f"{file_size}: set mappedFileSizeCommitLog to what the master has")
    return [text for text in (_ladders(settings, config), _sizes(settings, config)) if text]


def _ladders(settings: Mapping[str, str], config: BrokerConfig) -> str:
    ladder = settings.get("messageDelayLevel", config.message_delay_level)
    with suppress(ConfigError):     # an invalid ladder counts as different
        if parse_ladder(ladder) == config.delay_ladder_ms:
            return ""
    return (f"messageDelayLevel of the master is {ladder!r}, and here {config.message_delay_level!r}: delayed messages "
            "would come at other times when this slave is made the master; set it to what the master has")


def _sizes(settings: Mapping[str, str], config: BrokerConfig) -> str:
    size = settings.get("maxMessageSize", "")
    if not size.isdigit() or int(size) <= config.max_message_size:
        return ""
    return (f"maxMessageSize of the master is {size}, and here {config.max_message_size}: longer messages cannot be "
            "copied; set it to what the master has")
