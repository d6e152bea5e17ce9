package entities

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
)

var tracer = otel.Tracer("iot/entities")

// dialect is where servers of SQL differ.
type dialect struct {
	id      string // type of a key that counts by itself
	ignore  string // INSERT that leaves a row alone that is there
	isTaken func(error) bool
}

// SQL is a Store in any database that database/sql reaches. Nothing is cached.
type SQL struct {
	read, write *sql.DB
	dialect     dialect
}

var _ Store = (*SQL)(nil)

// tables makes what is missing. Text has bounds because MariaDB's keys need them; api checks lengths before.
func (s *SQL) tables(ctx context.Context) error {
	const named = `name VARCHAR(255) NOT NULL, description VARCHAR(1000) NOT NULL`
	statements := []string{
		`users (id ` + s.dialect.id + `, name VARCHAR(255) NOT NULL, username VARCHAR(255) NOT NULL UNIQUE,
			password VARCHAR(72) NOT NULL, role VARCHAR(16) NOT NULL)`,
		`devices (id ` + s.dialect.id + `, user_id BIGINT NOT NULL REFERENCES users(id), ` + named + `, jwt_key VARCHAR(64) NOT NULL)`,
		`sensors (id ` + s.dialect.id + `, device_id BIGINT NOT NULL REFERENCES devices(id), ` + named + `)`,
		`consumers (id ` + s.dialect.id + `, user_id BIGINT NOT NULL REFERENCES users(id), ` + named + `, jwt_key VARCHAR(64) NOT NULL)`,
		`grants (consumer_id BIGINT NOT NULL REFERENCES consumers(id), sensor_id BIGINT NOT NULL, PRIMARY KEY (consumer_id, sensor_id))`,
		`connectors (sensor_id BIGINT NOT NULL PRIMARY KEY)`,
	}
	for _, statement := range statements {
		if _, err := s.write.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+statement); err != nil {
			return fmt.Errorf("making the tables of entities: %w", err)
		}
	}
	for _, key := range []string{"devices_of ON devices(user_id)", "sensors_of ON sensors(device_id)"} {
		if _, err := s.write.ExecContext(ctx, "CREATE INDEX IF NOT EXISTS "+key); err != nil {
			return fmt.Errorf("making the keys of entities: %w", err)
		}
	}
	return nil
}

// insert adds a row and returns its id.
func (s *SQL) insert(ctx context.Context, statement string, values ...any) (int64, error) {
	ctx, span := tracer.Start(ctx, "entities insert")
	defer span.End()
	done, err := s.write.ExecContext(ctx, statement, values...)
	if err != nil {
		if s.dialect.isTaken(err) {
			return 0, ErrTaken
		}
		return 0, err
	}
	return done.LastInsertId()
}

func (s *SQL) exec(ctx context.Context, statement string, values ...any) error {
	ctx, span := tracer.Start(ctx, "entities write")
	defer span.End()
	_, err := s.write.ExecContext(ctx, statement, values...)
	return err
}

// all reads every row of a query with `scan`.
func all[T any](ctx context.Context, s *SQL, scan func(*sql.Rows, *T) error, query string, values ...any) ([]T, error) {
	ctx, span := tracer.Start(ctx, "entities query")
	defer span.End()
	rows, err := s.read.QueryContext(ctx, query, values...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := []T{}
	for rows.Next() {
		var one T
		if err := scan(rows, &one); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

// one reads the first row; none is ErrNotFound.
func one[T any](ctx context.Context, s *SQL, scan func(*sql.Rows, *T) error, query string, values ...any) (T, error) {
	found, err := all(ctx, s, scan, query, values...)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		var none T
		return none, err
	}
	return found[0], nil
}

// Close ends every connection.
func (s *SQL) Close() error { return errors.Join(s.read.Close(), s.write.Close()) }
