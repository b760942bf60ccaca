cimport cython

from regulus.model.message cimport StraightMessage
from regulus.wire.header_json cimport cut, matches
from regulus.wire.octets cimport put

cdef int _KEY_SIZE_MAX
cdef long long _FIRST_UNUSUAL_BIT
cdef long long _UNIQ_KEY_BIT
cdef long long _TAGS_BIT
cdef long long _KEYS_BIT
cdef long long _WAIT_BIT


cdef class StraightProperties:
    cdef public StraightMessage message
    cdef frozenset _unusual
    cdef long long _names_seen

    @cython.locals(out="unsigned char*", size=Py_ssize_t, name=Py_ssize_t, value=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t take_escaped(self, const unsigned char* text, Py_ssize_t position) except -1

    @cython.locals(out="unsigned char*", size=Py_ssize_t, name=Py_ssize_t, value=Py_ssize_t, end=Py_ssize_t)
    cdef bint take(self, const unsigned char* text, Py_ssize_t position, Py_ssize_t upto) except -1

    @cython.locals(message=StraightMessage)
    cdef int append(self, bytes text) except -1

    @cython.locals(message=StraightMessage, size=Py_ssize_t)
    cdef bint has_unique_key(self) except -1

    @cython.locals(message=StraightMessage)
    cdef void _begin(self) noexcept

    @cython.locals(message=StraightMessage, out="unsigned char*", size=Py_ssize_t, bit=cython.longlong)
    cdef bint _note(self, Py_ssize_t name, Py_ssize_t value, Py_ssize_t end) except -1

    cdef long long _bit_of_other(self, bytes name) except -1


cpdef Py_ssize_t run_end(const unsigned char* text, Py_ssize_t position) noexcept

cdef Py_ssize_t _field_end(const unsigned char* text, Py_ssize_t position, Py_ssize_t end) noexcept

cpdef bint is_separator(const unsigned char* text, Py_ssize_t position) noexcept

cdef bint _is_escaped(const unsigned char* text, Py_ssize_t position, int digit) noexcept

@cython.locals(others=cython.uchar, character=cython.uchar, position=Py_ssize_t)
cdef bint _stands_as_it_is(const unsigned char* text, Py_ssize_t start, Py_ssize_t end) noexcept
