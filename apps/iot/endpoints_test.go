package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"towtank/apps/iot/access"
	"towtank/apps/iot/api"
	"towtank/apps/iot/connect"
	"towtank/apps/iot/seed"
	"towtank/apps/iot/serve"
)

func TestUsersSignInAndSeeThemselves(t *testing.T) {
	b, rows := newBench(t)
	username := rows[0]["username"]
	token := b.want(200, "POST", "/api/users/signin", "", map[string]string{"username": username, "password": seed.Password(username)})["token"].(string)
	if own := b.want(200, "GET", "/api/users/", token, nil); own["username"] != username || own["password"] != nil {
		t.Errorf("got %v", own)
	}
	wrong := b.want(401, "POST", "/api/users/signin", "", map[string]string{"username": username, "password": "x"})
	nobody := b.want(401, "POST", "/api/users/signin", "", map[string]string{"username": "nobody", "password": "x"})
	if wrong["error"] != nobody["error"] {
		t.Errorf("an answer tells which usernames there are: %v, %v", wrong, nobody)
	}
	if all := b.want(200, "GET", "/api/users/", b.superToken(), nil)["list"].([]any); len(all) != 3 {
		t.Errorf("the super user sees %d users", len(all))
	}
}

func TestUsersAreAddedByTheSuperUser(t *testing.T) {
	b, rows := newBench(t)
	given := map[string]string{"name": "Ada", "username": "ada", "password": "long enough"}
	b.want(403, "POST", "/api/users/", rows[0]["user_token"], given)
	b.want(201, "POST", "/api/users/", b.superToken(), given)
	b.want(409, "POST", "/api/users/", b.superToken(), given)
	b.want(200, "POST", "/api/users/signin", "", map[string]string{"username": "ada", "password": "long enough"})
	for _, password := range []string{"short", strings.Repeat("x", 73)} {
		b.want(400, "POST", "/api/users/", b.superToken(), map[string]string{"name": "B", "username": "b", "password": password})
	}
}

func TestWhatIsAddedIsListedAndConsumed(t *testing.T) {
	b, rows := newBench(t)
	go connect.NewWorker(b.platform.Entities, b.platform.Log, b.platform.Index).Run(t.Context())
	row := rows[0]
	devices := "/api/users/" + row["user_id"] + "/devices"
	device := b.want(201, "POST", devices, row["user_token"], map[string]string{"name": "thermometer", "description": "in the hall"})
	sensors := fmt.Sprintf("%s/%v/sensors", devices, device["id"])
	sensor := b.want(201, "POST", sensors, row["user_token"], map[string]string{"name": "temperature"})
	b.rest.Wait()
	if listed := b.want(200, "GET", devices, row["user_token"], nil)["list"].([]any); len(listed) != 2 || listed[1].(map[string]any)["description"] != "in the hall" {
		t.Errorf("devices are %v", listed)
	}
	if listed := b.want(200, "GET", sensors, row["user_token"], nil)["list"].([]any); len(listed) != 1 || listed[0].(map[string]any)["name"] != "temperature" {
		t.Errorf("sensors are %v", listed)
	}
	id := int64(sensor["id"].(float64))
	one := map[string]any{"sensor_id": id, "value": 20.5, "timestamp": 1000}
	b.want(200, "POST", "/gateway", device["token"].(string), one)
	many := b.want(200, "POST", "/gateway", device["token"].(string), []any{one, map[string]any{"sensor_id": id, "value": -1, "timestamp": 3000}})
	if many["accepted"] != 2.0 {
		t.Errorf("accepted %v", many)
	}
	consumed := fmt.Sprintf("/api/consumers/consume/%d", id)
	b.want(403, "GET", consumed, row["consumer_token"], nil)
	b.want(200, "PUT", fmt.Sprintf("/api/users/%s/consumers/%s/grants/%d", row["user_id"], row["consumer_id"], id), row["user_token"], nil)
	within(t, 20*time.Second, func() bool {
		return len(b.want(200, "GET", consumed, row["consumer_token"], nil)["records"].([]any)) == 3
	})
	newest := b.want(200, "GET", consumed, row["consumer_token"], nil)["records"].([]any)[0].(map[string]any)
	if newest["value"] != -1.0 || newest["timestamp"] != 3000.0 {
		t.Errorf("the newest is %v", newest)
	}
}

