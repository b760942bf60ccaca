"""Access control administration of 4.9: codes 50 to 53.

Source: CreateAccessConfigRequestHeader, DeleteAccessConfigRequestHeader, GetBrokerAclConfigResponseHeader,
UpdateGlobalWhiteAddrsConfigRequestHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAndCreateAclConfigRequest(Header):
    access_key: str
    secret_key: str
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteAclConfigRequest(Header):
    access_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerClusterAclInfoResponse(Header):
    """`version` and `all_acl_file_version` are JSON text."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


@dataclass(frozen=True, slots=True)
class UpdateGlobalWhiteAddrsConfigRequest(Header):
    """Set the global white list; `acl_file_full_path` is the path of a file as the broker reports it."""

    global_white_addrs: str
    acl_file_full_path: str | None = None
