cimport cython

from regulus.model.message cimport MessageExt, PlainMessage
from regulus.model.message_properties cimport format as format_properties, parse as parse_properties
from regulus.record cimport big_endian
from regulus.record.index_entry cimport key_hash_on
from regulus.record.java_hash cimport java_hash, java_hash_of

cdef int _V1
cdef int _V2
cdef int _BLANK
cdef int _FIXED_SIZE
cdef int _TOPIC_SIZE_V1_MAX
cdef int _TOPIC_SIZE_MAX
cdef int _PROPERTIES_SIZE_MAX
cdef int _BORN_V6
cdef int _STORE_V6
cdef int _HOSTS_V6
cdef object _BLANK_LAYOUT
cdef bint _COMPILED


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
    cdef public long long tags_code
    cdef public int delay_level
    cdef public str keys
    cdef public str uniq_key
    cdef public long long uniq_hash
    cdef public long long keys_hash
    cdef bytes _tail
    cdef Py_ssize_t _properties_start


cpdef Py_ssize_t record_size(MessageExt message) except -1

cpdef Py_ssize_t body_size(MessageExt message) except -1

cpdef bytes encode(MessageExt message)

cpdef Py_ssize_t encode_into(object buffer, Py_ssize_t position, MessageExt message, Py_ssize_t room=*) except -1

@cython.locals(topic=bytes, properties=bytes, properties_size=Py_ssize_t, body=bytes, size=Py_ssize_t,
               end=Py_ssize_t)
cpdef Py_ssize_t encode_view(object buffer, unsigned char[::1] cells, Py_ssize_t position, MessageExt message,
                             Py_ssize_t room) except -1

@cython.locals(size=Py_ssize_t, end=Py_ssize_t, checksum=cython.uint)
cdef Py_ssize_t _encode_plain(object buffer, unsigned char[::1] cells, Py_ssize_t position, PlainMessage message,
                              Py_ssize_t room) except -1

@cython.locals(size=Py_ssize_t, name=str, value=str)
cdef Py_ssize_t _ascii_size(dict properties) except -2

@cython.locals(name=str, value=str, letter=cython.Py_UCS4)
cdef Py_ssize_t _put_ascii(unsigned char[::1] cells, Py_ssize_t position, dict properties) except -1

cdef bytes _utf8(str text)

@cython.locals(end=Py_ssize_t)
cdef Py_ssize_t _put_head(object buffer, unsigned char[::1] cells, Py_ssize_t position, MessageExt message,
                          Py_ssize_t body_size, Py_ssize_t topic_size) except -1

cdef Py_ssize_t _put_topic(object buffer, unsigned char[::1] cells, Py_ssize_t position, bytes topic) except -1

cdef Py_ssize_t _copy(object buffer, unsigned char[::1] cells, Py_ssize_t position, bytes data) except -1

@cython.locals(size=Py_ssize_t, index=Py_ssize_t, source="const unsigned char*")
cdef Py_ssize_t _copy_part(object buffer, unsigned char[::1] cells, Py_ssize_t position, const unsigned char* data,
                           Py_ssize_t start, Py_ssize_t end) except -1

@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t _size(MessageExt message, Py_ssize_t body_size, Py_ssize_t topic_size,
                      Py_ssize_t properties_size) except -1

@cython.locals(flags=cython.int)
cdef int _flags_of_hosts(MessageExt message) noexcept

cpdef MessageExt decode(object data, Py_ssize_t position=*, bint read_body=*)

@cython.locals(position=Py_ssize_t, end=Py_ssize_t, message=MessageExt)
cpdef list decode_all(object data)

@cython.locals(size=Py_ssize_t, flags=cython.int, born_end=Py_ssize_t, store_end=Py_ssize_t, body_start=Py_ssize_t,
               end=Py_ssize_t, topic_at=Py_ssize_t, topic_start=Py_ssize_t, topic_end=Py_ssize_t, head=bytes,
               tail=bytes, message=MessageExt)
cdef MessageExt _decode(object data, const unsigned char[::1] view, Py_ssize_t position, bint read_body)

@cython.locals(request=DispatchRequest)
cpdef DispatchRequest request_of(MessageExt message)

@cython.locals(text=bytearray)
cdef int _take_plain(DispatchRequest request, PlainMessage message) except -1

@cython.locals(position=Py_ssize_t)
cdef bint _is_word(const unsigned char* text, Py_ssize_t start, Py_ssize_t end) noexcept

cdef int _take_properties(DispatchRequest request, dict properties) except -1

cpdef DispatchRequest dispatch_request(object data, Py_ssize_t position, Py_ssize_t limit, bint check_crc)

@cython.locals(size=Py_ssize_t, flags=cython.int, born_end=Py_ssize_t, store_end=Py_ssize_t, body_start=Py_ssize_t,
               end=Py_ssize_t, topic_at=Py_ssize_t, topic_start=Py_ssize_t, topic_end=Py_ssize_t, tail=bytes,
               request=DispatchRequest)
cpdef DispatchRequest dispatch_view(object data, const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t limit,
                                    bint check_crc)

@cython.locals(separator=Py_ssize_t, end=Py_ssize_t)
cdef int _read_dispatch_properties(DispatchRequest request, const unsigned char* tail, Py_ssize_t start,
                                   Py_ssize_t size) except -1

@cython.locals(size=Py_ssize_t, level=bytes)
cdef int _take_property(DispatchRequest request, const unsigned char* tail, Py_ssize_t start, Py_ssize_t separator,
                        Py_ssize_t end) except -1

@cython.locals(index=Py_ssize_t)
cdef bint _is_name(const unsigned char* tail, Py_ssize_t start, const unsigned char* name, Py_ssize_t size) noexcept

@cython.locals(room=Py_ssize_t, size=Py_ssize_t, magic=cython.int)
cpdef Py_ssize_t check_start(const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t limit) except -1

@cython.locals(body_length=Py_ssize_t)
cpdef Py_ssize_t find_body_end(const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t body_start,
                               Py_ssize_t end) except -1

@cython.locals(topic_end=Py_ssize_t)
cpdef Py_ssize_t find_topic_end(const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t topic_at,
                                Py_ssize_t end) except -1
