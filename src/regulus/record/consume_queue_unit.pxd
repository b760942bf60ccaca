cpdef encode_into(unsigned char[::1] cells, Py_ssize_t position, long long physical_offset, long long size,
                  long long tags_code)

cdef void _put4(unsigned char[::1] cells, Py_ssize_t position, long long value) noexcept

cdef void _put8(unsigned char[::1] cells, Py_ssize_t position, long long value) noexcept
