"""Keeps a copy of the records of some models in SQLite: loads them over HTTP once, then follows Kafka.

A transaction commits the copy together with the offsets up to which it is complete, so a restart at any moment neither loses
an event nor applies one twice. Per record the greater (generation, version) wins; late and repeated events change nothing.

    python mirror.py            # follow until Ctrl-C
    python mirror.py --once     # catch up with what Kafka has now, then end
    python mirror.py --print    # print the copy, one record per line
"""
import json
import os
import signal
import sqlite3
import sys
import urllib.error
import urllib.parse
import urllib.request

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

API = os.environ.get("ROLLCALL_URL", "http://127.0.0.1:8477")
TOKEN = os.environ.get("ROLLCALL_HTTP_READ_TOKEN")
BROKERS = os.environ.get("KAFKA_BROKERS", "localhost:9092")
TEMPLATE = os.environ.get("ROLLCALL_TOPIC", "rollcall.{model}")
MODELS = os.environ.get("MODELS", "ats.application").split(",")
FILE = os.environ.get("MIRROR_FILE", "mirror.db")
PROGRESS = TEMPLATE.replace("{model}", "progress")

TABLES = """
CREATE TABLE IF NOT EXISTS records (
  integration TEXT, model TEXT, id TEXT, generation INTEGER, version INTEGER,
  content TEXT, -- NULL: deleted; the version stays, so that a late event does not bring the record back
  PRIMARY KEY (integration, model, id));
CREATE TABLE IF NOT EXISTS offsets (topic TEXT, part INTEGER, next INTEGER, PRIMARY KEY (topic, part));
"""
APPLY = """
INSERT INTO records VALUES (:integration, :model, :id, :generation, :version, :content)
ON CONFLICT DO UPDATE SET generation = excluded.generation, version = excluded.version, content = excluded.content
WHERE (excluded.generation, excluded.version) > (records.generation, records.version)
"""


def get(path):
    request = urllib.request.Request(API + path)
    if TOKEN:
        request.add_header("Authorization", f"Bearer {TOKEN}")
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def records(integration, model, **only):
    """The records of a stream, or the one with an `id`; none if this integration does not have the model."""
    query = {"integration": integration, "model": model, "limit": 1000, **only}
    while True:
        try:
            page = get("/v1/records?" + urllib.parse.urlencode(query))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return
            raise
        yield from page["records"]
        if page["next"] is None:
            return
        query["after"] = page["next"]


def whole(stub):
    """The log has the whole event, unless its content was erased or forgotten since: then a delete follows.

    If the log no longer has this place (it is past retention, or the store was replaced), the current record is as new or newer.
    """
    try:
        events = get(stub["log"])["events"]
    except urllib.error.HTTPError as error:
        if error.code != 410:
            raise
        return next(records(stub["integration"], stub["model"], id=stub["id"]), stub)
    keys = ("integration", "model", "id", "generation", "version")
    found = events and all(events[0]["data"][key] == stub[key] for key in keys)
    return events[0]["data"] if found else stub


def apply(db, record):
    content = record["after"] and json.dumps(record["after"], sort_keys=True)
    keys = ("integration", "model", "id", "generation", "version")
    db.execute(APPLY, {**{key: record[key] for key in keys}, "content": content})


def partitions(consumer, topic):
    metadata = consumer.list_topics(topic, timeout=30).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return [TopicPartition(topic, number) for number in metadata.partitions]


def load(db, consumer):
    """Notes where the topics end, then reads all records. What the records do not contain yet is published after these ends."""
    for part in [part for model in MODELS for part in partitions(consumer, TEMPLATE.replace("{model}", model))]:
        _, end = consumer.get_watermark_offsets(part, timeout=30)
        db.execute("INSERT INTO offsets VALUES (?, ?, ?)", (part.topic, part.partition, end))
    for part in partitions(consumer, PROGRESS):
        db.execute("INSERT INTO offsets VALUES (?, ?, 0)", (part.topic, part.partition))
    for integration in get("/v1/integrations")["items"]:
        for model in MODELS:
            for record in records(integration["id"], model):
                apply(db, record)


class Generations:
    """Drops the records that a later generation no longer has.

    If the progress of a stream shows a later generation, all its events are in the topic before that message. So once this
    copy has read the topic up to its end, records of the stream in an earlier generation no longer exist.
    """

    def __init__(self, consumer):
        self.consumer = consumer
        self.waiting = {}

    def seen(self, stream, generation, parts):
        if stream.split("/")[1] in MODELS:
            topic = TEMPLATE.replace("{model}", stream.split("/")[1])
            ends = {
                (topic, part.partition): self.consumer.get_watermark_offsets(part, timeout=30)[1]
                for part in parts
                if part.topic == topic
            }
            self.waiting[stream] = (generation, ends)

    def drop(self, db, reached):
        for stream, (generation, ends) in list(self.waiting.items()):
            if all(reached.get(part, 0) >= end for part, end in ends.items()):
                integration, model = stream.split("/")
                where = "integration = ? AND model = ? AND generation < ?"
                db.execute(f"DELETE FROM records WHERE {where}", (integration, model, generation))
                del self.waiting[stream]


def follow(db, consumer, once):
    parts = [
        TopicPartition(topic, part, offset) for topic, part, offset in db.execute("SELECT topic, part, next FROM offsets")
    ]
    consumer.assign(parts)
    reached = {}  # where a partition was found to end
    generations = Generations(consumer)
    running = True

    def stop(*_):
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    while running:
        with db:  # one transaction for the changes of a batch and their offsets
            for message in consumer.consume(500, timeout=1):
                part = (message.topic(), message.partition())
                if message.error() is not None:
                    if message.error().code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(message.error())
                    reached[part] = message.offset()
                    continue
                value = message.value() and json.loads(message.value())
                if message.topic() == PROGRESS:
                    generations.seen(message.key().decode(), value["generation"], parts)
                else:
                    apply(db, whole(value) if value.get("stub") else value)  # a stub: too large for Kafka
                    print("applied", value["kind"], message.key().decode(), value["version"], flush=True)
                db.execute("UPDATE offsets SET next = ? WHERE topic = ? AND part = ?", (message.offset() + 1, *part))
            generations.drop(db, reached)
        if once and len(reached) == len(parts) and not generations.waiting:
            return


def main():
    db = sqlite3.connect(FILE)
    db.executescript(TABLES)
    if "--print" in sys.argv:
        rows = db.execute("SELECT * FROM records WHERE content IS NOT NULL ORDER BY integration, model, id")
        for integration, model, id, generation, version, content in rows:
            record = {"integration": integration, "model": model, "id": id, "generation": generation, "version": version}
            print(json.dumps({**record, "after": json.loads(content)}))
        return
    consumer = Consumer({
        "bootstrap.servers": BROKERS,
        "group.id": "mirror",  # required by the client; the offsets are kept with the records, not in the group
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",  # an offset past the retention: delete the file, so that the records are loaded again
    })
    try:
        if db.execute("SELECT 1 FROM offsets").fetchone() is None:
            with db:
                load(db, consumer)
        follow(db, consumer, "--once" in sys.argv)
    finally:
        consumer.close()


main()
