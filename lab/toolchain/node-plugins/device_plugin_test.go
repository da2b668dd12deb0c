package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const patience = 10 * time.Second

// kubelet takes registrations, as the real one does.
type kubelet struct {
	api.UnimplementedRegistrationServer

	folder        string
	server        *grpc.Server
	registrations chan *api.RegisterRequest
}

func startKubelet(t *testing.T, folder string) *kubelet {
	t.Helper()
	k := &kubelet{folder: folder, server: grpc.NewServer(), registrations: make(chan *api.RegisterRequest, 9)}
	listener, err := net.Listen("unix", filepath.Join(folder, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	api.RegisterRegistrationServer(k.server, k)
	go k.server.Serve(listener)
	t.Cleanup(k.server.Stop)
	return k
}

func (k *kubelet) Register(_ context.Context, request *api.RegisterRequest) (*api.Empty, error) {
	k.registrations <- request
	return &api.Empty{}, nil
}

func (k *kubelet) next(t *testing.T) api.DevicePluginClient {
	t.Helper()
	select {
	case request := <-k.registrations:
		target := "unix://" + filepath.Join(k.folder, request.Endpoint)
		connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		return api.NewDevicePluginClient(connection)
	case <-time.After(patience):
		t.Fatal("no registration")
		return nil
	}
}

func runPlugin(t *testing.T, folder, offers string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, offersFile), []byte(offers), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- devicePlugin("nvidia.com/gpu")(ctx, []string{"--folder=" + folder}) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the plugin didn't end")
		}
	})
}

func count(t *testing.T, plugin api.DevicePluginClient) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := plugin.ListAndWatch(ctx, &api.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, device := range list.Devices {
		if device.Health != api.Healthy {
			t.Errorf("%s is %s", device.ID, device.Health)
		}
		ids[device.ID] = true
	}
	return len(ids)
}

func TestOffersWhatTheFileSays(t *testing.T) {
	folder := t.TempDir()
	k := startKubelet(t, folder)
	runPlugin(t, folder, `{"nvidia.com/gpu": {"count": 8, "env": {"A": "b"}, "mounts": [{"host": "/h", "container": "/c"}]}}`)
	plugin := k.next(t)
	if got := count(t, plugin); got != 8 {
		t.Errorf("got %d devices", got)
	}
	request := &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{
		{DevicesIds: []string{"gpu-0"}}, {DevicesIds: []string{"gpu-1", "gpu-2"}},
	}}
	response, err := plugin.Allocate(context.Background(), request)
	if err != nil || len(response.ContainerResponses) != 2 {
		t.Fatalf("got %v %v", response, err)
	}
	for _, container := range response.ContainerResponses {
		mount := container.Mounts[0]
		if container.Envs["A"] != "b" || mount.HostPath != "/h" || mount.ContainerPath != "/c" || !mount.ReadOnly {
			t.Errorf("got %v", container)
		}
	}
}

func TestOtherResourcesAreNotOffered(t *testing.T) {
	folder := t.TempDir()
	k := startKubelet(t, folder)
	runPlugin(t, folder, `{"vpc.amazonaws.com/efa": {"count": 32}}`)
	if got := count(t, k.next(t)); got != 0 {
		t.Errorf("got %d devices", got)
	}
}

// A kubelet that starts removes every socket in the folder and knows nobody.
func TestRegistersAgainWhenTheKubeletRestarts(t *testing.T) {
	folder := t.TempDir()
	first := startKubelet(t, folder)
	runPlugin(t, folder, `{"nvidia.com/gpu": {"count": 2}}`)
	first.next(t)
	first.server.Stop()
	sockets, _ := filepath.Glob(filepath.Join(folder, "*.sock"))
	for _, socket := range sockets {
		os.Remove(socket)
	}
	second := startKubelet(t, folder)
	if got := count(t, second.next(t)); got != 2 {
		t.Errorf("got %d devices", got)
	}
}

func TestBrokenFileIsAnError(t *testing.T) {
	for _, content := range []string{"{", `{"nvidia.com/gpu": {"count": -1}}`} {
		path := filepath.Join(t.TempDir(), offersFile)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readOffer(path, "nvidia.com/gpu"); err == nil {
			t.Errorf("%s: no error", content)
		}
	}
}
