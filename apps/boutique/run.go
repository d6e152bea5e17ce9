package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"towtank.example/boutique/internal/placement"
)

const (
	readyWithin = 20 * time.Second
	endWithin   = 5 * time.Second
)

// member is one of the processes that run started.
type member struct {
	name, address string
	command       *exec.Cmd
}

// run starts all processes of a placement as children, and ends them all when one ends or it is asked to.
func run(placementFile string, arguments []string) error {
	runtime.LockOSThread() // children are ended with the thread that started them
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	port := flags.Int("port", 8080, "port of the frontend; the others have the next ones; 0 takes free ones")
	replicas := flags.Int("replicas", 1, "replicas of every process")
	var policies policyFlags
	policies.define(flags)
	if err := parse(flags, arguments); err != nil {
		return err
	}
	placed, err := placement.Read(placementFile)
	if err != nil {
		return err
	}
	if err := policies.apply(placed); err != nil {
		return err
	}
	members, addresses, err := plan(placed, *port, *replicas)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	ended := make(chan string, len(members))
	defer endAll(members)
	for _, m := range members {
		words := append([]string{"serve", placementFile, "-listen", m.address, "-addresses", addresses}, policies.words()...)
		m.command = exec.Command(os.Args[0], words...)
		m.command.Env = append(os.Environ(), "INSTANCE="+m.name)
		m.command.Stdout, m.command.Stderr = os.Stdout, os.Stderr
		m.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		if err := m.command.Start(); err != nil {
			return fmt.Errorf("process %s cannot be started: %w", m.name, err)
		}
		go func() {
			_ = m.command.Wait() // how it ended is in ProcessState
			ended <- m.name
		}()
	}
	if err := wait(members, stop, ended); err != nil {
		return err
	}
	fmt.Printf("%s: http://%s/ (%d processes)\n", placed.Title, members[0].address, len(members))
	select {
	case name := <-ended:
		return fmt.Errorf("process %s ended by itself", name)
	case <-stop:
		return nil
	}
}

// plan gives every replica an address, the frontend's first.
func plan(placed *placement.Placement, port, replicas int) (members []*member, addresses string, err error) {
	if last := port + replicas*len(placed.Processes) - 1; port < 0 || replicas < 1 || last > 65535 {
		return nil, "", fmt.Errorf("-port %d with -replicas %d: allowed are ports from 1 to 65535, 0 for free ones, and 1 replica or more", port, replicas)
	}
	var held []net.Listener // all at once, so that no port is given twice
	defer func() {
		for _, listener := range held {
			_ = listener.Close()
		}
	}()
	front := placed.Of(placement.Front)
	processes := []placement.Process{front}
	for _, process := range placed.Processes {
		if process.Name != front.Name {
			processes = append(processes, process)
		}
	}
	var words []string
	for _, process := range processes {
		var urls []string
		for i := range replicas {
			address := fmt.Sprintf("127.0.0.1:%d", port+len(members))
			if port == 0 {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return nil, "", fmt.Errorf("there is no free port: %w", err)
				}
				held, address = append(held, listener), listener.Addr().String()
			}
			members = append(members, &member{name: fmt.Sprintf("%s-%d", process.Name, i), address: address})
			urls = append(urls, "http://"+address)
		}
		words = append(words, process.Name+"="+strings.Join(urls, ","))
	}
	return members, strings.Join(words, " "), nil
}

// processOf is the name of the process in that of a replica, such as cart-2.
func processOf(name string) string { return name[:max(0, strings.LastIndex(name, "-"))] }

// wait asks each process until it answers.
func wait(members []*member, stop <-chan os.Signal, ended <-chan string) error {
	client := &http.Client{Timeout: time.Second}
	deadline := time.After(readyWithin)
	for _, m := range members {
		for !isUp(client, m.address) {
			select {
			case name := <-ended:
				return fmt.Errorf("process %s ended before it was ready", name)
			case <-stop:
				return errors.New("ended before everything was ready")
			case <-deadline:
				return fmt.Errorf("process %s did not answer at %s within %s", m.name, m.address, readyWithin)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

func isUp(client *http.Client, address string) bool {
	answer, err := client.Get("http://" + address + "/health")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// endAll asks processes to end, then makes them.
func endAll(members []*member) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, m := range members {
			if m.command != nil && m.command.Process != nil {
				_ = m.command.Process.Signal(signal) // it may have ended
			}
		}
		if goneWithin(members, endWithin) {
			return
		}
	}
}

func goneWithin(members []*member, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		left := 0
		for _, m := range members {
			if m.command != nil && m.command.Process != nil && m.command.Process.Signal(syscall.Signal(0)) == nil {
				left++
			}
		}
		if left == 0 {
			return true
		}
	}
	return false
}
