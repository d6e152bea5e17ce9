package records

import (
	"context"
	"database/sql"
	"errors"
)

// SQLiteIndex is an Index in one file: what is asked is the newest records of a sensor, which is a walk along a key.
type SQLiteIndex struct {
	read, write *sql.DB
}

var _ Index = (*SQLiteIndex)(nil)

// OpenSQLiteIndex opens the index in a file, and makes it when it is not there.
func OpenSQLiteIndex(ctx context.Context, path string) (*SQLiteIndex, error) {
	read, write, err := opened(ctx, path,
		"CREATE TABLE IF NOT EXISTS indices (sensor_id INTEGER PRIMARY KEY)",
		`CREATE TABLE IF NOT EXISTS records (sensor_id INTEGER NOT NULL, offset INTEGER NOT NULL, value REAL NOT NULL,
			timestamp INTEGER NOT NULL, PRIMARY KEY (sensor_id, offset)) WITHOUT ROWID`,
		"CREATE INDEX IF NOT EXISTS records_newest ON records(sensor_id, timestamp, value)")
	return &SQLiteIndex{read, write}, err
}

// AddIndex implements Index.
func (x *SQLiteIndex) AddIndex(ctx context.Context, sensorID int64) error {
	ctx, span := tracer.Start(ctx, "index add")
	defer span.End()
	_, err := x.write.ExecContext(ctx, "INSERT OR IGNORE INTO indices (sensor_id) VALUES (?)", sensorID)
	return err
}

// Indices implements Index.
func (x *SQLiteIndex) Indices(ctx context.Context) ([]int64, error) {
	return ids(ctx, x.read, "SELECT sensor_id FROM indices ORDER BY sensor_id")
}

// Put implements Index.
func (x *SQLiteIndex) Put(ctx context.Context, sensorID int64, entries []Entry) error {
	return inTransaction(ctx, x.write, func(begun *sql.Tx) error {
		statement, err := begun.PrepareContext(ctx, "INSERT OR REPLACE INTO records (sensor_id, offset, value, timestamp) VALUES (?, ?, ?, ?)")
		if err != nil {
			return err
		}
		defer statement.Close()
		for _, e := range entries {
			if _, err := statement.ExecContext(ctx, sensorID, e.Offset, e.Value, e.Timestamp); err != nil {
				return err
			}
		}
		return nil
	})
}

// Last implements Index.
func (x *SQLiteIndex) Last(ctx context.Context, sensorID int64) (last int64, err error) {
	err = x.read.QueryRowContext(ctx, "SELECT COALESCE(MAX(offset), 0) FROM records WHERE sensor_id = ?", sensorID).Scan(&last)
	return last, err
}

// Newest implements Index.
func (x *SQLiteIndex) Newest(ctx context.Context, sensorID int64, most int) ([]Record, error) {
	ctx, span := tracer.Start(ctx, "index query")
	defer span.End()
	rows, err := x.read.QueryContext(ctx, "SELECT value, timestamp FROM records WHERE sensor_id = ? ORDER BY timestamp DESC LIMIT ?", sensorID, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := []Record{}
	for rows.Next() {
		r := Record{SensorID: sensorID}
		if err := rows.Scan(&r.Value, &r.Timestamp); err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, rows.Err()
}

// Close implements Index.
func (x *SQLiteIndex) Close() error { return errors.Join(x.read.Close(), x.write.Close()) }
