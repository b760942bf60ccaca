cimport cython

from regulus.wire.command_header cimport CommandHeader

cdef long long _INT_MAX
cdef bint _COMPILED
cdef int _DIGITS_MAX
cdef int _CONTROL
cdef int _NOT_ASCII
cdef tuple _LANGUAGE_NAMES
cdef dict _LANGUAGE_CODES
cdef int _JAVA
cdef int _OTHER


cpdef int decode(CommandHeader header, object data, Py_ssize_t start, Py_ssize_t end) except -1

@cython.locals(ext=dict, scanner=ExtScanner)
cpdef dict parse_ext(bytes ext_json)

@cython.locals(text="const unsigned char*", position=Py_ssize_t, key=Py_ssize_t, key_end=Py_ssize_t,
               value_end=Py_ssize_t, surprises=cython.int)
cpdef bint scan(CommandHeader header, object data, Py_ssize_t start, Py_ssize_t end) except -1

cdef bint _take_text(CommandHeader header, const unsigned char* text, Py_ssize_t key, Py_ssize_t key_end,
                     Py_ssize_t start, Py_ssize_t end) except -1

cdef bint _take_integer(CommandHeader header, const unsigned char* text, Py_ssize_t key, Py_ssize_t key_end,
                        long long value) noexcept


@cython.no_gc
@cython.freelist(8)
cdef class ExtScanner:
    cdef public bytes text
    cdef public Py_ssize_t key_start
    cdef public Py_ssize_t key_end
    cdef public Py_ssize_t start
    cdef public Py_ssize_t end
    cdef public bint is_text

    @cython.locals(text="const unsigned char*", position=Py_ssize_t, key=Py_ssize_t)
    cpdef bint next(self) except -1

    @cython.locals(text="const unsigned char*", position=Py_ssize_t)
    cpdef int find_end(self) except -1

    cpdef str key(self)

    @cython.locals(text="const unsigned char*")
    cpdef str value(self)


@cython.locals(scanner=ExtScanner)
cpdef ExtScanner scanner_of(bytes text)

cdef str _string(const unsigned char* text, Py_ssize_t start, Py_ssize_t end)

cpdef bytes cut(const unsigned char* text, Py_ssize_t start, Py_ssize_t end)

cpdef str utf8(const unsigned char* text, Py_ssize_t start, Py_ssize_t end)

cdef str _checked_utf8(const unsigned char* text, Py_ssize_t start, Py_ssize_t end)

@cython.locals(bits=cython.uchar, control=cython.uchar, position=Py_ssize_t, character=cython.uchar)
cdef int _surprises(const unsigned char* text, Py_ssize_t start, Py_ssize_t end) noexcept

@cython.locals(position=Py_ssize_t)
cdef bint _has_escape(const unsigned char* text, Py_ssize_t start, Py_ssize_t end) noexcept

@cython.locals(index=Py_ssize_t)
cpdef bint matches(const unsigned char* text, Py_ssize_t start, Py_ssize_t end, const unsigned char* name,
                   Py_ssize_t size) noexcept

@cython.locals(character=cython.int)
cdef Py_ssize_t _string_end(const unsigned char* text, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(character=cython.int, index=Py_ssize_t)
cdef Py_ssize_t _escape_end(const unsigned char* text, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(key=Py_ssize_t)
cdef Py_ssize_t _object_end(const unsigned char* text, Py_ssize_t position, Py_ssize_t end) noexcept

cdef bint _is_letter(const unsigned char* text, Py_ssize_t key) noexcept

cdef Py_ssize_t _token_end(const unsigned char* text, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(first=Py_ssize_t, digits=Py_ssize_t)
cpdef Py_ssize_t integer_end(const unsigned char* text, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(value=cython.longlong, first=Py_ssize_t, index=Py_ssize_t)
cpdef long long integer(const unsigned char* text, Py_ssize_t position, Py_ssize_t end) noexcept

cpdef int load(CommandHeader header, bytes text) except -1

@cython.locals(ext=str, remark=str, name=str, value=str)
cpdef bytes encode(CommandHeader header)

cpdef str quote(str text)

cpdef bint needs_no_escapes(str text) except -1

cpdef str language_name(int code)
