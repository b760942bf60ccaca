cimport cython

from regulus.model.message_properties cimport parse as parse_properties
from regulus.wire cimport big_endian
from regulus.wire.row_digest cimport digest_on

cdef Py_ssize_t _SIZE_MIN
cdef long long _SUM_MASK
cdef bint _COMPILED


cdef class ColumnBatch:
    cdef const unsigned char[::1] _bodies
    cdef const int[::1] _body_ends
    cdef const unsigned char[::1] _properties
    cdef const int[::1] _property_ends
    cdef const int[::1] _flags
    cdef object _body_view
    cdef object _property_view
    cdef Py_ssize_t _unique_size

    @cython.locals(size=Py_ssize_t, batch=bytearray, position=Py_ssize_t, row=Py_ssize_t)
    cpdef bytearray encode(self, Py_ssize_t start, Py_ssize_t end)

    @cython.locals(row=Py_ssize_t)
    cpdef long long digest(self, Py_ssize_t start, Py_ssize_t end, long long digest) except -1

    @cython.locals(octets="unsigned char*", body_start=Py_ssize_t, body_end=Py_ssize_t, properties_start=Py_ssize_t,
                   properties_end=Py_ssize_t, body_size=Py_ssize_t, properties_size=Py_ssize_t)
    cdef Py_ssize_t _encode_one(self, bytearray batch, Py_ssize_t position, Py_ssize_t row) except -1


@cython.locals(octets="unsigned char*", index=Py_ssize_t)
cdef Py_ssize_t _copy(bytearray batch, Py_ssize_t position, const unsigned char[::1] data, Py_ssize_t start,
                      Py_ssize_t end) except -1

@cython.locals(position=Py_ssize_t, messages=list)
cpdef list decode(bytes body)

@cython.locals(octets="const unsigned char*", size=Py_ssize_t, end=Py_ssize_t, body_size=Py_ssize_t,
               body_start=Py_ssize_t, properties_start=Py_ssize_t, properties_end=Py_ssize_t, text=str)
cdef Py_ssize_t _decode_one(bytes data, Py_ssize_t start, list messages) except -1
