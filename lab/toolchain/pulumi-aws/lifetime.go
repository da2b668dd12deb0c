package main

import (
	"os"
	"os/signal"
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
