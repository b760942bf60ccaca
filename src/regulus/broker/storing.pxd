cimport cython

from regulus.broker.placement cimport place
from regulus.broker.send_facts cimport SendFacts, TopicFacts
from regulus.model.message cimport MessageExt
from regulus.model.store_result cimport Appended

cdef object _PUT_OK
cdef object _MESSAGE_ILLEGAL


cdef class Storing:
    cdef public SendFacts facts
    cdef public object is_home
    cdef public object happenings
    cdef public long long put_failed_times

    cpdef Appended store(self, MessageExt message, long long now_ms, str kind=*)

    @cython.locals(appended=Appended)
    cpdef Appended append(self, MessageExt message, long long now_ms, Py_ssize_t messages=*, str kind=*)

    cpdef Appended deliver(self, MessageExt message, long long now_ms, str kind=*)

    @cython.locals(appended=Appended)
    cpdef Appended append_batch(self, list messages, long long now_ms, str kind=*)

    @cython.locals(facts=TopicFacts)
    cdef _count(self, str topic, Py_ssize_t messages, Appended appended, str kind)


cpdef str refusal_of(Appended appended)
