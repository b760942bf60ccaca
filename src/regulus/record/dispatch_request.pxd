cimport cython

from regulus.model.message cimport MessageExt, StraightMessage
from regulus.model.message_properties cimport parse as parse_properties
from regulus.record cimport big_endian, layout
from regulus.record.index_entry cimport key_hash_on
from regulus.model.java_hash cimport java_hash, java_hash_of
from regulus.record.message_record cimport find_parts


cdef int _INNER_BATCH


@cython.no_gc
@cython.freelist(512)
cdef class DispatchRequest:
    cdef public Py_ssize_t size
    cdef public bint is_blank
    cdef public str topic
    cdef public int queue_id
    cdef public long long queue_offset
    cdef public long long physical_offset
    cdef public long long store_timestamp
    cdef public long long prepared_transaction_offset
    cdef public int sys_flag
    cdef public int message_count
    cdef public long long tags_code
    cdef public int delay_level
    cdef public str keys
    cdef public str uniq_key
    cdef public long long uniq_hash
    cdef public long long keys_hash
    cdef public bytes tail
    cdef public Py_ssize_t properties_start


@cython.locals(request=DispatchRequest)
cpdef DispatchRequest request_of(MessageExt message)

@cython.locals(text=bytearray)
cdef int _take_straight(DispatchRequest request, StraightMessage message) except -1

@cython.locals(position=Py_ssize_t)
cdef bint _is_word(const unsigned char* text, Py_ssize_t start, Py_ssize_t end) noexcept

cdef int _take_properties(DispatchRequest request, dict properties) except -1

cpdef DispatchRequest request_at(object data, Py_ssize_t position, Py_ssize_t limit, bint check_crc)

@cython.locals(size=Py_ssize_t, flags=cython.int, born_end=Py_ssize_t, store_end=Py_ssize_t, body_end=Py_ssize_t,
               topic_start=Py_ssize_t, topic_end=Py_ssize_t, end=Py_ssize_t, properties_start=Py_ssize_t, tail=bytes,
               request=DispatchRequest)
cpdef DispatchRequest request_in_view(object data, const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t limit,
                                    bint check_crc)

@cython.locals(separator=Py_ssize_t, end=Py_ssize_t)
cdef int _read_dispatch_properties(DispatchRequest request, const unsigned char* tail, Py_ssize_t start,
                                   Py_ssize_t size) except -1

@cython.locals(size=Py_ssize_t, level=bytes)
cdef int _take_property(DispatchRequest request, const unsigned char* tail, Py_ssize_t start, Py_ssize_t separator,
                        Py_ssize_t end) except -1

@cython.locals(index=Py_ssize_t)
cdef bint _is_name(const unsigned char* tail, Py_ssize_t start, const unsigned char* name, Py_ssize_t size) noexcept
