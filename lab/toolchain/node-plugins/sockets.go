package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
)

// listen makes a Unix socket at path, in place of one that an earlier run left.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// serve answers on a Unix socket until the context ends.
func serve(ctx context.Context, path string, register func(*grpc.Server)) error {
	listener, err := listen(path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	register(server)
	defer context.AfterFunc(ctx, server.Stop)()
	return server.Serve(listener)
}
