cdef long long _DIGEST_MASK

cpdef long long digest_on(long long digest, long long number) noexcept
