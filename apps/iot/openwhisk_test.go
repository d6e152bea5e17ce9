package main

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"towtank/apps/iot/api"
	"towtank/apps/iot/openwhisk"
)

// controller does to actions what OpenWhisk's controller does: it carries a web request through a sequence.
type controller struct {
	t       *testing.T
	actions map[string]string // name → address
}

func newController(t *testing.T, p *api.Platform, names ...string) *controller {
	t.Helper()
	c := &controller{t, map[string]string{}}
	for _, name := range append(names, openwhisk.Authenticate) {
		handler, err := openwhisk.NewHandler(p, name)
		must(t, err)
		c.actions[name] = served(t, handler)
		if status, told := ask(t, c.actions[name], "POST", "/init", "", map[string]any{"value": map[string]any{"name": name}}); status != 200 {
			t.Fatalf("/init: %d %v", status, told)
		}
	}
	return c
}

// web sends a request through `authenticate` and then an action, and unwraps what a raw web action answers.
func (c *controller) web(action, method, path, token, body string, more map[string]any) (int, map[string]any) {
	c.t.Helper()
	parameters := map[string]any{
		"__ow_method": strings.ToLower(method), "__ow_path": path, "__ow_query": "",
		"__ow_headers": map[string]string{"authorization": "Bearer " + token},
		"__ow_body":    base64.StdEncoding.EncodeToString([]byte(body)),
	}
	if token == "" {
		parameters["__ow_headers"] = map[string]string{}
	}
	maps.Copy(parameters, more)
	for _, name := range []string{openwhisk.Authenticate, action} {
		status, result := ask(c.t, c.actions[name], "POST", "/run", "", map[string]any{"value": parameters, "activation_id": "1"})
		if status != 200 {
			c.t.Fatalf("%s: %d %v", name, status, result)
		}
		if failed, isOne := result["error"].(map[string]any); isOne {
			return c.unwrap(failed)
		}
		parameters = result
	}
	return c.unwrap(parameters)
}

func (c *controller) unwrap(result map[string]any) (int, map[string]any) {
	c.t.Helper()
	text, err := base64.StdEncoding.DecodeString(result["body"].(string))
	must(c.t, err)
	var told any
	must(c.t, json.Unmarshal(text, &told))
	if list, isList := told.([]any); isList {
		told = map[string]any{"list": list}
	}
	return int(result["statusCode"].(float64)), told.(map[string]any)
}

func TestActionsAnswerAsMicroservicesDo(t *testing.T) {
	b, rows := newBench(t)
	own, other := rows[0], rows[1]
	c := newController(t, b.platform, "users-signin", "users-get", "devices-add", "sensors-add", "http-gateway", "consumers-consume-get")
	devices := "/api/users/" + own["user_id"] + "/devices"
	sensors := devices + "/" + own["device_id"] + "/sensors"
	record := `{"sensor_id":` + own["sensor_id"] + `,"value":1,"timestamp":1}`
	for _, given := range []struct {
		status                            int
		action, method, path, token, body string
	}{
		{200, "users-signin", "POST", "/api/users/signin", "", `{"username":"user-001","password":"password of user-001"}`},
		{401, "users-signin", "POST", "/api/users/signin", "", `{"username":"user-001","password":"x"}`},
		{200, "users-get", "GET", "/api/users/", own["user_token"], ""},
		{401, "users-get", "GET", "/api/users/", "", ""},
		{401, "users-get", "GET", "/api/users/", "x.y.z", ""},
		{403, "users-get", "GET", "/api/users/", own["device_token"], ""},
		{404, "users-get", "GET", "/api/others", own["user_token"], ""},
		{405, "users-get", "DELETE", "/api/users/", own["user_token"], ""},
		{201, "devices-add", "POST", devices, own["user_token"], `{"name":"x"}`},
		{400, "devices-add", "POST", devices, own["user_token"], `{"name":`},
		{400, "devices-add", "POST", devices, own["user_token"], "no JSON, no base64"},
		{403, "devices-add", "POST", devices, other["user_token"], `{"name":"x"}`},
		{413, "devices-add", "POST", devices, own["user_token"], strings.Repeat(" ", api.MaxBodyBytes+1)},
		{201, "sensors-add", "POST", sensors, own["user_token"], `{"name":"x"}`},
		{200, "http-gateway", "POST", "/gateway", own["device_token"], "[" + record + "," + record + "]"},
		{403, "http-gateway", "POST", "/gateway", other["device_token"], record},
		{200, "consumers-consume-get", "GET", "/api/consumers/consume/" + own["sensor_id"], own["consumer_token"], ""},
		{403, "consumers-consume-get", "GET", "/api/consumers/consume/" + other["sensor_id"], own["consumer_token"], ""},
	} {
		if status, told := c.web(given.action, given.method, given.path, given.token, given.body, nil); status != given.status {
			t.Errorf("%s %s: %d %v, not %d", given.action, given.path, status, told, given.status)
		}
	}
	if status, told := c.web("devices-add", "POST", devices, own["user_token"], "", map[string]any{"__ow_body": `{"name":"as it is"}`}); status != 201 {
		t.Errorf("a body that is not in base64: %d %v", status, told)
	}
}

