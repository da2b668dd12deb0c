// Command node-plugins holds the lab's own small node programs in one binary:
// the name it is called by (or its first argument) selects which one runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// A program runs until it is done or its context is cancelled (SIGTERM, SIGINT).
type program func(ctx context.Context, arguments []string) error

var programs = map[string]program{
	"efa-device-plugin":    devicePlugin("vpc.amazonaws.com/efa"),
	"fsx-csi-node":         fsxNode,
	"nvidia-device-plugin": devicePlugin("nvidia.com/gpu"),
	"pause":                pause,
}

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	name, arguments, err := choose(os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := programs[name](ctx, arguments); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatalf("%s: %v", name, err)
	}
}

// choose splits a command line into the program's name and its own arguments.
func choose(line []string) (string, []string, error) {
	name := filepath.Base(line[0])
	if _, known := programs[name]; known {
		return name, line[1:], nil
	}
	if len(line) > 1 {
		if _, known := programs[line[1]]; known {
			return line[1], line[2:], nil
		}
		name = line[1]
	}
	known := make([]string, 0, len(programs))
	for program := range programs {
		known = append(known, program)
	}
	slices.Sort(known)
	return "", nil, fmt.Errorf("unknown program %q; one of %s", name, strings.Join(known, ", "))
}
