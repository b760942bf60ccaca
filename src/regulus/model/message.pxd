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
