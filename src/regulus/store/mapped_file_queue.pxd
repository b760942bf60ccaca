cimport cython

from regulus.store.mapped_file cimport MappedFile, MappedFilePool


cdef class MappedFileQueue:
    cdef public object directory
    cdef public long long file_size
    cdef public list files
    cdef MappedFilePool _pool
    cdef str _size_key
    cdef bint _is_sequential
    cdef bint _is_directory_made

    @cython.locals(files=list, first=MappedFile, file=MappedFile, index="long long")
    cpdef MappedFile find(self, long long offset)
