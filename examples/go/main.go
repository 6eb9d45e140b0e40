// Mirror keeps a copy of the records of some models in a bbolt file: it loads them over HTTP once, then follows Kafka.
//
// A transaction commits the copy together with the offsets up to which it is complete, so a restart at any moment neither
// loses an event nor applies one twice. Per record the greater (generation, version) wins; late and repeated events change
// nothing.
//
//	mirror            follow until Ctrl-C
//	mirror --once     catch up with what Kafka has now, then end
//	mirror --print    print the copy, one record per line
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	bolt "go.etcd.io/bbolt"
)

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

var (
	api      = setting("ROLLCALL_URL", "http://127.0.0.1:8477")
	token    = os.Getenv("ROLLCALL_HTTP_READ_TOKEN")
	brokers  = strings.Split(setting("KAFKA_BROKERS", "localhost:9092"), ",")
	template = setting("ROLLCALL_TOPIC", "rollcall.{model}")
	models   = strings.Split(setting("MODELS", "ats.application"), ",")
	file     = setting("MIRROR_FILE", "mirror.bolt")

	// Bucket names: "<integration>/<model>/<id>" → Record, "<topic>/<partition>" → the next offset.
	recordsBucket = []byte("records")
	offsetsBucket = []byte("offsets")
)

func topicOf(name string) string { return strings.ReplaceAll(template, "{model}", name) }

// Record is what the mirror keeps of a record. After is null if the record was deleted: its version stays, so that a late
// event does not bring it back.
type Record struct {
	Integration string          `json:"integration"`
	Model       string          `json:"model"`
	ID          string          `json:"id"`
	Generation  int64           `json:"generation"`
	Version     int64           `json:"version"`
	After       json.RawMessage `json:"after"`
}

// Event is the value of a message.
type Event struct {
	Record
	Kind string `json:"kind"`
	Stub bool   `json:"stub"`
	Log  string `json:"log"`
}

func (r Record) key() []byte { return []byte(r.Integration + "/" + r.Model + "/" + r.ID) }

func (r Record) sameVersion(other Record) bool {
	return string(r.key()) == string(other.key()) && r.Generation == other.Generation && r.Version == other.Version
}

func (r Record) live() bool { return len(r.After) > 0 && string(r.After) != "null" }

// status is an answer of the operating API that is not 200.
type status struct {
	code int
	path string
}

func (s status) Error() string {
	return fmt.Sprintf("%s: %d %s", s.path, s.code, http.StatusText(s.code))
}

func hasStatus(err error, code int) bool {
	var found status
	return errors.As(err, &found) && found.code == code
}

func get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, api+path, nil)
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return status{response.StatusCode, path}
	}
	return json.NewDecoder(response.Body).Decode(into)
}

func apply(tx *bolt.Tx, record Record) error {
	bucket := tx.Bucket(recordsBucket)
	if text := bucket.Get(record.key()); text != nil {
		var held Record
		if err := json.Unmarshal(text, &held); err != nil {
			return err
		}
		if record.Generation < held.Generation || record.Generation == held.Generation && record.Version <= held.Version {
			return nil
		}
	}
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return bucket.Put(record.key(), text)
}

func setOffset(tx *bolt.Tx, topic string, partition int32, next int64) error {
	key := fmt.Sprintf("%s/%d", topic, partition)
	return tx.Bucket(offsetsBucket).Put([]byte(key), []byte(strconv.FormatInt(next, 10)))
}

