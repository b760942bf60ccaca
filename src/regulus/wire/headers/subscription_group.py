"""GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201), DELETE_SUBSCRIPTIONGROUP (207), GET_SUBSCRIPTIONGROUP_CONFIG (352),
UPDATE_AND_GET_GROUP_FORBIDDEN (353).

Source: GetAllSubscriptionGroupRequestHeader (5.3), DeleteSubscriptionGroupRequestHeader,
GetSubscriptionGroupConfigRequestHeader, UpdateGroupForbiddenRequestHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllSubscriptiongroupConfigRequest(Header):
    """5.3 clients ask for pages; `data_version` is JSON text."""

    group_seq: int | None = None
    max_group_num: int | None = None
    data_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllSubscriptiongroupConfigResponse(Header):
    total_group_num: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubscriptiongroupRequest(Header):
    """5.x calls the second field `cleanOffset`, 4.9 `removeOffset`; both are read and written."""

    group_name: str
    clean_offset: bool = spelled("cleanOffset", "removeOffset", default=False)


@dataclass(frozen=True, slots=True)
class GetSubscriptiongroupConfigRequest(Header):
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAndGetGroupForbiddenRequest(Header):
    """A `readable` of None only asks for the current value."""

    group: str
    topic: str
    readable: bool | None = None
