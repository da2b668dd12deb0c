package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// endWithEngine ends this process when the engine has gone, which can't say goodbye when it is killed, and at
// SIGTERM, which would otherwise wait for whatever a call waits for.
func endWithEngine() {
	parent := os.Getppid()
	go func() {
		for os.Getppid() == parent {
			time.Sleep(500 * time.Millisecond)
		}
		os.Exit(0)
	}()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		os.Exit(128 + int(syscall.SIGTERM))
	}()
}

// calls are those that the engine has asked and not been answered yet, so that they can be cancelled together.
type calls struct {
	lock      sync.Mutex
	last      int
	cancels   map[int]context.CancelFunc
	cancelled bool
}

// begin gives the context of a call, and what to do when it has been answered.
func (c *calls) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.cancelled {
		cancel()
	}
	if c.cancels == nil {
		c.cancels = map[int]context.CancelFunc{}
	}
	c.last++
	number := c.last
	c.cancels[number] = cancel
	return ctx, func() {
		c.lock.Lock()
		defer c.lock.Unlock()
		delete(c.cancels, number)
		cancel()
	}
}

func (c *calls) cancelAll() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.cancelled = true
	for _, cancel := range c.cancels {
		cancel()
	}
}
