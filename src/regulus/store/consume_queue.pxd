cimport cython

from regulus.record.consume_queue_unit cimport encode_into
from regulus.store.mapped_file cimport MappedFile
from regulus.store.mapped_file_queue cimport MappedFileQueue

cdef long long _UNIT
cdef Py_ssize_t _SCAN
cdef long long _FILLER_SIZE


cdef class ConsumeQueue:
    cdef public str topic
    cdef public int queue_id
    cdef public MappedFileQueue files
    cdef public bint is_light
    cdef public bint is_batch
    cdef public MappedFile tail
    cdef public long long start
    cdef public long long end
    cdef public long long birth
    cdef public long long max_physical_offset
    cdef public long long next_offset
    cdef public bint is_dirty
    cdef public bint is_deleted
    cdef public long long known_end
    cdef public long long tabled_max_offset
    cdef public bint has_gap

    @cython.locals(file=MappedFile, position="long long")
    cpdef bint put(self, long long physical_offset, long long size, long long tags_code, long long queue_offset) except -1

    @cython.locals(file=MappedFile, upto="long long")
    cpdef readable(self, long long position, long long size_max)
