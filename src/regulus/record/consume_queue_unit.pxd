from regulus.record cimport big_endian

cpdef encode_into(unsigned char[::1] cells, Py_ssize_t position, long long physical_offset, long long size,
                  long long tags_code)
