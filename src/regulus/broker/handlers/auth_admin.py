"""Reads and changes users and policies of ACL 2.0 for operators: AUTH_CREATE_USER to AUTH_LIST_ACL.

The door has checked the permission: UPDATE or GET of the cluster. Besides that, only a Super user may create, change or
delete a Super user, and only a Super user gets passwords. Answers to others leave them out, so that no user is copied
with a wrong one.

A change is answered when it is saved (`request_table`). The cost of a read is proportional to the users and entries,
which are limited (`broker.users`).

Source: AdminBrokerProcessor.createUser and its neighbours.
"""

from collections.abc import Callable

from regulus.access.policies import parse_policy_type, parse_resource
from regulus.access.user_words import (
    SUBJECT_PREFIX,
    acl_info,
    parse_status,
    parse_subject,
    parse_type,
    policies_of,
    user_info,
    user_of,
)
from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.named_body import decode_named
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.broker.users import Users
from regulus.errors import ConfigError
from regulus.model.peer import Peer
from regulus.wire import fastjson, json_fields
from regulus.wire.acl_signature import ACCESS_KEY
from regulus.wire.bodies import AclInfo, UserInfo
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import AuthAclRequest, AuthListAclRequest, AuthListUserRequest, AuthUserRequest
from regulus.wire.remoting_command import RemotingCommand

NO_USERS = "this broker keeps no users: set authenticationEnabled=true and initAuthenticationUser, and restart it"
_ONLY_SUPER = "only a Super user may create, change or delete a Super user"


def handle_auth_create_user(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    def create(users: Users) -> None:
        info = decode_named(UserInfo, request)
        user = user_of(UserInfo(username=_user_named(request), password=info.password, user_type=info.user_type,
                                user_status=info.user_status))
        _check_rank(request, users, touches_super=user.is_super)
        users.create(user)
    return _change(request, broker, create)


def handle_auth_update_user(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Fields that the request leaves out stay unchanged."""
    def update(users: Users) -> None:
        name, info = _user_named(request), decode_named(UserInfo, request)
        kind = parse_type(info.user_type)
        _check_rank(request, users, touches_super=users.expect(name).is_super or (kind is not None
                                                                                  and kind.value == "Super"))
        users.update(name, info.password, kind, parse_status(info.user_status))
    return _change(request, broker, update)


def handle_auth_delete_user(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Delete a user with its policies. Succeeds if there is no such user."""
    def delete(users: Users) -> None:
        user = users.get(_user_named(request))
        if user is not None:
            _check_rank(request, users, touches_super=user.is_super)
            users.delete(user.name)
    return _change(request, broker, delete)


def handle_auth_get_user(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """An empty body when there is no such user."""
    def read(users: Users) -> bytes:
        user = users.get(_user_named(request))
        return user_info(user, with_secret=_is_super(request, users)).encode() if user is not None else b""
    return _read(request, broker, read)


def handle_auth_list_user(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    def read(users: Users) -> bytes:
        part, with_secret = AuthListUserRequest.decode(request).filter or "", _is_super(request, users)
        return _listed([user_info(user, with_secret=with_secret) for user in users.in_order() if part in user.name])
    return _read(request, broker, read)


def handle_auth_create_acl(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Works like an update, as in RocketMQ: an entry replaces the one with the same resource."""
    def put(users: Users) -> None:
        info = decode_named(AclInfo, request)
        policies = policies_of(info.policies or ())
        if not policies:
            raise ConfigError("the request has no policies")
        users.put_policies(parse_subject(info.subject or AuthAclRequest.decode(request).subject), policies)
    return _change(request, broker, put)


def handle_auth_delete_acl(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Without a resource, all policies of the subject are deleted."""
    def delete(users: Users) -> None:
        header = AuthAclRequest.decode(request)
        resource = parse_resource(header.resource) if header.resource else None
        users.delete_policies(parse_subject(header.subject), parse_policy_type(header.policy_type), resource)
    return _change(request, broker, delete)


def handle_auth_get_acl(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """An empty body when the subject has no policies."""
    def read(users: Users) -> bytes:
        user = users.expect(parse_subject(AuthAclRequest.decode(request).subject))
        return acl_info(user).encode() if user.policies else b""
    return _read(request, broker, read)


def handle_auth_list_acl(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """A resource filter that is a part of the subject leaves its entries unfiltered, as in RocketMQ."""
    def read(users: Users) -> bytes:
        header = AuthListAclRequest.decode(request)
        part, resource_part = header.subject_filter or "", header.resource_filter or ""
        infos = [acl_info(user, "" if resource_part in SUBJECT_PREFIX + user.name else resource_part)
                 for user in users.in_order() if part in SUBJECT_PREFIX + user.name]
        return _listed([info for info in infos if info.policies])
    return _read(request, broker, read)


def _change(request: RemotingCommand, broker: BrokerState, change: Callable[[Users], None]) -> Outcome:
    if not broker.users.is_kept:
        return refuse(request, ResponseCode.SYSTEM_ERROR, NO_USERS)
    try:
        change(broker.users)
    except ConfigError as error:
        return refuse(request, ResponseCode.NO_PERMISSION, str(error))
    return succeed(request)


def _read(request: RemotingCommand, broker: BrokerState, read: Callable[[Users], bytes]) -> Outcome:
    if not broker.users.is_kept:
        return refuse(request, ResponseCode.SYSTEM_ERROR, NO_USERS)
    try:
        body = read(broker.users)
    except ConfigError as error:
        return refuse(request, ResponseCode.NO_PERMISSION, str(error))
    return succeed(request, body)


def _user_named(request: RemotingCommand) -> str:
    """Raises ConfigError."""
    name = AuthUserRequest.decode(request).username
    if not name or name.isspace():
        raise ConfigError("the request names no user")
    return name


def _is_super(request: RemotingCommand, users: Users) -> bool:
    """Whether a Super user sent the request. The door has checked the signature."""
    return users.is_super(request.ext.get(ACCESS_KEY, ""))


def _check_rank(request: RemotingCommand, users: Users, *, touches_super: bool) -> None:
    """Raises ConfigError when the request touches a Super user and its sender is not one."""
    if touches_super and not _is_super(request, users):
        raise ConfigError(_ONLY_SUPER)


def _listed(infos: list[UserInfo] | list[AclInfo]) -> bytes:
    """A JSON list of the values; empty when there are none."""
    values = [json_fields.to_value(info) for info in infos]
    return fastjson.dumps(values).encode() if values else b""
