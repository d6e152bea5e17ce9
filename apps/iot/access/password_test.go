package access

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestPasswordsAreRightOrWrong(t *testing.T) {
	passwords, err := NewPasswords(4)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := passwords.Hash("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	for _, given := range []struct {
		name, hash, password string
		isRight              bool
	}{
		{"right", hash, "correct horse", true},
		{"wrong", hash, "correct cow", false},
		{"empty", hash, "", false},
		{"longer than bcrypt takes", hash, strings.Repeat("x", 73), false},
		{"nobody's", "", "nobody's", false},
	} {
		t.Run(given.name, func(t *testing.T) {
			isRight, err := passwords.IsRight(given.hash, given.password)
			if isRight != given.isRight || err != nil {
				t.Errorf("got %v, %v", isRight, err)
			}
		})
	}
	if _, err := passwords.IsRight("not a hash", "x"); err == nil {
		t.Error("a broken hash in the store is an error, not a wrong password")
	}
	if _, err := NewPasswords(99); err == nil {
		t.Error("a cost of 99 was taken")
	}
}

// The processor's own time is what a sign-in costs; the clock on the wall also counts who else is on the machine.
func BenchmarkCheckOfAPassword(b *testing.B) {
	for _, cost := range []int{DefaultCost - 1, DefaultCost, DefaultCost + 1} {
		passwords, err := NewPasswords(cost)
		if err != nil {
			b.Fatal(err)
		}
		hash, err := passwords.Hash("correct horse")
		if err != nil {
			b.Fatal(err)
		}
		b.Run("cost="+strconv.Itoa(cost), func(b *testing.B) {
			before := processorTime(b)
			for b.Loop() {
				if isRight, err := passwords.IsRight(hash, "correct horse"); !isRight || err != nil {
					b.Fatal(isRight, err)
				}
			}
			b.ReportMetric((processorTime(b)-before)*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// processorTime is what this process has used, in seconds.
func processorTime(b *testing.B) float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
