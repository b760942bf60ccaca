cimport cython

from regulus.record.index_entry cimport encode_entry_into, encode_header_into, index_key, key_hash, read_slot, write_slot
from regulus.record.dispatch_request cimport DispatchRequest
from regulus.store.mapped_file cimport MappedFile, MappedFilePool


cdef long long _ENTRY
cdef long long _DIFFERENCE_MAX


cdef class IndexFile:
    cdef public MappedFile file
    cdef public long long slot_num
    cdef public long long index_num
    cdef public long long begin_timestamp
    cdef public long long end_timestamp
    cdef public long long begin_physical_offset
    cdef public long long end_physical_offset
    cdef public long long hash_slot_count
    cdef public long long index_count
    cdef public long long entries_start
    cdef public str fault
    cdef public bint is_anew

    @cython.locals(file=MappedFile, number="long long", position="long long", slot="long long", previous="long long",
                   difference="long long")
    cpdef put(self, long long hash_, long long physical_offset, long long store_timestamp)


cdef class Index:
    cdef public list files
    cdef public IndexFile tail
    cdef object _directory
    cdef long long _slot_num
    cdef long long _index_num
    cdef long long _file_size
    cdef MappedFilePool _pool
    cdef object _full

    @cython.locals(tail=IndexFile, key=str)
    cpdef put(self, DispatchRequest request)

    cdef int _put_key(self, str key, DispatchRequest request) except -1

    @cython.locals(tail=IndexFile)
    cdef int _put_hash(self, long long hash_, DispatchRequest request) except -1
