cimport cython


@cython.locals(size=Py_ssize_t, index=Py_ssize_t)
cdef Py_ssize_t copy_part(unsigned char[::1] cells, Py_ssize_t position, const unsigned char* data, Py_ssize_t start,
                          Py_ssize_t end) except -1
