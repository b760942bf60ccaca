"""The load of the scrapes of RocketMQ (metrics/README.md), on a broker of ours with a virtual clock."""

from itertools import cycle

from tests.unit.broker.conftest import make_rig, peer

from regulus.broker.metrics.broker_metrics import BrokerMetrics
from regulus.broker.metrics.server_facts import ServerFacts
from regulus.model.message import Message
from regulus.model.receipt_handle import ReceiptHandle, encode
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.record import message_record
from regulus.wire.codes import LanguageCode, RequestCode
from regulus.wire.headers import AckMessageRequest, EndTransactionRequest, PopMessageRequest
from regulus.wire.metrics_text import MetricsPage

TOPICS = ("normal", "delay", "timer", "txn", "batch", "fifo", "lag", "gone", "tagged", "retry", "pop", "idle")
GROUPS = ("g-push", "g-bcast", "g-fifo", "g-gone", "g-retry", "g-lag", "g-tag", "g-idle", "g-pop", "g-other")
OF_PUSH = ("normal", "delay", "timer", "txn", "batch", "idle")
QUEUES = 4
JAVA_5_5_1 = 515
INNER_PRODUCER = "CLIENT_INNER_PRODUCER"


class Load:
    """Afterwards `rig` is the broker, and `text` its page."""

    def __init__(self, *, has_exporter_names: bool = False) -> None:
        self.rig = make_rig(broker_cluster_name="cluster-a", broker_name="broker-a")
        self._number = 0
        self._queues = cycle(range(QUEUES))
        self._metrics = BrokerMetrics(self.rig.broker, {}, has_exporter_names=has_exporter_names)

    def run(self) -> None:
        rig, now_ms = self.rig, self.rig.now_ms
        for topic in TOPICS:
            rig.broker.topics.put(TopicConfig(topic_name=topic), now_ms)
        for group in GROUPS:
            rig.broker.subscription_groups.put(SubscriptionGroupConfig(
                group_name=group, retry_max_times=1 if group == "g-retry" else 16), now_ms)
        self._connect()
        self._send_all()
        self._end_transactions()
        rig.run(6_000)      # what waits is due
        self._consume()
        self._pop()

    def page(self) -> MetricsPage:
        page = MetricsPage(50_000)
        for _ in self._metrics.fill(page, ServerFacts(), self.rig.tell_time()):
            pass
        return page

    def text(self, *, is_openmetrics: bool = False) -> str:
        return b"".join(self.page().parts(is_openmetrics=is_openmetrics)).decode()

    def disconnect(self) -> None:
        for channel in range(1, 9):
            self.rig.broker.channel_closed(channel, self.rig.now_ms)

    # --- clients -----------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Two producers and six consumers; each Java client is a producer of CLIENT_INNER_PRODUCER as well."""
        for channel, producer in ((1, "p-normal"), (2, "p-txn")):
            self._beat(None, channel, producer)
        for channel, (group, *topics) in enumerate((("g-push", *OF_PUSH), ("g-bcast", "normal"), ("g-fifo", "fifo"),
                                                    ("g-retry", "retry"), ("g-lag", "lag"), ("g-tag", "tagged")), 3):
            model = "BROADCASTING" if group == "g-bcast" else "CLUSTERING"
            self._beat(group, channel, None, *topics, expression="B" if group == "g-tag" else "*", message_model=model)

    def _beat(self, group: str | None, channel: int, producer: str | None, *topics: str, **fields: object) -> None:
        self.rig.heartbeat(group, *topics, client_id=f"c{channel}", channel=channel, producer_group=INNER_PRODUCER,
                           **fields)
        if producer is not None:
            self.rig.heartbeat(None, client_id=f"c{channel}", channel=channel, producer_group=producer)
        clients = self.rig.broker.clients
        for client in [*[each for group in clients.producer_groups().values() for each in group],
                       *[each for group in clients.consumer_groups() for each in group.clients.values()]]:
            client.version, client.language = JAVA_5_5_1, int(LanguageCode.JAVA)

    # --- sends -------------------------------------------------------------------------------------------------------

    def _send(self, topic: str, times: int, size: int = 100, **properties: str) -> None:
        for _ in range(times):
            self._number += 1
            answer = self.rig.send(topic, b"x" * size, queue_id=next(self._queues),
                                   properties={"UNIQ_KEY": f"K{self._number:031}", **properties})
            assert answer.code == 0, answer.remark

    def _send_all(self) -> None:
        self._send("normal", 107)
        self._send("normal", 1, 8000)
        self._send("delay", 10, DELAY="2")
        self._send("timer", 7, TIMER_DELAY_SEC="5")
        self._send("timer", 3, TIMER_DELAY_SEC="3000")
        self._send("txn", 12, TRAN_MSG="true", PGROUP="p-txn")
        self.rig.send_batch([Message("batch", b"x" * 100) for _ in range(20)], "batch")
        self._send("fifo", 15)
        self._send("fifo", 5, __SHARDINGKEY="s")
        for topic, times in (("lag", 40), ("gone", 20), ("retry", 12), ("pop", 30)):
            self._send(topic, times)
        self._send("tagged", 30, TAGS="A")
        self._send("tagged", 20, TAGS="B")

    def _end_transactions(self) -> None:
        for number, half in enumerate(self.rig.stored("RMQ_SYS_TRANS_HALF_TOPIC")[:10]):
            header = EndTransactionRequest(producer_group="p-txn", tran_state_table_offset=half.queue_offset,
                                           commit_log_offset=half.physical_offset,
                                           commit_or_rollback=8 if number < 6 else 12,
                                           msg_id=half.message_id)
            assert self.rig.ask(RequestCode.END_TRANSACTION, header.ext()).code == 0

    # --- consumers that pull -----------------------------------------------------------------------------------------

    def _read(self, group: str, topic: str, *, left: int = 0, commits: bool = True, count: int = 32,
              **fields: object) -> int:
        """Pull all of a topic, commit all but the last `left`; the messages that came."""
        taken = 0
        ends = []
        for queue_id in range(QUEUES):
            offset = 0
            while True:
                answer = self.rig.pull(topic, queue_id, offset, group=group, sys_flag=0, max_msg_nums=count, **fields)
                if answer.code != 0:
                    break
                taken += len(message_record.decode_all(answer.body))
                offset = int(answer.ext["nextBeginOffset"])
            ends.append(offset)
        for queue_id, end in enumerate(ends if commits else ()):
            behind = min(end, -(-left // (QUEUES - queue_id)))
            left -= behind
            self.rig.commit(end - behind, group=group, topic=topic, queue_id=queue_id)
        return taken

    def _consume(self) -> None:
        rig = self.rig
        for topic in OF_PUSH:
            self._read("g-push", topic)
        self._read("g-bcast", "normal", commits=False)
        self._read("g-fifo", "fifo")
        self._beat("g-gone", 9, None, "gone")
        assert self._read("g-gone", "gone") == 20
        rig.broker.channel_closed(9, rig.now_ms)
        self._send("gone", 15)
        assert self._read("g-lag", "lag", left=24) == 40
        self._stand_still_at_tags()
        assert self._read("g-retry", "retry") == 12
        failed = rig.stored("retry")[:3]
        for message in failed:
            answer = rig.send_back(message.physical_offset, group="g-retry", origin_topic="retry", delay_level=3)
            assert answer.code == 0
        rig.run(12_000)
        again = rig.stored("%RETRY%g-retry")
        assert len(again) == 3
        self.rig.pull("%RETRY%g-retry", 0, 0, group="g-retry", sys_flag=0)
        rig.commit(3, group="g-retry", topic="%RETRY%g-retry")
        for message in again:
            assert rig.send_back(message.physical_offset, group="g-retry", origin_topic="retry").code == 0

    def _stand_still_at_tags(self) -> None:
        """g-tag has pulled 12 of 20 messages, and committed its beginning."""
        left = 12
        for queue_id in range(QUEUES):
            self.rig.commit(0, group="g-tag", topic="tagged", queue_id=queue_id)
            count = min(left, 3)
            answer = self.rig.pull("tagged", queue_id, 0, group="g-tag", sys_flag=0, max_msg_nums=count)
            left -= len(message_record.decode_all(answer.body))
        assert left == 0

    # --- the consumer that pops --------------------------------------------------------------------------------------

    def _pop(self) -> None:
        popped = self._taken(10_000)
        assert len(popped) == 30
        self._ack(popped[:20])
        self.rig.run(13_000)
        again = self._taken(60_000)
        assert len(again) == 10
        self._ack(again[:6])
        self.rig.run(2_000)

    def _taken(self, invisible_ms: int) -> list[ReceiptHandle]:
        header = PopMessageRequest(consumer_group="g-pop", topic="pop", queue_id=-1, max_msg_nums=32,
                                   invisible_time=invisible_ms, poll_time=0, born_time=self.rig.now_ms, init_mode=0)
        answer = self.rig.ask(RequestCode.POP_MESSAGE, header.ext(), peer=peer(20))
        assert answer.code == 0, answer.remark
        starts = {(flag, queue): int(start) for flag, queue, start in
                  (each.split(" ") for each in answer.ext["startOffsetInfo"].split(";"))}
        return [ReceiptHandle(starts[flag, queue], int(answer.ext["popTime"]), invisible_ms,
                              int(answer.ext["reviveQid"]), flag, "broker-a", int(queue), int(offset))
                for flag, queue, offsets in (each.split(" ") for each in answer.ext["msgOffsetInfo"].split(";"))
                for offset in offsets.split(",")]

    def _ack(self, handles: list[ReceiptHandle]) -> None:
        for handle in handles:
            topic = "pop" if handle.retry == "0" else "%RETRY%g-pop_pop"
            answer = self.rig.ask(RequestCode.ACK_MESSAGE, AckMessageRequest(
                consumer_group="g-pop", topic=topic, queue_id=handle.queue_id, extra_info=encode(handle),
                offset=handle.queue_offset).ext())
            assert answer.code == 0, answer.remark
