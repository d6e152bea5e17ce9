package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	inFlight       = 5
	deliverWithin  = 10 * time.Second
	fetchWait      = 100 * time.Millisecond
	lookAgainAfter = 500 * time.Millisecond // for a topic that was just made
)

// Kafka is a Log in a Kafka cluster: a topic of one partition for each sensor. An offset is Kafka's plus one, so that 0 is before all.
type Kafka struct {
	brokers  []string
	producer *kgo.Client
	admin    *kadm.Client
	replicas int16
	names    names
}

var _ Log = (*Kafka)(nil)

// OpenKafka connects to brokers, such as "kafka:9092,kafka-2:9092". Records are acknowledged by all replicas that are in sync. Topics
// are never made by a producer: one that is missing is ErrNoTopic. Writes are not idempotent: what an idempotent producer once sent it
// may not give up, so that a request would wait for as long as a broker is away.
func OpenKafka(ctx context.Context, brokers, prefix string, replicas int) (*Kafka, error) {
	addresses := strings.Split(brokers, ",")
	producer, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(inFlight), kgo.RecordDeliveryTimeout(deliverWithin),
		kgo.UnknownTopicRetries(1), kgo.MetadataMinAge(lookAgainAfter))
	if err != nil {
		return nil, fmt.Errorf("IOT_KAFKA must be addresses such as kafka:9092, not %q: %w", brokers, err)
	}
	if err := producer.Ping(ctx); err != nil {
		producer.Close()
		return nil, fmt.Errorf("Kafka at %s does not answer: %w", brokers, err)
	}
	return &Kafka{addresses, producer, kadm.NewClient(producer), int16(replicas), names(prefix)}, nil
}

// AddTopic implements Log.
func (k *Kafka) AddTopic(ctx context.Context, sensorID int64) error {
	ctx, span := tracer.Start(ctx, "topic add")
	defer span.End()
	_, err := k.admin.CreateTopic(ctx, 1, k.replicas, nil, k.names.of(sensorID))
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// Topics implements Log.
func (k *Kafka) Topics(ctx context.Context) ([]int64, error) {
	listed, err := k.admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	var found []int64
	for name := range listed {
		if id, isOne := k.names.sensor(name); isOne {
			found = append(found, id)
		}
	}
	return found, nil
}

// value is what a record is in Kafka; its sensor is the topic.
type value struct {
	Value     float64 `json:"value"`
	Timestamp int64   `json:"timestamp"`
}

// Append implements Log. Records of several topics are not one transaction: when one fails, others may be in, and nothing is acknowledged.
func (k *Kafka) Append(ctx context.Context, records []Record) error {
	ctx, span := tracer.Start(ctx, "log append")
	defer span.End()
	sent := make([]*kgo.Record, len(records))
	for at, record := range records {
		encoded, err := json.Marshal(value{record.Value, record.Timestamp})
		if err != nil {
			return err
		}
		sent[at] = &kgo.Record{Topic: k.names.of(record.SensorID), Value: encoded}
	}
	err := k.producer.ProduceSync(ctx, sent...).FirstErr()
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return ErrNoTopic
	}
	return err
}

// Reader implements Log.
func (k *Kafka) Reader() (Reader, error) {
	consumer, err := kgo.NewClient(kgo.SeedBrokers(k.brokers...), kgo.FetchMaxWait(fetchWait), kgo.MetadataMinAge(lookAgainAfter))
	if err != nil {
		return nil, fmt.Errorf("a reader of Kafka cannot be made: %w", err)
	}
	return &kafkaReader{consumer, k.names}, nil
}

// Close implements Log.
func (k *Kafka) Close() error {
	k.producer.Close()
	return nil
}

type kafkaReader struct {
	consumer *kgo.Client
	names    names
}

func (r *kafkaReader) Follow(sensorID, after int64) {
	r.consumer.AddConsumePartitions(map[string]map[int32]kgo.Offset{r.names.of(sensorID): {0: kgo.NewOffset().At(after)}})
}

func (r *kafkaReader) Poll(ctx context.Context) ([]Entry, error) {
	waiting, cancel := context.WithTimeout(ctx, lookAgainAfter)
	defer cancel()
	fetches := r.consumer.PollRecords(waiting, pollMost)
	var found []Entry
	var failures error
	fetches.EachError(func(topic string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			failures = errors.Join(failures, fmt.Errorf("%s: %w", topic, err))
		}
	})
	fetches.EachRecord(func(record *kgo.Record) {
		var content value
		id, isOne := r.names.sensor(record.Topic)
		if err := json.Unmarshal(record.Value, &content); err != nil || !isOne {
			failures = errors.Join(failures, fmt.Errorf("%s at %d is no record: %w", record.Topic, record.Offset, err))
			return
		}
		found = append(found, Entry{Record{id, content.Value, content.Timestamp}, record.Offset + 1})
	})
	if len(found) > 0 {
		return found, nil // what failed beside them is met again
	}
	return nil, failures
}

func (r *kafkaReader) Close() { r.consumer.Close() }
