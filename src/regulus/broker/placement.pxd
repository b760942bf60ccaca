cimport cython

from regulus.model.message cimport MessageExt

cpdef int delay_level(dict properties) except -1

cpdef long long real_queue_id(dict properties) except -2

cpdef place(MessageExt message, int delay_level_max)

cdef str _HALF_TOPIC

cpdef place_half(MessageExt message)

cpdef committed(MessageExt half)

cpdef half_again(MessageExt half, int checks, object first_offset)

cpdef given_up(MessageExt half)

cpdef place_dead_letter(MessageExt message, str group)

cpdef when_due(MessageExt parked)

cpdef retry_copy(MessageExt failed, str group, int queue_id, int level, bytes store_host)

cpdef dead_letter_copy(MessageExt failed, str group, bytes store_host)

cdef dict _failed_properties(MessageExt failed)

cdef MessageExt _copy(MessageExt message, str topic, int queue_id, dict properties, int reconsume_times,
                      bytes store_host)
