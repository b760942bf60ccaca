"""Whatever brokers do, a send ends in time, with the result of a stored message or with a typed error."""

import asyncio
import time

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.client.scripted_servers import refused, scripted_cluster, stored
from tests.virtual_time import in_virtual_time

from regulus.client.config import ProducerConfig
from regulus.client.send_result import SendResult
from regulus.client.sending.producer import Producer
from regulus.errors import BrokerRefused, ClientError, SendFailed, Throttled, TooManyRequests
from regulus.model.message import Message
from regulus.wire.codes import ResponseCode

BUDGET_MS = 150
DEADLINE_STEP_S = 0.02
"""An attempt may end so much later than asked for, as requests whose time is up together share a timer."""
DEEDS = ("store", "busy", "error", "illegal", "hang up", "silence", "store, then hang up")


class FaultyBroker:
    """Does one deed after the other, then stores. `kept` are the unique keys it stored."""

    def __init__(self, deeds):
        self.deeds = list(deeds)
        self.kept = set()
        self.server = None
        self.sends = 0

    def __call__(self, command):
        self.sends += 1
        deed = self.deeds.pop(0) if self.deeds else "store"
        key = command.ext["i"].split("UNIQ_KEY\x01")[1].split("\x02")[0]
        if deed.startswith("store"):
            self.kept.add(key)
        if deed.endswith("hang up"):
            for connection in self.server.connections:
                connection.abort()
            return None
        codes = {"busy": ResponseCode.SYSTEM_BUSY, "error": ResponseCode.SYSTEM_ERROR,
                 "illegal": ResponseCode.MESSAGE_ILLEGAL}
        if deed == "silence":
            return None
        return stored(command) if deed == "store" else refused(command, codes[deed])


@in_virtual_time
async def outcomes_of(deeds_of_brokers, count, **options):
    async with scripted_cluster(queue_count=2) as cluster:
        brokers = [FaultyBroker(deeds) for deeds in deeds_of_brokers]
        for number, broker in enumerate(brokers):
            broker.server = await cluster.add_broker(f"broker-{number}", broker)
        messages = [Message("T", b"x") for _ in range(count)]
        config = ProducerConfig(send_msg_timeout=BUDGET_MS, **options)
        async with Producer(cluster.name_server.address, "PG", config) as producer:
            begun = time.monotonic()
            results = await asyncio.gather(*(producer.send(message) for message in messages), return_exceptions=True)
            elapsed = time.monotonic() - begun
    return messages, results, set().union(*(broker.kept for broker in brokers)), elapsed, brokers


@given(deeds=st.lists(st.lists(st.sampled_from(DEEDS), max_size=6), min_size=1, max_size=3), count=st.integers(1, 8),
       back_off=st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_send_ends_with_a_stored_message_or_a_typed_error(deeds, count, back_off):
    messages, results, kept, elapsed, brokers = outcomes_of(deeds, count, throttle_back_off=back_off)
    assert elapsed <= BUDGET_MS / 1000 + 3 * DEADLINE_STEP_S
    assert sum(broker.sends for broker in brokers) <= 3 * count
    for message, result in zip(messages, results, strict=True):
        if isinstance(result, SendResult):
            assert result.message_id == message.message_id
            assert message.message_id in kept
        else:
            assert isinstance(result, (BrokerRefused, SendFailed, Throttled, TooManyRequests)), result
            assert isinstance(result, ClientError)
            assert result.code
