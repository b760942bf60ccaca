cimport cython


@cython.locals(index=Py_ssize_t)
cpdef Py_ssize_t put(unsigned char* out, Py_ssize_t position, const unsigned char* data, Py_ssize_t start,
                     Py_ssize_t end) noexcept

@cython.locals(end=Py_ssize_t, place=Py_ssize_t, rest=cython.longlong)
cpdef Py_ssize_t put_number(unsigned char* out, Py_ssize_t position, long long value) noexcept
