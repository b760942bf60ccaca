"""What each request to a name server needs: the table of its access check.

Any client may read routes, as in RocketMQ, whose name server knows no users. Only a broker of the cluster or an
operator may change them, with a signature: a stranger that registered the name of a broker would receive its messages.

Source: the RocketMQAction of each request header below namesrv.
"""

from regulus.access import needs
from regulus.access.decision import Need
from regulus.access.needs import UPDATE, Read
from regulus.wire.codes import RequestCode as Code
from regulus.wire.remoting_command import RemotingCommand

OPEN = frozenset((
    Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO, Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    Code.GET_TOPICS_BY_CLUSTER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, Code.GET_UNIT_TOPIC_LIST,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, Code.GET_BROKER_MEMBER_GROUP,
    Code.GET_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE, Code.GET_NAMESRV_CONFIG))
"""Every client that reaches the name server may send these, signed or not."""

_OF_OPERATORS = needs.cluster(UPDATE)

NEEDS: dict[int, Read] = {code: _OF_OPERATORS for code in Code if code not in OPEN}
"""Includes the registration of brokers, and codes that no name server answers."""


def needs_of(request: RemotingCommand) -> tuple[Need, ...]:
    """Raises KeyError for an unknown code."""
    return NEEDS[request.code](request)
