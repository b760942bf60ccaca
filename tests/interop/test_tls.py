"""Java clients speak TLS with our servers, each end proving who it is, and our client with RocketMQ's servers."""

import asyncio
from pathlib import Path

import pytest
from clients import JAVA, ClientFailed
from conftest import NewRun, make_server
from tests.certificates import Authority, Pair
from toolchain import JAVA_VERSIONS

from regulus.client.config import ProducerConfig
from regulus.client.send_result import SendStatus
from regulus.client.sending.producer import Producer
from regulus.errors import ClientError
from regulus.model.message import Message
from regulus.transport.tls import TlsConfig

COUNT = 5


class Secured:
    """A server of ours with a certificate, which wants one of clients that speak TLS; plain text it takes, too."""

    def __init__(self, directory: Path, new_run: NewRun) -> None:
        self.authority = Authority(directory)
        self.client = self.authority.issue("client")
        shown = self.authority.issue("server")
        self.server = make_server("regulus", new_run("tls"), **{
            "tls.server.certPath": str(shown.certificate), "tls.server.keyPath": str(shown.key),
            "tls.server.need.client.auth": "require",
            "tls.server.trustCertPath": str(self.authority.pair.certificate)})


@pytest.fixture(scope="module")
def secured(new_run: NewRun, tmp_path_factory: pytest.TempPathFactory):
    found = Secured(tmp_path_factory.mktemp("certificates"), new_run)
    try:
        found.server.start()
        yield found
    finally:
        found.server.kill()


def speak_tls(monkeypatch: pytest.MonkeyPatch, trusted: Path, own: Pair | None) -> None:
    """What Java programs of this test are started with."""
    settings = {"tls.enable": "true", "tls.test.mode.enable": "false", "tls.client.authServer": "true",
                "tls.client.trustCertPath": str(trusted)}
    if own is not None:
        settings |= {"tls.client.certPath": str(own.certificate), "tls.client.keyPath": str(own.key)}
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join([f"-D{key}={value}" for key, value in settings.items()]))


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_a_java_client_sends_and_consumes_over_tls_with_certificates_at_both_ends(version, secured, new_run,
                                                                                 monkeypatch):
    options = {"namesrv": secured.server.name_server_address, "topic": f"tls-{version.replace('.', '-')}"}
    speak_tls(monkeypatch, secured.authority.pair.certificate, secured.client)
    client, home = JAVA[version], new_run("tls-client")
    sent = client.produce(home, **options, group="tls-producers", prefix="m", count=COUNT)
    assert [event["status"] for event in sent if event["event"] == "sent"] == ["SEND_OK"] * COUNT
    with client.consume(home, **options, group=f"G-{options['topic']}") as running:
        running.wait_for_bodies([f"m-{index}" for index in range(COUNT)])
        running.finish()


def test_a_java_client_without_a_certificate_is_refused_and_one_in_plain_text_is_not(secured, new_run, monkeypatch):
    options = {"namesrv": secured.server.name_server_address, "topic": "tls-refused", "group": "tls-producers",
               "prefix": "m", "count": 1}
    client, home = JAVA["5.3.3"], new_run("tls-refused")
    client.produce(home, **options)
    speak_tls(monkeypatch, secured.authority.pair.certificate, None)
    with pytest.raises(ClientFailed):
        client.produce(home, **options)


def test_a_java_client_does_not_believe_another_authority(secured, new_run, monkeypatch, tmp_path):
    speak_tls(monkeypatch, Authority(tmp_path).pair.certificate, secured.client)
    with pytest.raises(ClientFailed):
        JAVA["5.3.3"].produce(new_run("tls-other"), namesrv=secured.server.name_server_address, topic="tls-other",
                              group="tls-producers", prefix="m", count=1)


def test_our_client_speaks_tls_with_rocketmq(new_run):
    """By default its servers make up a certificate, which nobody can vouch for."""
    real = make_server("java-5.3.3", new_run("tls-java"))

    async def send(tls: TlsConfig) -> SendStatus:
        config = ProducerConfig(tls=tls, send_msg_timeout=10_000)
        async with Producer(real.name_server_address, "tls-producers", config) as producer:
            return (await producer.send(Message("tls-java", b"hello"))).send_status

    try:
        real.start()
        assert asyncio.run(send(TlsConfig(tls_enable=True, tls_client_auth_server=False))) is SendStatus.SEND_OK
        with pytest.raises(ClientError, match="certificate is not believed"):
            asyncio.run(send(TlsConfig(tls_enable=True)))
    finally:
        real.kill()
