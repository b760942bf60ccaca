cimport cython

from regulus.model.message_properties cimport parse as parse_properties
from regulus.wire.ext_fields cimport whole_number
from regulus.wire.header_json cimport ExtScanner, integer, integer_end, needs_no_escapes, matches, scanner_of, utf8
from regulus.wire.remoting_command cimport RemotingCommand

cdef long long _INT_MAX
cdef int _DIGITS_MAX
cdef int _LIMIT_ABSENT
cdef int _WHOLE
cdef int _UNUSUAL
cdef int _PLACED
cdef str _TBW102
cdef str _WAIT
cdef str _TAGS
cdef str _KEYS
cdef str _UNIQ_KEY
cdef dict _EMPTY


@cython.no_gc
@cython.freelist(256)
cdef class SendMessageRequest:
    cdef public str producer_group
    cdef public str topic
    cdef public str default_topic
    cdef public int default_topic_queue_nums
    cdef public int queue_id
    cdef public int sys_flag
    cdef public long long born_timestamp
    cdef public int flag
    cdef public dict properties
    cdef public int reconsume_times
    cdef public bint unit_mode
    cdef public int max_reconsume_times
    cdef public bint batch
    cdef public str broker_name


@cython.locals(request=SendMessageRequest)
cpdef SendMessageRequest decode_send_message_request(RemotingCommand command)

@cython.locals(request=SendMessageRequest, scanner=ExtScanner, found=cython.int, bit=cython.int)
cdef SendMessageRequest _from_json(bytes ext_json)

@cython.locals(text="const unsigned char*", key=cython.int)
cdef int _take(SendMessageRequest request, ExtScanner scanner, bytes ext_json) except -2

@cython.locals(text="const unsigned char*", start=Py_ssize_t, end=Py_ssize_t, value=cython.bint)
cdef int _take_bool(SendMessageRequest request, ExtScanner scanner, bytes ext_json) except -2

@cython.locals(text="const unsigned char*", key=cython.int, start=Py_ssize_t, end=Py_ssize_t)
cdef int _take_text(SendMessageRequest request, ExtScanner scanner, bytes ext_json) except -2

@cython.locals(text="const unsigned char*", key=cython.int, first=Py_ssize_t, end=Py_ssize_t, value=cython.longlong)
cdef int _take_number(SendMessageRequest request, ExtScanner scanner, bytes ext_json) except -2

cdef int _set_number(SendMessageRequest request, int key, long long value) noexcept

@cython.locals(text="const unsigned char*", properties=dict, start=Py_ssize_t, name_end=Py_ssize_t,
               value_start=Py_ssize_t, value_end=Py_ssize_t)
cdef int _take_properties(SendMessageRequest request, ExtScanner scanner, bytes ext_json) except -2

cdef Py_ssize_t _run_end(const unsigned char* text, Py_ssize_t position) noexcept

cdef bint _is_escaped(const unsigned char* text, Py_ssize_t position, int digit) noexcept

cdef str _property_name(const unsigned char* text, Py_ssize_t start, Py_ssize_t end)

@cython.locals(names=tuple, request=SendMessageRequest, properties=str, reconsume=str, limit=str)
cdef SendMessageRequest _from_ext(dict ext)

cdef str _required(dict ext, str name, str header=*)

cdef object _number(str text, str name, object limit, str header=*)


cdef class SendMessageResponse:
    cdef public str msg_id
    cdef public int queue_id
    cdef public long long queue_offset
    cdef public str transaction_id
    cdef public str region
    cdef public bint trace_on
    cdef public str batch_uniq_id
    cdef public str recall_handle


@cython.locals(response=SendMessageResponse)
cpdef SendMessageResponse decode_send_message_response(RemotingCommand command)

@cython.locals(text="const unsigned char*", response=SendMessageResponse, scanner=ExtScanner, found=cython.int,
               start=Py_ssize_t, end=Py_ssize_t, name=Py_ssize_t, name_end=Py_ssize_t, position=Py_ssize_t)
cdef SendMessageResponse _response_from_json(bytes ext_json)

@cython.locals(response=RemotingCommand, trace=str)
cpdef RemotingCommand send_message_response(RemotingCommand request, int code, str msg_id, int queue_id,
                                            long long queue_offset, str transaction_id, str region, bint trace_on)
