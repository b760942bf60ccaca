cimport cython

from regulus.wire cimport big_endian
from regulus.wire.header_json cimport ExtScanner, integer, integer_end, matches, scanner_of, utf8
from regulus.wire.octets cimport put, put_number
from regulus.wire.remoting_command cimport RemotingCommand

cdef long long _INT_MAX
cdef int _WHOLE
cdef int _UNUSUAL
cdef str _TAG
cdef int _ROCKETMQ
cdef bytes _SUGGEST_WHICH_BROKER_ID
cdef bytes _NEXT_BEGIN_OFFSET
cdef bytes _MAX_OFFSET
cdef bytes _MIN_OFFSET
cdef Py_ssize_t _BINARY_EXT_SIZE_MAX


@cython.no_gc
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


@cython.locals(request=PullMessageRequest)
cpdef PullMessageRequest decode_pull_message_request(RemotingCommand command)

@cython.locals(request=PullMessageRequest)
cdef PullMessageRequest _without_options()

@cython.locals(request=PullMessageRequest, scanner=ExtScanner, found=cython.int, bit=cython.int)
cdef PullMessageRequest _from_json(bytes ext_json)

@cython.locals(text="const unsigned char*", upto=Py_ssize_t, request=PullMessageRequest, found=cython.int,
               bit=cython.int, key=Py_ssize_t, key_end=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
cdef PullMessageRequest _from_binary(bytes ext_binary)

cdef int _take(PullMessageRequest request, bytes ext, Py_ssize_t key, Py_ssize_t key_end, Py_ssize_t start,
               Py_ssize_t end, bint is_text) except -2

@cython.locals(text="const unsigned char*", value=cython.longlong)
cdef int _take_number(PullMessageRequest request, bytes ext, Py_ssize_t key, Py_ssize_t key_end, Py_ssize_t start,
                      Py_ssize_t end, bint is_text) except -2

@cython.locals(text="const unsigned char*", position=Py_ssize_t)
cdef int _take_text(PullMessageRequest request, bytes ext, Py_ssize_t key, Py_ssize_t key_end, Py_ssize_t start,
                    Py_ssize_t end) except -2

cdef bint _is_of_a_hook(const unsigned char* text, Py_ssize_t key, Py_ssize_t key_end) noexcept

cdef PullMessageRequest _from_ext(dict ext)


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

cdef object _number(dict ext, str name, limit)

@cython.locals(response=RemotingCommand)
cpdef RemotingCommand pull_message_response(RemotingCommand request, int code, str remark, long long next_begin_offset,
                                            long long min_offset, long long max_offset,
                                            long long suggest_which_broker_id=*, object body=*)

@cython.locals(out=bytearray, end=Py_ssize_t)
cdef bytes _binary_ext(long long next_begin_offset, long long min_offset, long long max_offset,
                       long long suggest_which_broker_id)

@cython.locals(start=Py_ssize_t, end=Py_ssize_t)
cdef Py_ssize_t _put_entry(bytearray out, Py_ssize_t position, bytes name, long long value) except -1
