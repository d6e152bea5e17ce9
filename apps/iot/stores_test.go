package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"towtank/apps/iot/api"
	"towtank/apps/iot/connect"
	"towtank/apps/iot/entities"
	"towtank/apps/iot/records"
	"towtank/apps/iot/seed"
	"towtank/apps/iot/serve"
)

var errAway = errors.New("connection refused")

// faulty stores are away while `away` is set.
type faultyLog struct {
	records.Log
	away atomic.Bool
}

func (f *faultyLog) Append(ctx context.Context, r []records.Record) error {
	if f.away.Load() {
		return errAway
	}
	return f.Log.Append(ctx, r)
}

func (f *faultyLog) AddTopic(ctx context.Context, id int64) error {
	if f.away.Load() {
		return errAway
	}
	return f.Log.AddTopic(ctx, id)
}

type faultyIndex struct {
	records.Index
	away atomic.Bool
}

func (f *faultyIndex) Put(ctx context.Context, id int64, e []records.Entry) error {
	if f.away.Load() {
		return errAway
	}
	return f.Index.Put(ctx, id, e)
}

func (f *faultyIndex) Newest(ctx context.Context, id int64, most int) ([]records.Record, error) {
	if f.away.Load() {
		return nil, errAway
	}
	return f.Index.Newest(ctx, id, most)
}

// follow returns a reader that is closed with the test.
func follow(t *testing.T, p *api.Platform, sensorID, after int64) records.Reader {
	t.Helper()
	reader, err := p.Log.Reader()
	must(t, err)
	t.Cleanup(reader.Close)
	reader.Follow(sensorID, after)
	return reader
}

// next polls until there are `least` entries, and once more when nothing may follow them.
func next(t *testing.T, reader records.Reader, least int) []records.Entry {
	t.Helper()
	found := []records.Entry{}
	poll := func() bool {
		more, err := reader.Poll(t.Context())
		must(t, err)
		found = append(found, more...)
		return len(found) >= least
	}
	within(t, 20*time.Second, poll)
	poll()
	return found
}

// topicOf reads a sensor's whole topic, which has `least` entries or more.
func topicOf(t *testing.T, p *api.Platform, sensor string, least int) []records.Entry {
	t.Helper()
	id, err := strconv.ParseInt(sensor, 10, 64)
	must(t, err)
	return next(t, follow(t, p, id, 0), least)
}

func TestAStoreThatIsAwayIsSaidAndNothingAcknowledgedIsLost(t *testing.T) {
	b, rows := newBench(t)
	row := rows[0]
	log, index := &faultyLog{Log: b.platform.Log}, &faultyIndex{Index: b.platform.Index}
	b.platform.Log, b.platform.Index = log, index
	go connect.NewWorker(b.platform.Entities, b.platform.Log, b.platform.Index).Run(t.Context())
	sensor, err := strconv.ParseInt(row["sensor_id"], 10, 64)
	must(t, err)
	acknowledged := 3
	index.away.Store(true)
	for at := range 30 {
		log.away.Store(at%3 == 0)
		status, told := ask(t, b.url, "POST", "/gateway", row["device_token"], map[string]any{"sensor_id": sensor, "value": at, "timestamp": 4e12 + float64(at)})
		switch {
		case status == 200:
			acknowledged++
		case status != 503 || at%3 != 0:
			t.Fatalf("%d %v", status, told)
		}
	}
	consumed := "/api/consumers/consume/" + row["sensor_id"]
	if told := b.want(503, "GET", consumed, row["consumer_token"], nil); told["error"] != api.Away.Message {
		t.Errorf("the answer says %v", told)
	}
	index.away.Store(false)
	within(t, 30*time.Second, func() bool {
		return len(b.want(200, "GET", consumed, row["consumer_token"], nil)["records"].([]any)) == acknowledged
	})
	if acknowledged != 23 {
		t.Errorf("acknowledged %d", acknowledged)
	}
	must(t, b.platform.Entities.Close())
	b.want(503, "POST", "/api/users/signin", "", map[string]string{"username": "user-001", "password": "x"})
	b.want(503, "POST", "/gateway", row["device_token"], "{}")
}

