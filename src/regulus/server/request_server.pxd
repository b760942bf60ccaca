cimport cython

from regulus.broker.outcome cimport Reply
from regulus.wire.remoting_command cimport RemotingCommand

cdef Py_ssize_t _JOINED_PART_MAX


cdef class Tally:
    cdef public list runs
    cdef public list held
    cdef public list others
    cdef public object latencies
    cdef double _began

    cpdef bint begin_again(self) except -1

    cdef double _took_ms(self) except -1.0


@cython.locals(size=Py_ssize_t)
cpdef send_parts(object connection, list parts)

@cython.locals(request=RemotingCommand, reply=Reply, command=RemotingCommand, taker=list, end="long long",
               code=cython.int, run_code=cython.int, run_times=cython.int, run_taker=list)
cpdef long long decide(list requests, object handle, object peer, object state, object now_ms, list parts, list held,
                       list others, object refusals, Tally tally=*) except -1
