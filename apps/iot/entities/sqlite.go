package entities

import (
	"context"
	"errors"

	"towtank/apps/iot/sqlite"
)

// OpenSQLite opens the store in a file, and makes it when it is not there.
func OpenSQLite(ctx context.Context, path string) (*SQL, error) {
	read, write, err := sqlite.Open(path)
	if err != nil {
		return nil, err
	}
	store := &SQL{read: read, write: write, dialect: dialect{
		id: "INTEGER PRIMARY KEY AUTOINCREMENT", ignore: "INSERT OR IGNORE", isTaken: sqlite.IsTaken,
	}}
	if err := store.tables(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}
