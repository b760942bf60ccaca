"""Walks through RocketMQ's dashboard, with its default settings, before a broker of ours: `dashboard_walk.py JAR`.

By hand, because the dashboard is in no package registry: build it from its source (`mvn -DskipTests package`). Each
page's questions are asked as its own JavaScript asks them, and each answer must be free of errors and name what is
there. Exit status 1 when one is not.
"""

import json
import os
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

from child_process import ChildProcess
from ports import free_ports

from regulus.client.listener import ConsumeStatus
from regulus.client.sync import Producer, PushConsumer
from regulus.model.message import Message
from regulus.testing.running_server import ServerProcess

READY_WITHIN_S = 180
COUNT = 20
TOPIC, GROUP = "Walked", "walkers"
Answer = Any


class Walk:
    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"
        self._cookies = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))
        self.faults: list[str] = []

    def ask(self, path: str, body: object = None, **query: object) -> Answer:
        """The `data` of the answer, None where it is an error."""
        url = f"{self._base}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        for cookie in self._cookies:
            if cookie.name == "XSRF-TOKEN":
                headers["X-XSRF-TOKEN"] = str(cookie.value)
        request = urllib.request.Request(url, data, headers)
        try:
            with self._opener.open(request, timeout=60) as answer:
                said = json.loads(answer.read())
        except (urllib.error.HTTPError, json.JSONDecodeError) as error:
            said = {"status": -1, "errMsg": str(error)}
        if isinstance(said, dict) and said.get("status", 0) != 0:
            self.faults.append(f"{path} {query or body}: {said.get('errMsg')}")
            return None
        return said.get("data") if isinstance(said, dict) and "data" in said else said

    def see(self, what: str, path: str, holds: Callable[[Answer], bool], body: object = None,
            **query: object) -> Answer:
        """Ask, and say whether what came is right."""
        answer = self.ask(path, body, **query)
        is_right = answer is not None and holds(answer)
        print(f"{'well' if is_right else 'BAD '}  {what}: {json.dumps(answer)[:160]}", flush=True)
        if answer is not None and not is_right:
            self.faults.append(f"{what}: {path} answers {json.dumps(answer)[:600]}")
        return answer


