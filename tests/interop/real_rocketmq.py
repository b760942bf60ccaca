"""The real Apache RocketMQ from Maven Central as child processes: name server, broker and proxy."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from child_process import ChildProcess
from ports import free_broker_port, free_ports
from remoting_probe import await_broker, await_name_server, await_port
from toolchain import java_classpath, proxy_libraries, tool

# Java 17 closed packages that RocketMQ reaches into (direct buffers, file channels) and the reflection of fastjson.
_OPENED = ("--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
           "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED",
           "--add-opens=java.base/java.util=ALL-UNNAMED")
SMALL_HEAP = ("-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC")

# RocketMQ 4.9 reads one such file for each program from its home directory. 5.x carries its own, which names so many
# appenders that reading it takes longer than starting; it is given this one by a system property.
_LOGBACK = """<configuration>
  <appender name="FILE" class="{package}.core.FileAppender">
    <file>${{user.home}}/logs/{name}.log</file>
    <encoder><pattern>%d %p %t - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""

# Every delay level is one second, so that a retry takes a second and not ten.
SHORT_DELAYS = " ".join(["1s"] * 18)


def broker_settings(name_server: str, port: int, store: Path, **overrides: str) -> dict[str, str]:
    """The configuration that both the real broker and ours get; RocketMQ's own keys."""
    return {
        "brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": "0", "brokerIP1": "127.0.0.1",
        "listenPort": str(port), "namesrvAddr": name_server, "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"), "mappedFileSizeCommitLog": str(16 << 20),
        "maxHashSlotNum": "10000", "maxIndexNum": "40000", "messageDelayLevel": SHORT_DELAYS,
        "diskMaxUsedSpaceRatio": "95", "waitTimeMillsInSendQueue": "10000", "transactionTimeOut": "1000",
        "transactionCheckInterval": "2000", **overrides,
    }


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """A .conf file as both brokers read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def java_command(version: str, home: Path, main: str, arguments: Sequence[str],
                 options: Sequence[str] = SMALL_HEAP, also: Sequence[Path] = ()) -> list[str]:
    """Command line of a Java program on the class path of RocketMQ `version`; its logs go below `home`.

    `also`: directories of more jars, which come first.
    """
    prepare_home(home)
    class_path = ":".join([*(f"{directory}/*" for directory in also), java_classpath(version)])
    return [tool("java"), *options, *_OPENED, f"-Duser.home={home}", "-Duser.timezone=UTC",
            f"-Drmq.logback.configurationFile={home}/conf/rmq.logback.xml", f"-Drocketmq.home.dir={home}",
            "-Dcom.rocketmq.remoting.client.connect.timeout=10000", "-cp", class_path, main, *arguments]


def prepare_home(home: Path) -> None:
    """What RocketMQ expects under ROCKETMQ_HOME."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    for name in ("broker", "namesrv", "tools"):
        text = _LOGBACK.format(package="ch.qos.logback", name=name)
        (home / "conf" / f"logback_{name}.xml").write_text(text)
    shaded = _LOGBACK.format(package="org.apache.rocketmq.logging.ch.qos.logback", name="rocketmq")
    (home / "conf" / "rmq.logback.xml").write_text(shaded)


