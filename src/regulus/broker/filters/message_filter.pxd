from regulus.broker.filters.sql_parts cimport Condition
from regulus.model.message_filter cimport Filter


cdef class ConditionFilter(Filter):
    cdef Condition _condition

    cpdef bint matches(self, list values) except -1


cdef class PoppedRetries(Filter):
    cdef Filter _wanted

    cpdef bint matches(self, list values) except -1
