from regulus.wire.remoting_command cimport RemotingCommand

cdef int _ONEWAY


cpdef handle(RemotingCommand request, object peer, object broker, long long now_ms)
