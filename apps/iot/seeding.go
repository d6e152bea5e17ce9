package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"towtank/apps/iot/api"
	"towtank/apps/iot/connect"
	"towtank/apps/iot/seed"
)

type seedOptions struct {
	amount  seed.Amount
	feed    string
	connect bool
	within  time.Duration
}

func seedOptionsFrom(arguments []string) (seedOptions, error) {
	var o seedOptions
	flags := flag.NewFlagSet("iot seed", flag.ContinueOnError)
	flags.IntVar(&o.amount.Users, "users", 100, "users beside the super user, each with a consumer that may read all of the user's sensors")
	flags.IntVar(&o.amount.Devices, "devices", 5, "devices of a user")
	flags.IntVar(&o.amount.Sensors, "sensors", 1, "sensors of a device")
	flags.IntVar(&o.amount.Records, "records", 1000, "records of a sensor")
	flags.StringVar(&o.feed, "feed", "feed.csv", "where the ids and tokens for a load are written, a line for each sensor")
	flags.BoolVar(&o.connect, "connect", true, "index the records as well; false when `iot connect` is running")
	flags.DurationVar(&o.within, "within", 10*time.Minute, "how long all of it may take")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("seed takes options only, not %q", flags.Arg(0))
	}
	for name, value := range map[string]int{"users": o.amount.Users, "devices": o.amount.Devices, "sensors": o.amount.Sensors} {
		if value < 1 {
			return o, fmt.Errorf("--%s must be 1 or more, not %d", name, value)
		}
	}
	if o.amount.Records < 0 {
		return o, fmt.Errorf("--records must be 0 or more, not %d", o.amount.Records)
	}
	return o, nil
}

// seedCommand fills a platform; when it returns, every record can be consumed.
func seedCommand(ctx context.Context, arguments []string) error {
	o, err := seedOptionsFrom(arguments)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	s, err := settingsFrom(os.Getenv)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.within)
	defer cancel()
	platform, shut, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer shut()
	return fill(ctx, platform, o)
}

func fill(ctx context.Context, platform *api.Platform, o seedOptions) error {
	began := time.Now()
	lines, err := seed.Fill(ctx, platform, o.amount)
	if err != nil {
		return err
	}
	if o.connect {
		working, cancel := context.WithCancel(ctx)
		worker := sync.WaitGroup{}
		worker.Add(1)
		go func() {
			defer worker.Done()
			connect.NewWorker(platform.Entities, platform.Log, platform.Index).Run(working)
		}()
		defer worker.Wait()
		defer cancel()
	}
	sensors, err := platform.Entities.SensorIDs(ctx)
	if err != nil {
		return err
	}
	if err := seed.WaitIndexed(ctx, platform, sensors, o.amount.Records); err != nil {
		return err
	}
	if err := seed.Write(o.feed, lines); err != nil {
		return err
	}
	slog.Info("seeded", "users", o.amount.Users, "sensors", len(sensors), "records", len(sensors)*o.amount.Records, "feed", o.feed,
		"took_s", time.Since(began).Seconds())
	return nil
}
