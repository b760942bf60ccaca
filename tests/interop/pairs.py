"""A name server of ours, and a master with its slave, each of the two ours or RocketMQ's."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from child_process import ChildProcess
from ports import free_broker_port, free_ports
from real_rocketmq import RealRocketMQ, broker_settings, write_properties
from regulus_server import start_our
from remoting_probe import ask, await_broker, await_name_server

COPIED_WITHIN_S = 120           # a slave of RocketMQ 5 asks for the topics each minute
GET_BROKER_RUNTIME_INFO = 28
GET_ALL_TOPIC_CONFIG = 21
TOPIC = "Pairs"


class Pair:
    """A name server of ours, and the two brokers of one name. Both are SYNC_MASTER and its SLAVE."""

    def __init__(self, master: str, slave: str, home: Path, stack: ExitStack, **of_both: str) -> None:
        """`of_both`: more settings."""
        self._home = home
        self._master_kind = master
        self._slave_kind = slave
        self._of_both = of_both
        self._stack = stack
        self.ours: dict[str, ChildProcess] = {}
        port = free_ports(1)[0]
        self.name_server = f"127.0.0.1:{port}"
        process = start_our(stack, home / "nameserver", ["nameserver", "--port", str(port), "--kv-config",
                                                         str(home / "kv.json")])
        await_name_server(self.name_server, process.check_alive)
        self.ports = {"master": free_broker_port(), "slave": free_broker_port()}
        self.start_master()
        self.stop_slave = self._start(slave, "slave", brokerRole="SLAVE", brokerId="1")

    def start_master(self) -> None:
        """Also once more, after it was killed."""
        self.kill_master = self._start(self._master_kind, "master", brokerRole="SYNC_MASTER", brokerId="0")

    def promote(self) -> None:
        """The slave becomes the master by hand: stop it, change its file, start it."""
        self.stop_slave()
        self.stop_slave = self._start(self._slave_kind, "slave", brokerRole="SYNC_MASTER", brokerId="0")

    def add_slave(self, kind: str) -> None:
        """One more, with an empty folder."""
        self.ports["another"] = free_broker_port()
        self._start(kind, "another", brokerRole="SLAVE", brokerId="1")

    @property
    def addresses(self) -> dict[str, str]:
        return {which: f"127.0.0.1:{port}" for which, port in self.ports.items()}

    def store(self, which: str) -> Path:
        return self._home / which / "store"

    def await_copy(self, master: str = "master", slave: str = "slave") -> None:
        """Until both logs end at one place, and the slave knows the topic."""
        deadline = time.monotonic() + COPIED_WITHIN_S
        ends: list[str] = []
        while time.monotonic() < deadline:
            ends = [self.log_end(which) for which in (master, slave)]
            topics = ask(f"127.0.0.1:{self.ports[slave]}", GET_ALL_TOPIC_CONFIG)["body"]
            if ends[0] == ends[1] != "0" and f'"{TOPIC}"'.encode() in topics:
                return
            time.sleep(0.2)
        raise AssertionError(f"the logs end at {ends}, or the slave does not know the topic, after {COPIED_WITHIN_S} s")

    def log_end(self, which: str) -> str:
        return self.told(which, "commitLogMaxOffset")

    def told(self, which: str, key: str) -> str:
        """What a broker says of itself."""
        body = ask(f"127.0.0.1:{self.ports[which]}", GET_BROKER_RUNTIME_INFO)["body"].decode()
        return body.partition(f'"{key}":"')[2].partition('"')[0]

    def _start(self, kind: str, which: str, **settings: str) -> Callable[[], None]:
        """What ends it."""
        home, port = self._home / which, self.ports[which]
        settings |= self._of_both
        if kind != "regulus":
            # 5.3.3 waits for nobody unless told, and lets nobody read from a slave.
            settings |= {"slaveReadEnable": "true"} if which == "slave" else {"inSyncReplicas": "2"}
            real = RealRocketMQ(kind.removeprefix("java-"), home, broker_port=port, store=self.store(which),
                                name_server=self.name_server, haSendHeartbeatInterval="500", **settings)
            self._stack.callback(real.kill)
            real.start()
            return real.kill if which == "master" else real.stop_broker
        conf = write_properties(home / "broker.conf", broker_settings(
            self.name_server, port, self.store(which), haSendHeartbeatInterval="500", **settings))
        process = self.ours[which] = start_our(self._stack, home, ["broker", "--config", str(conf)])
        await_broker(f"127.0.0.1:{port}", self.name_server, process.check_alive)
        return process.kill if which == "master" else lambda: self._stop(process)

    def _stop(self, process: ChildProcess) -> None:
        assert process.stop() == 0
