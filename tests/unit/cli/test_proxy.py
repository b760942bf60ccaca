"""`regulus proxy`, and the front that `regulus up` opens."""

import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from regulus.wire.grpc.health_messages import HealthCheckResponse

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `regulus` with these words, to be ended by the test or after it."""
    processes: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen([sys.executable, "-m", "regulus", *words], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, "NAMESRV_ADDR": ""})
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait(60)


def lines(process: "subprocess.Popen[str]", count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(count)]


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=60)
    return process.returncode, output[0] + output[1]


def test_up_says_where_the_clients_of_rocketmq_5_come_in(start: Start, tmp_path: Path) -> None:
    process = start("up", "--port", "0", "--namesrv-port", "0", "--grpc-port", "0", "--store", str(tmp_path))
    match = re.fullmatch(r"RocketMQ 5 clients \(gRPC\): 127\.0\.0\.1:(\d+)", lines(process, 3)[2])
    assert match is not None
    assert int(match[1]) > 1024
    status, output = ended(process)
    assert status == 0, output
    assert "Traceback" not in output


def up_with_front(start: Start, tmp_path: Path, *words: str) -> int:
    """The port of the front, which is open when its line is there."""
    process = start("up", "--port", "0", "--namesrv-port", "0", "--grpc-port", "0", "--store", str(tmp_path / "store"),
                    *words)
    return int(lines(process, 3)[2].rpartition(":")[2])


def shown_certificate(port: int) -> str:
    """To a client that believes any, as Java's does."""
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=60)


def health(channel: grpc.Channel) -> int:
    with channel:
        answer = channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=60)
        return int(HealthCheckResponse.FromString(answer).status)


def test_up_on_the_loopback_takes_tls_and_plain_text_of_clients_of_rocketmq_5(start: Start, tmp_path: Path) -> None:
    port = up_with_front(start, tmp_path)
    believed = grpc.ssl_channel_credentials(shown_certificate(port).encode())
    for address in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert health(grpc.secure_channel(address, believed)) == 1
    assert health(grpc.insecure_channel(f"127.0.0.1:{port}")) == 1


@pytest.mark.parametrize(("words", "setting"), [
    (["--listen", "0.0.0.0"], ""), ([], "tls.test.mode.enable=false"), ([], "tls.server.mode=disabled")])
def test_up_makes_no_certificate_up_for_others_nor_against_its_settings(
        start: Start, tmp_path: Path, words: list[str], setting: str) -> None:
    (tmp_path / "up.conf").write_text(f"{setting}\n")
    port = up_with_front(start, tmp_path, "-c", str(tmp_path / "up.conf"), *words)
    with pytest.raises(OSError):
        shown_certificate(port)
    assert health(grpc.insecure_channel(f"127.0.0.1:{port}")) == 1


def test_up_without_a_front_says_nothing_of_it(start: Start, tmp_path: Path) -> None:
    process = start("up", "--port", "0", "--namesrv-port", "0", "--grpc-port", "-1", "--store", str(tmp_path))
    lines(process, 2)
    status, output = ended(process)
    assert (status, "RocketMQ 5" in output) == (0, False)


def test_a_front_alone_starts_before_its_name_server_does(start: Start) -> None:
    process = start("proxy", "--namesrv", "127.0.0.1:9", "--port", "0", "--listen", "127.0.0.1")
    (ready,) = lines(process, 1)
    assert re.fullmatch(r"regulus proxy is ready: 127\.0\.0\.1:\d+, name servers 127\.0\.0\.1:9", ready)
    status, output = ended(process)
    assert (status, "Traceback" in output) == (0, False), output


@pytest.mark.parametrize(("words", "said"), [
    ((), "give --namesrv host:port, or namesrvAddr in the file, or NAMESRV_ADDR in the environment"),
    (("--namesrv", "nonsense"), "name server"),
    (("--namesrv", "h:1", "--port", "70000"), "70000")])
def test_what_cannot_be_started_says_why(start: Start, words: tuple[str, ...], said: str) -> None:
    process = start("proxy", *words)
    output = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said in output[1]


@pytest.mark.parametrize(("keys", "said"), [
    ("authenticationEnabled=true", "brokers show their users only to a Super user, so set accessKey and secretKey"),
    ("authorizationEnabled=true", "authorizationEnabled=true without authenticationEnabled=true"),
    ("authenticationEnabled=true\naclEnable=true\nrocketmqHome=/tmp", "are both true")])
def test_a_front_alone_that_cannot_know_users_does_not_start_and_let_everybody_in(start: Start, tmp_path: Path,
                                                                                  keys: str, said: str) -> None:
    (tmp_path / "proxy.conf").write_text(f"namesrvAddr=127.0.0.1:9\ngrpcServerPort=0\n{keys}\n")
    process = start("proxy", "-c", str(tmp_path / "proxy.conf"))
    output = process.communicate(timeout=60)[1]
    assert process.returncode == 2
    assert said in output


def test_keys_of_rocketmqs_proxy_are_read(start: Start, tmp_path: Path) -> None:
    (tmp_path / "proxy.conf").write_text("namesrvAddr=127.0.0.1:9\ngrpcServerPort=0\nbindAddress=127.0.0.1\n"
                                         "accessKey=only-one\n")
    process = start("proxy", "-c", str(tmp_path / "proxy.conf"))
    assert "accessKey and secretKey belong together" in process.communicate(timeout=60)[1]
