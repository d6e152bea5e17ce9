package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// work is what a request asks for.
type work struct {
	sleep, burn time.Duration
}

var (
	durationForm = regexp.MustCompile(`^\d{1,6}(\.\d{1,6})?(ms|s)$`)
	mostOf       = map[string]time.Duration{"sleep": 20 * time.Second, "burn": 5 * time.Second}
)

func workOfQuery(query string) (work, error) {
	given, err := url.ParseQuery(query)
	if err != nil {
		return work{}, fmt.Errorf("the query %q cannot be read: %w", query, err)
	}
	texts := map[string]string{}
	for name, values := range given {
		if len(values) > 1 {
			return work{}, fmt.Errorf("%s is given %d times; once is allowed", name, len(values))
		}
		texts[name] = values[0]
	}
	return workOf(texts)
}

func workOfData(data []byte) (work, error) {
	texts := map[string]string{}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &texts); err != nil {
			return work{}, fmt.Errorf(`the event's data must be a JSON object of texts, such as {"sleep": "1s"}: %w`, err)
		}
	}
	return workOf(texts)
}

func workOf(texts map[string]string) (work, error) {
	asked := map[string]time.Duration{}
	for name, text := range texts {
		most, known := mostOf[name]
		if !known {
			return work{}, fmt.Errorf("there is no parameter %q; known are sleep and burn", name)
		}
		// The form is narrower than Go's own, so that every runtime reads the same.
		duration, err := time.ParseDuration(text)
		if err != nil || !durationForm.MatchString(text) || duration > most {
			return work{}, fmt.Errorf("%s must be from 0s to %v, such as 20ms or 1.5s, not %q", name, most, text)
		}
		asked[name] = duration
	}
	return work{sleep: asked["sleep"], burn: asked["burn"]}, nil
}

// carryOut sleeps, then burns, and returns how long each was.
func (w work) carryOut() (slept, burned time.Duration) {
	if w.sleep > 0 {
		began := time.Now()
		time.Sleep(w.sleep)
		slept = time.Since(began)
	}
	if w.burn > 0 {
		burned = burn(w.burn)
	}
	return slept, burned
}

// burn computes until this thread has used so much processor time; it stays on one thread, whose clock is read.
func burn(most time.Duration) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, state := threadTime(), uint64(1)
	for {
		for range [4096]struct{}{} { // one look at the clock costs far less than this
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
		}
		if used := threadTime() - began; used >= most {
			runtime.KeepAlive(state)
			return used
		}
	}
}

func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(fmt.Sprintf("this machine has no clock of a thread's processor time: %v", err))
	}
	return time.Duration(now.Nano())
}
