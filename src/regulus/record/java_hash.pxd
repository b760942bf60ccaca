cimport cython

cdef long long _MASK
cdef long long _POSITIVE_MAX


@cython.locals(value=cython.longlong, code=cython.longlong, character=Py_UCS4)
cpdef long long java_hash(str text) except? -1

cpdef long long tags_code(object tags) except? -1
