cimport cython

from regulus.wire cimport big_endian
from regulus.wire.header_json cimport cut, matches
from regulus.wire.octets cimport put
from regulus.wire.remoting_command cimport RemotingCommand
from regulus.wire.straight_properties cimport is_separator, run_end

cdef int _ROCKETMQ
cdef Py_ssize_t _TEXT_SIZE_MAX
cdef Py_ssize_t _COPIED_MAX
cdef int _SEND_MESSAGE_V2
cdef int _SEND_BATCH_MESSAGE
cdef int _LETTERS
cdef int _ACCESS_KEY
cdef int _SIGNATURE
cdef int _FIELDS
cdef int _TOPIC
cdef int _NEEDED


cdef class _Sender:
    cdef bytes access_key
    cdef bytes secret_key
    cdef object inner
    cdef object outer
    cdef set topics


cdef class SignedSends:
    cdef dict _senders
    cdef object _rules
    cdef bytes _text
    cdef bint _is_binary
    cdef bytearray _places
    cdef int _seen
    cdef bytearray _content

    @cython.locals(sender=_Sender)
    cpdef bint passes(self, RemotingCommand request, object channel, object rules) except -1

    @cython.locals(sender=_Sender)
    cpdef remember(self, object channel, object rules, str access_key, str secret_key, str topic)

    cdef bint _is_signed(self, RemotingCommand request, _Sender sender) except -1

    @cython.locals(text=bytes)
    cdef bint _read(self, RemotingCommand request) except -1

    @cython.locals(text="const unsigned char*", key=Py_ssize_t, key_end=Py_ssize_t, start=Py_ssize_t,
                   position=Py_ssize_t)
    cdef bint _read_members(self) except -1

    @cython.locals(text="const unsigned char*", key=Py_ssize_t, key_end=Py_ssize_t, start=Py_ssize_t,
                   position=Py_ssize_t, upto=Py_ssize_t)
    cdef bint _read_entries(self) except -1

    @cython.locals(field=cython.int)
    cdef bint _note(self, const unsigned char* text, Py_ssize_t key, Py_ssize_t key_end, Py_ssize_t start,
                    Py_ssize_t end) except -1

    @cython.locals(content="unsigned char*", size=Py_ssize_t, field=cython.int)
    cdef bytes _signed_content(self, RemotingCommand request)

    @cython.locals(text="const unsigned char*", position=Py_ssize_t, upto=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t _put(self, unsigned char* out, Py_ssize_t size, int field) except -1

    cdef bytes _value(self, int field)
