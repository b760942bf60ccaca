cdef inline int int4(const unsigned char[::1] data, Py_ssize_t position) noexcept:
    cdef const unsigned char* at = &data[position]
    return <int> (<unsigned int> at[0] << 24 | <unsigned int> at[1] << 16 | <unsigned int> at[2] << 8 | at[3])

cdef inline long long int8(const unsigned char[::1] data, Py_ssize_t position) noexcept:
    cdef unsigned int low = <unsigned int> int4(data, position + 4)
    return <long long> (<unsigned long long> int4(data, position) << 32 | low)

cdef inline Py_ssize_t put2(unsigned char[::1] cells, Py_ssize_t position, long long value) noexcept:
    cdef unsigned char* at = &cells[position]
    at[0] = <unsigned char> (value >> 8)
    at[1] = <unsigned char> value
    return position + 2

cdef inline Py_ssize_t put4(unsigned char[::1] cells, Py_ssize_t position, long long value) noexcept:
    cdef unsigned char* at = &cells[position]
    at[0] = <unsigned char> (value >> 24)
    at[1] = <unsigned char> (value >> 16)
    at[2] = <unsigned char> (value >> 8)
    at[3] = <unsigned char> value
    return position + 4

cdef inline Py_ssize_t put8(unsigned char[::1] cells, Py_ssize_t position, long long value) noexcept:
    put4(cells, position, value >> 32)
    return put4(cells, position + 4, value)
