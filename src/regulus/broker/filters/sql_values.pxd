cimport cython

cdef Py_ssize_t _SMALL_DIGITS_MAX
cdef Py_ssize_t _SMALL_DECIMAL_MAX


cpdef int order(object left, object right) except -9

@cython.locals(number=cython.longlong, limit=cython.longlong)
cpdef int compare(object left, object right) except -9

cdef int _compare_doubles(double left, double right) except -9

@cython.locals(size=Py_ssize_t, number=cython.longlong, character=Py_UCS4)
cpdef long long small_number(str text)

@cython.locals(size=Py_ssize_t, digits=Py_ssize_t, character=Py_UCS4)
cdef bint _is_plain_decimal(str text)

cdef double _double(str text) except? -1.5