func TestNobodyGetsAtWhatIsForeign(t *testing.T) {
	b, rows := newBench(t)
	own, other := rows[0], rows[1]
	body := map[string]string{"name": "x"}
	of := func(user, rest string) string { return "/api/users/" + user + rest }
	for _, given := range []struct {
		status              int
		method, path, token string
		body                any
	}{
		{403, "GET", of(other["user_id"], "/devices"), own["user_token"], nil},
		{403, "POST", of(other["user_id"], "/devices"), own["user_token"], body},
		{403, "POST", of(other["user_id"], "/devices/"+other["device_id"]+"/sensors"), own["user_token"], body},
		{404, "GET", of(own["user_id"], "/devices/"+other["device_id"]+"/sensors"), own["user_token"], nil},
		{404, "POST", of(own["user_id"], "/devices/"+other["device_id"]+"/sensors"), own["user_token"], body},
		{404, "PUT", of(own["user_id"], "/consumers/"+other["consumer_id"]+"/grants/"+own["sensor_id"]), own["user_token"], nil},
		{404, "PUT", of(own["user_id"], "/consumers/"+own["consumer_id"]+"/grants/"+other["sensor_id"]), own["user_token"], nil},
		{403, "GET", "/api/consumers/consume/" + other["sensor_id"], own["consumer_token"], nil},
		{403, "GET", "/api/consumers/consume/999", own["consumer_token"], nil},
		{403, "POST", "/gateway", own["device_token"], json.RawMessage(`{"sensor_id":` + other["sensor_id"] + `,"value":1,"timestamp":1}`)},
		{404, "GET", "/api/users/999/devices", b.superToken(), nil},
		{200, "GET", of(other["user_id"], "/devices"), b.superToken(), nil},
		{400, "GET", "/api/users/x/devices", own["user_token"], nil},
		{400, "GET", "/api/users/-1/devices", own["user_token"], nil},
	} {
		b.want(given.status, given.method, given.path, given.token, given.body)
	}
}

func TestBadTokensAreRefused(t *testing.T) {
	b, rows := newBench(t)
	row := rows[0]
	signed := func(key string, method jwt.SigningMethod, claims jwt.MapClaims) string {
		var by any = []byte(key)
		if method == jwt.SigningMethodNone {
			by = jwt.UnsafeAllowNoneSignatureType
		}
		token, err := jwt.NewWithClaims(method, claims).SignedString(by)
		must(t, err)
		return token
	}
	later := time.Now().Add(time.Hour).Unix()
	for name, token := range map[string]string{
		"none":             "",
		"no JWT":           "x.y.z",
		"another secret":   signed("another", jwt.SigningMethodHS256, jwt.MapClaims{"kind": "user", "sub": "1", "role": "admin", "exp": later}),
		"unsigned":         signed("", jwt.SigningMethodNone, jwt.MapClaims{"kind": "user", "sub": "1", "role": "admin", "exp": later}),
		"another method":   signed(secret, jwt.SigningMethodHS512, jwt.MapClaims{"kind": "user", "sub": "1", "exp": later}),
		"expired":          signed(secret, jwt.SigningMethodHS256, jwt.MapClaims{"kind": "user", "sub": "1", "exp": 1000}),
		"without end":      signed(secret, jwt.SigningMethodHS256, jwt.MapClaims{"kind": "user", "sub": "1"}),
		"no id":            signed(secret, jwt.SigningMethodHS256, jwt.MapClaims{"kind": "user", "sub": "me", "exp": later}),
		"unknown kind":     signed(secret, jwt.SigningMethodHS256, jwt.MapClaims{"kind": "ghost", "sub": "1", "exp": later}),
		"unknown device":   signed("", jwt.SigningMethodHS256, jwt.MapClaims{"kind": "device", "sub": "999"}),
		"changed":          row["user_token"] + "x",
		"a foreign device": signed("a key of mine", jwt.SigningMethodHS256, jwt.MapClaims{"kind": "device", "sub": row["device_id"]}),
		"user no more":     signed(secret, jwt.SigningMethodHS256, jwt.MapClaims{"kind": "user", "sub": "999", "exp": later}),
	} {
		t.Run(name, func(t *testing.T) {
			if status, told := ask(t, b.url, "GET", "/api/users/", token, nil); status != 401 {
				t.Errorf("%d %v", status, told)
			}
		})
	}
	b.want(403, "GET", "/api/users/", row["device_token"], nil)
	b.want(403, "POST", "/gateway", row["consumer_token"], "{}")
	b.want(403, "GET", "/api/consumers/consume/"+row["sensor_id"], row["user_token"], nil)
}

