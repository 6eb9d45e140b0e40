"""Decodes and validates every committed value of some topics with Confluent's JSON Schema deserializer; prints a list per topic.

Arguments: brokers, address of the registry, `username:password`, topics.
"""
import json
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

brokers, registry, login, *topics = sys.argv[1:]
decode = JSONDeserializer(
    None, schema_registry_client=SchemaRegistryClient({"url": registry, "basic.auth.user.info": login})
)
consumer = Consumer({
    "bootstrap.servers": brokers,
    "group.id": "decode",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    # the end of a partition is an answer without a message, which the broker delays by half a second by default
    "fetch.wait.max.ms": 10,
    "isolation.level": "read_committed",
})


def values(topic):
    for partition in consumer.list_topics(topic, 10).topics[topic].partitions:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while (message := consumer.poll(10)) is None or message.error() is None:
            if message is None:
                sys.exit(f"no response for partition {partition} of {topic}")
            yield decode(message.value(), SerializationContext(topic, MessageField.VALUE))
        if message.error().code() != KafkaError._PARTITION_EOF:
            sys.exit(str(message.error()))


print(json.dumps([list(values(topic)) for topic in topics]))
