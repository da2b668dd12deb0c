package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	offersFile     = "shardyard-devices.json"
	pollInterval   = time.Second
	kubeletTimeout = 10 * time.Second
)

// devicePlugin offers a resource to the kubelet, as many devices of it as the
// node's owner says there are.
func devicePlugin(resource string) program {
	return func(ctx context.Context, arguments []string) error {
		flags := flag.NewFlagSet(resource, flag.ContinueOnError)
		folder := flags.String("folder", api.DevicePluginPath, "the kubelet's folder for device plugins")
		if err := flags.Parse(arguments); err != nil {
			return err
		}
		offer, err := readOffer(filepath.Join(*folder, offersFile), resource)
		if err != nil {
			return err
		}
		plugin := &plugin{resource: resource, folder: *folder, offer: offer, done: ctx.Done()}
		return plugin.run(ctx)
	}
}

type plugin struct {
	api.UnimplementedDevicePluginServer

	resource string
	folder   string
	offer    Offer
	done     <-chan struct{}
}

func (p *plugin) socket() string {
	return strings.ReplaceAll(p.resource, "/", "_") + ".sock"
}

// run serves and registers, again after each restart of the kubelet: it then
// removes every socket in the folder and forgets who was registered.
func (p *plugin) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.session(ctx); err != nil && ctx.Err() == nil {
			log.Printf("%s: %v; trying again", p.resource, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
	return nil
}

// session lasts from one registration until the kubelet restarts.
func (p *plugin) session(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path := filepath.Join(p.folder, p.socket())
	listener, err := listen(path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer server.Stop()
	api.RegisterDevicePluginServer(server, p)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if err := p.register(ctx); err != nil {
		return fmt.Errorf("registering with the kubelet: %w", err)
	}
	log.Printf("%s: registered %d devices", p.resource, p.offer.Count)
	kubelet, err := os.Stat(filepath.Join(p.folder, filepath.Base(api.KubeletSocket)))
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-time.After(pollInterval):
		}
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("the kubelet took the socket away: %w", err)
		}
		now, err := os.Stat(filepath.Join(p.folder, filepath.Base(api.KubeletSocket)))
		if err != nil || !os.SameFile(kubelet, now) {
			return fmt.Errorf("the kubelet restarted")
		}
	}
}

func (p *plugin) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kubeletTimeout)
	defer cancel()
	target := "unix://" + filepath.Join(p.folder, filepath.Base(api.KubeletSocket))
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version:      api.Version,
		Endpoint:     p.socket(),
		ResourceName: p.resource,
		Options:      &api.DevicePluginOptions{},
	})
	return err
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices once, since they never change, and then keeps
// the stream open: its end would mean that they are gone.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	devices := make([]*api.Device, p.offer.Count)
	for i := range devices {
		devices[i] = &api.Device{ID: fmt.Sprintf("%s-%d", filepath.Base(p.resource), i), Health: api.Healthy}
	}
	if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	select {
	case <-stream.Context().Done():
	case <-p.done:
	}
	return nil
}

// Allocate gives each container what comes with the resource; the devices
// themselves have nothing behind them.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for range request.ContainerRequests {
		container := &api.ContainerAllocateResponse{Envs: p.offer.Env}
		for _, mount := range p.offer.Mounts {
			container.Mounts = append(container.Mounts, &api.Mount{
				HostPath: mount.Host, ContainerPath: mount.Container, ReadOnly: true,
			})
		}
		response.ContainerResponses = append(response.ContainerResponses, container)
	}
	return response, nil
}
