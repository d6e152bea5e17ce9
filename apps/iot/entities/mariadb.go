package entities

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	duplicateKey   = 1062 // ER_DUP_ENTRY
	mostToDatabase = 32
	connectWithin  = 5 * time.Second
)

// OpenMariaDB opens the store in a database of a MariaDB server: `user:password@tcp(host:3306)/database`. An instance may have 32
// connections; a request that finds none waits, as long as its caller does.
func OpenMariaDB(ctx context.Context, name string) (*SQL, error) {
	config, err := mysql.ParseDSN(name)
	if err != nil {
		return nil, fmt.Errorf("IOT_MARIADB must be like user:password@tcp(host:3306)/database: %w", err)
	}
	if config.Timeout == 0 {
		config.Timeout = connectWithin
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("IOT_MARIADB: %w", err)
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(mostToDatabase)
	pool.SetMaxIdleConns(mostToDatabase)
	store := &SQL{read: pool, write: pool, dialect: dialect{
		id: "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY", ignore: "INSERT IGNORE", isTaken: isDuplicate,
	}}
	if err := store.tables(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("MariaDB at %s: %w", config.Addr, err), store.Close())
	}
	return store, nil
}

func isDuplicate(err error) bool {
	said := (*mysql.MySQLError)(nil)
	return errors.As(err, &said) && said.Number == duplicateKey
}
