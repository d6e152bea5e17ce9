package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"towtank/apps/iot/access"
	"towtank/apps/iot/api"
	"towtank/apps/iot/entities"
	"towtank/apps/iot/records"
)

// settings come from the environment, the same for every form of the program.
type settings struct {
	data          string // folder of the embedded stores
	secret        string
	passwordCost  int
	tokenLifetime time.Duration
}

func settingsFrom(variable func(string) string) (settings, error) {
	s := settings{data: variable("IOT_DATA"), secret: variable("IOT_SECRET"), passwordCost: access.DefaultCost, tokenLifetime: 30 * 24 * time.Hour}
	if s.data == "" {
		s.data = "data"
	}
	if len(s.secret) < 32 {
		return s, errors.New("IOT_SECRET signs tokens of users and must have 32 bytes or more, the same for every process: set it, for example to `openssl rand -hex 32`")
	}
	var err error
	if given := variable("IOT_PASSWORD_COST"); given != "" {
		if s.passwordCost, err = strconv.Atoi(given); err != nil || s.passwordCost < 4 || s.passwordCost > 16 {
			return s, fmt.Errorf("IOT_PASSWORD_COST must be a whole number from 4 to 16 (each step doubles the time of a sign-in), not %q", given)
		}
	}
	if given := variable("IOT_TOKEN_LIFETIME"); given != "" {
		if s.tokenLifetime, err = time.ParseDuration(given); err != nil || s.tokenLifetime <= 0 {
			return s, fmt.Errorf("IOT_TOKEN_LIFETIME must be a time such as 24h, not %q", given)
		}
	}
	return s, nil
}

// open opens every store; the function that is returned closes them.
func (s settings) open(ctx context.Context) (*api.Platform, func(), error) {
	var closers []func() error
	shut := func() {
		for _, each := range closers {
			if err := each(); err != nil {
				fmt.Fprintln(os.Stderr, "iot:", err)
			}
		}
	}
	fail := func(err error) (*api.Platform, func(), error) { shut(); return nil, nil, err }
	store, err := entities.OpenSQLite(ctx, filepath.Join(s.data, "entities.db"))
	if err != nil {
		return fail(err)
	}
	closers = append(closers, store.Close)
	log, err := records.OpenSQLiteLog(ctx, filepath.Join(s.data, "log.db"))
	if err != nil {
		return fail(err)
	}
	closers = append(closers, log.Close)
	index, err := records.OpenSQLiteIndex(ctx, filepath.Join(s.data, "index.db"))
	if err != nil {
		return fail(err)
	}
	closers = append(closers, index.Close)
	passwords, err := access.NewPasswords(s.passwordCost)
	if err != nil {
		return fail(err)
	}
	tokens, err := access.NewTokens(s.secret, s.tokenLifetime, store)
	if err != nil {
		return fail(err)
	}
	return &api.Platform{Entities: store, Log: log, Index: index, Passwords: passwords, Tokens: tokens}, shut, nil
}
