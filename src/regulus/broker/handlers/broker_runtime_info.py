"""GET_BROKER_RUNTIME_INFO: a table of texts for tools and the metrics exporter.

The exporter parses most of them as numbers, and drops the whole table if one is missing or not a number. The answer
therefore has every key of RocketMQ 4.9 and 5.3, in both spellings if those differ; values that this broker does not
measure are 0.

Source: AdminBrokerProcessor.prepareRuntimeInfo, StoreStatsService.getRuntimeInfo, DefaultMessageStore.getRuntimeInfo.
"""

from collections.abc import Generator, Iterable

from regulus.broker.long_answers import Steps
from regulus.broker.outcome import Outcome
from regulus.broker.runtime_facts import RuntimeFacts
from regulus.broker.state import BrokerState
from regulus.broker.statistics import Statistics
from regulus.model.java_numbers import INT_MAX
from regulus.model.peer import Peer
from regulus.wire.bodies import KVTable
from regulus.wire.codes import VERSION, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

VERSION_DESCRIPTION = "V5_3_3"
HEALTHY = "ok"
# Capacities of the queues of RocketMQ's thread pools.
_THREAD_POOLS = {"send": 10_000, "pull": 100_000, "query": 20_000, "litePull": 100_000, "ack": 100_000}
_PUT_TIME_BUCKETS = ("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s",
                     "3~4s", "4~5s", "5~10s", "10s~")


