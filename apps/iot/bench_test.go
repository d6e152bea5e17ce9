package main

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"towtank/apps/iot/api"
	"towtank/apps/iot/seed"
	"towtank/apps/iot/serve"
)

const secret = "a secret of tests, long enough for HS256"

// bench is a platform on embedded stores in a folder of its own, behind a server as a microservice is.
type bench struct {
	t        *testing.T
	platform *api.Platform
	url      string
	rest     *serve.Afterwards
}

// newBench returns a platform with a super user, two users with a device, sensor and consumer each, and 3 records a sensor.
func newBench(t *testing.T) (*bench, []map[string]string) {
	t.Helper()
	platform := newPlatform(t, t.TempDir())
	lines, err := seed.Fill(t.Context(), platform, seed.Amount{Users: 2, Devices: 1, Sensors: 1, Records: 3})
	must(t, err)
	rows := []map[string]string{}
	for _, line := range lines {
		row := map[string]string{}
		for at, name := range seed.Columns {
			row[name] = line[at]
		}
		rows = append(rows, row)
	}
	rest := serve.NewAfterwards(t.Context())
	return &bench{t, platform, served(t, serve.NewCarrier(platform, api.Endpoints, rest.Do, always)), rest}, rows
}

func newPlatform(t *testing.T, folder string) *api.Platform {
	t.Helper()
	platform, shut, err := settingsIn(t, folder).open(t.Context())
	must(t, err)
	t.Cleanup(shut)
	return platform
}

// settingsIn are those of a platform of its own in a folder; or on servers, under a name that follows from the folder's, where TEST_IOT_…
// name some: what holds of the embedded stores must hold there.
func settingsIn(t *testing.T, folder string) settings {
	t.Helper()
	hashed := sha256.Sum256([]byte(folder))
	name := "t" + hex.EncodeToString(hashed[:6])
	s := settings{
		data: folder, kafka: os.Getenv("TEST_IOT_KAFKA"), search: os.Getenv("TEST_IOT_SEARCH"), prefix: name + "-", replicas: 1,
		secret: secret, passwordCost: 4, tokenLifetime: time.Hour,
	}
	if server := os.Getenv("TEST_IOT_MARIADB"); server != "" {
		config, err := mysql.ParseDSN(server)
		must(t, err)
		admin, err := sql.Open("mysql", server)
		must(t, err)
		defer admin.Close()
		_, err = admin.ExecContext(t.Context(), "CREATE DATABASE IF NOT EXISTS "+name)
		must(t, err)
		config.DBName = name
		s.mariadb = config.FormatDSN()
	}
	return s
}

func served(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// ask sends one request and returns its status and body.
func ask(t *testing.T, url, method, path, token string, body any) (int, map[string]any) {
	t.Helper()
	var sent io.Reader
	switch given := body.(type) {
	case nil:
	case string:
		sent = strings.NewReader(given)
	default:
		encoded, err := json.Marshal(given)
		must(t, err)
		sent = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url+path, sent)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	var told any
	if err := json.Unmarshal(text, &told); err != nil {
		told = string(text)
	}
	if object, isOne := told.(map[string]any); isOne {
		return answer.StatusCode, object
	}
	if list, isOne := told.([]any); isOne {
		return answer.StatusCode, map[string]any{"list": list}
	}
	return answer.StatusCode, map[string]any{"text": told}
}

// want asks and fails unless the status is right.
func (b *bench) want(status int, method, path, token string, body any) map[string]any {
	b.t.Helper()
	got, told := ask(b.t, b.url, method, path, token, body)
	if got != status {
		b.t.Fatalf("%s %s: %d %v, not %d", method, path, got, told, status)
	}
	return told
}

func (b *bench) superToken() string {
	b.t.Helper()
	super, err := b.platform.Entities.UserNamed(b.t.Context(), seed.SuperUser)
	must(b.t, err)
	token, err := b.platform.Tokens.ForUser(super)
	must(b.t, err)
	return token
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within asks again and again until something is so.
func within(t *testing.T, most time.Duration, isSo func() bool) {
	t.Helper()
	for until := time.Now().Add(most); !isSo(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not so after %v", most)
		}
	}
}
