package placement

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"
)

//go:embed kubernetes.yaml.tmpl
var objects string

var objectsTemplate = template.Must(template.New("kubernetes").Funcs(template.FuncMap{"indent": indent}).Parse(objects))

// KubernetesSettings is what a placement does not say.
type KubernetesSettings struct {
	Image       string
	Replicas    int
	CPU, Memory string
	// Nodes has the node of each machine; the scheduler chooses for a machine that is not there.
	Nodes map[int]string
}

// Kubernetes writes a placement as objects. Each process is a StatefulSet, so that every replica has a name that callers can choose it
// by: what is kept of a user is at one of them.
func (p *Placement) Kubernetes(to io.Writer, settings KubernetesSettings) error {
	if settings.Replicas < 1 || settings.Replicas > 100 {
		return fmt.Errorf("-replicas %d: allowed are 1 to 100", settings.Replicas)
	}
	machines := map[int]bool{}
	addresses := make([]string, 0, len(p.Processes))
	for _, process := range p.Processes {
		machines[process.Machine] = true
		urls := make([]string, settings.Replicas)
		for i := range urls {
			urls[i] = fmt.Sprintf("http://%s-%d.%s:8080", process.Name, i, process.Name)
		}
		addresses = append(addresses, process.Name+"="+strings.Join(urls, ","))
	}
	for machine := range settings.Nodes {
		if !machines[machine] {
			return fmt.Errorf("-node %d=%s: the placement has no machine %d", machine, settings.Nodes[machine], machine)
		}
	}
	return objectsTemplate.Execute(to, map[string]any{
		"Placement": p, "Settings": settings, "Front": p.Of(Front).Name, "Addresses": strings.Join(addresses, " "),
	})
}

func indent(spaces int, text string) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+strings.Repeat(" ", spaces))
}
