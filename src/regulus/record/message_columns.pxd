cimport cython

from regulus.record.message_record cimport check_start, find_body_end, find_topic_end

cdef Py_ssize_t _SHORT_MAX
cdef int _BLANK
cdef int _V2


@cython.locals(rows=Py_ssize_t, limit=Py_ssize_t, row=Py_ssize_t)
cpdef int read_fields(const unsigned char[::1] data, const long long[::1] positions, long long[::1] table) except -1

@cython.locals(room=Py_ssize_t, limit=Py_ssize_t, position=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t find_records(const unsigned char[::1] data, long long[::1] positions) except -1

@cython.locals(size=Py_ssize_t, magic=cython.int, flags=cython.int, born_end=Py_ssize_t, store_end=Py_ssize_t,
               topic_at=Py_ssize_t, topic_end=Py_ssize_t, at=Py_ssize_t)
cdef int _read_record(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t limit, long long[::1] table,
                      Py_ssize_t row, Py_ssize_t rows) except -1

@cython.locals(value=cython.int)
cdef int _int4(const unsigned char[::1] data, Py_ssize_t position) noexcept

@cython.locals(value=cython.longlong)
cdef long long _int8(const unsigned char[::1] data, Py_ssize_t position) noexcept

@cython.locals(rows=Py_ssize_t, row=Py_ssize_t, index=Py_ssize_t, joined=bytes, name_ends=bytes)
cpdef int locate_properties(const unsigned char[::1] data, const long long[::1] starts, const long long[::1] ends,
                            tuple names, long long[::1] places) except -1

@cython.locals(end=Py_ssize_t, separator=Py_ssize_t, number=Py_ssize_t)
cdef void _locate_in_row(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t limit,
                         const unsigned char* joined, const unsigned char* name_ends, Py_ssize_t names,
                         long long[::1] places, Py_ssize_t row, Py_ssize_t rows) noexcept

@cython.locals(begin=Py_ssize_t, end=Py_ssize_t, number=Py_ssize_t)
cdef Py_ssize_t _number_of(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t size,
                           const unsigned char* joined, const unsigned char* name_ends, Py_ssize_t names) noexcept

@cython.locals(index=Py_ssize_t)
cdef bint _is_name(const unsigned char[::1] data, Py_ssize_t start, const unsigned char* joined, Py_ssize_t begin,
                   Py_ssize_t size) noexcept

cdef Py_ssize_t _name_end(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t limit) noexcept

cdef Py_ssize_t _value_end(const unsigned char[::1] data, Py_ssize_t name_end, Py_ssize_t limit) noexcept

@cython.locals(row=Py_ssize_t, total=Py_ssize_t)
cpdef Py_ssize_t properties_max(const long long[::1] starts, const long long[::1] ends) except -1

@cython.locals(row=Py_ssize_t, total=Py_ssize_t)
cpdef Py_ssize_t list_properties(const unsigned char[::1] data, const long long[::1] starts,
                                 const long long[::1] ends, int[::1] offsets, long long[::1] places,
                                 Py_ssize_t room) except -1

@cython.locals(total=Py_ssize_t, end=Py_ssize_t, separator=Py_ssize_t, entry=Py_ssize_t)
cdef Py_ssize_t _list_row(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t limit, long long[::1] places,
                          Py_ssize_t room, Py_ssize_t first) noexcept

@cython.locals(size=Py_ssize_t, entry=Py_ssize_t)
cdef Py_ssize_t _same_name(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, long long[::1] places,
                           Py_ssize_t room, Py_ssize_t first, Py_ssize_t total) noexcept

@cython.locals(index=Py_ssize_t)
cdef bint _is_same(const unsigned char[::1] data, Py_ssize_t left, Py_ssize_t right, Py_ssize_t size) noexcept

@cython.locals(row=Py_ssize_t, start=Py_ssize_t, size=Py_ssize_t, at=Py_ssize_t, index=Py_ssize_t)
cpdef int gather(const unsigned char[::1] data, const long long[::1] starts, const long long[::1] ends,
                 const int[::1] offsets, unsigned char[::1] target) except -1
