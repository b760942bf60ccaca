cimport cython

from regulus.model.message cimport MessageExt
from regulus.model.message_filter cimport Filter
from regulus.model.store_result cimport Appended, appended_one
from regulus.record cimport big_endian, byte_runs, layout
from regulus.record.dispatch_request cimport DispatchRequest, request_of
from regulus.record.message_record cimport encode_view, record_size
from regulus.record.named_properties cimport read_named
from regulus.store.consume_queue cimport ConsumeQueue
from regulus.store.consume_queues cimport ConsumeQueues
from regulus.store.mapped_file cimport MappedFile
from regulus.store.mapped_file_queue cimport MappedFileQueue

cdef Py_ssize_t _BLANK_SIZE_MIN
cdef Py_ssize_t _RECENT_MAX
cdef Py_ssize_t _GATHERED_RUN_MAX
cdef Py_ssize_t _GATHERED_MAX
cdef Py_ssize_t _UNIT
cdef Py_ssize_t _AHEAD
cdef Py_ssize_t _LINE_SIZE
cdef bint _COMPILED
cdef long long _FILLER_SIZE
cdef long long _LOOKED_MAX
cdef long long _LOOK_COST
cdef long long _HEAD_SIZE
cdef int _TRANSACTION_MASK
cdef int _TRANSACTION_NOT
cdef int _TRANSACTION_COMMIT
cdef int _INNER_BATCH
cdef object _PUT_OK


cdef class CommitLog:
    cdef public MappedFileQueue files
    cdef public ConsumeQueues queues
    cdef public MappedFile tail
    cdef public long long end
    cdef public long long flushed_offset
    cdef public long long last_store_timestamp
    cdef public str fault
    cdef public list recent
    cdef public Py_ssize_t recent_taken
    cdef public set rotten
    cdef public bint begins_anywhere
    cdef str _flush_fault
    cdef MappedFile _next
    cdef long long _window
    cdef unsigned char[::1] _gathered

    @cython.locals(queue=ConsumeQueue, transaction=int, has_offset=bint, size=Py_ssize_t, count=int)
    cpdef Appended append(self, MessageExt message, long long now_ms)

    @cython.locals(queue=ConsumeQueue, message=MessageExt, first="long long", starts=list)
    cpdef Appended append_batch(self, object messages, long long now_ms)

    @cython.locals(message=MessageExt, topic=str, queue_id=int, size="long long")
    cdef ConsumeQueue _have_room_for(self, object messages)

    @cython.locals(file=MappedFile, position="long long", room="long long", size=Py_ssize_t)
    cdef Py_ssize_t _write(self, MessageExt message) except -1

    @cython.locals(file=MappedFile, end="long long")
    cdef int _have_room(self, long long size) except -1

    cdef int _reserve_more(self, MappedFile file, long long end) except -1

    @cython.locals(tail=MappedFile)
    cpdef MappedFile find(self, long long physical_offset)

    @cython.locals(file=MappedFile, position="long long")
    cpdef slice(self, long long physical_offset, long long size)

    @cython.locals(low="long long", high="long long", offset="long long", units="const unsigned char[::1]", buffers=list, reads_properties=bint, is_rot_known=bint, looked="long long", length="long long", names=list, values=list,
                   count="long long", size_sum="long long", gathered=Py_ssize_t, file=MappedFile, run_file=MappedFile, start="long long",
                   end="long long", position=Py_ssize_t, physical_offset="long long", size="long long")
    cpdef read_queue(self, ConsumeQueue queue, long long queue_offset, long long count_max, long long bytes_max,
                     Filter message_filter, long long scan_max)

    @cython.locals(is_short=bint)
    cdef Py_ssize_t _take_run(self, MappedFile file, Py_ssize_t position, Py_ssize_t size, Py_ssize_t gathered,
                              list buffers) except -1


@cython.locals(place="long long", end="long long")
cdef int _fetch_ahead(MappedFile file, long long physical_offset, long long size) except -1

@cython.locals(place=Py_ssize_t, magic=int, cells="const unsigned char[::1]")
cdef bint _is_own(MappedFile file, long long physical_offset, long long size, ConsumeQueue queue,
                  long long queue_offset) except -1

@cython.locals(cells="const unsigned char[::1]", place=Py_ssize_t)
cdef long long _read_named(MappedFile file, long long physical_offset, long long size, list names,
                           list values) except -2
