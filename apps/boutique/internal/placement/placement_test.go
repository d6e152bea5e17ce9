package placement

import (
	"strings"
	"testing"
	"time"
)

func TestWhatIsNotListedHasItsOwnProcess(t *testing.T) {
	placed, err := Parse("[processes.shop]\ncomponents = [\"frontend\", \"ads\"]\n[unlisted]\nmachine = 2")
	if err != nil {
		t.Fatal(err)
	}
	if len(placed.Processes) != 10 || placed.Of("ads").Name != "shop" || placed.Of("ads").Machine != 1 || placed.Of("cart").Name != "cart" || placed.Of("cart").Machine != 2 {
		t.Errorf("%+v", placed.Processes)
	}
}

func TestAnEdgeBeginsWithThePolicyOfAll(t *testing.T) {
	placed, err := Parse("[edges.\"*\"]\nretries = 2\ntimeout = \"1s\"\n[edges.\"cart>cartcache\"]\nretries = 0\nbreaker = true")
	if err != nil {
		t.Fatal(err)
	}
	one, other := placed.Policies.Of("cart", "cartcache"), placed.Policies.Of("frontend", "ads")
	if one.Retries != 0 || !one.Breaker || one.Timeout.Duration != time.Second || other.Retries != 2 || other.Breaker {
		t.Errorf("%+v, %+v", one, other)
	}
}

func TestWhatIsWrongIsSaidAllAtOnce(t *testing.T) {
	_, err := Parse(`
colour = "red"
[processes.One]
components = ["frontend"]
[processes.two]
components = ["frontend", "basket"]
[processes.cart]
components = ["ads"]
machine = 100
[processes.none]
[edges."cart>basket"]
[edges."*"]
fault = 1.5
[edges."frontend>ads"]
timeout = "soon"
`)
	for _, words := range []string{
		`colour: unknown key`, `processes.One: a name has small letters`, `no component "basket"; there are cartcache, catalogue`,
		`"frontend" is in process One already`, `processes.cart: the component of this name`, `machine 100; allowed are 1 to 99`,
		`processes.none: it has no components`, `"cart>basket" is no edge`, `fault: 1.5; allowed is a share`, `"soon" is no duration`,
	} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q is not said in: %v", words, err)
		}
	}
	if _, err = Parse("title = "); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("no place: %v", err)
	}
}

func TestObjectsOfKubernetesAreRefusedForWhatIsNotThere(t *testing.T) {
	placed, err := Parse("")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, settings := range []KubernetesSettings{{Replicas: 0}, {Replicas: 1, Nodes: map[int]string{2: "b"}}} {
		if placed.Kubernetes(&text, settings) == nil {
			t.Errorf("%+v was taken", settings)
		}
	}
}
