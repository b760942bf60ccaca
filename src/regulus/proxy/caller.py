"""The caller of a gRPC call, read from the call's headers. Source: GrpcConstants, HeaderInterceptor."""

from collections.abc import Iterable
from dataclasses import dataclass

from regulus.errors import CallRefused
from regulus.model.peer import Origin
from regulus.wire.grpc.codes import Code

CLIENT_ID_SIZE_MAX = 255
"""Characters of a client id; a call with a longer one is refused."""


ClientKey = tuple[str, str]
"""A user and a client id of theirs. No signature covers the id, so two users may give the same one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What the headers and the connection of a call say about its client.

    `peer` is `host:port`, and `origin` is the same in the form for brokers. `authority` is the address by which the
    client called this server. At `deadline_ms` the client gives up; None means never. `user` is the user who signed the
    call, empty if it is unsigned.
    """

    client_id: str = ""
    language: str = ""
    version: str = ""
    namespace: str = ""
    date_time: str = ""
    authorization: str = ""
    authority: str = ""
    peer: str = ""
    origin: Origin | None = None
    deadline_ms: int | None = None
    user: str = ""

    @property
    def key(self) -> ClientKey:
        return self.user, self.client_id

    @property
    def host(self) -> str:
        return self.peer.rpartition(":")[0].strip("[]")


_FIELDS = {"x-mq-client-id": "client_id", "x-mq-language": "language", "x-mq-client-version": "version",
           "x-mq-namespace": "namespace", "x-mq-date-time": "date_time", "authorization": "authorization"}


def caller_of(metadata: Iterable[tuple[str, str]], peer: str, authority: str = "", deadline_ms: int | None = None,
              origin: Origin | None = None) -> Caller:
    """The caller that the headers name. If a header is repeated, the first one counts; unknown headers are ignored."""
    values: dict[str, str] = {}
    for name, value in metadata:
        field = _FIELDS.get(name)
        if field is not None:
            values.setdefault(field, value)
    return Caller(peer=peer, origin=origin, authority=authority, deadline_ms=deadline_ms, **values)


def check_client_id(caller: Caller) -> None:
    """Raises CallRefused if the client id is missing, blank or too long."""
    if not caller.client_id.strip():
        raise CallRefused(Code.CLIENT_ID_REQUIRED, "the header x-mq-client-id is missing: it must name the client")
    if len(caller.client_id) > CLIENT_ID_SIZE_MAX:
        raise CallRefused(Code.REQUEST_HEADER_FIELDS_TOO_LARGE,
                          f"x-mq-client-id has {len(caller.client_id)} characters; {CLIENT_ID_SIZE_MAX} are the most")
