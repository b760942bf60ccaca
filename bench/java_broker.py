"""Makes the brokers to compare, as child processes: Regulus, and two releases of RocketMQ from Maven Central.

All have the defaults of a RocketMQ release (file sizes, thread pools) and the same flush mode, and use the same disk. A
RocketMQ broker has a heap of fixed size (2 GiB; the scripts of the release ask for 8 GiB), and its sends may wait for
10 s. By default it refuses sends that waited for 200 ms, which happens under this load on a small machine.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "interop"))

from real_rocketmq import RealRocketMQ
from regulus_server import RegulusServer

VERSIONS = ("5.3.3", "4.9.8")
"""The current release, and an older one that handles sends faster."""
HEAP = ("-Xms2g", "-Xmx2g", "-Xmn1g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=2g", "-XX:+AlwaysPreTouch")
RELEASE_DEFAULTS = {
    "mappedFileSizeCommitLog": str(1 << 30), "maxHashSlotNum": "5000000", "maxIndexNum": "20000000",
    "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "waitTimeMillsInSendQueue": "10000", "osPageCacheBusyTimeOutMills": "10000",
}

Broker = RealRocketMQ | RegulusServer


Brokers = tuple[Broker, ...]
"""The brokers to compare; the first one is Regulus."""


def make_brokers(directory: Path, flush: str, **more: str) -> Brokers:
    """Make the brokers, without starting them. `flush` is sync or async; `more` are settings for all of them."""
    settings = {**RELEASE_DEFAULTS, "flushDiskType": f"{flush.upper()}_FLUSH", **more}
    return (RegulusServer(directory / f"regulus-{flush}", **settings),
            *(RealRocketMQ(version, directory / f"java-{version}-{flush}", java_options=HEAP, **settings)
              for version in VERSIONS))
