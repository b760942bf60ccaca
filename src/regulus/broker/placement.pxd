cimport cython

from regulus.model.message cimport MessageExt

cpdef int delay_level(dict properties) except -1

cpdef long long real_queue_id(dict properties) except -2

cpdef long long deliver_ms(dict properties, long long now_ms) except -2

@cython.locals(properties=dict, level=cython.int, due_ms=cython.longlong)
cpdef place(MessageExt message, int delay_level_max, int timer_precision_ms, long long now_ms)

cdef object _TIMER_PROPERTIES

cdef _take_timer_away(dict properties)

cdef _park(MessageExt message, str topic, int queue_id)

cdef str _HALF_TOPIC

cpdef place_half(MessageExt message)

cpdef committed(MessageExt half)

cpdef half_again(MessageExt half, int checks, object first_offset)

cpdef given_up(MessageExt half)

cpdef place_dead_letter(MessageExt message, str group)

cpdef when_due(MessageExt parked)

cpdef when_time_came(MessageExt waiting, long long entered_ms, long long now_ms)

cpdef put_back(MessageExt waiting, long long entered_ms, long long now_ms)

cpdef popped_again(MessageExt message, str retry_topic, long long pop_time, bytes host, bint is_counted)

cpdef retry_copy(MessageExt failed, str group, int queue_id, int level, bytes store_host)

cpdef dead_letter_copy(MessageExt failed, str group, bytes store_host)

cpdef dead_letter_as_it_is(MessageExt failed, str group, bytes store_host)

cdef dict _failed_properties(MessageExt failed)

cdef MessageExt _copy(MessageExt message, str topic, int queue_id, dict properties, int reconsume_times,
                      bytes store_host)
