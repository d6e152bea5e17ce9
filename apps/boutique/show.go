package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"towtank.example/boutique/internal/placement"
)

// show prints what a placement makes of the components.
func show(placementFile string, arguments []string) error {
	if err := parse(flag.NewFlagSet("show", flag.ContinueOnError), arguments); err != nil {
		return err
	}
	placed, err := placement.Read(placementFile)
	if err != nil {
		return err
	}
	fmt.Println(placed.Title)
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "process\tmachine\tcomponents")
	for _, process := range placed.Processes {
		fmt.Fprintf(table, "%s\t%d\t%s\n", process.Name, process.Machine, strings.Join(process.Components, ", "))
	}
	return table.Flush()
}
