cimport cython

from regulus.wire.remoting_command cimport RemotingCommand

cdef int _RESPONSE


@cython.locals(responses=list, command=RemotingCommand, each=RemotingCommand)
cpdef list take_responses(list commands)
