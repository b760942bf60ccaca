from regulus.wire.bodies import ConsumerData, HeartbeatData, ProducerData, SubscriptionData


def test_a_heartbeat_of_a_5x_client() -> None:
    heartbeat = HeartbeatData.decode(
        b'{"clientID":"10.0.0.5@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_TIMESTAMP","consumeType":'
        b'"CONSUME_POP","groupName":"CG","messageModel":"BROADCASTING","subscriptionDataSet":[{"subString":"*",'
        b'"subVersion":7,"topic":"T"}],"unitMode":true}],"heartbeatFingerprint":3,"producerDataSet":[{"groupName":"PG"}],'
        b'"withoutSub":true}')
    assert heartbeat == HeartbeatData(
        client_id="10.0.0.5@1", producer_data_set=[ProducerData(group_name="PG")], heartbeat_fingerprint=3,
        without_sub=True, consumer_data_set=[ConsumerData(
            group_name="CG", consume_type="CONSUME_POP", message_model="BROADCASTING", unit_mode=True,
            consume_from_where="CONSUME_FROM_TIMESTAMP",
            subscription_data_set=[SubscriptionData(topic="T", sub_version=7)])])


def test_numbers_stand_for_names() -> None:
    """C++ clients send them, and times as text."""
    (consumer,) = HeartbeatData.decode(
        b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":4,"consumeType":0,"groupName":"CG","messageModel":0,'
        b'"subscriptionDataSet":[{"codeSet":[0],"subVersion":"1795219803453","topic":"T"}]}]}\n').consumer_data_set
    assert (consumer.consume_from_where, consumer.consume_type, consumer.message_model) == \
        ("CONSUME_FROM_FIRST_OFFSET", "CONSUME_ACTIVELY", "BROADCASTING")
    assert consumer.subscription_data_set[0].sub_version == 1795219803453


def test_an_unknown_number_stays_visible() -> None:
    (consumer,) = HeartbeatData.decode(b'{"clientID":"c","consumerDataSet":[{"groupName":"CG","messageModel":9}]}'
                                       ).consumer_data_set
    assert consumer.message_model == "9"


def test_members_that_5x_added_are_left_out_when_not_set() -> None:
    assert HeartbeatData(client_id="c").encode() == b'{"clientID":"c","consumerDataSet":[],"producerDataSet":[]}'
