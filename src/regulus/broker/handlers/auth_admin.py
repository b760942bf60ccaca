"""Users and policies of ACL 2.0 as operators change and read them: AUTH_CREATE_USER to AUTH_LIST_ACL.

Who may come here at all, the door says: UPDATE or GET of the cluster. Beyond that only a Super user makes, changes or
deletes one, and only to a Super user a password is shown: to others it is left out, so that nobody copies a user with a
wrong one.

A change is answered when it is saved (`request_table`). A read costs what there is of users and entries, which are
limited (`broker.users`).

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

NO_USERS = "this broker keeps no users: set authenticationEnabled=true and initAuthenticationUser, and start it anew"
_ONLY_SUPER = "only a Super user makes, changes or deletes a Super user"


def handle_auth_create_user(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    def create(users: Users) -> None:
        info = decode_named(UserInfo, request)
        user = user_of(UserInfo(username=_user_named(request), password=info.password, user_type=info.user_type,
                                user_status=info.user_status))
        _check_rank(request, users, touches_super=user.is_super)
        users.create(user)
    return _change(request, broker, create)


def handle_auth_update_user(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """What the request leaves out stays as it is."""
    def update(users: Users) -> None:
        name, info = _user_named(request), decode_named(UserInfo, request)
        kind = parse_type(info.user_type)
        _check_rank(request, users, touches_super=users.expect(name).is_super or (kind is not None
                                                                                  and kind.value == "Super"))
        users.update(name, info.password, kind, parse_status(info.user_status))
    return _change(request, broker, update)


def handle_auth_delete_user(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Its policies go with it. There is no such user afterwards, whether there was one or not."""
    def delete(users: Users) -> None:
        user = users.get(_user_named(request))
        if user is not None:
            _check_rank(request, users, touches_super=user.is_super)
            users.delete(user.name)
    return _change(request, broker, delete)


def handle_auth_get_user(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """An empty body when there is none."""
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
    """The same as an update, as with RocketMQ: an entry takes the place of the one with its resource."""
    def put(users: Users) -> None:
        info = decode_named(AclInfo, request)
        policies = policies_of(info.policies or ())
        if not policies:
            raise ConfigError("the request has no policies")
        users.put_policies(parse_subject(info.subject or AuthAclRequest.decode(request).subject), policies)
    return _change(request, broker, put)


def handle_auth_delete_acl(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Without a resource all policies of the subject."""
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
    """A resource filter that is a part of the subject leaves its entries as they are, as with RocketMQ."""
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
    """Whether a Super user asks, whose signature the door has seen."""
    return users.is_super(request.ext.get(ACCESS_KEY, ""))


def _check_rank(request: RemotingCommand, users: Users, *, touches_super: bool) -> None:
    """Raises ConfigError."""
    if touches_super and not _is_super(request, users):
        raise ConfigError(_ONLY_SUPER)


def _listed(infos: list[UserInfo] | list[AclInfo]) -> bytes:
    """Empty, when there is nothing."""
    values = [json_fields.to_value(info) for info in infos]
    return fastjson.dumps(values).encode() if values else b""
