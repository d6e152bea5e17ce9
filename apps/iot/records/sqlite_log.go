package records

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"

	"towtank/apps/iot/sqlite"
)

var tracer = otel.Tracer("iot/records")

const (
	pollEvery = 50 * time.Millisecond
	pollMost  = 5000
)

// SQLiteLog is a Log in one file. An offset is the number of the entry in the whole log, so that one query finds what is new in any topic.
type SQLiteLog struct {
	read, write *sql.DB
}

var _ Log = (*SQLiteLog)(nil)

// OpenSQLiteLog opens the log in a file, and makes it when it is not there.
func OpenSQLiteLog(ctx context.Context, path string) (*SQLiteLog, error) {
	read, write, err := opened(ctx, path,
		"CREATE TABLE IF NOT EXISTS topics (sensor_id INTEGER PRIMARY KEY)",
		`CREATE TABLE IF NOT EXISTS entries (seq INTEGER PRIMARY KEY AUTOINCREMENT, sensor_id INTEGER NOT NULL REFERENCES topics(sensor_id),
			value REAL NOT NULL, timestamp INTEGER NOT NULL)`,
		"CREATE INDEX IF NOT EXISTS entries_of ON entries(sensor_id, seq)")
	return &SQLiteLog{read, write}, err
}

// opened opens a file and makes its tables.
func opened(ctx context.Context, path string, tables ...string) (read, write *sql.DB, err error) {
	if read, write, err = sqlite.Open(path); err != nil {
		return nil, nil, err
	}
	for _, table := range tables {
		if _, err := write.ExecContext(ctx, table); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("making the tables of %s: %w", path, err), read.Close(), write.Close())
		}
	}
	return read, write, nil
}

// inTransaction commits what `do` did, or nothing of it.
func inTransaction(ctx context.Context, on *sql.DB, do func(*sql.Tx) error) error {
	begun, err := on.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(begun); err != nil {
		return errors.Join(err, begun.Rollback())
	}
	return begun.Commit()
}

func ids(ctx context.Context, on *sql.DB, query string) ([]int64, error) {
	rows, err := on.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		found = append(found, id)
	}
	return found, rows.Err()
}

// AddTopic implements Log.
func (l *SQLiteLog) AddTopic(ctx context.Context, sensorID int64) error {
	ctx, span := tracer.Start(ctx, "topic add")
	defer span.End()
	_, err := l.write.ExecContext(ctx, "INSERT OR IGNORE INTO topics (sensor_id) VALUES (?)", sensorID)
	return err
}

// Topics implements Log.
func (l *SQLiteLog) Topics(ctx context.Context) ([]int64, error) {
	return ids(ctx, l.read, "SELECT sensor_id FROM topics ORDER BY sensor_id")
}

// Append implements Log: all or none.
func (l *SQLiteLog) Append(ctx context.Context, records []Record) error {
	ctx, span := tracer.Start(ctx, "log append")
	defer span.End()
	return inTransaction(ctx, l.write, func(begun *sql.Tx) error {
		const insert = `INSERT INTO entries (sensor_id, value, timestamp)
			SELECT sensor_id, ?, ? FROM topics WHERE sensor_id = ?`
		statement, err := begun.PrepareContext(ctx, insert)
		if err != nil {
			return err
		}
		defer statement.Close()
		for _, record := range records {
			done, err := statement.ExecContext(ctx, record.Value, record.Timestamp, record.SensorID)
			if err != nil {
				return err
			}
			if rows, err := done.RowsAffected(); err != nil || rows != 1 {
				return errors.Join(ErrNoTopic, err)
			}
		}
		return nil
	})
}

// Reader implements Log.
func (l *SQLiteLog) Reader() (Reader, error) {
	return &sqliteReader{log: l, followed: map[int64]int64{}}, nil
}

// Close implements Log.
func (l *SQLiteLog) Close() error { return errors.Join(l.read.Close(), l.write.Close()) }

// late is a topic that is followed from before where the reader is.
type late struct{ sensorID, after int64 }

type sqliteReader struct {
	log      *SQLiteLog
	seen     int64           // everything up to here was read of all topics that are followed
	followed map[int64]int64 // sensor → offset up to which nobody wants its entries
	late     []late
}

func (r *sqliteReader) Follow(sensorID, after int64) {
	r.followed[sensorID] = after
	r.late = append(r.late, late{sensorID, after})
}

func (r *sqliteReader) Poll(ctx context.Context) ([]Entry, error) {
	const columns = "SELECT seq, sensor_id, value, timestamp FROM entries "
	for len(r.late) > 0 {
		first := &r.late[0]
		found, err := r.entries(ctx, columns+"WHERE sensor_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?", first.sensorID, first.after, r.seen, pollMost)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			r.late = r.late[1:]
			continue
		}
		first.after = found[len(found)-1].Offset
		return found, nil
	}
	found, err := r.entries(ctx, columns+"WHERE seq > ? ORDER BY seq LIMIT ?", r.seen, pollMost)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pollEvery):
		}
		return nil, nil
	}
	r.seen = found[len(found)-1].Offset
	var wanted []Entry
	for _, entry := range found {
		if after, isFollowed := r.followed[entry.SensorID]; isFollowed && entry.Offset > after {
			wanted = append(wanted, entry)
		}
	}
	return wanted, nil
}

func (r *sqliteReader) Close() {}

func (r *sqliteReader) entries(ctx context.Context, query string, values ...any) ([]Entry, error) {
	rows, err := r.log.read.QueryContext(ctx, query, values...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []Entry
	for rows.Next() {
		var e Entry
		if err := rows.Scan(&e.Offset, &e.SensorID, &e.Value, &e.Timestamp); err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	return found, rows.Err()
}
