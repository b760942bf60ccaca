from regulus.wire.remoting_command cimport RemotingCommand

cdef int _ONEWAY
cdef dict _TABLE


cpdef handle(RemotingCommand request, object peer, object broker, object now_ms)
