cimport cython

from regulus.broker.outcome cimport Reply, ReplyFrame, ReplyFrameWhenDurable, ReplyWhenDurable
from regulus.wire.remoting_command cimport RemotingCommand


@cython.locals(request=RemotingCommand, response=RemotingCommand, encoded=ReplyFrame, reply=Reply,
               waiting=ReplyFrameWhenDurable, durable=ReplyWhenDurable, end="long long")
cpdef long long decide(list requests, object handle, object peer, object state, object now_ms, list parts, list held,
                       list others) except -1
