"""GET_BROKER_HA_STATUS (907), GET_TIMER_METRICS (61). Source: HARuntimeInfo, TimerMetricsSerializeWrapper."""

from dataclasses import dataclass, field

from regulus.model.topics import DataVersion
from regulus.wire.json_fields import JsonBody


@dataclass(frozen=True, slots=True, kw_only=True)
class HAClientRuntimeInfo(JsonBody):
    master_addr: str | None = None
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0
    is_activated: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HAConnectionRuntimeInfo(JsonBody):
    addr: str
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HARuntimeInfo(JsonBody):
    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = field(default_factory=list)
    ha_client_runtime_info: HAClientRuntimeInfo = field(default_factory=HAClientRuntimeInfo)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerMetric(JsonBody):
    count: int = 0
    time_stamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerMetricsSerializeWrapper(JsonBody):
    timing_count: dict[str, TimerMetric] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
