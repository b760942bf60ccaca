cdef inline int int2(const unsigned char* data, Py_ssize_t position) noexcept:
    return <short> (data[position] << 8 | data[position + 1])

cdef inline int int4(const unsigned char* data, Py_ssize_t position) noexcept:
    return <int> uint4(data, position)

cdef inline Py_ssize_t uint4(const unsigned char* data, Py_ssize_t position) noexcept:
    return (<Py_ssize_t> data[position] << 24 | <Py_ssize_t> data[position + 1] << 16
            | <Py_ssize_t> data[position + 2] << 8 | data[position + 3])

cdef inline void put4(unsigned char* out, Py_ssize_t position, Py_ssize_t value) noexcept:
    out[position] = <unsigned char> (value >> 24)
    out[position + 1] = <unsigned char> (value >> 16)
    out[position + 2] = <unsigned char> (value >> 8)
    out[position + 3] = <unsigned char> value
