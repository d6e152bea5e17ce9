package serve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

const drainWithin = 20 * time.Second

// instance names this instance: by the environment, by its pod, or by chance.
func instance(service string) string {
	if given := os.Getenv("INSTANCE"); given != "" {
		return given
	}
	if pod := os.Getenv("HOSTNAME"); pod != "" && os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return pod
	}
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails, as its documentation says
	return service + "-" + hex.EncodeToString(random)
}

// Named adds to every answer who gave it, and whether it was the first.
func Named(service string, handler http.Handler) http.Handler {
	name, asked := instance(service), atomic.Bool{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Instance", name)
		isProbe := r.URL.Path == "/metrics" || len(r.URL.Path) > 7 && r.URL.Path[:8] == "/health/"
		if !isProbe {
			w.Header().Set("X-Cold-Start", strconv.FormatBool(!asked.Swap(true)))
		}
		handler.ServeHTTP(w, r)
	})
}

// Listen answers on PORT (8080) until the context ends; requests that began are finished.
func Listen(ctx context.Context, service string, handler http.Handler) error {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("HOST"), port))
	if err != nil {
		return fmt.Errorf("PORT %s cannot be listened on: %w", port, err)
	}
	server := &http.Server{
		Handler: Named(service, handler), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	slog.Info("listening", "service", service, "address", listener.Addr().String())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	if err := server.Shutdown(draining); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("requests were not finished within %v: %w", drainWithin, err)
	}
	return nil
}
