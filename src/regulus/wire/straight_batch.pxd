cimport cython

from regulus.model.message cimport StraightMessage
from regulus.wire cimport big_endian
from regulus.wire.octets cimport put_number
from regulus.wire.row_digest cimport digest_on
from regulus.wire.straight_properties cimport StraightProperties
from regulus.wire.remoting_command cimport RemotingCommand

cdef Py_ssize_t _RECORD_SIZE_MIN
cdef Py_ssize_t _TEXT_SIZE_MAX
cdef Py_ssize_t _NUMBER_SIZE_MAX
cdef Py_ssize_t _NAME_SIZE
cdef long long _SUM_MASK


cdef class StraightBatchReader:
    cdef public StraightMessage message
    cdef public Py_ssize_t count
    cdef public long long digest_before
    cdef public long long digest
    cdef StraightProperties _properties
    cdef bytes _before
    cdef bytes _after
    cdef long long _first_row
    cdef long long _row
    cdef Py_ssize_t _own_size
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef Py_ssize_t _position

    @cython.locals(message=StraightMessage, position=Py_ssize_t)
    cpdef bint read(self, RemotingCommand command, str topic, bytes before, long long first_row,
                    bytes after) except -1

    @cython.locals(message=StraightMessage, text=bytearray)
    cdef long long _properties_sum(self) except -1

    @cython.locals(message=StraightMessage, data="const unsigned char*", room=Py_ssize_t, size=Py_ssize_t,
                   body_size=Py_ssize_t, text_start=Py_ssize_t, text_size=Py_ssize_t, text_end=Py_ssize_t,
                   added=Py_ssize_t)
    cdef Py_ssize_t _take(self, Py_ssize_t start) except -2


@cython.locals(position=Py_ssize_t, bits=cython.int)
cdef bint _is_ascii(const unsigned char* text, Py_ssize_t size) noexcept
