package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"towtank.example/boutique/internal/placement"
)

// manifests prints a placement as objects of Kubernetes.
func manifests(placementFile string, arguments []string) error {
	flags := flag.NewFlagSet("manifests", flag.ContinueOnError)
	settings := placement.KubernetesSettings{Nodes: map[int]string{}}
	flags.StringVar(&settings.Image, "image", "boutique:1", "image of this program")
	flags.IntVar(&settings.Replicas, "replicas", 1, "replicas of every process")
	flags.StringVar(&settings.CPU, "cpu", "100m", "CPU that a pod requests")
	flags.StringVar(&settings.Memory, "memory", "128Mi", "memory that a pod requests")
	var nodes texts
	flags.Var(&nodes, "node", "MACHINE=NODE: the node of a machine of the placement (may be repeated); without, the scheduler chooses")
	if err := parse(flags, arguments); err != nil {
		return err
	}
	for _, text := range nodes {
		machine, node, _ := strings.Cut(text, "=")
		number, err := strconv.Atoi(machine)
		if err != nil || node == "" {
			return fmt.Errorf("-node %q: allowed is MACHINE=NODE, such as 2=worker-1", text)
		}
		settings.Nodes[number] = node
	}
	placed, err := placement.Read(placementFile)
	if err != nil {
		return err
	}
	return placed.Kubernetes(os.Stdout, settings)
}
