cimport cython

from regulus.model.store_result cimport Appended
from regulus.wire.headers.straight_send cimport BinaryStraightAnswers, StraightAnswers, StraightSendReader
from regulus.wire.straight_batch cimport StraightBatchReader


cdef str _NORMAL
cdef str _FIFO
cdef long long _EDGE_1K
cdef long long _EDGE_4K
cdef long long _EDGE_512K


cdef class SentCounts:
    cdef public long long nums
    cdef public long long size
    cdef public long long batched
    cdef public long long batched_size
    cdef public long long over_1k
    cdef public long long over_4k
    cdef public long long over_512k
    cdef public long long over_1m
    cdef public long long over_2m
    cdef public long long over_4m

    @cython.locals(size="long long")
    cpdef count(self, int messages, Appended appended)

    cdef _count_large(self, long long size)


cdef class TopicFacts:
    cdef public str topic
    cdef public int write_queue_nums
    cdef public int queue_nums_max
    cdef public int sys_flag
    cdef public bint is_retry
    cdef public bint needs_keys
    cdef public bint keeps_batches
    cdef public bint is_straight
    cdef public SentCounts normal
    cdef public SentCounts fifo
    cdef public dict unusual
    cdef public long long other_nums
    cdef public long long other_size
    cdef public int refusal_code
    cdef public str refusal_remark

    cpdef count(self, str kind, int messages, Appended appended)

    cpdef SentCounts sent_counts(self, str kind)


cdef class SendFacts:
    cdef public object store
    cdef public dict topics
    cdef public str region_id
    cdef public bint trace_on
    cdef public dict stamp
    cdef public bytes stamp_text
    cdef public bytes store_host
    cdef public dict host_texts
    cdef public StraightSendReader straight_sends
    cdef public StraightBatchReader straight_batches
    cdef public dict straight_answers
    cdef public dict binary_straight_answers
    cdef public int max_message_size
    cdef public int delay_level_max
    cdef public int timer_precision_ms
    cdef public long long timer_delay_ms_max
    cdef public bint is_durability_awaited
    cdef public bint rejects_transactions
    cdef public bint is_writable
    cdef public bint is_restricted

    cpdef long long durable_at(self, long long end, bint waits)

    @cython.locals(answers=StraightAnswers)
    cpdef StraightAnswers answers(self, bytes store_host)

    @cython.locals(answers=BinaryStraightAnswers)
    cpdef BinaryStraightAnswers binary_answers(self, bytes store_host)

    @cython.locals(host=str)
    cpdef str offset_message_id(self, bytes store_host, long long physical_offset)
