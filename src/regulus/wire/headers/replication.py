"""EXCHANGE_BROKER_HA_INFO (906), RESET_MASTER_FLUSH_OFFSET (908).

Source: ExchangeHAInfoRequestHeader, ExchangeHAInfoResponseHeader, ResetMasterFlushOffsetHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeBrokerHaInfoRequest(Header):
    master_ha_address: str | None = None
    master_flush_offset: Long | None = None
    master_address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeBrokerHaInfoResponse(Header):
    master_ha_address: str | None = None
    master_flush_offset: Long | None = None
    master_address: str | None = None


@dataclass(frozen=True, slots=True)
class ResetMasterFlushOffsetRequest(Header):
    master_flush_offset: Long
