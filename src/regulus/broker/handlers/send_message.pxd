cimport cython

from regulus.broker.outcome cimport NoReply, Reply, plain_reply
from regulus.broker.placement cimport delay_level, place_dead_letter
from regulus.broker.send_facts cimport SendFacts, SentCounts, TopicFacts
from regulus.broker.storing cimport Storing
from regulus.model.message cimport MessageExt, StraightMessage
from regulus.model.peer cimport Peer
from regulus.model.store_result cimport Appended
from regulus.wire.headers.straight_send cimport BinaryStraightAnswers, StraightAnswers
from regulus.wire.headers.send_message cimport (
    SendMessageRequest, decode_send_message_request, send_message_response,
)
from regulus.wire.remoting_command cimport RemotingCommand

cdef str _UNIQUE_KEY
cdef str _WAIT
cdef str _SHARDING_KEY
cdef int _ONEWAY
cdef int _ROCKETMQ
cdef int _SUCCESS
cdef object _PUT_OK
cdef int _TRANSACTION_MASK
cdef int _INNER_BATCH
cdef int _UNUSUAL_FLAGS
cdef frozenset _UNUSUAL_PROPERTIES


@cython.locals(header=SendMessageRequest, facts=SendFacts, topic=TopicFacts)
cpdef handle_send_message(RemotingCommand request, Peer peer, object broker, object now_ms)

@cython.locals(queue_id=cython.int)
cdef _send_to(RemotingCommand request, SendMessageRequest header, TopicFacts topic, SendFacts facts, Peer peer,
              object broker, object now_ms)

@cython.locals(topic=TopicFacts, appended=Appended, counts=SentCounts, answers=StraightAnswers, binary=BinaryStraightAnswers, frame=bytes)
cdef _send_straight(RemotingCommand request, StraightMessage message, SendFacts facts, Peer peer, object broker,
                    object now_ms)

@cython.locals(body=bytes, properties=dict, is_unusual=cython.bint, unique_key=str, store_host=bytes,
               message=MessageExt, is_dead_letter=cython.bint, waits=cython.bint, storing=Storing, appended=Appended)
cdef _send(RemotingCommand request, SendMessageRequest header, int queue_id, TopicFacts topic, SendFacts facts,
           Peer peer, object broker, object now_ms)

@cython.locals(properties=dict, store_host=bytes, message=MessageExt, is_run=cython.bint, appended=Appended)
cdef _send_batch(RemotingCommand request, SendMessageRequest header, int queue_id, TopicFacts topic, SendFacts facts,
                 Peer peer, object broker, object now_ms)

@cython.locals(properties=dict, store_host=bytes, message=MessageExt, appended=Appended)
cdef _send_inner_batch(RemotingCommand request, SendMessageRequest header, int queue_id, TopicFacts topic,
                       SendFacts facts, Peer peer, object broker, object now_ms)

@cython.locals(message=MessageExt)
cdef MessageExt _message(SendMessageRequest header, TopicFacts topic, bytes body, dict properties, int queue_id,
                         int flag, bytes born_host, bytes store_host)
