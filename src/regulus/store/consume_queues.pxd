cimport cython

from regulus.store.consume_queue cimport ConsumeQueue
from regulus.store.mapped_file cimport MappedFilePool

cdef long long _UNKNOWN


cdef class ConsumeQueues:
    cdef public object directory
    cdef public dict table
    cdef public long long log_bound
    cdef public long long log_end
    cdef public long long log_start
    cdef public long long missed_end
    cdef public dict resting
    cdef public dict faulty
    cdef public list strays
    cdef public object fault_of
    cdef long long _file_size
    cdef public object batch_directory
    cdef public set batch_topics
    cdef long long _batch_file_size
    cdef MappedFilePool _pool
    cdef public dict births

    @cython.locals(queues=dict, queue=ConsumeQueue)
    cpdef ConsumeQueue find(self, str topic, int queue_id)

    @cython.locals(queues=dict, queue=ConsumeQueue)
    cpdef ConsumeQueue have(self, str topic, int queue_id)
