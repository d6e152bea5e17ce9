// Package connect carries records from topics into indices: one job for each connector, as Kafka Connect does.
package connect

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"towtank/apps/iot/records"
)

const (
	lookEvery  = 500 * time.Millisecond // for new connectors
	retryAfter = 200 * time.Millisecond
	retryMost  = 5 * time.Second
	queued     = 4 // batches that wait for a job
	writers    = 4 // jobs that write at the same time
)

var (
	indexed = promauto.NewCounter(prometheus.CounterOpts{Name: "iot_connect_records_total", Help: "Records carried from topics into indices."})
	failed  = promauto.NewCounter(prometheus.CounterOpts{Name: "iot_connect_failures_total", Help: "Writes to an index that failed and were repeated."})
	jobs    = promauto.NewGauge(prometheus.GaugeOpts{Name: "iot_connect_jobs", Help: "Connectors that have a job."})
)

// Connectors lists the sensors that have a connector.
type Connectors interface {
	Connectors(ctx context.Context) ([]int64, error)
}

// Worker has a job for each connector. There is one worker for a platform. A job's place in its topic is the largest offset in its
// index: what was read and not indexed when a worker ended is read again, and an offset that is there is replaced, so nothing is lost
// and nothing is there twice.
type Worker struct {
	connectors Connectors
	log        records.Log
	reader     records.Reader
	index      records.Index
	batches    map[int64]chan []records.Entry
	writing    chan struct{}
	working    sync.WaitGroup
}

// NewWorker returns a worker that does nothing yet.
func NewWorker(connectors Connectors, log records.Log, index records.Index) *Worker {
	return &Worker{
		connectors: connectors, log: log, index: index,
		batches: map[int64]chan []records.Entry{}, writing: make(chan struct{}, writers),
	}
}

// Run works until its context ends. A store that is away is asked again and again.
func (w *Worker) Run(ctx context.Context) {
	defer w.working.Wait() // whoever waits for a worker may close the stores after it
	for w.reader == nil {
		reader, err := w.log.Reader()
		if err == nil {
			w.reader = reader
			defer reader.Close()
		} else if again(ctx, "the log cannot be read", err); ctx.Err() != nil {
			return
		}
	}
	var looked time.Time
	for ctx.Err() == nil {
		if time.Since(looked) >= lookEvery {
			if err := w.begin(ctx); err != nil {
				again(ctx, "connectors cannot be looked up", err)
				continue
			}
			looked = time.Now()
		}
		entries, err := w.reader.Poll(ctx)
		if err != nil {
			again(ctx, "the log cannot be read", err)
			continue
		}
		w.hand(ctx, entries)
	}
}

func again(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		slog.Warn(what+"; trying again", "error", err)
		wait(ctx, retryAfter)
	}
}

func wait(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(most):
	}
}

// begin starts a job for each connector that has none.
func (w *Worker) begin(ctx context.Context) error {
	ids, err := w.connectors.Connectors(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, begun := w.batches[id]; begun {
			continue
		}
		last, err := w.index.Last(ctx, id)
		if err != nil {
			return err
		}
		w.batches[id] = make(chan []records.Entry, queued)
		w.reader.Follow(id, last)
		w.working.Add(1)
		go w.job(ctx, id, w.batches[id])
		jobs.Inc()
	}
	return nil
}

// hand gives every job what is its own; a job that is behind holds everybody up, so that what waits stays bounded.
func (w *Worker) hand(ctx context.Context, entries []records.Entry) {
	of := map[int64][]records.Entry{}
	for _, entry := range entries {
		of[entry.SensorID] = append(of[entry.SensorID], entry)
	}
	for id, own := range of {
		select {
		case w.batches[id] <- own:
		case <-ctx.Done():
		}
	}
}

// job indexes one sensor's records in their order.
func (w *Worker) job(ctx context.Context, sensorID int64, batches <-chan []records.Entry) {
	defer w.working.Done()
	defer jobs.Dec()
	for {
		select {
		case <-ctx.Done():
			return
		case batch := <-batches:
			w.put(ctx, sensorID, batch)
		}
	}
}

func (w *Worker) put(ctx context.Context, sensorID int64, batch []records.Entry) {
	for pause := retryAfter; ctx.Err() == nil; pause = min(2*pause, retryMost) {
		w.writing <- struct{}{}
		err := w.index.Put(ctx, sensorID, batch)
		<-w.writing
		if err == nil {
			indexed.Add(float64(len(batch)))
			return
		}
		if ctx.Err() == nil {
			failed.Inc()
			slog.Warn("an index cannot be written; trying again", "sensor", sensorID, "records", len(batch), "in", pause, "error", err)
			wait(ctx, pause)
		}
	}
}
