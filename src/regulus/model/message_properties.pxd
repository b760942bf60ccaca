cimport cython

cdef str _NAME_END
cdef str _PROPERTY_END


@cython.locals(start=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t, separator=Py_ssize_t, properties=dict)
cpdef dict parse(str text)

@cython.locals(pieces=list)
cpdef str format(dict properties)
