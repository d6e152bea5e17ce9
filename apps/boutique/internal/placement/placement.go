// Package placement reads which components share a process, and on which machine each process is.
package placement

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"towtank.example/boutique/internal/mesh"
)

// Components are all there are; a component comes after those that it calls.
var Components = []string{
	"cartcache", "catalogue", "currency", "payment", "shipping", "email", "ads", "cart", "recommendation", "checkout", "frontend",
}

// Front is the component that people see.
const Front = "frontend"

// Keyed are components that keep something of a user.
var Keyed = map[string]bool{"cartcache": true}

var nameOfProcess = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`)

// Process is some components together.
type Process struct {
	Name       string   `toml:"-"`
	Components []string `toml:"components"`
	Machine    int      `toml:"machine"`
}

// Hosts says whether a component is in it.
func (p Process) Hosts(component string) bool { return slices.Contains(p.Components, component) }

// Placement is all processes, and the policies of edges between them.
type Placement struct {
	Title     string
	Processes []Process // by name
	Policies  mesh.Policies
	Text      string // as it was read
}

type file struct {
	Title     string                    `toml:"title"`
	Processes map[string]*Process       `toml:"processes"`
	Unlisted  struct{ Machine int }     `toml:"unlisted"`
	Edges     map[string]toml.Primitive `toml:"edges"`
}

// Read reads a file; what is wrong in it is said all at once.
func Read(path string) (*Placement, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the placement cannot be read: %w", err)
	}
	placement, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return placement, nil
}

// Parse reads the text of a file.
func Parse(text string) (*Placement, error) {
	var read file
	meta, err := toml.Decode(text, &read)
	if err != nil {
		var where toml.ParseError
		if errors.As(err, &where) {
			return nil, fmt.Errorf("no valid TOML: %s", where.ErrorWithPosition())
		}
		return nil, err
	}
	placement := &Placement{Title: read.Title, Text: text}
	problems := placement.group(read)
	problems = append(problems, placement.readPolicies(meta, read.Edges)...)
	for _, key := range meta.Undecoded() {
		problems = append(problems, fmt.Errorf("%s: unknown key; allowed are title, processes.NAME.components, processes.NAME.machine, "+
			"unlisted.machine and edges.\"FROM>TO\" with timeout, retries, retry_wait, breaker, break_failures, break_of, break_wait, fault", key))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return placement, nil
}

// group makes the processes: those that are listed, and one for each component that is not.
func (p *Placement) group(read file) (problems []error) {
	owner := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(read.Processes)) {
		process := read.Processes[name]
		process.Name = name
		if !nameOfProcess.MatchString(name) {
			problems = append(problems, fmt.Errorf("processes.%s: a name has small letters, digits and dashes, begins with a letter and has at most 32", name))
		}
		if len(process.Components) == 0 {
			problems = append(problems, fmt.Errorf("processes.%s: it has no components", name))
		}
		for _, component := range process.Components {
			if !slices.Contains(Components, component) {
				problems = append(problems, fmt.Errorf("processes.%s: there is no component %q; there are %s", name, component, strings.Join(Components, ", ")))
			} else if other, taken := owner[component]; taken {
				problems = append(problems, fmt.Errorf("processes.%s: %q is in process %s already", name, component, other))
			}
			owner[component] = name
		}
		p.Processes = append(p.Processes, *process)
	}
	for _, component := range Components {
		if _, listed := owner[component]; listed {
			continue
		}
		if read.Processes[component] != nil {
			problems = append(problems, fmt.Errorf("processes.%s: the component of this name is not in it and needs the name for its own process", component))
		}
		p.Processes = append(p.Processes, Process{Name: component, Components: []string{component}, Machine: read.Unlisted.Machine})
	}
	for i := range p.Processes {
		if p.Processes[i].Machine == 0 {
			p.Processes[i].Machine = 1
		}
		if p.Processes[i].Machine < 1 || p.Processes[i].Machine > 99 {
			problems = append(problems, fmt.Errorf("process %s: machine %d; allowed are 1 to 99", p.Processes[i].Name, p.Processes[i].Machine))
		}
	}
	slices.SortFunc(p.Processes, func(a, b Process) int { return strings.Compare(a.Name, b.Name) })
	return problems
}

// readPolicies lets each edge's policy begin with that of all edges, and that one with the defaults.
func (p *Placement) readPolicies(meta toml.MetaData, edges map[string]toml.Primitive) (problems []error) {
	p.Policies = mesh.Policies{}
	names := slices.Sorted(maps.Keys(edges)) // "*" sorts before letters
	for _, name := range names {
		policy := p.Policies.Of("*", "*")
		err := CheckEdge(name)
		if err == nil {
			err = meta.PrimitiveDecode(edges[name], &policy)
		}
		if err == nil {
			err = policy.Check()
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("edges.%q: %w", name, err))
		}
		p.Policies[name] = policy
	}
	return problems
}

// CheckEdge says what is wrong with the name of an edge.
func CheckEdge(name string) error {
	from, to, ok := strings.Cut(name, ">")
	if name == "*" || (ok && slices.Contains(Components, from) && slices.Contains(Components, to)) {
		return nil
	}
	return fmt.Errorf("%q is no edge: an edge is written FROM>TO with two of %s, or * for all", name, strings.Join(Components, ", "))
}

// Of finds the process that hosts a component.
func (p *Placement) Of(component string) Process {
	for _, process := range p.Processes {
		if process.Hosts(component) {
			return process
		}
	}
	panic("every component has a process: " + component)
}

// Process finds one by its name.
func (p *Placement) Process(name string) (Process, error) {
	names := make([]string, 0, len(p.Processes))
	for _, process := range p.Processes {
		if process.Name == name {
			return process, nil
		}
		names = append(names, process.Name)
	}
	return Process{}, fmt.Errorf("there is no process %q; there are %s", name, strings.Join(names, ", "))
}

// Addresses turns those of processes into those of components.
func (p *Placement) Addresses(ofProcesses map[string][]string) (map[string][]string, error) {
	found := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(ofProcesses)) {
		process, err := p.Process(name)
		if err != nil {
			return nil, fmt.Errorf("an address is given, but %w", err)
		}
		for _, component := range process.Components {
			found[component] = ofProcesses[name]
		}
	}
	return found, nil
}
