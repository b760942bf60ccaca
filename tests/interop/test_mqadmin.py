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
    (re.compile(r"\b1[6-9]\d{11}\b"), "<time>"),
    (re.compile(r"(\d{1,3}\.){3}\d{1,3}(:\d+)?"), "<address>"),
    (re.compile(r"[ \t]+"), " "),
    # A producer begins with any queue, so which one has a message is chance; its offset there is not.
    (re.compile(r"queueId=\d"), "queueId=<queue>"),
    (re.compile(r"Queue ID: \d"), "Queue ID: <queue>"),
    (re.compile(r"(?<=<id>) \d (?=\d+$)", re.MULTILINE), " <queue> "),
    (re.compile(r"Consume TPS: [\d.]+"), "Consume TPS: <rate>"),
    (re.compile(r"rt=\d+ms"), "rt=<time>"),
    (re.compile(r"Avg RT: [\d.]+"), "Avg RT: <time>"),
)
"""What belongs to one run. All other numbers, offsets and sizes among them, are compared."""

_OF_COMMANDS = {
    "clusterList": (re.compile(r"\d+\.\d+|\d+-\d+(?=\()"), "<rate>"),
    "checkMsgSendRT": (re.compile(r"true \d+$", re.MULTILINE), "true <time>"),
    # How many topics of the broker's own there are is its own affair.
    "wipeWritePerm": (re.compile(r"OK, \d+"), "OK, <count>"),
    "addWritePerm": (re.compile(r"OK, \d+"), "OK, <count>"),
    # Which of the later messages are in the queue of the first is chance, and where they are in the log.
    "queryCq": (re.compile(r"physicOffset=\d+, physicSize=285, tagsCode=\d+"), "<a message that waits>"),
    # One that was closed a moment ago may still be there.
    "producer": (re.compile(r"^producer group .*", re.MULTILINE), ""),
    "printMsgByQueue": (re.compile(r"MSGID: .*key-waiting-\d.*"), "<a message that waits>"),
}
_IN_ANY_ORDER = {"brokerConsumeStats": "", "printMsg": "KEYS="}
"""Lists in the order of a hash table, or of queues, from which text on each line is compared."""

# The real 5.3.3 counts a topic's own name among the groups that consume it, and so prints a track of that "group".
_TOPIC_AS_GROUP = re.compile(rf"MessageTrack \[consumerGroup={TOPIC},.*?\)\]", re.DOTALL)


