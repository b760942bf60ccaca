"""EXCHANGE_BROKER_HA_INFO (906), RESET_MASTER_FLUSH_OFFSET (908), and our own GET_DOCUMENT (20007).

GET_DOCUMENT asks for a document of the broker by the name of its file. The answer has the document as its body, and its
version; if the client already has that version, the body is empty.

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


@dataclass(frozen=True, slots=True)
class GetDocumentRequest(Header):
    name: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class GetDocumentResponse(Header):
    version: str
