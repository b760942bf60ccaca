cdef extern from "string.h" nogil:
    void* memchr(const void* run, int value, size_t size)
    int memcmp(const void* left, const void* right, size_t size)
    void* memcpy(void* target, const void* source, size_t size)

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define regulus_prefetch(place) __builtin_prefetch(place)
    #else
    #define regulus_prefetch(place) ((void)(place))
    #endif
    """
    void regulus_prefetch(const void* place) nogil


cdef inline Py_ssize_t find_byte(const unsigned char[::1] data, unsigned char value, Py_ssize_t start,
                                 Py_ssize_t limit) noexcept:
    cdef const unsigned char* found
    if start >= limit:
        return start
    found = <const unsigned char*> memchr(&data[start], value, limit - start)
    return limit if found is NULL else start + (found - &data[start])

cdef inline bint is_same_run(const unsigned char[::1] data, Py_ssize_t left, Py_ssize_t right,
                             Py_ssize_t size) noexcept:
    return memcmp(&data[left], &data[right], size) == 0

cdef inline void copy_run(const unsigned char[::1] source, Py_ssize_t start, unsigned char[::1] target, Py_ssize_t at,
                          Py_ssize_t size) noexcept:
    memcpy(&target[at], &source[start], size)

cdef inline void fetch_ahead(const unsigned char[::1] data, Py_ssize_t position) noexcept:
    regulus_prefetch(&data[position])