func TestASensorsRestIsDoneAfterTheAnswerOfAMicroserviceAndBeforeAFunctions(t *testing.T) {
	b, rows := newBench(t)
	row := rows[0]
	log := &faultyLog{Log: b.platform.Log}
	b.platform.Log = log
	sensors := "/api/users/" + row["user_id"] + "/devices/" + row["device_id"] + "/sensors"
	function := served(t, serve.NewCarrier(b.platform, api.Endpoints, serve.Before, always))

	log.away.Store(true)
	b.want(201, "POST", sensors, row["user_token"], map[string]string{"name": "of the microservice"})
	if status, told := ask(t, function, "POST", sensors, row["user_token"], map[string]string{"name": "of the function"}); status != 503 {
		t.Errorf("the function answered %d %v", status, told)
	}
	if listed := b.want(200, "GET", sensors, row["user_token"], nil)["list"].([]any); len(listed) != 2 {
		t.Errorf("what the function refused is there: %v", listed)
	}
	log.away.Store(false)
	b.rest.Wait()
	if status, told := ask(t, function, "POST", sensors, row["user_token"], map[string]string{"name": "of the function"}); status != 201 {
		t.Errorf("the function answered %d %v", status, told)
	}
	topics, err := b.platform.Log.Topics(t.Context())
	must(t, err)
	if len(topics) != 4 {
		t.Errorf("topics are %v", topics)
	}
}

func TestWhatAMicroserviceCouldNotFinishIsReconciled(t *testing.T) {
	b, rows := newBench(t)
	ending, end := context.WithCancel(t.Context())
	rest := serve.NewAfterwards(ending)
	log := &faultyLog{Log: b.platform.Log}
	broken := *b.platform
	broken.Log = log
	log.away.Store(true)
	url := served(t, serve.NewCarrier(&broken, api.Endpoints, rest.Do, always))
	status, told := ask(t, url, "POST", "/api/users/"+rows[0]["user_id"]+"/devices/"+rows[0]["device_id"]+"/sensors", rows[0]["user_token"], map[string]string{"name": "x"})
	if status != 201 {
		t.Fatalf("%d %v", status, told)
	}
	end()
	rest.Wait()
	id := int64(told["id"].(float64))
	if err := b.platform.Log.Append(t.Context(), []records.Record{{SensorID: id}}); !errors.Is(err, records.ErrNoTopic) {
		t.Errorf("a topic is there: %v", err)
	}
	for at, missing := range []int{1, 0} {
		done, err := b.platform.Reconcile(t.Context())
		must(t, err)
		if done.Sensors != 3 || done.Topics != missing || done.Indices != missing || done.Connectors != missing {
			t.Errorf("time %d: %+v", at, done)
		}
	}
	must(t, b.platform.Log.Append(t.Context(), []records.Record{{SensorID: id}}))
}

func TestAWorkerGoesOnWhereTheLastOneEnded(t *testing.T) {
	b, rows := newBench(t)
	id, err := strconv.ParseInt(rows[0]["sensor_id"], 10, 64)
	must(t, err)
	for round := range 3 {
		ctx, end := context.WithCancel(t.Context())
		ended := sync.WaitGroup{}
		ended.Add(1)
		go func() {
			defer ended.Done()
			connect.NewWorker(b.platform.Entities, b.platform.Log, b.platform.Index).Run(ctx)
		}()
		must(t, b.platform.Log.Append(t.Context(), []records.Record{{SensorID: id, Value: float64(round), Timestamp: 5e12}}))
		within(t, 20*time.Second, func() bool {
			found, err := b.platform.Index.Newest(t.Context(), id, 100)
			must(t, err)
			return len(found) == 3+round+1
		})
		end()
		ended.Wait()
	}
	topic := topicOf(t, b.platform, rows[0]["sensor_id"], 6)
	if len(topic) != 6 {
		t.Fatalf("the topic has %v", topic)
	}
	within(t, 20*time.Second, func() bool {
		last, err := b.platform.Index.Last(t.Context(), id)
		must(t, err)
		return last == topic[5].Offset
	})
}

