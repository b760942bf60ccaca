"""UPDATE_NAMESRV_CONFIG, GET_NAMESRV_CONFIG. Changes last until the name server stops."""

from regulus.access.credentials import shown_values
from regulus.errors import ConfigError
from regulus.model.fixed_settings import FIXED_NAME_SERVER_SETTINGS, setting_fault
from regulus.model.peer import Peer
from regulus.nameserver.config import FORBIDDEN_KEYS, UPDATABLE_KEYS
from regulus.nameserver.state import NameServerState
from regulus.wire import config_text
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand


def handle_update_namesrv_config(request: RemotingCommand, peer: Peer, state: NameServerState,
                                 now_ms: int) -> RemotingCommand:
    values = config_text.parse_lines(request.body.decode("utf-8", "replace"))
    if not FORBIDDEN_KEYS.isdisjoint(values):
        return request.response(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    unserved = [fault for fault in map(setting_fault, values, values.values()) if fault is not None]
    if unserved:
        return request.response(ResponseCode.SYSTEM_ERROR, "; ".join(unserved))
    fixed = sorted(values.keys() - UPDATABLE_KEYS - FIXED_NAME_SERVER_SETTINGS.keys())
    if fixed:
        return request.response(ResponseCode.SYSTEM_ERROR,
                                f"{', '.join(fixed)} cannot change while the name server runs; these can: "
                                f"{', '.join(sorted(UPDATABLE_KEYS))}")
    try:
        state.config = config_text.with_values(state.config, {key: text for key, text in values.items()
                                                              if key in UPDATABLE_KEYS})
    except ConfigError as error:
        return request.response(ResponseCode.SYSTEM_ERROR, str(error))
    return request.response(ResponseCode.SUCCESS)


def handle_get_namesrv_config(request: RemotingCommand, peer: Peer, state: NameServerState,
                              now_ms: int) -> RemotingCommand:
    fixed = {key: setting.value for key, setting in FIXED_NAME_SERVER_SETTINGS.items()}
    text = config_text.format_lines({**fixed, **shown_values(state.config)})
    return request.response(ResponseCode.SUCCESS, body=text.encode())
