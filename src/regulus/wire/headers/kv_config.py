"""PUT_KV_CONFIG (100), GET_KV_CONFIG (101), DELETE_KV_CONFIG (102), GET_KVLIST_BY_NAMESPACE (219).

Source: PutKVConfigRequestHeader, GetKVConfigRequestHeader, GetKVConfigResponseHeader, DeleteKVConfigRequestHeader,
GetKVListByNamespaceRequestHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header


@dataclass(frozen=True, slots=True, kw_only=True)
class PutKvConfigRequest(Header):
    namespace: str
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetKvConfigRequest(Header):
    namespace: str
    key: str


@dataclass(frozen=True, slots=True)
class GetKvConfigResponse(Header):
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKvConfigRequest(Header):
    namespace: str
    key: str


@dataclass(frozen=True, slots=True)
class GetKvlistByNamespaceRequest(Header):
    namespace: str