def handle_get_broker_runtime_info(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    return broker.long_answers.begin(request, peer, _info(request, broker, now_ms))


def _info(request: RemotingCommand, broker: BrokerState, now_ms: int) -> Steps:
    table = yield from runtime_table(broker, now_ms)
    return request.response(ResponseCode.SUCCESS, body=KVTable(table=table).encode())


def runtime_table(broker: BrokerState, now_ms: int) -> Generator[None, None, dict[str, str]]:
    """All keys; yields after each step but the last."""
    put_nums, put_size = yield from broker.statistics.puts_in_steps()
    return {
        **_version_and_time(broker, now_ms),
        **_puts_and_gets(broker, put_nums, put_size),
        **_rates(broker.statistics),
        **_days(broker.statistics, put_nums),
        **_log(broker),
        **_disk(broker.runtime_facts),
        **_schedule(broker, now_ms),
        **_retention(broker),
        **_replicas(broker, now_ms),
        **_queues(),
        "health": "; ".join(broker.complaints) or HEALTHY,
    }


def runtime_text(elapsed_ms: int) -> str:
    """Format as `[ 0 days, 1 hours, 2 minutes, 3 seconds ]`."""
    minutes, seconds = divmod(elapsed_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def size_text(size: int) -> str:
    """Format as `512 B`, `1.5 KiB`, `3.0 GiB`."""
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} EiB"


def _version_and_time(broker: BrokerState, now_ms: int) -> dict[str, str]:
    boot = broker.statistics.boot_timestamp
    return {
        "brokerActive": str(not broker.config.is_slave).lower(),     # whether it delivers delayed messages
        "brokerVersion": str(VERSION),
        "brokerVersionDesc": VERSION_DESCRIPTION,
        "bootTimestamp": str(boot),
        "runtime": runtime_text(now_ms - boot),
        "startAcceptSendRequestTimeStamp": str(broker.config.start_accept_send_request_time_stamp),
    }


def _puts_and_gets(broker: BrokerState, nums: int, size: int) -> dict[str, str]:
    return {
        "putMessageTimesTotal": str(nums),
        "putMessageFailedTimes": str(broker.storing.put_failed_times),
        "putMessageSizeTotal": str(size),
        "putMessageAverageSize": str(size / nums if nums else 0.0),
        "putMessageEntireTimeMax": "0",
        "putMessageDistributeTime": "".join(f"[{bucket}]:0 " for bucket in _PUT_TIME_BUCKETS),
        "putLatency99": "0.00",
        "putLatency999": "0.00",
        "getMessageEntireTimeMax": "0",
        "pageCacheLockTimeMills": "0",
    }


def _rates(statistics: Statistics) -> dict[str, str]:
    found, missed = statistics.get_found_tps(), statistics.get_miss_tps()
    transferred = _three(statistics.get_transferred_tps())
    return {
        "putTps": _three(statistics.put_tps()),
        "getFoundTps": _three(found),
        "getMissTps": _three(missed),
        "getTotalTps": _three(hit + miss for hit, miss in zip(found, missed, strict=True)),
        "getTransferredTps": transferred,
        "getTransferedTps": transferred,
    }


def _days(statistics: Statistics, put_nums: int) -> dict[str, str]:
    return {
        "msgPutTotalYesterdayMorning": str(statistics.put_total_yesterday_morning),
        "msgPutTotalTodayMorning": str(statistics.put_total_today_morning),
        "msgPutTotalTodayNow": str(put_nums),
        "msgGetTotalYesterdayMorning": str(statistics.get_total_yesterday_morning),
        "msgGetTotalTodayMorning": str(statistics.get_total_today_morning),
        "msgGetTotalTodayNow": str(statistics.get_message_nums),
    }


def _log(broker: BrokerState) -> dict[str, str]:
    store = broker.store
    return {
        "commitLogMinOffset": str(store.commit_log_min_offset()),
        "commitLogMaxOffset": str(store.commit_log_max_offset()),
        "dispatchBehindBytes": str(store.dispatch_behind_bytes()),
        "dispatchMaxBuffer": "0",
        "earliestMessageTimeStamp": str(store.earliest_store_timestamp()),
        "remainHowManyDataToCommit": size_text(0),
        "remainHowManyDataToFlush": size_text(broker.runtime_facts.unflushed_size),
        "remainTransientStoreBufferNumbs": str(INT_MAX),
    }


def _disk(facts: RuntimeFacts) -> dict[str, str]:
    ratio = f"{facts.commit_log_disk_ratio:.2f}"
    table = {
        "commitLogDirCapacity": f"Total : {size_text(facts.disk_size)}, Free : {size_text(facts.disk_free)}.",
        "commitLogDiskRatio": ratio,
        "consumeQueueDiskRatio": f"{facts.consume_queue_disk_ratio:.2f}",
    }
    if facts.commit_log_path:
        table[f"commitLogDiskRatio_{facts.commit_log_path}"] = ratio
    return table


def _schedule(broker: BrokerState, now_ms: int) -> dict[str, str]:
    """Progress of each delay level in use as `delivered,end`, and the backlog of messages with a time of their own."""
    levels = {f"scheduleMessageOffset_{level}": f"{done},{end}"
              for level, (done, end) in broker.delay_schedule.progress().items()}
    timers = broker.timers
    seconds, messages = timers.behind(now_ms)
    entered, delivered = timers.rates
    return {**levels, "timerReadBehind": str(seconds), "timerOffsetBehind": str(messages),
            "timerCongestNum": str(timers.counts.total), "timerEnqueueTps": f"{entered:.1f}",
            "timerDequeueTps": f"{delivered:.1f}"}


def _retention(broker: BrokerState) -> dict[str, str]:
    """How long files are kept, the state of the archive and its gate, and the result of the last pass."""
    config, store = broker.config, broker.store
    behind = broker.archived_offset.behind_bytes(store.commit_log_min_offset(), store.commit_log_max_offset())
    return {"fileReservedTime": str(config.file_reserved_time), "deleteWhen": config.delete_when,
            "archiveGate": config.archive_gate, "archiveGatePolicy": config.archive_gate_policy,
            "archiveIdentity": config.archive_identity, "archivedIn": broker.archived_offset.identity,
            "archivedPhysicalOffset": str(broker.archived_offset.physical_offset),
            "archiveBehindBytes": str(behind), **broker.retention_report}


def _replicas(broker: BrokerState, now_ms: int) -> dict[str, str]:
    """The role, and the slaves of a master or the master address of a slave."""
    role, status = broker.config.broker_role, broker.ha_status(now_ms)
    if not status.master:
        return {"brokerRole": role, "haMasterAddr": status.ha_client_runtime_info.master_addr or ""}
    behind = [slave.diff for slave in status.ha_connection_info if slave.in_sync]
    return {"brokerRole": role or "MASTER", "haSlaveNums": str(len(status.ha_connection_info)),
            "haInSyncSlaveNums": str(status.in_sync_slave_nums), "haBehindBytes": str(min(behind, default=-1))}


def _queues() -> dict[str, str]:
    """There are no thread pools, because a request runs when it is read; tools still expect the keys."""
    table = {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": "100000"}
    for name, capacity in _THREAD_POOLS.items():
        table[f"{name}ThreadPoolQueueSize"] = "0"
        table[f"{name}ThreadPoolQueueCapacity"] = str(capacity)
        table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return table


def _three(rates: Iterable[float]) -> str:
    """Rates over 10 s, 60 s and 600 s, separated by blanks."""
    return " ".join(str(round(rate, 3)) for rate in rates)
