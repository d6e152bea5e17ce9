// The program of an IoT platform: two microservices, or a function for each endpoint, from the same code. See README.md.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"towtank/apps/iot/api"
	"towtank/apps/iot/connect"
	"towtank/apps/iot/openwhisk"
	"towtank/apps/iot/serve"
)

const usage = `usage: iot COMMAND
  all                      everything in one process
  core, gateway            one of the two microservices
  connect                  carries records from topics into indices; one for a platform
  function ENDPOINT        one endpoint as a function over HTTP (Knative, Cloud Run)
  action ENDPOINT|authenticate   one endpoint, or who the caller is, as an action of OpenWhisk
  sequence ADDRESS ADDRESS…  in place of OpenWhisk's controller: a web request through actions at addresses such as http://127.0.0.1:9001
  seed [--users N …]       fills an empty platform and writes a feed for loads; seed --help
Environment: PORT, IOT_DATA, IOT_SECRET, IOT_PASSWORD_COST, IOT_TOKEN_LIFETIME, OTEL_…; README.md says what each is.`

const flushWithin = 5 * time.Second

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "iot:", err)
		os.Exit(1)
	}
}

// commands are the forms that the program takes, by name; each has one argument or none.
var commands = map[string]struct {
	service  string // as spans name it; of a function, its endpoint does
	argument bool
	run      func(ctx context.Context, p *api.Platform, argument string) error
}{
	"all":      {"iot", false, everything},
	"core":     {api.Core, false, core},
	"gateway":  {api.Gateway, false, gateway},
	"connect":  {"iot-connect", false, connector},
	"function": {"", true, function},
	"action":   {"", true, action},
}

func command(ctx context.Context, arguments []string) error {
	if len(arguments) > 0 && arguments[0] == "seed" {
		return seedCommand(ctx, arguments[1:])
	}
	if len(arguments) > 0 && arguments[0] == "sequence" {
		return sequence(ctx, arguments[1:])
	}
	if len(arguments) == 0 {
		return fmt.Errorf("a command is needed\n%s", usage)
	}
	chosen, known := commands[arguments[0]]
	if !known {
		return fmt.Errorf("there is no command %q\n%s", arguments[0], usage)
	}
	argument, service := "", chosen.service
	if chosen.argument != (len(arguments) == 2) || len(arguments) > 2 {
		return fmt.Errorf("wrong arguments for %s\n%s", arguments[0], usage)
	}
	if chosen.argument {
		argument, service = arguments[1], arguments[1]
	}
	s, err := settingsFrom(os.Getenv)
	if err != nil {
		return err
	}
	flush, err := traced(ctx, service)
	if err != nil {
		return err
	}
	defer flush()
	platform, shut, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer shut()
	return chosen.run(ctx, platform, argument)
}

// traced begins to export spans; the function that is returned exports the last ones.
func traced(ctx context.Context, service string) (func(), error) {
	flush, err := serve.Trace(ctx, service)
	if err != nil {
		return nil, err
	}
	return func() {
		ending, cancel := context.WithTimeout(context.Background(), flushWithin)
		defer cancel()
		if err := flush(ending); err != nil {
			slog.Warn("the last spans could not be exported", "error", err)
		}
	}, nil
}

// sequence needs no store: what it carries, actions do.
func sequence(ctx context.Context, addresses []string) error {
	handler, err := openwhisk.NewSequence(addresses)
	if err != nil {
		return err
	}
	flush, err := traced(ctx, "sequence")
	if err != nil {
		return err
	}
	defer flush()
	return serve.Listen(ctx, "sequence", handler)
}

func core(ctx context.Context, p *api.Platform, _ string) error {
	return microservice(ctx, p, api.Core, api.Core)
}

func gateway(ctx context.Context, p *api.Platform, _ string) error {
	return microservice(ctx, p, api.Gateway, api.Gateway)
}

func everything(ctx context.Context, p *api.Platform, _ string) error {
	working := sync.WaitGroup{}
	working.Add(1)
	go func() {
		defer working.Done()
		connect.NewWorker(p.Entities, p.Log, p.Index).Run(ctx)
	}()
	defer working.Wait()
	return microservice(ctx, p, "iot", api.Core, api.Gateway)
}

func connector(ctx context.Context, p *api.Platform, _ string) error {
	working, cancel := context.WithCancel(ctx)
	defer cancel() // also when its port is taken
	worker := sync.WaitGroup{}
	worker.Add(1)
	go func() {
		defer worker.Done()
		connect.NewWorker(p.Entities, p.Log, p.Index).Run(working)
	}()
	err := serve.Listen(ctx, "iot-connect", serve.NewCarrier(p, nil, serve.Before, always))
	cancel()
	worker.Wait()
	return err
}

// microservice answers the endpoints of services; a core reconciles first, and is ready after that.
func microservice(ctx context.Context, p *api.Platform, name string, services ...string) error {
	var endpoints []api.Endpoint
	isCore := false
	for _, service := range services {
		isCore = isCore || service == api.Core
		for _, endpoint := range api.Endpoints {
			if endpoint.Service == service {
				endpoints = append(endpoints, endpoint)
			}
		}
	}
	reconciled := atomic.Bool{}
	reconciled.Store(!isCore)
	if isCore {
		go reconcile(ctx, p, &reconciled)
	}
	afterwards := serve.NewAfterwards(ctx)
	defer afterwards.Wait()
	return serve.Listen(ctx, name, serve.NewCarrier(p, endpoints, afterwards.Do, reconciled.Load))
}

func reconcile(ctx context.Context, p *api.Platform, done *atomic.Bool) {
	for ctx.Err() == nil {
		found, err := p.Reconcile(ctx)
		if err == nil {
			slog.Info("reconciled", "sensors", found.Sensors, "topics_made", found.Topics, "indices_made", found.Indices,
				"connectors_made", found.Connectors, "took_ms", found.Took.Milliseconds())
			done.Store(true)
			return
		}
		slog.Warn("topics, indices and connectors cannot be reconciled; trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func function(ctx context.Context, p *api.Platform, name string) error {
	endpoint, err := api.Named(name)
	if err != nil {
		return err
	}
	return serve.Listen(ctx, name, serve.NewCarrier(p, []api.Endpoint{endpoint}, serve.Before, always))
}

func action(ctx context.Context, p *api.Platform, name string) error {
	handler, err := openwhisk.NewHandler(p, name)
	if err != nil {
		return err
	}
	return serve.Listen(ctx, name, handler)
}

func always() bool { return true }
