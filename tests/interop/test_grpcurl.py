"""`grpcurl` at `regulus up`, which knows nothing of RocketMQ but what the server tells it."""

import json
import subprocess
from collections.abc import Iterator

import pytest
from conftest import NewRun
from ports import free_ports
from regulus_server import RegulusServer
from toolchain import grpcurl

pytestmark = pytest.mark.interop
WITHIN_S = 60
MESSAGING = "apache.rocketmq.v2.MessagingService"


@pytest.fixture(scope="module")
def endpoint(new_run: NewRun) -> Iterator[str]:
    (port,) = free_ports(1)
    ours = RegulusServer(new_run("grpcurl"), grpc_port=port)
    try:
        ours.start()
        yield f"127.0.0.1:{port}"
    finally:
        ours.kill()


def asked(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(grpcurl()), *words], capture_output=True, text=True, timeout=WITHIN_S, check=False)


def said(*words: str) -> str:
    result = asked(*words)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("security", ["-plaintext", "-insecure"])
def test_health_is_asked_for_over_both(endpoint: str, security: str) -> None:
    """`-insecure` is TLS that believes any certificate."""
    assert json.loads(said(security, endpoint, "grpc.health.v1.Health/Check")) == {"status": "SERVING"}
    refused = asked(security, "-d", '{"service": "nothing"}', endpoint, "grpc.health.v1.Health/Check")
    assert "Code: NotFound" in refused.stderr


def test_the_service_is_listed_and_described(endpoint: str) -> None:
    assert MESSAGING in said("-plaintext", endpoint, "list").splitlines()
    assert f"{MESSAGING}.SendMessage" in said("-plaintext", endpoint, "list", MESSAGING).splitlines()
    described = said("-plaintext", endpoint, "describe", f"{MESSAGING}.SendMessage")
    assert "rpc SendMessage ( .apache.rocketmq.v2.SendMessageRequest )" in described


def test_a_call_is_made_by_what_the_server_told(endpoint: str) -> None:
    request = {"topic": {"name": "nothing"}}
    answer = json.loads(said("-plaintext", "-H", "x-mq-client-id: c", "-d", json.dumps(request), endpoint,
                             f"{MESSAGING}/QueryRoute"))
    assert answer["status"]["code"] == "TOPIC_NOT_FOUND"
