cimport cython

cpdef str camel_case(str name)

cpdef object parse_int(str text)

cpdef object parse_long(str text)

cpdef object whole_number(str text, object limit)

cpdef bint parse_bool(str text) except -1

cpdef str wire_text(object value)
