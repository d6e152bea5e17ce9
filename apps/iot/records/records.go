// Package records carries what sensors measured: a log with a topic for each sensor, and an index for each to ask.
package records

import (
	"context"
	"errors"
)

// ErrNoTopic is an append to a topic that is not made yet, or a query of such an index.
var ErrNoTopic = errors.New("the sensor has no topic or index yet")

// Record is one value of one sensor.
type Record struct {
	SensorID  int64   `json:"sensor_id"`
	Value     float64 `json:"value"`
	Timestamp int64   `json:"timestamp"` // ms since 1970
}

// Entry is a record with its place in its sensor's topic; offsets grow, not by one necessarily.
type Entry struct {
	Record
	Offset int64
}

// Log keeps records in order until they are indexed. Topics are named by the sensor's id.
type Log interface {
	AddTopic(ctx context.Context, sensorID int64) error // again is no error
	Topics(ctx context.Context) ([]int64, error)
	Append(ctx context.Context, records []Record) error // when it returns nil all are kept; ErrNoTopic
	Reader() (Reader, error)
	Close() error
}

// Reader reads topics from given offsets on. It is used by one goroutine.
type Reader interface {
	Follow(sensorID, after int64)
	Poll(ctx context.Context) ([]Entry, error) // what is new; waits a little when nothing is
	Close()
}

// Index answers queries. Indices are named by the sensor's id.
type Index interface {
	AddIndex(ctx context.Context, sensorID int64) error // again is no error
	Indices(ctx context.Context) ([]int64, error)
	Put(ctx context.Context, sensorID int64, entries []Entry) error // an offset that is there is replaced
	Last(ctx context.Context, sensorID int64) (int64, error)        // the largest offset, 0 without any
	Newest(ctx context.Context, sensorID int64, most int) ([]Record, error)
	Close() error
}
