package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// pause is process 1 of a pod's sandbox, and of the lab's nodes: it keeps the
// namespaces open, and collects the orphans that end up with it.
func pause(ctx context.Context, _ []string) error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		reap()
		select {
		case <-ctx.Done():
			return nil
		case <-children:
		}
	}
}

// reap collects every child that has ended. One signal may stand for several.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}
