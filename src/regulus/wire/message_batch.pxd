cimport cython

from regulus.model.message_properties cimport parse as parse_properties

cdef Py_ssize_t _SIZE_MIN


@cython.locals(position=Py_ssize_t, messages=list)
cpdef list decode(bytes body)

@cython.locals(octets="const unsigned char*", size=Py_ssize_t, end=Py_ssize_t, body_size=Py_ssize_t,
               body_start=Py_ssize_t, properties_start=Py_ssize_t, properties_end=Py_ssize_t, text=str)
cdef Py_ssize_t _decode_one(bytes data, Py_ssize_t start, list messages) except -1

@cython.locals(value=cython.longlong)
cdef long long _int(const unsigned char* octets, Py_ssize_t position) noexcept

@cython.locals(value=cython.int)
cdef int _short(const unsigned char* octets, Py_ssize_t position) noexcept
