cimport cython

from regulus.broker cimport sql_values

cdef int _LESS
cdef int _AT_MOST
cdef int _GREATER
cdef int _AT_LEAST


cdef class Part:
    cpdef object evaluate(self, list values)


cdef class Property(Part):
    cdef Py_ssize_t _place

    cpdef object evaluate(self, list values)


cdef class Literal(Part):
    cdef object _value

    cpdef object evaluate(self, list values)


cdef class FalseIfThere(Part):
    cdef Py_ssize_t _place

    cpdef object evaluate(self, list values)


cdef class Joined(Part):
    cdef list _parts
    cdef object _decides

    @cython.locals(part=Part, is_unknown=cython.bint)
    cpdef object evaluate(self, list values)


cdef class Negated(Part):
    cdef Part _condition

    cpdef object evaluate(self, list values)


cdef class Minus(Part):
    cdef Part _term

    cpdef object evaluate(self, list values)


cdef class IsNull(Part):
    cdef Part _term

    cpdef object evaluate(self, list values)


cdef class Equal(Part):
    cdef Part _left
    cdef Part _right

    cpdef object evaluate(self, list values)


cdef class Ordered(Part):
    cdef int _sign
    cdef Part _left
    cdef Part _right

    @cython.locals(order=cython.int, sign=cython.int)
    cpdef object evaluate(self, list values)


cdef class OneOf(Part):
    cdef Py_ssize_t _place
    cdef frozenset _texts
    cdef bint _is_not

    @cython.locals(is_in=cython.bint)
    cpdef object evaluate(self, list values)


cdef class TextTest(Part):
    cdef Part _term
    cdef object _is_so
    cdef bint _may_be_slow
    cdef object _search
    cdef str _text
    cdef object _is_not

    cpdef object evaluate(self, list values)


cdef class Condition:
    cdef Part _part
    cdef readonly tuple names
    cdef readonly long long weight

    cpdef bint takes(self, list values) except -1
