cimport cython

from regulus.record cimport big_endian, layout
from regulus.model.java_hash cimport java_hash
from regulus.record.message_record cimport find_parts

cdef int _TRANSACTION_MASK
cdef int _TRANSACTION_ROLLBACK
cdef long long _UNKNOWN_DELAY
cdef bytes _SCHEDULE_TOPIC
cdef long long _CRC_MASK
cdef long long _HASH_MASK
cdef long long _POSITIVE_MAX


cdef class LogWalk:
    cdef public dict topics
    cdef public Py_ssize_t position
    cdef public Py_ssize_t hashes_used
    cdef public bint is_blank
    cdef public object fault
    cdef tuple _delays_ms
    cdef bint _check_crc
    cdef bint _with_tags
    cdef bint _with_index
    cdef list _seeds
    cdef Py_ssize_t _schedule_number
    cdef bytes _last_topic
    cdef Py_ssize_t _last_number

    @cython.locals(row=Py_ssize_t, size=Py_ssize_t)
    cpdef Py_ssize_t walk(self, object data, const unsigned char[::1] view, Py_ssize_t start, Py_ssize_t limit,
                          long long base, long long[::1] table, Py_ssize_t room, long long[::1] hashes) except -1

    @cython.locals(size=Py_ssize_t, flags=cython.int, born_end=Py_ssize_t, store_end=Py_ssize_t, body_end=Py_ssize_t,
                   topic_start=Py_ssize_t, topic_end=Py_ssize_t, end=Py_ssize_t, properties_start=Py_ssize_t,
                   place=cython.longlong, flaw=cython.int, checksum=cython.longlong, topic=Py_ssize_t, used=Py_ssize_t, store_timestamp=cython.longlong,
                   tags_code=cython.longlong, at=Py_ssize_t)
    cdef Py_ssize_t _read(self, object data, const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t limit,
                          long long base, long long[::1] table, Py_ssize_t row, Py_ssize_t room,
                          long long[::1] hashes, Py_ssize_t hashes_max) except -2

    @cython.locals(size=Py_ssize_t, name=bytes, number=Py_ssize_t)
    cdef Py_ssize_t _topic(self, object data, const unsigned char[::1] view, Py_ssize_t start,
                           Py_ssize_t end) except -1

    @cython.locals(tags_start=Py_ssize_t, keys_start=Py_ssize_t, unique_start=Py_ssize_t, delay_start=Py_ssize_t,
                   tags_end=Py_ssize_t, keys_end=Py_ssize_t, unique_end=Py_ssize_t, delay_end=Py_ssize_t,
                   end=Py_ssize_t, size=Py_ssize_t, level=bytes, number=Py_ssize_t)
    cdef long long _read_properties(self, object data, const unsigned char[::1] view, Py_ssize_t start,
                                    Py_ssize_t limit, Py_ssize_t topic, int flags, long long store_timestamp,
                                    long long[::1] hashes, Py_ssize_t hashes_max) except? -1

    cdef long long _delay(self, Py_ssize_t level) except? -1

    @cython.locals(value=cython.longlong)
    cdef int _add_hash(self, object data, const unsigned char[::1] view, Py_ssize_t start, Py_ssize_t end,
                       Py_ssize_t topic, long long[::1] hashes) except -1


@cython.locals(value=cython.longlong, index=Py_ssize_t)
cdef long long _hash_bytes(object data, const unsigned char[::1] view, Py_ssize_t start, Py_ssize_t end,
                           long long seed) except? -1

@cython.locals(value=cython.longlong, character=Py_UCS4)
cdef long long _hash_text(str text, long long seed) except? -1

cdef long long _signed(long long value) noexcept

@cython.locals(index=Py_ssize_t)
cdef bint _is_name(const unsigned char[::1] view, Py_ssize_t start, const unsigned char* name,
                   Py_ssize_t size) noexcept
