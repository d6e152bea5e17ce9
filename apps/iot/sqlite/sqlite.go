// Package sqlite opens files that several processes read and write at once.
package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

const readers = 4

// Open returns a pool for reading and one for writing. SQLite lets one write at a time: within a process its pool of one connection
// queues writers in order, between processes busy_timeout makes them wait. In WAL mode with synchronous=NORMAL what was committed
// outlives every end of a process; the machine's own end may take the last commits, as with Kafka's acknowledgement.
func Open(path string) (read, write *sql.DB, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, nil, fmt.Errorf("the folder of %s cannot be made: %w", path, err)
	}
	settings := url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(ON)"},
		"_txlock": {"immediate"},
	}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + settings.Encode()
	if write, err = pool(name, 1); err != nil {
		return nil, nil, fmt.Errorf("%s cannot be opened: %w", path, err)
	}
	if read, err = pool(name, readers); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s cannot be opened: %w", path, err), write.Close())
	}
	return read, write, nil
}

func pool(name string, connections int) (*sql.DB, error) {
	opened, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	opened.SetMaxOpenConns(connections)
	opened.SetMaxIdleConns(connections)
	if err := opened.Ping(); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// IsTaken says whether an insert failed because a unique value is there already.
func IsTaken(err error) bool {
	said := (*driver.Error)(nil)
	return errors.As(err, &said) && said.Code() == codes.SQLITE_CONSTRAINT_UNIQUE
}
