package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"towtank/apps/iot/access"
)

// settings come from the environment, the same for every form of the program.
type settings struct {
	data          string // folder of the embedded stores
	mariadb       string // instead of them, each on its own, when not empty
	kafka         string
	search        string
	prefix        string // of topics and indices on servers
	replicas      int    // of a topic
	secret        string
	passwordCost  int
	tokenLifetime time.Duration
}

var prefixForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,40}$`)

func settingsFrom(variable func(string) string) (settings, error) {
	s := settings{
		data: "data", mariadb: variable("IOT_MARIADB"), kafka: variable("IOT_KAFKA"), search: variable("IOT_SEARCH"), prefix: "sensor-", replicas: 1,
		secret: variable("IOT_SECRET"), passwordCost: access.DefaultCost, tokenLifetime: 30 * 24 * time.Hour,
	}
	if given := variable("IOT_DATA"); given != "" {
		s.data = given
	}
	if len(s.secret) < 32 {
		return s, errors.New("IOT_SECRET signs tokens of users and must have 32 bytes or more, the same for every process: set it, for example to `openssl rand -hex 32`")
	}
	if given := variable("IOT_PREFIX"); given != "" {
		if s.prefix = given; !prefixForm.MatchString(given) {
			return s, fmt.Errorf("IOT_PREFIX must be lower-case letters, digits and -, such as sensor-, not %q", given)
		}
	}
	var err error
	if s.replicas, err = wholeNumber(variable, "IOT_KAFKA_REPLICAS", s.replicas, 1, 16, ""); err != nil {
		return s, err
	}
	if s.passwordCost, err = wholeNumber(variable, "IOT_PASSWORD_COST", s.passwordCost, 4, 16, " (each step doubles the time of a sign-in)"); err != nil {
		return s, err
	}
	if given := variable("IOT_TOKEN_LIFETIME"); given != "" {
		if s.tokenLifetime, err = time.ParseDuration(given); err != nil || s.tokenLifetime <= 0 {
			return s, fmt.Errorf("IOT_TOKEN_LIFETIME must be a time such as 24h, not %q", given)
		}
	}
	return s, nil
}

func wholeNumber(variable func(string) string, name string, otherwise, least, most int, why string) (int, error) {
	given := variable(name)
	if given == "" {
		return otherwise, nil
	}
	number, err := strconv.Atoi(given)
	if err != nil || number < least || number > most {
		return otherwise, fmt.Errorf("%s must be a whole number from %d to %d%s, not %q", name, least, most, why, given)
	}
	return number, nil
}
