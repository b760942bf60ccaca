cdef class MappedFilePool:
    cdef public Py_ssize_t files_max
    cdef dict _files

    cpdef add(self, MappedFile file)
    cpdef drop(self, MappedFile file)


cdef class MappedFile:
    cdef public str path
    cdef public long long start
    cdef public long long size
    cdef public long long wrote_position
    cdef public long long flushed_position
    cdef public long long reserved_position
    cdef public long long released_position
    cdef public bint is_doubtful
    cdef public bint is_new
    cdef public object mapping
    cdef unsigned char[::1] cells
    cdef public object view
    cdef public bint is_used
    cdef public bint is_sequential
    cdef MappedFilePool _pool
    cdef list _former

    cpdef map(self)
    cpdef map_ahead(self)
    cpdef take_up(self)
    cpdef unmap(self)
    cpdef slice(self, long long position, long long size)
    cpdef write(self, long long position, object data)
    cpdef reserve(self, long long end)
    cpdef flush(self)
    cpdef flush_appended(self)