// load notes where the topics end, then reads all records. What the records do not contain yet is published after these ends.
func load(ctx context.Context, db *bolt.DB, admin *kadm.Client) error {
	topics := []string{topicOf("progress")}
	for _, model := range models {
		topics = append(topics, topicOf(model))
	}
	ends, err := admin.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("has Rollcall published to %v yet? %w", topics, err)
	}
	var integrations struct{ Items []Record }
	if err := get(ctx, "/v1/integrations", &integrations); err != nil {
		return err
	}
	return db.Update(func(tx *bolt.Tx) error {
		for _, partitions := range ends {
			for _, end := range partitions {
				next := end.Offset
				if end.Topic == topicOf("progress") {
					next = 0
				}
				if err := setOffset(tx, end.Topic, end.Partition, next); err != nil {
					return err
				}
			}
		}
		for _, integration := range integrations.Items {
			for _, model := range models {
				query := url.Values{"integration": {integration.ID}, "model": {model}, "limit": {"1000"}}
				if err := applyRecords(ctx, tx, query); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// applyRecords applies the records of a stream, or the one with an id; none if the integration does not have the model.
func applyRecords(ctx context.Context, tx *bolt.Tx, query url.Values) error {
	for {
		var page struct {
			Records []Record
			Next    *string
		}
		err := get(ctx, "/v1/records?"+query.Encode(), &page)
		if hasStatus(err, http.StatusNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, record := range page.Records {
			if err := apply(tx, record); err != nil {
				return err
			}
		}
		if page.Next == nil {
			return nil
		}
		query.Set("after", *page.Next)
	}
}

// later is a generation of a stream that the progress topic showed. All its events are in the topic before that message: once
// the mirror has read the topic up to these ends, records of the stream in an earlier generation no longer exist.
type later struct {
	generation int64
	ends       map[int32]int64
}

type mirror struct {
	db      *bolt.DB
	client  *kgo.Client
	admin   *kadm.Client
	next    map[string]map[int32]int64 // topic → partition → next offset
	waiting map[string]later           // stream → its later generation
}

func (m *mirror) applyMessage(ctx context.Context, tx *bolt.Tx, message *kgo.Record) error {
	m.next[message.Topic][message.Partition] = message.Offset + 1
	if err := setOffset(tx, message.Topic, message.Partition, message.Offset+1); err != nil {
		return err
	}
	switch {
	case message.Attrs.IsControl(): // the end of a transaction, which only moves the offset
		return nil
	case message.Topic == topicOf("progress"):
		return m.noteGeneration(ctx, message)
	}
	var event Event
	if err := json.Unmarshal(message.Value, &event); err != nil {
		return err
	}
	if event.Stub { // too large for Kafka: the log has the whole event, unless its content was erased or forgotten since
		var page struct{ Events []struct{ Data Event } }
		err := get(ctx, event.Log, &page)
		if hasStatus(err, http.StatusGone) { // past retention, or the store was replaced: the current record is as new or newer
			query := url.Values{"integration": {event.Integration}, "model": {event.Model}, "id": {event.ID}}
			err = applyRecords(ctx, tx, query)
		}
		if err != nil {
			return err
		}
		if len(page.Events) > 0 && page.Events[0].Data.sameVersion(event.Record) {
			event = page.Events[0].Data
		} // otherwise a delete follows
	}
	fmt.Println("applied", event.Kind, string(message.Key), event.Version)
	return apply(tx, event.Record)
}

func (m *mirror) noteGeneration(ctx context.Context, message *kgo.Record) error {
	stream := string(message.Key)
	model := stream[strings.LastIndex(stream, "/")+1:]
	if !follows(model) {
		return nil
	}
	var progress struct{ Generation int64 }
	if err := json.Unmarshal(message.Value, &progress); err != nil {
		return err
	}
	ends, err := m.ends(ctx, topicOf(model))
	m.waiting[stream] = later{progress.Generation, ends[topicOf(model)]}
	return err
}

func (m *mirror) dropEarlier(tx *bolt.Tx) error {
	for stream, found := range m.waiting {
		model := stream[strings.LastIndex(stream, "/")+1:]
		if !reached(m.next[topicOf(model)], found.ends) {
			continue
		}
		delete(m.waiting, stream)
		bucket, prefix := tx.Bucket(recordsBucket), stream+"/"
		var gone [][]byte
		cursor := bucket.Cursor()
		for key, text := cursor.Seek([]byte(prefix)); strings.HasPrefix(string(key), prefix); key, text = cursor.Next() {
			var held Record
			if err := json.Unmarshal(text, &held); err != nil {
				return err
			}
			if held.Generation < found.generation {
				gone = append(gone, key)
			}
		}
		for _, key := range gone {
			if err := bucket.Delete(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// ends returns the offsets after the last committed message of each partition.
func (m *mirror) ends(ctx context.Context, topics ...string) (map[string]map[int32]int64, error) {
	listed, err := m.admin.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = listed.Error()
	}
	found := map[string]map[int32]int64{}
	for topic, partitions := range listed {
		found[topic] = map[int32]int64{}
		for partition, end := range partitions {
			found[topic][partition] = end.Offset
		}
	}
	return found, err
}

func reached(next, ends map[int32]int64) bool {
	for partition, end := range ends {
		if next[partition] < end {
			return false
		}
	}
	return true
}

func follows(model string) bool {
	for _, name := range models {
		if name == model {
			return true
		}
	}
	return false
}

// follow applies each batch and its offsets in one transaction. once: until the ends that the topics have now.
func (m *mirror) follow(ctx context.Context, once bool) error {
	start := map[string]map[int32]kgo.Offset{}
	var topics []string
	for topic, partitions := range m.next {
		topics = append(topics, topic)
		start[topic] = map[int32]kgo.Offset{}
		for partition, next := range partitions {
			start[topic][partition] = kgo.NewOffset().At(next)
		}
	}
	ends, err := m.ends(ctx, topics...)
	if err != nil {
		return err
	}
	m.client.AddConsumePartitions(start)
	for ctx.Err() == nil {
		done := once && len(m.waiting) == 0
		for topic := range ends {
			done = done && reached(m.next[topic], ends[topic])
		}
		if done {
			return nil
		}
		wait, cancel := context.WithTimeout(ctx, time.Second)
		fetches := m.client.PollFetches(wait)
		cancel()
		for _, failure := range fetches.Errors() {
			if !errors.Is(failure.Err, context.DeadlineExceeded) && !errors.Is(failure.Err, context.Canceled) {
				return failure.Err
			}
		}
		err := m.db.Update(func(tx *bolt.Tx) error {
			for records := fetches.RecordIter(); !records.Done(); {
				if err := m.applyMessage(ctx, tx, records.Next()); err != nil {
					return err
				}
			}
			return m.dropEarlier(tx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func printRecords(db *bolt.DB) error {
	return db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(recordsBucket).ForEach(func(_, text []byte) error {
			var record Record
			err := json.Unmarshal(text, &record)
			if err == nil && record.live() {
				fmt.Println(string(text))
			}
			return err
		})
	})
}

// savedOffsets is empty before the first load.
func savedOffsets(db *bolt.DB) (map[string]map[int32]int64, error) {
	saved := map[string]map[int32]int64{}
	err := db.Update(func(tx *bolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(recordsBucket); err != nil {
			return err
		}
		bucket, err := tx.CreateBucketIfNotExists(offsetsBucket)
		if err != nil {
			return err
		}
		return bucket.ForEach(func(key, text []byte) error {
			slash := strings.LastIndex(string(key), "/")
			partition, err := strconv.Atoi(string(key[slash+1:]))
			if err != nil {
				return err
			}
			next, err := strconv.ParseInt(string(text), 10, 64)
			topic := string(key[:slash])
			if saved[topic] == nil {
				saved[topic] = map[int32]int64{}
			}
			saved[topic][int32(partition)] = next
			return err
		})
	})
	return saved, err
}

func run(ctx context.Context, mode string) error {
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	saved, err := savedOffsets(db)
	if err != nil {
		return err
	}
	if mode == "--print" {
		return printRecords(db)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // without the ends of transactions, the offsets would never reach the topics' ends
		// an offset past the retention is an error: delete the file, so that the records are loaded again
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if len(saved) == 0 {
		if err := load(ctx, db, admin); err != nil {
			return err
		}
		if saved, err = savedOffsets(db); err != nil {
			return err
		}
	}
	m := &mirror{db, client, admin, saved, map[string]later{}}
	return m.follow(ctx, mode == "--once")
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	if err := run(ctx, mode); err != nil {
		log.Fatal(err)
	}
}
