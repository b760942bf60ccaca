"""The few bytes of RocketMQ's remoting protocol that tell whether a server is ready; shares no code with Regulus."""

import json
import socket
import struct
import time
from typing import Any

READY_WITHIN_S = 180.0          # a JVM on a machine that does other things too

GET_BROKER_RUNTIME_INFO = 28
GET_BROKER_CLUSTER_INFO = 106


class NotReady(Exception):
    """The server did not answer as a ready server does, within its time."""


def ask(address: str, code: int, fields: dict[str, str] | None = None, timeout_s: float = 5.0) -> dict[str, Any]:
    """One request on a connection of its own. Returns code, remark and body of the answer; raises OSError."""
    host, port = address.rsplit(":", 1)
    header = json.dumps({"code": code, "language": "OTHER", "version": 401, "opaque": 1, "flag": 0,
                         "extFields": fields or {}}).encode()
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">ii", 4 + len(header), len(header)) + header)
        size, = struct.unpack(">i", _read(connection, 4))
        frame = _read(connection, size)
    header_size = struct.unpack_from(">i", frame)[0] & 0xFFFFFF
    answer = json.loads(frame[4:4 + header_size])
    return {"code": answer["code"], "remark": answer.get("remark"), "body": frame[4 + header_size:]}


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the server closed the connection")
        data += more
    return data


def await_name_server(address: str, alive: Any, timeout_s: float = READY_WITHIN_S) -> None:
    """Until the name server answers. `alive` is asked meanwhile and raises when the process has ended."""
    _await(lambda: ask(address, GET_BROKER_CLUSTER_INFO)["code"] == 0, f"name server {address}", alive, timeout_s)


def await_broker(broker: str, name_server: str, alive: Any, timeout_s: float = READY_WITHIN_S) -> None:
    """Until the broker answers and the name server names its address."""
    def ready() -> bool:
        listed = ask(name_server, GET_BROKER_CLUSTER_INFO)["body"]
        answer = ask(broker, GET_BROKER_RUNTIME_INFO)
        # One with accounts tells a stranger no more than that.
        return broker.encode() in listed and (answer["code"] in (0, 16) or "AclException" in (answer["remark"] or ""))

    _await(ready, f"broker {broker}", alive, timeout_s)


def await_port(address: str, alive: Any, timeout_s: float = READY_WITHIN_S) -> None:
    """Until something accepts connections there."""
    host, port = address.rsplit(":", 1)

    def ready() -> bool:
        with socket.create_connection((host, int(port)), 1):
            return True

    _await(ready, f"a server at {address}", alive, timeout_s)


def _await(ready: Any, what: str, alive: Any, timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    problem = "it never answered"
    while time.monotonic() < end:
        alive()
        try:
            if ready():
                return
            problem = "it answers, but is not ready"
        except OSError as error:
            problem = str(error)
        time.sleep(0.2)
    raise NotReady(f"{what} is not ready after {timeout_s:.0f} s: {problem}")
