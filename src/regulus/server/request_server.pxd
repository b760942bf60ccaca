cimport cython

from regulus.broker.outcome cimport Reply
from regulus.wire.remoting_command cimport RemotingCommand


@cython.locals(request=RemotingCommand, response=RemotingCommand)
cpdef decide(list requests, object handle, object peer, object state, long long now_ms, list parts, list others)
