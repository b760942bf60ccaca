from regulus.model.message cimport MessageExt
from regulus.model.store_result cimport Appended
from regulus.store.commit_log cimport CommitLog
from regulus.store.consume_queues cimport ConsumeQueues
from regulus.store.dispatch cimport Dispatcher
from regulus.store.index cimport Index
from regulus.store.mapped_file cimport MappedFilePool


cdef class FileMessageStore:
    cdef public object config
    cdef public object configs
    cdef public object old_files
    cdef public object deep_check
    cdef public object copy
    cdef public object timers
    cdef MappedFilePool _pool
    cdef ConsumeQueues _queues
    cdef public CommitLog _log
    cdef Index _index
    cdef Dispatcher _dispatcher
    cdef object _checkpoint
    cdef object _mark_file
    cdef object _table_file
    cdef str _table_fault
    cdef long long _tabled_record
    cdef long long _synced_record
    cdef object _lock
    cdef str _stopped
    cdef str _unfinished
    cdef str _wish
    cdef str _copied
    cdef str _refusal
    cdef object _recovery
    cdef object _cut_file
    cdef object _wanted_cut
    cdef object _batch_topics

    cpdef Appended append(self, MessageExt message, long long now_ms)
