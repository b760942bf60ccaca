cimport cython

from regulus.record cimport byte_runs
from regulus.record.message_record cimport find_parts

cdef int _NAME_END
cdef int _PROPERTY_END
cdef int _UNREADABLE
cdef int _LENGTH_SIZE


@cython.locals(size=Py_ssize_t, topic_end=Py_ssize_t, count=Py_ssize_t, place=Py_ssize_t, first=Py_ssize_t,
               start=Py_ssize_t, upto=Py_ssize_t, segment_end=Py_ssize_t, separator=Py_ssize_t)
cpdef long long read_named(const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, list names,
                           list values) except -2
