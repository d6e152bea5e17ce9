package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/uuid"
)

const maxBodyBytes = 1 << 20

var began = time.Now()

// Function is one instance of the function: made once, asked by every request.
type Function struct {
	instance string
	asked    atomic.Bool
}

type answer struct {
	Runtime  string  `json:"runtime"`
	Instance string  `json:"instance"`
	Cold     bool    `json:"cold"`
	UptimeS  float64 `json:"uptime_s"`
	SleptS   float64 `json:"slept_s"`
	BurnedS  float64 `json:"burned_s"`
}

func newFunction(variable func(string) string) *Function {
	return &Function{instance: instanceOf(variable)}
}

// instanceOf names this instance: by the environment, by its pod, or by chance.
func instanceOf(variable func(string) string) string {
	if given := variable("INSTANCE"); given != "" {
		return given
	}
	if pod := variable("HOSTNAME"); pod != "" && variable("KUBERNETES_SERVICE_HOST") != "" {
		return pod
	}
	random := make([]byte, 8)
	rand.Read(random)
	return "go-" + hex.EncodeToString(random)
}

// Handle answers one request; the runtime calls it.
func (f *Function) Handle(w http.ResponseWriter, r *http.Request) {
	cold := !f.asked.Swap(true)
	w.Header().Set("X-Instance", f.instance)
	w.Header().Set("X-Cold-Start", strconv.FormatBool(cold))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		refuse(w, http.StatusRequestEntityTooLarge, "a body may have 1 MiB")
		return
	} else if err != nil {
		refuse(w, http.StatusBadRequest, "the body ended too early: "+err.Error())
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	message := cehttp.NewMessageFromHttpRequest(r)
	// An event of an unknown version is of no encoding that the library knows, and an event all the same.
	if message.ReadEncoding() == binding.EncodingUnknown && r.Header.Get("Ce-Specversion") == "" {
		f.answerPlain(w, r, cold)
	} else {
		f.answerEvent(w, r, message, cold)
	}
}

func (f *Function) answerPlain(w http.ResponseWriter, r *http.Request, cold bool) {
	asked, err := workOfQuery(r.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	reply(w, http.StatusOK, f.carryOut(asked, cold))
}

func (f *Function) answerEvent(w http.ResponseWriter, r *http.Request, message *cehttp.Message, cold bool) {
	event, err := binding.ToEvent(r.Context(), message)
	if err == nil {
		err = event.Validate()
	}
	if err == nil && event.SpecVersion() != cloudevents.VersionV1 {
		err = fmt.Errorf("version 1.0 is answered, not %s", event.SpecVersion())
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "not a CloudEvent: "+err.Error())
		return
	}
	asked, err := workOfData(event.Data())
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	told := cloudevents.NewEvent()
	told.SetID(uuid.NewString())
	told.SetType("towtank.function.answer")
	told.SetSource("/functions/go")
	if err := told.SetData(cloudevents.ApplicationJSON, f.carryOut(asked, cold)); err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	_ = cehttp.WriteResponseWriter(r.Context(), binding.ToMessage(&told), http.StatusOK, w)
}

func (f *Function) carryOut(asked work, cold bool) answer {
	slept, burned := asked.carryOut()
	return answer{
		Runtime: "go", Instance: f.instance, Cold: cold,
		UptimeS: time.Since(began).Seconds(), SleptS: slept.Seconds(), BurnedS: burned.Seconds(),
	}
}

func refuse(w http.ResponseWriter, status int, why string) {
	reply(w, status, map[string]string{"error": why})
}

func reply(w http.ResponseWriter, status int, body any) {
	encoded, _ := json.Marshal(body) // numbers, texts and truth values: always possible
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encoded)
}
