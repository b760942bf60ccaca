cimport cython

from regulus.record cimport big_endian, layout
from regulus.record.dispatch_request cimport DispatchRequest, request_in_view
from regulus.store.commit_log cimport CommitLog
from regulus.store.dispatch cimport Dispatcher

cdef Py_ssize_t _HEAD_SIZE


cdef class LogCopy:
    cdef public str fault
    cdef CommitLog _log
    cdef Dispatcher _dispatcher
    cdef long long _record_size_max
    cdef bytearray _rest
    cdef Py_ssize_t _wanted
    cdef set _topics
    cdef long long _asked
    cdef long long _compared
    cdef long long _silent_at

    @cython.locals(run=Py_ssize_t, position=Py_ssize_t, size=Py_ssize_t, end="long long", requests=list)
    cdef int _append_whole(self, object data, const unsigned char[::1] view) except -1

    @cython.locals(file_size="long long", room="long long", size="long long", magic=int)
    cdef Py_ssize_t _size_at(self, const unsigned char[::1] view, Py_ssize_t position, long long offset) except -1

    @cython.locals(request=DispatchRequest)
    cdef DispatchRequest _request(self, object data, const unsigned char[::1] view, Py_ssize_t position,
                                  Py_ssize_t size, long long offset)
