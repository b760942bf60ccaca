"""Families that RocketMQ does not have: what a loss of power would take now, replicas, the event loop, the disk.

All of them are there from the start, with 0 where there is nothing.
"""

from collections.abc import Iterator

from regulus.broker.metrics.server_facts import ServerFacts
from regulus.broker.metrics.sheet import Sheet
from regulus.broker.state import BrokerState
from regulus.errors import RecordError, StoreError
from regulus.record import message_record
from regulus.wire.codes import VERSION
from regulus.wire.metrics_text import COUNTER, GAUGE

READ_AT_ONCE = 256 << 10
UNFLUSHED_READ_MAX = 8 << 20
"""Bytes of the unflushed log whose messages are counted; what is beyond them is taken to be like them."""


def of_server(broker: BrokerState, sheet: Sheet, facts: ServerFacts) -> None:
    def gauge(name: str, text: str, value: float) -> None:
        sheet.own(name, GAUGE, text).add(value)
    sheet.own("broker_info", GAUGE, "1, with what tells this broker from others of its name.").rows(
        "broker_id", "role", "version").add(1, str(broker.config.broker_id), broker.config.broker_role or "MASTER",
                                            str(VERSION))
    gauge("ready", "1 while /readyz says so.", int(facts.is_ready))
    gauge("complaints", "Faults that the broker reports of itself, as brokerStatus shows them.", facts.complaints)
    gauge("connections", "Connections of clients.", facts.connections)
    gauge("event_loop_longest_step_milliseconds", "The longest step of the last one to two minutes; nobody else is "
          "served meanwhile.", round(facts.longest_step_ms, 3))
    gauge("held_requests", "Requests that wait for a message.", len(broker.held_requests))
    gauge("open_transactions", "Half messages that are neither committed nor rolled back.",
          broker.transactions.open_count)
    gauge("pops_in_flight", "Pops with a message that is not acknowledged.", len(broker.pop_flights))
    sheet.own("refused_requests_total", COUNTER, "Requests that were answered with an error code.").add(facts.refused)
    sheet.own("put_failed_total", COUNTER, "Messages that the store did not take.").add(broker.storing.put_failed_times)


def of_disk(broker: BrokerState, sheet: Sheet) -> None:
    facts, store = broker.runtime_facts, broker.store

    def gauge(name: str, text: str, value: float) -> None:
        sheet.own(name, GAUGE, text).add(value)
    gauge("disk_size_bytes", "Size of the file system that holds the log.", facts.disk_size)
    gauge("disk_free_bytes", "Free bytes of it.", facts.disk_free)
    gauge("log_size_bytes", "Bytes from the first to the last message of the log.",
          store.commit_log_max_offset() - store.commit_log_min_offset())
    gauge("dispatch_behind_bytes", "Bytes of the log that are not in the queues: nobody can consume them.",
          store.dispatch_behind_bytes())


def of_replicas(broker: BrokerState, sheet: Sheet, now_ms: int) -> None:
    status = broker.ha_status(now_ms)
    behind = sheet.own("replica_behind_bytes", GAUGE, "How far a slave's copy of the log is behind.").rows("address")
    in_sync = sheet.own("replica_in_sync", GAUGE, "1 for a slave that is in sync.").rows("address")
    sheet.own("replicas_in_sync", GAUGE, "Slaves that are in sync.").add(
        status.in_sync_slave_nums if status.master else 0)
    for slave in status.ha_connection_info:
        behind.add(slave.diff, slave.addr)
        in_sync.add(int(slave.in_sync), slave.addr)
    if not status.master:
        link = status.ha_client_runtime_info
        sheet.own("master_linked", GAUGE, "1 while this slave is linked to its master.").add(
            int(bool(link.is_activated)))
        sheet.own("master_silent_milliseconds", GAUGE, "Time since the master was heard.").add(
            max(0, now_ms - link.last_read_timestamp) if link.last_read_timestamp else 0)
    sheet.own("log_parted", GAUGE, "1 for a slave whose log is not its master's, so that nobody may read it.").add(
        int(bool(broker.parted)))


def of_unflushed(broker: BrokerState, sheet: Sheet, now_ms: int) -> Iterator[None]:
    """Yields after each step."""
    store = broker.store
    end = store.commit_log_max_offset()
    begin = position = min(store.flushed_offset, end)
    oldest_ms = messages = 0
    while position < min(end, begin + UNFLUSHED_READ_MAX):
        try:
            read = store.read_log(position, READ_AT_ONCE, end)
        except StoreError:
            read = None
        if read is None or read.next_offset <= position:
            break
        if not oldest_ms:
            oldest_ms = _stored_ms(read.data)
        messages += _count(read.data)
        position = read.next_offset
        yield
    if begin < position < end:
        messages = messages * (end - begin) // (position - begin)
    sheet.own("not_durable_bytes", GAUGE, "Bytes of the log that a loss of power would take now.").add(end - begin)
    sheet.own("not_durable_messages", GAUGE, "Messages in them.").add(messages)
    sheet.own("not_durable_milliseconds", GAUGE, "Age of the first of them; 0 without one.").add(
        max(0, now_ms - oldest_ms) if oldest_ms else 0)


def _count(data: memoryview) -> int:
    count = position = 0
    while position + 4 <= len(data):
        size = int.from_bytes(data[position:position + 4], "big")
        if size <= 0:
            break
        position += size
        count += 1
    return count


def _stored_ms(data: memoryview) -> int:
    try:
        return message_record.decode(data, 0, False).store_timestamp if len(data) else 0
    except RecordError:
        return 0
