cimport cython

from regulus.model.message cimport StraightMessage
from regulus.wire cimport big_endian
from regulus.wire.header_json cimport cut, matches
from regulus.wire.headers.send_message cimport send_message_response
from regulus.wire.octets cimport put, put_number
from regulus.wire.straight_properties cimport StraightProperties, run_end
from regulus.wire.remoting_command cimport RemotingCommand

cdef int _ROCKETMQ
cdef int _PROPERTIES_BIT
cdef int _OPAQUE_AT
cdef int _EXT_SIZE_AT
cdef int _KEY_SIZE_MAX
cdef long long _INT_MAX
cdef int _DIGITS_MAX
cdef Py_ssize_t _TEXT_SIZE_MAX
cdef int _WHOLE
cdef int _UNUSUAL
cdef int _NUMBER_SIZE_MAX
cdef bytes _HEX


cdef class StraightSendReader:
    cdef public StraightMessage message
    cdef StraightProperties _properties
    cdef bytes _stamp
    cdef bytes _text

    @cython.locals(text=bytes, message=StraightMessage)
    cpdef bint read(self, RemotingCommand command) except -1

    @cython.locals(text="const unsigned char*", key=Py_ssize_t, position=Py_ssize_t, start=Py_ssize_t, found=cython.int,
                   bit=cython.int, is_field=cython.bint)
    cdef bint _read_members(self) except -1

    @cython.locals(text="const unsigned char*", key=Py_ssize_t, position=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t,
                   size=Py_ssize_t, upto=Py_ssize_t, found=cython.int, bit=cython.int)
    cdef bint _read_entries(self) except -1

    cdef int _take(self, int key, Py_ssize_t start, Py_ssize_t end) except -2

    @cython.locals(message=StraightMessage, known=bytes, topic=bytes)
    cdef int _take_topic(self, Py_ssize_t start, Py_ssize_t end) except -2

    @cython.locals(text="const unsigned char*", first=Py_ssize_t, position=Py_ssize_t, value=cython.longlong)
    cdef int _take_number(self, int key, Py_ssize_t start, Py_ssize_t end) except -2

    @cython.locals(message=StraightMessage)
    cdef void _set_number(self, int key, long long value) noexcept



cdef class StraightAnswers:
    cdef bytes _begin
    cdef bytes _before_queue
    cdef bytes _after_queue
    cdef bytes _after_offset
    cdef bytes _after_key
    cdef bytes _end
    cdef bytearray _out

    @cython.locals(out="unsigned char*", end=Py_ssize_t)
    cpdef bytes frame(self, StraightMessage message, long long opaque, long long physical_offset, long long queue_offset)


cdef class BinaryStraightAnswers:
    cdef bytes _begin
    cdef bytes _before_queue
    cdef bytes _before_offset
    cdef bytes _before_key
    cdef bytearray _out

    @cython.locals(out="unsigned char*", end=Py_ssize_t)
    cpdef bytes frame(self, StraightMessage message, long long opaque, long long physical_offset, long long queue_offset)


@cython.locals(end=Py_ssize_t)
cdef Py_ssize_t _put_sized_number(unsigned char* out, Py_ssize_t position, long long value) noexcept

@cython.locals(index=Py_ssize_t, digits="const unsigned char*")
cdef Py_ssize_t _put_hex(unsigned char* out, Py_ssize_t position, long long value) noexcept
