cimport cython

from regulus.wire cimport big_endian
from regulus.wire.header_json cimport cut, decode as decode_json
from regulus.wire.header_rocketmq cimport decode as decode_rocketmq
from regulus.wire.remoting_command cimport RemotingCommand

cdef int _JSON
cdef int _ROCKETMQ
cdef Py_ssize_t _HEADER_SIZE_MAX
cdef Py_ssize_t _LARGE_FRAME
cdef Py_ssize_t _GROWTH_MAX
cdef int _SEND_MESSAGE_V2
cdef int _SEND_BATCH_MESSAGE


cdef class FrameReader:
    cdef public Py_ssize_t frame_size_max
    cdef public object room
    cdef object _data
    cdef Py_ssize_t _position
    cdef Py_ssize_t _end
    cdef list _waiting
    cdef Py_ssize_t _waiting_size
    cdef Py_ssize_t _wanted
    cdef object _error

    cpdef feed(self, data)

    @cython.locals(rest=Py_ssize_t)
    cpdef lend(self, bytearray buffer, Py_ssize_t start, Py_ssize_t end)

    cpdef give_back(self, bint has_room=*)

    @cython.locals(own=bytearray, end=Py_ssize_t)
    cdef _make_room(self)

    cpdef fill(self, Py_ssize_t size)

    @cython.locals(commands=list)
    cpdef list frames(self)

    @cython.locals(start=Py_ssize_t, room=Py_ssize_t, total=Py_ssize_t, is_own=bint)
    cdef bint _next(self, list commands) except -1


@cython.locals(word=Py_ssize_t, header_start=Py_ssize_t, header_end=Py_ssize_t, header_size=Py_ssize_t,
               command=RemotingCommand, text="const unsigned char*")
cpdef RemotingCommand decode_frame(object data, Py_ssize_t start, Py_ssize_t end, bint is_own)
