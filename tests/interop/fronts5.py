"""What RocketMQ 5 clients connect to: the real proxy before a real broker, ours in our broker, or by itself."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from admin import AdminTool
from guards import OPERATORS, USERS, billing_commands, signs_as, with_accounts
from ports import free_ports
from real_rocketmq import RealProxy, RealRocketMQ, write_properties
from regulus_server import RegulusServer, start_our
from remoting_probe import await_port
from tests.certificates import Authority

# 5.3.3 writes down an end of a transaction in batches, 3 s apart, and asks again for what it has not written down.
SETTINGS = {"transactionTimeOut": "5000", "transactionCheckInterval": "6000", "transactionOpBatchInterval": "500",
            "enablePropertyFilter": "true", "recallMessageEnable": "true"}
# RocketMQ's proxy has users and policies from its brokers, and signs to them what it asks on its own behalf.
_OF_BROKERS = {"authenticationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider",
               "authorizationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthorizationMetadataProvider",
               "enableAclRpcHookForClusterMode": "true"}
# A broker 5.3.3 that looks whether a pop is allowed answers each of its proxy's with nothing: it keeps the header that
# it looked at, and only then fills in when the pop was born. So it asks who somebody is, and the proxy what he may.
_AT_BROKER = {"authorizationEnabled": "false"}


class Front:
    """An address of gRPC, the name server of what stands behind it, and whose certificate it shows."""

    def __init__(self, name: str, endpoint: str, name_server: str, broker: str, authority: Authority) -> None:
        self.name, self.endpoint, self.name_server, self.broker = name, endpoint, name_server, broker
        self.authority = authority.pair.certificate


Prepare = Callable[[str, str], None]


def start_front(name: str, stack: ExitStack, home: Path, access: Mapping[str, str] | None = None,
                prepare: Prepare = lambda broker, name_server: None) -> Front:
    """`regulus`, `java-5.3.3`, or ours by itself before one of these: `regulus-before-regulus` and so on. It speaks TLS
    and plain text. What was started ends with the stack.

    `access`: the settings that say who may. `prepare` is called with the addresses of broker and name server when they
    are up; a front by itself begins after that.
    """
    if name == "regulus":
        return _start_ours(stack, home, access or {}, prepare)
    front, _, behind = name.rpartition("-before-")
    broker: RegulusServer | RealRocketMQ = (
        RegulusServer(home / "broker", **SETTINGS, **(access or {})) if behind == "regulus"
        else RealRocketMQ("5.3.3", home / "broker", **{**SETTINGS, **(access or {}), **_AT_BROKER}))
    if behind == "regulus":
        (home / "broker").mkdir()
    stack.callback(broker.kill)
    broker.start()
    prepare(broker.broker_address, broker.name_server_address)
    (home / "proxy").mkdir()
    if front == "regulus":
        return _start_alone(stack, home, broker, name, access or {})
    return _start_real(stack, home, broker, access or {})


def start_guarded(kind: str, name: str, stack: ExitStack, home: Path, topics: Mapping[str, str],
                  groups: Sequence[str]) -> tuple[Front, AdminTool]:
    """A front that asks who somebody is, by `users` or `accounts`, and an mqadmin that signs as their operator. Besides
    there is billing, who may what `topics` and `groups` say."""
    access = USERS if kind == "users" else with_accounts(home, topics, groups)
    tools: list[AdminTool] = []

    def prepare(broker: str, name_server: str) -> None:
        tools.append(stack.enter_context(AdminTool("5.3.3", signs_as(OPERATORS[kind], home / "mqadmin"), name_server)))
        for command in billing_commands(broker, topics, groups) if kind == "users" else ():
            said = tools[0].run(*command.split())
            assert "success" in said, said

    return start_front(name, stack, home, access, prepare), tools[0]


def _start_alone(stack: ExitStack, home: Path, broker: RegulusServer | RealRocketMQ, name: str,
                 access: Mapping[str, str]) -> Front:
    (port,) = free_ports(1)
    authority = Authority(home / "certificates")
    shown = authority.issue("server")
    conf = write_properties(home / "proxy" / "proxy.conf", {
        "namesrvAddr": broker.name_server_address, "grpcServerPort": str(port), "bindAddress": "127.0.0.1",
        "tls.server.certPath": str(shown.certificate), "tls.server.keyPath": str(shown.key),
        "authenticationEnabled": access["authenticationEnabled"],
        "authorizationEnabled": access["authorizationEnabled"],
        "accessKey": "root", "secretKey": "secret-of-root"})
    process = start_our(stack, home / "proxy", ["proxy", "--config", str(conf)])
    await_port(f"127.0.0.1:{port}", process.check_alive)
    return Front(name, f"127.0.0.1:{port}", broker.name_server_address, broker.broker_address, authority)


def _start_real(stack: ExitStack, home: Path, broker: RegulusServer | RealRocketMQ,
                access: Mapping[str, str]) -> Front:
    authority = Authority(home / "certificates")
    shown = authority.issue("server")
    of_proxy = {"tlsTestModeEnable": "false", "tlsCertPath": str(shown.certificate), "tlsKeyPath": str(shown.key)}
    if access:
        of_proxy |= {**access, **_OF_BROKERS}
    proxy = RealProxy(home / "proxy", broker.name_server_address, **of_proxy)
    stack.callback(proxy.kill)
    proxy.start()
    return Front("java-5.3.3", proxy.endpoint, broker.name_server_address, broker.broker_address, authority)


def _start_ours(stack: ExitStack, home: Path, access: Mapping[str, str], prepare: Prepare) -> Front:
    (port,) = free_ports(1)
    authority = Authority(home / "certificates")
    shown = authority.issue("server")
    options: dict[str, Any] = {"grpc_port": port, "tls.server.certPath": str(shown.certificate),
                               "tls.server.keyPath": str(shown.key), **SETTINGS, **access}
    ours = RegulusServer(home, **options)
    stack.callback(ours.kill)
    ours.start()
    prepare(ours.broker_address, ours.name_server_address)
    return Front("regulus", f"127.0.0.1:{port}", ours.name_server_address, ours.broker_address, authority)
