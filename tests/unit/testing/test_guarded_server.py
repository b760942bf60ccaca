"""Our own client and the command line at a broker with accounts."""

import asyncio

import pytest
from click.testing import CliRunner

from regulus import ConsumeFromWhere, ConsumeStatus, Message, Producer, ProducerConfig, PushConsumer, PushConsumerConfig
from regulus.cli.topic import topic
from regulus.client.administration.admin import Admin
from regulus.client.config import ClientConfig
from regulus.errors import BrokerRefused
from regulus.model.topics import TopicConfig

ACCOUNTS = """
accounts:
- {accessKey: operator, secretKey: secret-of-the-operator, admin: true}
- accessKey: billing
  secretKey: secret-of-billing
  topicPerms: [orders=PUB|SUB, invoices=SUB]
  groupPerms: [billing=SUB]
"""
BILLING = {"access_key": "billing", "secret_key": "secret-of-billing"}
OPERATOR = {"access_key": "operator", "secret_key": "secret-of-the-operator"}


@pytest.fixture
def server(make_guarded_server):
    return make_guarded_server(ACCOUNTS)


async def test_our_producer_and_consumer_sign(server):
    came = []

    def listen(messages, context):
        came.extend(message.body for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    async with Producer(server.name_server_address, "PG", ProducerConfig(**BILLING)) as producer:
        await producer.send(Message("orders", b"one tea"))
        await producer.send_batch([Message("orders", b"two teas"), Message("orders", b"three")])
        with pytest.raises(BrokerRefused, match="No default permission for topic:invoices"):
            await producer.send(Message("invoices", b"free tea"))   # and not SendFailed after three attempts
        consumer = PushConsumer(server.name_server_address, "billing", listen, PushConsumerConfig(
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **BILLING))
        consumer.subscribe("orders")
        async with consumer:
            async with asyncio.timeout(60):
                while len(came) < 3:
                    await asyncio.sleep(0.01)
    assert sorted(came) == [b"one tea", b"three", b"two teas"]


async def test_our_admin_needs_an_admins_account(server):
    async with Admin(server.name_server_address, ClientConfig(**OPERATOR)) as admin:
        await admin.create_topic(TopicConfig(topic_name="made"))
    for config in (ClientConfig(**BILLING), ClientConfig()):
        async with Admin(server.name_server_address, config) as admin:
            with pytest.raises(BrokerRefused):
                await admin.delete_topic("made")


def test_the_command_line_takes_the_secret_from_the_environment_or_a_file(server, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret-of-the-operator\n")
    signs = {"NAMESRV_ADDR": server.name_server_address, "REGULUS_ACCESS_KEY": "operator"}
    for number, also in enumerate(({"REGULUS_SECRET_KEY": "secret-of-the-operator"},
                                   {"REGULUS_SECRET_KEY_FILE": str(secret)})):
        result = CliRunner().invoke(topic, ["create", f"by-hand-{number}"], env={**signs, **also})
        assert result.exit_code == 0, (result.output, result.exception)
    result = CliRunner().invoke(topic, ["create", "unsigned"], env={"NAMESRV_ADDR": server.name_server_address})
    assert isinstance(result.exception, BrokerRefused)
    twice = CliRunner().invoke(topic, ["create", "twice", "--secret-key-file", str(secret)],
                               env={**signs, "REGULUS_SECRET_KEY": "x"})
    assert "give the secret twice" in twice.output
