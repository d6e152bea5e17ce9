// Command hello is a small HTTP server to try a cluster with.
//
//	/             answers with the pod's name; ?ms=N uses CPU for N milliseconds first
//	/healthz      answers ok
//	/resolve?name=N   answers with the addresses of N, as the pod's own resolver finds them
//	/fetch?url=U      answers with what U answers, as seen from the pod
//	/allocate?mib=N   holds N MiB more, for tests of memory limits
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const timeout = 5 * time.Second

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	server := &http.Server{Addr: ":" + port, Handler: handler(), ReadHeaderTimeout: timeout}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	select {
	case err := <-ended:
		if !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "hello:", err)
			os.Exit(1)
		}
	case <-signals:
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_ = server.Shutdown(ctx)
	}
}

func handler() http.Handler {
	host, _ := os.Hostname()
	var held [][]byte
	var holding sync.Mutex
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		burn(time.Duration(number(r, "ms")) * time.Millisecond)
		w.Header().Set("X-Instance", host)
		fmt.Fprintln(w, "hello from", host)
	})
	mux.HandleFunc("/resolve", func(w http.ResponseWriter, r *http.Request) {
		addresses, err := net.DefaultResolver.LookupHost(r.Context(), r.URL.Query().Get("name"))
		answer(w, fmt.Sprintln(addresses), err)
	})
	mux.HandleFunc("/fetch", func(w http.ResponseWriter, r *http.Request) {
		client := http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
		got, err := client.Get(r.URL.Query().Get("url"))
		if err != nil {
			answer(w, "", err)
			return
		}
		defer got.Body.Close()
		body, err := io.ReadAll(io.LimitReader(got.Body, 1<<20))
		answer(w, string(body), err)
	})
	mux.HandleFunc("/allocate", func(w http.ResponseWriter, r *http.Request) {
		block := make([]byte, number(r, "mib")<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		holding.Lock()
		held = append(held, block)
		holding.Unlock()
		fmt.Fprintln(w, "holding", len(block), "bytes more")
	})
	return mux
}

func burn(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

func number(r *http.Request, name string) int {
	value, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || value < 0 {
		return 0
	}
	return value
}

func answer(w http.ResponseWriter, text string, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprint(w, text)
}