func TestNobodySaysOfHimselfWhoHeIs(t *testing.T) {
	b, rows := newBench(t)
	c := newController(t, b.platform, "users-get")
	forged := map[string]any{"iot_caller": map[string]any{"kind": "user", "id": 1, "role": "admin"}}
	if status, told := c.web("users-get", "GET", "/api/users/", "", "", forged); status != 401 {
		t.Errorf("without a token: %d %v", status, told)
	}
	if status, told := c.web("users-get", "GET", "/api/users/", rows[0]["user_token"], "", forged); status != 200 || told["username"] != rows[0]["username"] {
		t.Errorf("with his own token: %d %v", status, told)
	}
}

func TestAnActionsInterface(t *testing.T) {
	b, rows := newBench(t)
	c := newController(t, b.platform, "users-get")
	address := c.actions["users-get"]
	if status, _ := ask(t, address, "POST", "/init", "", "{}"); status != 403 {
		t.Errorf("initialized twice: %d", status)
	}
	if status, told := ask(t, address, "POST", "/run", "", `{"value":`); status != 400 || told["error"] == nil {
		t.Errorf("%d %v", status, told)
	}
	if _, err := openwhisk.NewHandler(b.platform, "users-got"); err == nil || !strings.Contains(err.Error(), "authenticate") {
		t.Errorf("got %v", err)
	}
	must(t, b.platform.Entities.Close())
	if status, _ := c.web("users-get", "GET", "/api/users/", rows[0]["user_token"], "", nil); status != 503 {
		t.Errorf("without a database: %d", status)
	}
}

func TestASequenceAnswersAsAControllerDoes(t *testing.T) {
	b, rows := newBench(t)
	c := newController(t, b.platform, "devices-add")
	handler, err := openwhisk.NewSequence([]string{c.actions[openwhisk.Authenticate], c.actions["devices-add"] + "/"})
	must(t, err)
	url := served(t, handler)
	path := "/api/users/" + rows[0]["user_id"] + "/devices"
	for _, given := range []struct {
		status            int
		path, token, body string
	}{
		{201, path, rows[0]["user_token"], `{"name":"x"}`},
		{400, path, rows[0]["user_token"], `{"name":`},
		{401, path, "x.y.z", `{"name":"x"}`},
		{401, path, "", `{"name":"x"}`},
		{403, path, rows[1]["user_token"], `{"name":"x"}`},
		{404, "/api/others", rows[0]["user_token"], `{"name":"x"}`},
		{413, path, rows[0]["user_token"], strings.Repeat(" ", api.MaxBodyBytes+1)},
	} {
		status, told := ask(t, url, "POST", given.path, given.token, given.body)
		if status != given.status || (status == 201) != (told["error"] == nil) {
			t.Errorf("%s: %d %v, not %d", given.path, status, told, given.status)
		}
	}
	if status, _ := ask(t, url, "GET", "/health/readiness", "", nil); status != 200 {
		t.Errorf("readiness: %d", status)
	}
}

func TestASequenceSaysWhichPartDidNotAnswer(t *testing.T) {
	const limited = `{"error":"Too many requests in the last minute (count: 61, allowed: 60)."}`
	tooMany := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(limited))
	}))
	noAnswer := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"some":"thing"}`)) }))
	for _, given := range []struct {
		status    int
		said      string
		addresses []string
	}{
		{429, "Too many requests", []string{noAnswer, tooMany}},
		{502, "an action did not answer", []string{noAnswer, "http://127.0.0.1:1"}},
		{502, "no status", []string{noAnswer, noAnswer}},
	} {
		handler, err := openwhisk.NewSequence(given.addresses)
		must(t, err)
		status, told := ask(t, served(t, handler), "GET", "/", "", nil)
		if said, _ := told["error"].(string); status != given.status || !strings.Contains(said, given.said) {
			t.Errorf("%d %v, not %d %s", status, told, given.status, given.said)
		}
	}
	for _, addresses := range [][]string{nil, {noAnswer}, {noAnswer, "here"}} {
		if _, err := openwhisk.NewSequence(addresses); err == nil {
			t.Errorf("%v was taken", addresses)
		}
	}
}
