cimport cython

from regulus.wire.command_header cimport CommandHeader

cdef int _PYTHON
cdef int _VERSION
cdef int _JSON
cdef int _ROCKETMQ
cdef int _RESPONSE
cdef int _ONEWAY
cdef object _PREFIX
cdef list _WORDS
cdef int _WORD_MAX


@cython.no_gc
cdef class RemotingCommand(CommandHeader):
    cdef public int serialize_type
    cdef public object body_source
    cdef public Py_ssize_t body_start
    cdef public Py_ssize_t body_end
    cdef bytes _body
    cdef list _body_parts

    cpdef leave_body(self, object source, Py_ssize_t start, Py_ssize_t end)

    cpdef keep_body(self, bytes body)

    @cython.locals(body=bytes)
    cpdef find_body(self)

    @cython.locals(answer=RemotingCommand)
    cpdef RemotingCommand response(self, int code, str remark=*, dict ext=*, object body=*)

    @cython.locals(header=bytes, front=bytes, body=bytes)
    cpdef bytes encode(self)

    @cython.locals(header=bytes, front=bytes, body=bytes, body_size=Py_ssize_t)
    cpdef list encode_parts(self)

    cdef bytes _encode_header(self)

    @cython.locals(size=Py_ssize_t, total=Py_ssize_t)
    cdef bytes _front(self, bytes header, Py_ssize_t body_size)
