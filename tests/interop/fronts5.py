"""What RocketMQ 5 clients connect to: the real proxy before a real broker, or ours."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ports import free_ports
from real_rocketmq import RealProxy, RealRocketMQ
from regulus_server import RegulusServer

# 5.3.3 writes down an end of a transaction in batches, 3 s apart, and asks again for what it has not written down.
SETTINGS = {"transactionTimeOut": "5000", "transactionCheckInterval": "6000", "transactionOpBatchInterval": "500",
            "enablePropertyFilter": "true"}


class Front:
    """An address of gRPC, the name server of what stands behind it, and how it all ends."""

    def __init__(self, name: str, stack: ExitStack, endpoint: str, name_server: str) -> None:
        self.name, self.endpoint, self.name_server = name, endpoint, name_server
        self.stack = stack


def start_front(name: str, stack: ExitStack, home: Path) -> Front:
    """`regulus`, or `java-5.3.3`. What was started ends with the stack."""
    return _start_ours(stack, home) if name == "regulus" else _start_real(stack, home)


def _start_real(stack: ExitStack, home: Path) -> Front:
    broker = RealRocketMQ("5.3.3", home / "broker", **SETTINGS)
    stack.callback(broker.kill)
    broker.start()
    (home / "proxy").mkdir()
    proxy = RealProxy(home / "proxy", broker.name_server_address)
    stack.callback(proxy.kill)
    proxy.start()
    return Front("java-5.3.3", stack, proxy.endpoint, broker.name_server_address)


def _start_ours(stack: ExitStack, home: Path) -> Front:
    (port,) = free_ports(1)
    options: dict[str, Any] = {"grpc_port": port, **SETTINGS}
    ours = RegulusServer(home, **options)
    stack.callback(ours.kill)
    ours.start()
    return Front("regulus", stack, f"127.0.0.1:{port}", ours.name_server_address)