def walk(pages: Walk, address: str, sent_id: str, name_server: str) -> None:
    pages.ask("/rocketmq-dashboard/csrf-token")
    now = int(time.time() * 1000)
    hour = {"begin": now - 3_600_000, "end": now + 3_600_000}
    pages.see("ops", "/ops/homePage.query", lambda said: name_server in json.dumps(said))
    pages.see("status", "/ops/rocketMqStatus.query", lambda said: True)
    pages.see("cluster", "/cluster/list.query", lambda said: address in json.dumps(said)
              and "brokerVersionDesc" in json.dumps(said))
    pages.see("broker's settings", "/cluster/brokerConfig.query", lambda said: said["brokerName"] != "",
              brokerAddr=address)
    pages.see("topics", "/topic/list.query", lambda said: TOPIC in said["topicList"])
    pages.see("topics' types", "/topic/list.queryTopicType", lambda said: TOPIC in json.dumps(said))
    pages.see("topic's numbers", "/topic/stats.query", lambda said: len(said["offsetTable"]) > 0, topic=TOPIC)
    pages.see("topic's route", "/topic/route.query", lambda said: address in json.dumps(said), topic=TOPIC)
    pages.see("topic's groups", "/topic/queryConsumerByTopic.query", lambda said: GROUP in json.dumps(said),
              topic=TOPIC)
    pages.see("topic's settings", "/topic/examineTopicConfig.query", lambda said: len(said) == 1, topic=TOPIC)
    made = {"clusterNameList": ["DefaultCluster"], "brokerNameList": [], "topicName": "MadeHere", "writeQueueNums": 4,
            "readQueueNums": 4, "perm": 6, "order": False, "messageType": "NORMAL"}
    pages.see("make a topic", "/topic/createOrUpdate.do", lambda said: said is True, made)
    pages.see("send", "/topic/sendTopicMessage.do", lambda said: said["sendStatus"] == "SEND_OK",
              {"topic": TOPIC, "key": "k", "tag": "t", "messageBody": "from the page", "traceEnabled": False})
    pages.see("groups", "/consumer/groupList.query", lambda said: GROUP in json.dumps(said))
    pages.see("a group", "/consumer/group.query", lambda said: said["count"] == 1, consumerGroup=GROUP)
    pages.see("group's settings", "/consumer/examineSubscriptionGroupConfig.query", lambda said: len(said) == 1,
              consumerGroup=GROUP)
    pages.see("group's progress", "/consumer/queryTopicByConsumer.query", lambda said: TOPIC in json.dumps(said),
              consumerGroup=GROUP, address=address)
    connection = pages.see("group's clients", "/consumer/consumerConnection.query",
                           lambda said: len(said["connectionSet"]) == 1, consumerGroup=GROUP, address=address)
    if connection:
        pages.see("what a client does", "/consumer/consumerRunningInfo.query", lambda said: TOPIC in json.dumps(said),
                  consumerGroup=GROUP, clientId=connection["connectionSet"][0]["clientId"], jstack="true")
    group = {"clusterNameList": ["DefaultCluster"], "brokerNameList": [], "subscriptionGroupConfig": {
        "groupName": "made-here", "consumeEnable": True, "consumeFromMinEnable": True, "consumeBroadcastEnable": True,
        "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1}}
    pages.see("make a group", "/consumer/createOrUpdate.do", lambda said: said is True, group)
    pages.see("group's brokers", "/consumer/fetchBrokerNameList.query", lambda said: len(said) == 1,
              consumerGroup="made-here")
    pages.see("reset offsets", "/consumer/resetOffset.do", lambda said: GROUP in json.dumps(said),
              {"consumerGroupList": [GROUP], "topic": TOPIC, "resetTime": now - 60_000, "force": True})
    pages.see("producers", "/producer/producerConnection.query", lambda said: len(said["connectionSet"]) == 1,
              producerGroup="walked-producers", topic=TOPIC)
    pages.see("messages of a topic", "/message/queryMessagePageByTopic.query",
              lambda said: said["page"]["totalElements"] >= COUNT,
              {"topic": TOPIC, **hour, "pageNum": 1, "pageSize": 10, "taskId": ""})
    pages.see("messages of a key", "/message/queryMessageByTopicAndKey.query", lambda said: len(said) >= 1,
              topic=TOPIC, key="key-3")
    pages.see("a message", "/message/viewMessage.query", lambda said: said["messageView"]["msgId"] == sent_id,
              topic=TOPIC, msgId=sent_id)
    if connection:
        pages.see("consume it directly", "/message/consumeMessageDirectly.do",
                  lambda said: said["consumeResult"] == "CR_SUCCESS", {}, topic=TOPIC, msgId=sent_id,
                  consumerGroup=GROUP, clientId=connection["connectionSet"][0]["clientId"])
    pages.see("dead letters", "/dlqMessage/queryDlqMessageByConsumerGroup.query",
              lambda said: said["page"]["content"][0]["properties"]["DLQ_ORIGIN_TOPIC"] == TOPIC,
              {"topic": f"%DLQ%{GROUP}", **hour, "pageNum": 1, "pageSize": 10, "taskId": ""})
    pages.see("trace", "/messageTrace/viewMessage.query", lambda said: True, topic=TOPIC, msgId=sent_id)
    pages.see("today", "/dashboard/broker.query", lambda said: True, date=time.strftime("%Y-%m-%d"))
    pages.see("today's topics", "/dashboard/topicCurrent.query", lambda said: True)
    pages.see("delete a group", "/consumer/deleteSubGroup.do", lambda said: said is True,
              {"groupName": "made-here", "brokerNameList": ["broker-a"]})
    pages.see("delete a topic", "/topic/deleteTopic.do", lambda said: said is True, {}, topic="MadeHere")


def main(jar: str) -> int:
    with tempfile.TemporaryDirectory(prefix="dashboard-walk-") as home:
        conf = Path(home) / "broker.conf"
        conf.write_text("brokerName=broker-a\n")
        server = ServerProcess(Path(home) / "store", "-c", str(conf))
        server.start()
        (port,) = free_ports(1)
        # Its settings are its own; only where the name server is must be told.
        dashboard = ChildProcess("dashboard", [
            "java", "-Xmx512m", "-jar", jar, f"--server.port={port}", f"--rocketmq.config.dataPath={home}/data",
            f"--rocketmq.config.namesrvAddrs[0]=127.0.0.1:{server.name_server_port}"], Path(home) / "dashboard.log",
            dict(os.environ), Path(home))
        try:
            return _walk_with_clients(Walk(port), server)
        finally:
            dashboard.kill()
            server.kill()


def _walk_with_clients(pages: Walk, server: ServerProcess) -> int:
    handled: list[str] = []

    def listen(messages: list[Any], context: Any) -> ConsumeStatus:
        if messages[0].body == b"refused":
            context.delay_level_when_next_consume = -1
            return ConsumeStatus.RECONSUME_LATER
        handled.extend(message.message_id for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    name_server = f"127.0.0.1:{server.name_server_port}"
    consumer = PushConsumer(name_server, GROUP, listen)
    consumer.subscribe(TOPIC, "*")
    with Producer(name_server, "walked-producers") as producer, consumer:
        ids = [producer.send(Message(TOPIC, f"body-{number}".encode(), keys=f"key-{number}")).message_id
               for number in range(COUNT)]
        producer.send(Message(TOPIC, b"refused"))
        _await("the messages are consumed", lambda: len(handled) >= COUNT)
        _await("the dashboard is ready", lambda: _is_ready(pages))
        walk(pages, f"127.0.0.1:{server.port}", ids[0], name_server)
    for fault in pages.faults:
        print(f"FAULT {fault}")
    print(f"{len(pages.faults)} faults")
    return 1 if pages.faults else 0


def _is_ready(pages: Walk) -> bool:
    try:
        pages.ask("/ops/homePage.query")
    except OSError:
        return False
    pages.faults.clear()
    return True


def _await(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {READY_WITHIN_S} s")
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
