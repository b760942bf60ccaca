cimport cython

from regulus.wire.remoting_command cimport RemotingCommand

cdef int _RESPONSE
cdef Py_ssize_t _FRAME_SIZE_MAX
cdef Py_ssize_t _HEADER_SIZE_MAX
cdef Py_ssize_t _LENGTHS_SIZE


@cython.locals(parts=list, size=Py_ssize_t, header_size=Py_ssize_t)
cdef list _that_fits(RemotingCommand command)


@cython.locals(responses=list, command=RemotingCommand, each=RemotingCommand)
cpdef list take_responses(list commands)
