cimport cython


cpdef object whole_number(str text, object limit)
