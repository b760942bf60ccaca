cimport cython

from regulus.model.message cimport MessageExt, StraightMessage
from regulus.model.message_properties cimport format as format_properties, parse as parse_properties
from regulus.record cimport big_endian, layout, part_copy

cdef int _TOPIC_SIZE_V1_MAX
cdef int _TOPIC_SIZE_MAX
cdef int _PROPERTIES_SIZE_MAX
cdef int _BORN_V6
cdef int _STORE_V6
cdef int _HOSTS_V6
cdef object _BLANK_LAYOUT
cdef bint _COMPILED


cpdef Py_ssize_t record_size(MessageExt message) except -1

cpdef Py_ssize_t body_size(MessageExt message) except -1

cpdef bytes encode(MessageExt message)

cpdef Py_ssize_t encode_into(object buffer, Py_ssize_t position, MessageExt message, Py_ssize_t room=*) except -1

@cython.locals(topic=bytes, properties=bytes, properties_size=Py_ssize_t, body=bytes, size=Py_ssize_t,
               end=Py_ssize_t)
cpdef Py_ssize_t encode_view(object buffer, unsigned char[::1] cells, Py_ssize_t position, MessageExt message,
                             Py_ssize_t room) except -1

@cython.locals(size=Py_ssize_t, end=Py_ssize_t, checksum=cython.uint)
cdef Py_ssize_t _encode_straight(object buffer, unsigned char[::1] cells, Py_ssize_t position, StraightMessage message,
                                 Py_ssize_t room) except -1

@cython.locals(size=Py_ssize_t, name=str, value=str)
cdef Py_ssize_t _ascii_size(dict properties) except -2

@cython.locals(name=str, value=str, letter=cython.Py_UCS4)
cdef Py_ssize_t _put_ascii(unsigned char[::1] cells, Py_ssize_t position, dict properties) except -1

cdef bytes _utf8(str text)

@cython.locals(magic=cython.int, end=Py_ssize_t)
cdef Py_ssize_t _put_head(object buffer, unsigned char[::1] cells, Py_ssize_t position, MessageExt message,
                          Py_ssize_t body_size, Py_ssize_t topic_size) except -1

cdef Py_ssize_t _put_topic(object buffer, unsigned char[::1] cells, Py_ssize_t position, bytes topic) except -1

cdef Py_ssize_t _copy(object buffer, unsigned char[::1] cells, Py_ssize_t position, bytes data) except -1

@cython.locals(behind=Py_ssize_t)
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

@cython.locals(size=Py_ssize_t, flags=cython.int, born_end=Py_ssize_t, store_end=Py_ssize_t, body_end=Py_ssize_t,
               topic_start=Py_ssize_t, topic_end=Py_ssize_t, hosts_start=Py_ssize_t, properties_start=Py_ssize_t,
               hosts=bytes, tail=bytes, message=MessageExt)
cdef MessageExt _decode(object data, const unsigned char[::1] view, Py_ssize_t position, bint read_body)

@cython.locals(size=Py_ssize_t, magic=cython.int, flags=cython.int, born_end=Py_ssize_t, store_end=Py_ssize_t,
               body_start=Py_ssize_t, room=Py_ssize_t, body_length=Py_ssize_t, body_end=Py_ssize_t,
               topic_start=Py_ssize_t, topic_end=Py_ssize_t, properties_start=Py_ssize_t)
cpdef (Py_ssize_t, int, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t) find_parts(
    const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t limit) except *

@cython.locals(room=Py_ssize_t, size=Py_ssize_t, magic=cython.int)
cpdef Py_ssize_t check_start(const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t limit) except -1
