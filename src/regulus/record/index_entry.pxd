cimport cython

from regulus.record cimport big_endian
from regulus.model.java_hash cimport hash_on, java_hash

cdef Py_ssize_t _SLOTS_START
cdef Py_ssize_t _SLOT
cdef long long _SHARP
cdef long long _MASK
cdef long long _POSITIVE_MAX


cpdef str index_key(str topic, str key)

@cython.locals(value=cython.longlong)
cpdef long long key_hash(str key) except? -1

@cython.locals(value=cython.longlong)
cpdef long long key_hash_on(bytes topic, const unsigned char* text, Py_ssize_t start, Py_ssize_t end) except? -2

cpdef encode_header_into(unsigned char[::1] cells, long long begin_timestamp, long long end_timestamp,
                         long long begin_physical_offset, long long end_physical_offset, long long hash_slot_count,
                         long long index_count)

cpdef encode_entry_into(unsigned char[::1] cells, Py_ssize_t position, long long key_hash, long long physical_offset,
                        long long time_difference, long long previous)

@cython.locals(position=Py_ssize_t, value=cython.longlong)
cpdef long long read_slot(const unsigned char[::1] cells, Py_ssize_t slot) except? -1

cpdef write_slot(unsigned char[::1] cells, Py_ssize_t slot, long long entry)

@cython.locals(slots=cython.ulonglong, index=Py_ssize_t, slot=cython.ulonglong)
cpdef int chain(const long long[::1] hashes, int[::1] previous, int[::1] heads, Py_ssize_t entry) except -1