func TestBadBodiesAreRefusedAndNothingIsKept(t *testing.T) {
	b, rows := newBench(t)
	row := rows[0]
	devices := "/api/users/" + row["user_id"] + "/devices"
	record := func(rest string) string { return `{"sensor_id":` + row["sensor_id"] + rest + `}` }
	for _, given := range []struct {
		status            int
		path, token, body string
	}{
		{400, devices, row["user_token"], "{"},
		{400, devices, row["user_token"], ""},
		{400, devices, row["user_token"], `{"name":"x"} {"name":"y"}`},
		{400, devices, row["user_token"], `{"name":"x","jwt_key":"mine"}`},
		{400, devices, row["user_token"], `{"description":"without name"}`},
		{400, devices, row["user_token"], `{"name":"` + strings.Repeat("x", 256) + `"}`},
		{400, devices, row["user_token"], `{"name":"x","description":"` + strings.Repeat("x", 1001) + `"}`},
		{400, devices, row["user_token"], `{"name":5}`},
		{413, devices, row["user_token"], `{"name":"x"}` + strings.Repeat(" ", api.MaxBodyBytes)},
		{400, "/gateway", row["device_token"], "[]"},
		{400, "/gateway", row["device_token"], "[" + strings.Repeat(record(`,"value":1,"timestamp":1`)+",", 1000) + record(`,"value":1,"timestamp":1`) + "]"},
		{400, "/gateway", row["device_token"], record(`,"value":1`)},
		{400, "/gateway", row["device_token"], record(`,"value":"warm","timestamp":1`)},
		{400, "/gateway", row["device_token"], record(`,"value":1e999,"timestamp":1`)},
		{400, "/gateway", row["device_token"], record(`,"value":1,"timestamp":-1`)},
		{413, "/gateway", row["device_token"], strings.Repeat(" ", api.MaxBodyBytes+1)},
		{403, "/gateway", row["device_token"], "[" + record(`,"value":1,"timestamp":1`) + `,{"sensor_id":999,"value":1,"timestamp":1}]`},
	} {
		b.want(given.status, "POST", given.path, given.token, given.body)
	}
	if listed := b.want(200, "GET", devices, row["user_token"], nil)["list"].([]any); len(listed) != 1 {
		t.Errorf("devices are %v", listed)
	}
	if kept := topicOf(t, b.platform, row["sensor_id"], 3); len(kept) != 3 {
		t.Errorf("%d records are kept, not the 3 of before", len(kept))
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	b, _ := newBench(t)
	b.want(404, "GET", "/api", "", nil)
	b.want(405, "DELETE", "/gateway", "", nil)
	b.want(200, "GET", "/health/liveness", "", nil)
	b.want(200, "GET", "/health/readiness", "", nil)
	status, told := ask(t, b.url, "GET", "/metrics", "", nil)
	if text, _ := told["text"].(string); status != 200 || !strings.Contains(text, "iot_request_duration_seconds") {
		t.Errorf("%d %v", status, told)
	}
}

func TestAFunctionAnswersItsEndpointOnly(t *testing.T) {
	b, rows := newBench(t)
	endpoint, err := api.Named("devices-get")
	must(t, err)
	url := served(t, serve.NewCarrier(b.platform, []api.Endpoint{endpoint}, serve.Before, always))
	path := "/api/users/" + rows[0]["user_id"] + "/devices"
	for _, given := range []struct {
		status       int
		method, path string
	}{{200, "GET", path}, {405, "POST", path}, {404, "GET", "/api/users/"}} {
		if status, told := ask(t, url, given.method, given.path, rows[0]["user_token"], nil); status != given.status {
			t.Errorf("%s %s: %d %v", given.method, given.path, status, told)
		}
	}
	if _, err := api.Named("devices-got"); err == nil || !strings.Contains(err.Error(), "devices-get") {
		t.Errorf("got %v", err)
	}
}

func TestAnInstanceNamesItself(t *testing.T) {
	t.Setenv("INSTANCE", "core-1")
	b, _ := newBench(t)
	handler := serve.Named("x", serve.NewCarrier(b.platform, api.Endpoints, serve.Before, always))
	cold := []string{}
	for _, path := range []string{"/health/readiness", "/api/users/", "/api/users/"} {
		recorded := httptest.NewRecorder()
		handler.ServeHTTP(recorded, httptest.NewRequest(http.MethodGet, path, nil))
		if name := recorded.Header().Get("X-Instance"); name != "core-1" {
			t.Errorf("its name is %q", name)
		}
		cold = append(cold, recorded.Header().Get("X-Cold-Start"))
	}
	if strings.Join(cold, " ") != " true false" {
		t.Errorf("cold: %q", cold)
	}
}

func TestTokensNeedASecret(t *testing.T) {
	if _, err := access.NewTokens("short", time.Hour, nil); err == nil || !strings.Contains(err.Error(), "IOT_SECRET") {
		t.Errorf("got %v", err)
	}
	for name, variables := range map[string]map[string]string{
		"IOT_SECRET":         {},
		"IOT_PASSWORD_COST":  {"IOT_SECRET": secret, "IOT_PASSWORD_COST": "99"},
		"IOT_TOKEN_LIFETIME": {"IOT_SECRET": secret, "IOT_TOKEN_LIFETIME": "soon"},
	} {
		if _, err := settingsFrom(func(name string) string { return variables[name] }); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
