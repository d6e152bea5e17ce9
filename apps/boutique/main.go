// Command boutique is an online shop of eleven components as a modular monolith: a placement says which share a process.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

const usage = `usage: boutique COMMAND PLACEMENT [FLAGS]

  serve      one process of a placement
  run        all processes of a placement, on this machine
  manifests  a placement as objects of Kubernetes
  show       a placement: its processes and their components

A placement is a TOML file, such as placements/two-groups.toml. "boutique COMMAND PLACEMENT -h" shows the flags of a command.
`

func main() {
	err := command(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "boutique: %v\n", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

func command(arguments []string) error {
	if len(arguments) < 2 {
		return errUsage
	}
	commands := map[string]func(placementFile string, flags []string) error{
		"serve": serve, "run": run, "manifests": manifests, "show": show,
	}
	chosen, ok := commands[arguments[0]]
	if !ok {
		return errUsage
	}
	return chosen(arguments[1], arguments[2:])
}
