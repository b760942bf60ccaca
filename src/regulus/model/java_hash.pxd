cimport cython

cdef long long _MASK
cdef long long _POSITIVE_MAX


@cython.locals(value=cython.longlong, code=cython.longlong, character=Py_UCS4)
cpdef long long java_hash(str text) except? -1

@cython.locals(value=cython.longlong)
cpdef long long java_hash_of(const unsigned char* text, Py_ssize_t start, Py_ssize_t end) except? -1

@cython.locals(position=Py_ssize_t)
cpdef long long hash_on(long long value, const unsigned char* text, Py_ssize_t start, Py_ssize_t end) except? -1

cpdef long long tags_code(object tags) except? -1
