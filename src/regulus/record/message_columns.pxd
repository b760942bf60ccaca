cimport cython

from regulus.record cimport big_endian, byte_runs, layout
from regulus.record.message_record cimport check_start, find_parts

cdef Py_ssize_t _FETCHED_AHEAD
cdef Py_ssize_t _PROPERTIES_GUESS
cdef Py_ssize_t _HEAD_GUESS
cdef Py_ssize_t _LINE_SIZE
cdef Py_ssize_t _SHAPE_SIZE
cdef unsigned long long _FOUR_BYTES
cdef unsigned long long _EACH_TWO_BYTES
cdef unsigned long long _EACH_BYTE
cdef unsigned long long _EACH_DIGIT
cdef unsigned long long _EACH_ONE
cdef unsigned long long _ZEROS


@cython.locals(rows=Py_ssize_t, limit=Py_ssize_t, row=Py_ssize_t, ahead=Py_ssize_t, place=Py_ssize_t)
cpdef int read_fields(const unsigned char[::1] data, const long long[::1] positions, long long[::1] table) except -1

@cython.locals(room=Py_ssize_t, limit=Py_ssize_t, position=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t find_records(const unsigned char[::1] data, long long[::1] positions) except -1

@cython.locals(size=Py_ssize_t, flags=cython.int, born_end=Py_ssize_t, store_end=Py_ssize_t, body_end=Py_ssize_t,
               topic_start=Py_ssize_t, topic_end=Py_ssize_t, at=Py_ssize_t)
cdef int _read_record(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t limit, long long[::1] table,
                      Py_ssize_t row, Py_ssize_t rows) except -1

@cython.locals(rows=Py_ssize_t, room=Py_ssize_t, row=Py_ssize_t, total=Py_ssize_t, number=Py_ssize_t, joined=bytes,
               name_ends=bytes, shape="long long[::1]")
cpdef Py_ssize_t read_properties(const unsigned char[::1] data, const long long[::1] starts,
                                 const long long[::1] ends, tuple names, long long[::1] counts,
                                 long long[::1] places, int[::1] offsets, long long[::1] entries) except -1

@cython.locals(total=Py_ssize_t, turn=Py_ssize_t, size=Py_ssize_t, separator=Py_ssize_t, is_known=bint,
               end=Py_ssize_t, number=Py_ssize_t, entry=Py_ssize_t)
cdef Py_ssize_t _read_row(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t limit,
                          const unsigned char* joined, const unsigned char* name_ends, Py_ssize_t names,
                          long long[::1] counts, long long[::1] places, Py_ssize_t row, Py_ssize_t rows,
                          long long[::1] entries, Py_ssize_t room, Py_ssize_t first, long long[::1] shape) noexcept

@cython.locals(at=Py_ssize_t, index=Py_ssize_t)
cdef void _place(long long[::1] counts, long long[::1] places, Py_ssize_t number, Py_ssize_t row, Py_ssize_t rows,
                 Py_ssize_t start, Py_ssize_t end) noexcept

@cython.locals(begin=Py_ssize_t, end=Py_ssize_t, number=Py_ssize_t)
cdef Py_ssize_t _number_of(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t size,
                           const unsigned char* joined, const unsigned char* name_ends, Py_ssize_t names) noexcept

@cython.locals(index=Py_ssize_t)
cdef bint _is_name(const unsigned char[::1] data, Py_ssize_t start, const unsigned char* joined, Py_ssize_t begin,
                   Py_ssize_t size) noexcept

cdef Py_ssize_t _name_end(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t limit) noexcept

@cython.locals(row=Py_ssize_t, total=Py_ssize_t)
cpdef Py_ssize_t properties_max(const long long[::1] starts, const long long[::1] ends) except -1

@cython.locals(size=Py_ssize_t, entry=Py_ssize_t, at=Py_ssize_t)
cdef Py_ssize_t _same_name(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, long long[::1] entries,
                           Py_ssize_t room, Py_ssize_t first, Py_ssize_t total) noexcept

@cython.locals(row=Py_ssize_t, at=Py_ssize_t)
cpdef Py_ssize_t lay_out(const long long[::1] starts, const long long[::1] ends, int[::1] offsets) except -1

@cython.locals(row=Py_ssize_t, size=Py_ssize_t)
cpdef int gather(const unsigned char[::1] data, const long long[::1] starts, const long long[::1] ends,
                 const int[::1] offsets, unsigned char[::1] target) except -1

@cython.locals(row=Py_ssize_t)
cpdef int read_words(const unsigned char[::1] data, const long long[::1] starts, long long[::1] words) except -1

@cython.locals(row=Py_ssize_t, at=Py_ssize_t)
cpdef int write_ids(const long long[::1] hosts, const long long[::1] physical_offsets,
                    unsigned char[::1] target) except -1

@cython.locals(spread="unsigned long long", is_letter="unsigned long long")
cdef unsigned long long _digits(unsigned long long value) noexcept