def shape(command: str, text: str) -> list[str]:
    """The lines without what differs from run to run."""
    name = command.split()[0]
    text = _TOPIC_AS_GROUP.sub("", text)
    for pattern, value in (*_RUN_VALUES, *([_OF_COMMANDS[name]] if name in _OF_COMMANDS else [])):
        text = pattern.sub(value, text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    by = _IN_ANY_ORDER.get(name)
    return lines if by is None else sorted(lines, key=lambda line: line[line.find(by):] if by in line else line)


# Commands in the order in which they run, each with what it prints when it does what it is here for; those that change
# something come with those that show the change. Without that text two servers that fail alike would pass for well.
COMMANDS = {
    "clusterList": r"DefaultCluster broker-a 0 <address> V5_3_3 .* true$",
    "clusterList -m": r"^DefaultCluster broker-a 0 0 17 9$",
    f"topicRoute -t {TOPIC}": r'"brokerAddrs":\{0:"<address>"',
    "topicRoute -t NoSuchTopic": r"CODE: 17 +DESC: No topic route info in name server for the topic: NoSuchTopic",
    f"topicStatus -t {TOPIC}": r"^broker-a 3 0 4 <time>$",
    f"topicClusterList -t {TOPIC}": "^DefaultCluster$",
    "updateTopic -b {broker} -t MadeByAdmin -r 3 -w 5 -p 6": "readQueueNums=3, writeQueueNums=5, perm=RW-",
    "topicRoute -t MadeByAdmin": '"readQueueNums":3',
    "topicStatus -t MadeByAdmin": "^broker-a 4 0 0$",
    "updateTopicPerm -b {broker} -t MadeByAdmin -p 4": "update topic perm from 6 to 4 in <address> success",
    "updateTopic -c DefaultCluster -t MadeByCluster": "readQueueNums=8, writeQueueNums=8, perm=RW-",
    "topicRoute -t MadeByCluster": '"writeQueueNums":8',
    f"consumerProgress -g {GROUP}": rf"^{TOPIC} broker-a 3 4 2 2 0 <time>",
    "consumerProgress -g NoSuchGroup": "NoSuchGroup",
    f"queryMsgByKey -t {TOPIC} -k key-taken-3": r"^<id> <queue> 0$",
    f"queryMsgByKey -t {TOPIC} -k no-such-key": "CODE: 208 +DESC: query message by key finished, but no message",
    f"queryMsgById -t {TOPIC} -i {{offset_id}}": r"^Keys: \[key-taken-0\]$",
    f"queryMsgByUniqueKey -t {TOPIC} -i {{unique_key}}": r"^Keys: \[key-taken-0\]$",
    f"queryMsgByOffset -t {TOPIC} -b broker-a -i {{queue}} -o 0": r"^Keys: \[key-taken-0\]$",
    f"printMsg -t {TOPIC} -d true": "KEYS=key-waiting-7, .* BODY: waiting-7$",
    f"printMsgByQueue -t {TOPIC} -a broker-a -i {{queue}} -p true": "KEYS=key-taken-4, .* BODY: NOT PRINT BODY$",
    "updateSubGroup -b {broker} -g GroupByAdmin -r 5": "groupName=GroupByAdmin, .*retryMaxTimes=5",
    "getConsumerConfig -g GroupByAdmin": "^retryMaxTimes += +5$",
    "deleteSubGroup -b {broker} -g GroupByAdmin": r"delete subscription group \[GroupByAdmin\] .* success",
    "updateSubGroup -b {broker} -g ClonedGroup": "groupName=ClonedGroup",
    "updateTopic -b {broker} -t %RETRY%ClonedGroup -r 1 -w 1": "topicName=%RETRY%ClonedGroup",
    "producer -b {broker}": "^$",
    f"consumerConnection -g {GROUP}": rf"CODE: 206 +DESC: the consumer group\[{GROUP}\] not online",
    f"queryCq -t {TOPIC} -q {{queue}} -i 0 -b {{broker}}": "^max: 4, min: 0$",
    f"cloneGroupOffset -s {GROUP} -d ClonedGroup -t {TOPIC} -o true": "clone group offset success",
    "consumerProgress -g ClonedGroup": rf"^{TOPIC} broker-a 3 4 2 2 0 ",
    f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s -1": r"^broker-a \d 4$",
    f"consumerProgress -g {GROUP}  ": rf"^{TOPIC} broker-a 3 4 4 0 0 <time>",
    "consumerProgress": rf"^{GROUP} 0 OFFLINE",
    f"skipAccumulatedMessage -g {GROUP} -t {TOPIC} -f true": r"^broker-a \d 4$",
    "consumerConnection -g NoSuchGroup": "CODE: 17 +DESC: No topic route info .*: %RETRY%NoSuchGroup",
    f"producerConnection -g NoSuchGroup -t {TOPIC}": r"CODE: 1 +DESC: the producer group\[NoSuchGroup\] not exist",
    "topicStatus -t NoSuchTopic": "NoSuchTopic",
    f"queryMsgTraceById -i {{unique_key}} -t {TOPIC}": "CODE: 208 +DESC: query message by key finished, but no message",
    f"consumeMessage -t {TOPIC} -b broker-a -i {{queue}} -o 0 -c 1": "BODY: taken-0$",
    "sendMsgStatus -b broker-a -s 10 -c 2": "sendStatus=SEND_OK, .* queueOffset=2,",
    "checkMsgSendRT -t MadeByCluster -a 2 -s 10": "^broker-a 1 true <time>$",
    "exportMetadata -c DefaultCluster -f {home}/export": "export <file> success",
    "exportConfigs -c DefaultCluster -f {home}/export": "export <file> success",
    "exportMetrics -c DefaultCluster -f {home}/export": "export <file> success",
    f"updateOrderConf -t {TOPIC} -m put -v broker-a:4": "update orderConf success",
    f"updateOrderConf -t {TOPIC} -m get": r"orderConf=\[broker-a:4\]",
    "deleteExpiredCommitLog -b {broker}": "^success$",
    "updateKvConfig -s names -k key -v value": "create or update kv config to namespace success",
    "deleteKvConfig -s names -k key": "delete kv config from namespace success",
    "wipeWritePerm -b broker-a": "OK, <count>",
    "addWritePerm -b broker-a": "OK, <count>",
    "brokerConsumeStats -b {broker}": rf"^{TOPIC} {GROUP} broker-a 3 4 4 0 <time>$",
    "cleanExpiredCQ -b {broker}": "^success$",
    "cleanUnusedTopic -b {broker}": "^success$",
    "deleteTopic -c DefaultCluster -t MadeByAdmin": r"delete topic \[MadeByAdmin\] from NameServer success",
    "topicRoute -t MadeByAdmin  ": "CODE: 17 +DESC: No topic route info in name server for the topic: MadeByAdmin",
}


@pytest.fixture(scope="module")
def printed(subjects: tuple[Subject, Subject]) -> dict[str, tuple[str, str]]:
    """What each command printed about ours and about the real one."""
    with ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(lambda subject: [subject.run(command) for command in COMMANDS], subjects)
    for subject, texts in zip(subjects, (ours, theirs), strict=True):
        story = "\n".join(f"$ mqadmin {command}\n{text}" for command, text in zip(COMMANDS, texts, strict=True))
        (subject.home / "printed.txt").write_text(story)
    return dict(zip(COMMANDS, zip(ours, theirs, strict=True), strict=True))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.strip())
def test_mqadmin_prints_the_same_of_both(printed: dict[str, tuple[str, str]], command: str) -> None:
    ours, theirs = (shape(command, text) for text in printed[command])
    assert any(re.search(COMMANDS[command], line) for line in theirs or [""]), theirs
    assert ours == theirs
