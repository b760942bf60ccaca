cimport cython

from regulus.record.dispatch_request cimport DispatchRequest, request_in_view
from regulus.store.commit_log cimport CommitLog
from regulus.store.consume_queue cimport ConsumeQueue
from regulus.store.consume_queues cimport ConsumeQueues
from regulus.store.index cimport Index
from regulus.store.mapped_file cimport MappedFile

cdef int _TRANSACTION_MASK
cdef int _TRANSACTION_NOT
cdef int _TRANSACTION_COMMIT
cdef int _TRANSACTION_ROLLBACK
cdef str _SCHEDULE_TOPIC


cdef class ScanStop:
    cdef public Py_ssize_t position
    cdef public object error
    cdef public bint is_blank


cdef class Dispatcher:
    cdef public CommitLog log
    cdef public ConsumeQueues queues
    cdef public Index index
    cdef public long long position
    cdef public str fault
    cdef public long long last_store_timestamp
    cdef public long long last_physical_offset
    cdef public object dirty
    cdef public long long record_count
    cdef public long long dispatched_count
    cdef public long long unplaced_count
    cdef public str unplaced_reason
    cdef public object numbering
    cdef public long long index_from
    cdef public long long behind_from
    cdef tuple _delays_ms

    @cython.locals(request=DispatchRequest, is_visible=bint, is_any_wanted=bint, arrivals=list)
    cpdef list run(self, long long count_max, object wanted=*, bint with_properties=*)

    @cython.locals(log=CommitLog, recent=list, request=DispatchRequest)
    cdef DispatchRequest _recent(self)

    @cython.locals(file=MappedFile, request=DispatchRequest)
    cdef DispatchRequest _read(self)

    cdef ConsumeQueue _queue_of(self, DispatchRequest request)

    @cython.locals(transaction=int, is_visible=bint, queue=ConsumeQueue)
    cpdef bint dispatch(self, DispatchRequest request) except -1

    @cython.locals(queue=ConsumeQueue)
    cdef int _dispatch_scanned(self, DispatchRequest request, bint has_unit) except -1

    @cython.locals(request=DispatchRequest, position=Py_ssize_t)
    cpdef ScanStop scan(self, object data, const unsigned char[::1] view, Py_ssize_t size, long long physical_offset,
                        bint check_crc, long long dispatch_from)
