cdef class Message:
    cdef public str topic
    cdef public bytes body
    cdef public int flag
    cdef public dict properties


cdef class MessageExt(Message):
    cdef public int queue_id
    cdef public int sys_flag
    cdef public long long born_timestamp
    cdef public bytes born_host
    cdef public bytes store_host
    cdef public int reconsume_times
    cdef public long long prepared_transaction_offset
    cdef public long long queue_offset
    cdef public long long physical_offset
    cdef public long long store_timestamp
    cdef public int store_size
    cdef public int body_crc
    cdef public bytes properties_text


cdef class StraightMessage(MessageExt):
    cdef public object data
    cdef public object view
    cdef public Py_ssize_t body_start
    cdef public Py_ssize_t body_end
    cdef public bytes topic_text
    cdef public bytearray text
    cdef public Py_ssize_t text_size
    cdef public Py_ssize_t unique_key_start
    cdef public Py_ssize_t unique_key_end
    cdef public Py_ssize_t tags_start
    cdef public Py_ssize_t tags_end
    cdef public Py_ssize_t keys_start
    cdef public Py_ssize_t keys_end
    cdef public bint waits
    cdef public bint is_ordered

    cpdef take_data(self, object data)
