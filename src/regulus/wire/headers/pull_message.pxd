cimport cython

from regulus.wire.remoting_command cimport RemotingCommand


cdef class PullMessageRequest:
    cdef public str consumer_group
    cdef public str topic
    cdef public int queue_id
    cdef public long long queue_offset
    cdef public int max_msg_nums
    cdef public int sys_flag
    cdef public long long commit_offset
    cdef public long long suspend_timeout_millis
    cdef public str subscription
    cdef public long long sub_version
    cdef public str expression_type
    cdef public object max_msg_bytes
    cdef public object request_source
    cdef public str proxy_froward_client_id
    cdef public str broker_name


cdef class PullMessageResponse:
    cdef public long long next_begin_offset
    cdef public long long min_offset
    cdef public long long max_offset
    cdef public long long suggest_which_broker_id
    cdef public object topic_sys_flag
    cdef public object group_sys_flag
    cdef public object offset_delta
    cdef public object forbidden_type


cdef str _required(dict ext, str name)

cdef object _optional(dict ext, str name)

@cython.locals(text=str, digits=str)
cdef object _number(dict ext, str name, limit)
