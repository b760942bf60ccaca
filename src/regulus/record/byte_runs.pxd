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

# Short runs, as names are, take fewer steps here than a call: their first and last bytes, which may overlap, are all.
cdef inline bint is_same_run(const unsigned char[::1] data, Py_ssize_t left, Py_ssize_t right,
                             Py_ssize_t size) noexcept:
    if 8 <= size <= 16:
        return word(&data[left]) == word(&data[right]) and word(&data[left + size - 8]) == word(&data[right + size - 8])
    if 4 <= size < 8:
        return (half_word(&data[left]) == half_word(&data[right])
                and half_word(&data[left + size - 4]) == half_word(&data[right + size - 4]))
    return memcmp(&data[left], &data[right], size) == 0

cdef inline unsigned long long word(const unsigned char* place) noexcept:
    cdef unsigned long long bytes8
    memcpy(&bytes8, place, 8)
    return bytes8

cdef inline unsigned int half_word(const unsigned char* place) noexcept:
    cdef unsigned int bytes4
    memcpy(&bytes4, place, 4)
    return bytes4

cdef inline bint is_run(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t size, bytes name):
    return len(name) == size and memcmp(&data[start], <const char*> name, size) == 0

cdef inline str text_of_run(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end):
    return (<const char*> &data[start])[:end - start].decode("utf-8", "replace")

cdef inline bytes bytes_of_run(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end):
    return (<const char*> &data[start])[:end - start]

cdef inline void copy_run(const unsigned char[::1] source, Py_ssize_t start, unsigned char[::1] target, Py_ssize_t at,
                          Py_ssize_t size) noexcept:
    memcpy(&target[at], &source[start], size)

# Sixteen bytes are copied as two words, without a call; what is too much, the next piece overwrites.
cdef inline void copy_piece(const unsigned char[::1] source, Py_ssize_t start, unsigned char[::1] target,
                            Py_ssize_t at, Py_ssize_t size) noexcept:
    if size <= 16 and start + 16 <= source.shape[0] and at + 16 <= target.shape[0]:
        memcpy(&target[at], &source[start], 16)
    else:
        memcpy(&target[at], &source[start], size)

cdef inline void fetch_ahead(const unsigned char[::1] data, Py_ssize_t position) noexcept:
    regulus_prefetch(&data[position])
