cimport cython

from regulus.broker.outcome cimport Reply, ReplyFrame
from regulus.wire.remoting_command cimport RemotingCommand


@cython.locals(request=RemotingCommand, response=RemotingCommand, encoded=ReplyFrame, reply=Reply)
cpdef decide(list requests, object handle, object peer, object state, object now_ms, list parts, list others)
