package main

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"

	"towtank/apps/iot/access"
	"towtank/apps/iot/api"
	"towtank/apps/iot/entities"
	"towtank/apps/iot/records"
)

// closers are what was opened, in order.
type closers []io.Closer

func (c closers) close() {
	for at := len(c) - 1; at >= 0; at-- {
		if err := c[at].Close(); err != nil {
			slog.Warn("a store cannot be closed", "error", err)
		}
	}
}

// open opens every store; the function that is returned closes them.
func (s settings) open(ctx context.Context) (*api.Platform, func(), error) {
	var opened closers
	fail := func(err error) (*api.Platform, func(), error) {
		opened.close()
		return nil, nil, err
	}
	store, err := s.openEntities(ctx)
	if err != nil {
		return fail(err)
	}
	opened = append(opened, store)
	log, err := s.openLog(ctx)
	if err != nil {
		return fail(err)
	}
	opened = append(opened, log)
	index, err := s.openIndex(ctx)
	if err != nil {
		return fail(err)
	}
	opened = append(opened, index)
	passwords, err := access.NewPasswords(s.passwordCost)
	if err != nil {
		return fail(err)
	}
	tokens, err := access.NewTokens(s.secret, s.tokenLifetime, store)
	if err != nil {
		return fail(err)
	}
	return &api.Platform{Entities: store, Log: log, Index: index, Passwords: passwords, Tokens: tokens}, opened.close, nil
}

func (s settings) openEntities(ctx context.Context) (*entities.SQL, error) {
	if s.mariadb != "" {
		return entities.OpenMariaDB(ctx, s.mariadb)
	}
	return entities.OpenSQLite(ctx, filepath.Join(s.data, "entities.db"))
}

func (s settings) openLog(ctx context.Context) (records.Log, error) {
	if s.kafka != "" {
		return records.OpenKafka(ctx, s.kafka, s.prefix, s.replicas)
	}
	return records.OpenSQLiteLog(ctx, filepath.Join(s.data, "log.db"))
}

func (s settings) openIndex(ctx context.Context) (records.Index, error) {
	if s.search != "" {
		return records.OpenSearch(ctx, s.search, s.prefix)
	}
	return records.OpenSQLiteIndex(ctx, filepath.Join(s.data, "index.db"))
}