func TestAReaderGetsWhatWasThereBeforeItFollowed(t *testing.T) {
	b, rows := newBench(t)
	ids := []int64{}
	for _, row := range rows {
		id, err := strconv.ParseInt(row["sensor_id"], 10, 64)
		must(t, err)
		ids = append(ids, id)
	}
	reader := follow(t, b.platform, ids[0], 0)
	first := next(t, reader, 3)
	reader.Follow(ids[1], 0)
	second := next(t, reader, 3)
	for at, found := range [][]records.Entry{first, second} {
		if len(found) != 3 || slices.ContainsFunc(found, func(e records.Entry) bool { return e.SensorID != ids[at] }) {
			t.Errorf("of topic %d: %v", at, found)
		}
	}
	if rest := next(t, follow(t, b.platform, ids[0], first[1].Offset), 1); len(rest) != 1 || rest[0] != first[2] {
		t.Errorf("after the second: %v", rest)
	}
}

func TestOneRecordThatCannotBeKeptIsSaid(t *testing.T) {
	b, rows := newBench(t)
	before := topicOf(t, b.platform, rows[0]["sensor_id"], 3)
	err := b.platform.Log.Append(t.Context(), []records.Record{before[0].Record, {SensorID: 999}})
	if !errors.Is(err, records.ErrNoTopic) {
		t.Errorf("got %v", err)
	}
	// Kafka's producer has no transaction here: what goes before may be in, and nobody was told so.
	_, isEmbedded := b.platform.Log.(*records.SQLiteLog)
	if after := topicOf(t, b.platform, rows[0]["sensor_id"], 3); isEmbedded && len(after) != len(before) {
		t.Errorf("%d records are kept, not %d", len(after), len(before))
	}
}

func TestTwoProcessesMayWriteAtOnce(t *testing.T) {
	folder := t.TempDir()
	stores := []*api.Platform{newPlatform(t, folder), newPlatform(t, folder)}
	user, err := stores[0].Entities.AddUser(t.Context(), entities.User{Username: "u", Role: entities.Member})
	must(t, err)
	if _, err := stores[1].Entities.AddUser(t.Context(), entities.User{Username: "u"}); !errors.Is(err, entities.ErrTaken) {
		t.Errorf("got %v", err)
	}
	writers, failures := sync.WaitGroup{}, make(chan error, 100)
	for at := range 100 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			_, err := stores[at%2].Entities.AddDevice(t.Context(), entities.Device{UserID: user.ID, Name: "d"})
			failures <- err
		}()
	}
	writers.Wait()
	close(failures)
	for err := range failures {
		must(t, err)
	}
	if devices, err := stores[0].Entities.DevicesOf(t.Context(), user.ID); err != nil || len(devices) != 100 {
		t.Errorf("%d devices, %v", len(devices), err)
	}
}

func TestTheSameSeedingMakesTheSameFeed(t *testing.T) {
	feeds := [][][]string{}
	for range 2 {
		lines, err := seed.Fill(t.Context(), newPlatform(t, t.TempDir()), seed.Amount{Users: 2, Devices: 2, Sensors: 2, Records: 1})
		must(t, err)
		feeds = append(feeds, lines)
	}
	if len(feeds[0]) != 8 || !slices.EqualFunc(feeds[0], feeds[1], slices.Equal) {
		t.Errorf("two feeds: %v", feeds)
	}
}

func TestSeedingFillsAnEmptyPlatformOnly(t *testing.T) {
	b, _ := newBench(t)
	if _, err := seed.Fill(t.Context(), b.platform, seed.Amount{Users: 1, Devices: 1, Sensors: 1}); err == nil {
		t.Error("seeded again")
	}
	for _, arguments := range [][]string{{"--users", "0"}, {"--records", "-1"}, {"more"}, {"--nothing"}} {
		if _, err := seedOptionsFrom(arguments); err == nil {
			t.Errorf("%v was taken", arguments)
		}
	}
}
