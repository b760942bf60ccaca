"""RocketMQ's own mqadmin (5.3.3) prints about our broker what it prints about the real one.

Both get the same topics, messages and groups; the texts are compared after every value that belongs to one run
(addresses, times, ids, rates) was replaced.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from admin import AdminTool
from clients import JAVA, Event
from conftest import NewRun, Server, make_server

TOPIC = "AdminTopic"
GROUP = "AdminGroup"
COUNT = 8
_CLIENT = JAVA["5.3.3"]


class Subject:
    """One server with its mqadmin, and what the commands need to name messages on it."""

    def __init__(self, server: Server, home: Path) -> None:
        self.server = server
        self.home = home
        self.tool = AdminTool("5.3.3", home / "mqadmin", server.name_server_address)
        self.sent: list[Event] = []

    def prepare(self) -> None:
        """Messages with tags and keys; a group that took them all; more messages that it did not take.

        A message of the group's retry topic is there before the group's consumer. Else the topic is made by the
        consumer's first heartbeat, and whether the consumer's first look at the routes comes before or after that is
        chance; and 5.3.3 stores no offset of an empty queue, which 4.9.8 and ours do.
        """
        address = self.server.name_server_address
        retry_topic = f"%RETRY%{GROUP}"
        self.tool.run("updateTopic", "-b", self.server.broker_address, "-t", retry_topic, "-r", "1", "-w", "1")
        self.tool.run("sendMessage", "-t", retry_topic, "-p", "again")
        for prefix in ("taken", "waiting"):
            events = _CLIENT.produce(self.home, namesrv=address, topic=TOPIC, group="AdminProducer", prefix=prefix,
                                     count=COUNT, tags="TagA,TagB", keys=f"key-{prefix}")
            self.sent += [event for event in events if event["event"] == "sent"]
            if prefix == "taken":
                with _CLIENT.consume(self.home, namesrv=address, topic=TOPIC, group=GROUP) as run:
                    run.wait_for_bodies(["again", *(f"taken-{index}" for index in range(COUNT))])
                    run.finish()

    def run(self, command: str) -> str:
        """`command` with its placeholders filled in."""
        first = self.sent[0]
        filled = command.format(broker=self.server.broker_address, unique_key=first["msgId"],
                                offset_id=first["offsetMsgId"], queue=first["queueId"], home=self.home)
        return self.tool.run(*filled.split())


@pytest.fixture(scope="module")
def subjects(new_run: NewRun) -> Iterator[tuple[Subject, Subject]]:
    """(ours, the real one), prepared alike."""
    with ExitStack() as stack:
        pair = [Subject(make_server(name, new_run(name)), new_run("admin"))
                for name in ("regulus", "java-5.3.3")]

        def prepare(subject: Subject) -> None:
            stack.callback(subject.server.kill)
            subject.server.start()
            stack.enter_context(subject.tool)
            subject.prepare()

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(prepare, pair))
        yield pair[0], pair[1]


_RUN_VALUES = (
    (re.compile(r"/\S*(msgbodys|export)/\S+"), "<file>"),
    (re.compile(r"\b[0-9A-F]{32,56}\b"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?"), "<time>"),
    (re.compile(r"(\d{1,3}\.){3}\d{1,3}(:\d+)?"), "<address>"),
    (re.compile(r"\bV\d+_\d+_\d+\w*"), "<version>"),
    (re.compile(r"body=\[[-\d, ]*\]"), "<body>"),
    (re.compile(r"\b(taken|waiting)-\d+"), "<text>"),
    (re.compile(r"\bTag[AB]\b"), "<tag>"),
    (re.compile(r"-?\d+(\.\d+)?(E-?\d+)?"), "#"),
    (re.compile(r"[ \t]+"), " "),
)


# The real 5.3.3 counts a topic's own name among the groups that consume it, and so prints a track of that "group".
_TOPIC_AS_GROUP = re.compile(rf"MessageTrack \[consumerGroup={TOPIC},.*?\)\]", re.DOTALL)


def shape(text: str) -> list[str]:
    """The lines without what differs from run to run."""
    text = _TOPIC_AS_GROUP.sub("", text)
    for pattern, name in _RUN_VALUES:
        text = pattern.sub(name, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


# Commands in the order in which they run; those that change something come with those that show the change.
COMMANDS = [
    "clusterList",
    "clusterList -m",
    f"topicRoute -t {TOPIC}",
    "topicRoute -t NoSuchTopic",
    f"topicStatus -t {TOPIC}",
    f"topicClusterList -t {TOPIC}",
    "updateTopic -b {broker} -t MadeByAdmin -r 3 -w 5 -p 6",
    "topicRoute -t MadeByAdmin",
    "topicStatus -t MadeByAdmin",
    "updateTopicPerm -b {broker} -t MadeByAdmin -p 4",
    "updateTopic -c DefaultCluster -t MadeByCluster",
    "topicRoute -t MadeByCluster",
    f"consumerProgress -g {GROUP}",
    "consumerProgress -g NoSuchGroup",
    f"queryMsgByKey -t {TOPIC} -k key-taken-3",
    f"queryMsgByKey -t {TOPIC} -k no-such-key",
    f"queryMsgById -t {TOPIC} -i {{offset_id}}",
    f"queryMsgByUniqueKey -t {TOPIC} -i {{unique_key}}",
    f"queryMsgByOffset -t {TOPIC} -b broker-a -i {{queue}} -o 0",
    f"printMsg -t {TOPIC} -d true",
    f"printMsgByQueue -t {TOPIC} -a broker-a -i {{queue}} -p true",
    "updateSubGroup -b {broker} -g GroupByAdmin -r 5",
    "getConsumerConfig -g GroupByAdmin",
    "deleteSubGroup -b {broker} -g GroupByAdmin",
    "producer -b {broker}",
    f"consumerConnection -g {GROUP}",
    "sendMessage -t MadeByCluster -p hello -c TagA -k key-admin",
    "queryCq -t AdminTopic -q {queue} -i 0 -b {broker}",
    f"cloneGroupOffset -s {GROUP} -d ClonedGroup -t {TOPIC} -o true",
    f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s -1",
    f"consumerProgress -g {GROUP}",
    "consumerProgress",
    f"skipAccumulatedMessage -g {GROUP} -t {TOPIC} -f true",
    f"getConsumerStatus -g {GROUP} -t {TOPIC}",
    "consumerConnection -g NoSuchGroup",
    f"producerConnection -g NoSuchGroup -t {TOPIC}",
    "topicStatus -t NoSuchTopic",
    f"queryMsgTraceById -i {{unique_key}} -t {TOPIC}",
    f"consumeMessage -t {TOPIC} -b broker-a -i {{queue}} -o 0 -c 1",
    "sendMsgStatus -b broker-a -s 10 -c 2",
    "checkMsgSendRT -t MadeByCluster -a 2 -s 10",
    "exportMetadata -c DefaultCluster -f {home}/export",
    "exportConfigs -c DefaultCluster -f {home}/export",
    "exportMetrics -c DefaultCluster -f {home}/export",
    f"updateOrderConf -t {TOPIC} -m put -v broker-a:4",
    f"updateOrderConf -t {TOPIC} -m get",
    "deleteExpiredCommitLog -b {broker}",
    "updateKvConfig -s names -k key -v value",
    "deleteKvConfig -s names -k key",
    "wipeWritePerm -b broker-a",
    "addWritePerm -b broker-a",
    "brokerConsumeStats -b {broker}",
    "cleanExpiredCQ -b {broker}",
    "cleanUnusedTopic -b {broker}",
    "deleteTopic -c DefaultCluster -t MadeByAdmin",
    "topicRoute -t MadeByAdmin",
]


@pytest.fixture(scope="module")
def printed(subjects: tuple[Subject, Subject]) -> dict[int, tuple[str, str]]:
    """What each command printed about ours and about the real one."""
    with ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(lambda subject: [subject.run(command) for command in COMMANDS], subjects)
    for subject, texts in zip(subjects, (ours, theirs), strict=True):
        story = "\n".join(f"$ mqadmin {command}\n{text}" for command, text in zip(COMMANDS, texts, strict=True))
        (subject.home / "printed.txt").write_text(story)
    return dict(enumerate(zip(ours, theirs, strict=True)))


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=lambda number: COMMANDS[number].split(" -n")[0])
def test_mqadmin_prints_the_same_of_both(printed: dict[int, tuple[str, str]], number: int) -> None:
    ours, theirs = (shape(text) for text in printed[number])
    if COMMANDS[number].startswith("brokerConsumeStats"):
        # It lists the groups' topics in the order of a hash table.
        ours, theirs = sorted(ours), sorted(theirs)
    assert ours == theirs
