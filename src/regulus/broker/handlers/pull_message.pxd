cimport cython

from regulus.broker.outcome cimport Reply, plain_reply
from regulus.wire.headers.pull_message cimport (
    PullMessageRequest, PullMessageResponse, decode_pull_message_request, pull_message_response,
)
from regulus.wire.remoting_command cimport RemotingCommand

cdef int _SUCCESS
cdef int _NOT_FOUND
cdef int _MOVED
cdef int _COMMIT_OFFSET
cdef int _SUSPEND
cdef int _SUBSCRIPTION
cdef int _LITE
cdef tuple _NOTHING_YET
cdef dict _CODES
cdef dict _REMARKS


@cython.locals(header=PullMessageRequest, response=RemotingCommand)
cpdef handle_pull_message(RemotingCommand request, object peer, object broker, object now_ms)


@cython.no_gc
cdef class _Checked:
    cdef readonly object group
    cdef readonly object topic
    cdef readonly object message_filter
    cdef readonly object subscription


cdef _check(RemotingCommand request, PullMessageRequest header, object broker, object now_ms, _Checked known)

cdef _check_expression(RemotingCommand request, PullMessageRequest header, object config, object group,
                       object topic, _Checked known)

cdef _check_subscription(RemotingCommand request, PullMessageRequest header, object broker, object group,
                         object topic, _Checked known)

cdef _read_again(RemotingCommand request, PullMessageRequest header, _Checked checked, object channel, object broker,
                 object deadline_ms, object since_ms)

@cython.locals(unread=RemotingCommand)
cdef RemotingCommand _read(RemotingCommand request, PullMessageRequest header, _Checked checked, object broker)

cdef RemotingCommand _answer_unread(RemotingCommand request, PullMessageRequest header, _Checked checked, object broker)

cdef _find(PullMessageRequest header, _Checked checked, object broker)

@cython.locals(code=cython.int)
cdef RemotingCommand _answer(RemotingCommand request, PullMessageRequest header, _Checked checked, object broker,
                             object result)

cdef int _code(object status, long long queue_offset) except -2

cdef dict _ext(_Checked checked, long long broker_id, long long next_begin_offset, long long min_offset, long long max_offset)

cdef RemotingCommand _forbid(RemotingCommand request, int forbidden_type, str remark)
