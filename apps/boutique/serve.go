package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"towtank.example/boutique/internal/mesh"
	"towtank.example/boutique/internal/placement"
	"towtank.example/boutique/internal/process"
)

// policyFlags change the policies of a placement, so that an experiment can vary them without another file.
type policyFlags struct {
	retries, breaker string
	faults           texts
}

type texts []string

func (t *texts) String() string { return strings.Join(*t, " ") }

func (t *texts) Set(text string) error {
	*t = append(*t, text)
	return nil
}

func (p *policyFlags) define(flags *flag.FlagSet) {
	p.faults = strings.Fields(os.Getenv("BOUTIQUE_FAULTS"))
	flags.StringVar(&p.retries, "retries", os.Getenv("BOUTIQUE_RETRIES"), "retries of remote calls on all edges; empty leaves what the placement says; also $BOUTIQUE_RETRIES")
	flags.StringVar(&p.breaker, "breaker", os.Getenv("BOUTIQUE_BREAKER"), "circuit breakers on all edges: on or off; empty leaves what the placement says; also $BOUTIQUE_BREAKER")
	flags.Var(&p.faults, "fault", "FROM>TO=SHARE or *=SHARE: the share of remote calls, 0 to 1, that fail on purpose (may be repeated; also $BOUTIQUE_FAULTS, separated by spaces)")
}

// words are the flags as a child process gets them.
func (p *policyFlags) words() []string {
	words := []string{"-retries", p.retries, "-breaker", p.breaker}
	for _, fault := range p.faults {
		words = append(words, "-fault", fault)
	}
	return words
}

// apply changes every policy of a placement, also those of edges that a fault names for the first time.
func (p *policyFlags) apply(placed *placement.Placement) error {
	policies := placed.Policies
	if _, ok := policies["*"]; !ok {
		policies["*"] = mesh.DefaultPolicy()
	}
	for _, text := range p.faults {
		edge, share, _ := strings.Cut(text, "=")
		value, err := strconv.ParseFloat(share, 64)
		if err == nil {
			err = placement.CheckEdge(edge)
		}
		if err != nil {
			return fmt.Errorf("-fault %q: allowed is FROM>TO=SHARE or *=SHARE, such as checkout>payment=0.05: %w", text, err)
		}
		for name, policy := range policies {
			if edge == "*" || name == edge {
				policy.Fault = value
				policies[name] = policy
			}
		}
		if _, ok := policies[edge]; !ok {
			policy := policies["*"]
			policy.Fault = value
			policies[edge] = policy
		}
	}
	for name, policy := range policies {
		if p.retries != "" {
			retries, err := strconv.Atoi(p.retries)
			if err != nil {
				return fmt.Errorf("-retries %q: allowed are 0 to 10", p.retries)
			}
			policy.Retries = retries
		}
		switch p.breaker {
		case "on", "off":
			policy.Breaker = p.breaker == "on"
		case "":
		default:
			return fmt.Errorf("-breaker %q: allowed are on and off", p.breaker)
		}
		if err := policy.Check(); err != nil {
			return fmt.Errorf("edge %s: %w", name, err)
		}
		policies[name] = policy
	}
	return nil
}

func serve(placementFile string, arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	name := flags.String("process", "", "the process to be; without it the only one of the placement, or the name before the number in $INSTANCE")
	listen := flags.String("listen", "127.0.0.1:8080", "address to answer at")
	index := flags.Int("index", numberIn(os.Getenv("INSTANCE")), "number of this replica, from 0; the number at the end of $INSTANCE if that is set")
	addresses := flags.String("addresses", os.Getenv("BOUTIQUE_ADDRESSES"), "PROCESS=URL[,URL …] of all processes, separated by spaces; $BOUTIQUE_ADDRESSES if that is set")
	var policies policyFlags
	policies.define(flags)
	if err := parse(flags, arguments); err != nil {
		return err
	}
	placed, err := placement.Read(placementFile)
	if err != nil {
		return err
	}
	if *name == "" {
		if *name = processOf(os.Getenv("INSTANCE")); len(placed.Processes) == 1 {
			*name = placed.Processes[0].Name
		}
	}
	hosted, err := placed.Process(*name)
	if err != nil {
		return fmt.Errorf("-process %q: %w", *name, err)
	}
	if err := policies.apply(placed); err != nil {
		return err
	}
	config := mesh.Config{Process: hosted.Name, Index: *index, Keyed: placement.Keyed, Policies: placed.Policies}
	if config.Addresses, err = readAddresses(placed, *addresses); err != nil {
		return err
	}
	if replicas := len(config.Addresses[hosted.Components[0]]); *index < 0 || (replicas > 0 && *index >= replicas) {
		return fmt.Errorf("-index %d: process %s has %d addresses, so that allowed are 0 to %d", *index, hosted.Name, replicas, replicas-1)
	}
	return answer(config, hosted, *listen)
}

// answer serves until it is asked to end.
func answer(config mesh.Config, hosted placement.Process, listen string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	tracer, stopTracing, err := mesh.StartTracing(ctx, hosted.Name)
	if err != nil {
		return fmt.Errorf("spans cannot be sent: %w", err)
	}
	config.Tracer = tracer
	handler, err := process.Handler(config, hosted)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("cannot answer at %s: %w", listen, err)
	}
	server := process.NewServer(named(handler, config))
	slog.Info("ready", "process", hosted.Name, "index", config.Index, "address", listener.Addr().String(), "components", strings.Join(hosted.Components, ","))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
		return fmt.Errorf("the server ended: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := errors.Join(server.Shutdown(grace), stopTracing(grace)); err != nil {
		slog.Warn("ended before everything was done", "error", err)
	}
	return nil
}

// named says in each answer who gave it.
func named(handler http.Handler, config mesh.Config) http.Handler {
	instance := fmt.Sprintf("%s-%d", config.Process, config.Index)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Instance", instance)
		handler.ServeHTTP(w, r)
	})
}

// numberIn is the number at the end of a name such as cart-2, 0 where there is none.
func numberIn(name string) int {
	number, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return 0
	}
	return number
}

func readAddresses(placed *placement.Placement, text string) (map[string][]string, error) {
	found := map[string][]string{}
	for _, word := range strings.Fields(text) {
		name, list, _ := strings.Cut(word, "=")
		for _, address := range strings.Split(list, ",") {
			parsed, err := url.Parse(address)
			if err != nil || parsed.Scheme != "http" || parsed.Host == "" {
				return nil, fmt.Errorf("-addresses: %q is no PROCESS=URL[,URL …] with URLs such as http://127.0.0.1:8080", word)
			}
			found[name] = append(found[name], strings.TrimSuffix(address, "/"))
		}
	}
	return placed.Addresses(found)
}

// parse reads flags; words that are none are refused.
func parse(flags *flag.FlagSet, arguments []string) error {
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: %q is not understood; -h shows the flags", flags.Name(), flags.Arg(0))
	}
	return nil
}
