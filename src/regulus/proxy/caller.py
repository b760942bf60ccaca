"""Who calls: what the headers of a call say. Source: GrpcConstants, HeaderInterceptor."""

from collections.abc import Iterable
from dataclasses import dataclass

from regulus.errors import CallRefused
from regulus.model.peer import Origin
from regulus.wire.grpc.codes import Code

CLIENT_ID_SIZE_MAX = 255


ClientKey = tuple[str, str]
"""A user, and a client id that he gave: an id is in no signature, so that each user has ids of his own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`peer` is `host:port`, and `origin` tells the same to brokers; `authority` is what the client calls us; at
    `deadline_ms` it gives up, or never. `user` is who signed; empty for nobody, where nobody has to."""

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
    """Of headers that a stranger wrote: the first of each name counts, others are passed over."""
    values: dict[str, str] = {}
    for name, value in metadata:
        field = _FIELDS.get(name)
        if field is not None:
            values.setdefault(field, value)
    return Caller(peer=peer, origin=origin, authority=authority, deadline_ms=deadline_ms, **values)


def check_client_id(caller: Caller) -> None:
    """Raises CallRefused."""
    if not caller.client_id.strip():
        raise CallRefused(Code.CLIENT_ID_REQUIRED, "the header x-mq-client-id is missing: each client names itself")
    if len(caller.client_id) > CLIENT_ID_SIZE_MAX:
        raise CallRefused(Code.REQUEST_HEADER_FIELDS_TOO_LARGE,
                          f"x-mq-client-id has {len(caller.client_id)} characters; {CLIENT_ID_SIZE_MAX} are the most")