class RealRocketMQ:
    """Name server and broker of one release. Start order and readiness are its own; the store stays for a restart."""

    def __init__(self, version: str, run: Path, *, broker_port: int | None = None, store: Path | None = None,
                 name_server: str | None = None, java_options: Sequence[str] = SMALL_HEAP,
                 **overrides: str) -> None:
        """`name_server` set: use that one and start none. `overrides` are RocketMQ configuration keys."""
        self.name = f"java-{version}"
        self.version = version
        self.home = run
        self.store = store or run / "store"
        self._starts_name_server = name_server is None
        self.name_server_address = name_server or f"127.0.0.1:{free_ports(1)[0]}"
        self._broker_port = broker_port or free_broker_port()
        self.broker_address = f"127.0.0.1:{self._broker_port}"
        self._java_options = java_options
        self._overrides = overrides
        self._name_server: ChildProcess | None = None
        self._broker: ChildProcess | None = None

    @property
    def broker_pid(self) -> int:
        assert self._broker is not None
        return self._broker.pid

    def start(self) -> None:
        if self._starts_name_server:
            self.start_name_server()
        self.start_broker()

    def start_name_server(self) -> None:
        port = self.name_server_address.rsplit(":", 1)[1]
        conf = write_properties(self.home / "namesrv.conf", {"listenPort": port})
        self._name_server = self._java("org.apache.rocketmq.namesrv.NamesrvStartup", conf, ("-Xms64m", "-Xmx128m"))
        await_name_server(self.name_server_address, self._name_server.check_alive)

    def start_broker(self) -> None:
        settings = broker_settings(self.name_server_address, self._broker_port, self.store, **self._overrides)
        conf = write_properties(self.home / "broker.conf", settings)
        self._broker = self._java("org.apache.rocketmq.broker.BrokerStartup", conf, self._java_options)
        await_broker(self.broker_address, self.name_server_address, self._broker.check_alive)

    def stop_broker(self) -> None:
        if self._broker is not None:
            self._broker.stop(60)
            self._broker = None

    def restart(self) -> None:
        """The broker ends cleanly and comes back on the same port and store."""
        self.stop_broker()
        self.start_broker()

    def stop(self) -> None:
        try:
            self.stop_broker()
        finally:
            if self._name_server is not None:
                self._name_server.stop()
                self._name_server = None

    def kill(self) -> None:
        """The quick end, for servers whose store nobody reads again (a clean one takes 5.3.3 some 20 s)."""
        for process in (self._broker, self._name_server):
            if process is not None:
                process.kill()
        self._broker = self._name_server = None

    def _java(self, main: str, conf: Path, options: Sequence[str]) -> ChildProcess:
        name = main.rsplit(".", 1)[1]
        command = java_command(self.version, self.home, main, ["-c", str(conf)], options)
        return ChildProcess(f"{name} {self.version}", command, self.home / f"{name}.log",
                            {**os.environ, "ROCKETMQ_HOME": str(self.home)}, self.home)


class RealProxy:
    """RocketMQ's own front for gRPC clients, beside a name server and broker, or with a broker in itself."""

    def __init__(self, run: Path, name_server: str, *, broker: Mapping[str, str] | None = None, version: str = "5.3.3",
                 java_options: Sequence[str] = SMALL_HEAP, **overrides: str) -> None:
        """`broker`: the configuration of a broker in the same process (local mode); None: cluster mode.
        `overrides` are keys of RocketMQ's ProxyConfig."""
        self.home = run
        self.version = version
        self.port, self._remoting_port = free_ports(2)
        self.endpoint = f"127.0.0.1:{self.port}"
        self._name_server = name_server
        self._broker = broker
        self._java_options = java_options
        self._overrides = overrides
        self._process: ChildProcess | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        settings = {"rocketMQClusterName": "DefaultCluster", "proxyMode": "LOCAL" if self._broker else "CLUSTER",
                    "namesrvAddr": self._name_server, "grpcServerPort": self.port,
                    "remotingListenPort": self._remoting_port, "localServeAddr": "127.0.0.1", **self._overrides}
        conf = self.home / "rmq-proxy.json"
        conf.write_text(json.dumps(settings))
        arguments = ["-n", self._name_server, "-pc", str(conf)]
        if self._broker:
            arguments += ["-bc", str(write_properties(self.home / "broker.conf", self._broker))]
        command = java_command(self.version, self.home, "org.apache.rocketmq.proxy.ProxyStartup", arguments,
                               self._java_options, also=[proxy_libraries(self.version)])
        self._process = ChildProcess(f"ProxyStartup {self.version}", command, self.home / "ProxyStartup.log",
                                     {**os.environ, "ROCKETMQ_HOME": str(self.home)}, self.home)
        await_port(self.endpoint, self._process.check_alive)

    def check_alive(self) -> None:
        """Raises ChildEnded when the process is gone."""
        assert self._process is not None
        self._process.check_alive()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None
