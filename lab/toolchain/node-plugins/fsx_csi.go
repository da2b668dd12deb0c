package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginregistration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// fsxDriver is the name that persistent volumes on AWS ask for.
const fsxDriver = "fsx.csi.aws.com"

// A file system's id is also its folder's name, so nothing else may pass.
var fileSystemID = regexp.MustCompile(`^fs-[0-9a-f]{8,32}$`)

// fsxNode plays FSx for Lustre's CSI node plugin: a file system is a folder,
// and mounting it is a bind mount.
func fsxNode(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("fsx-csi-node", flag.ContinueOnError)
	kubelet := flags.String("kubelet", "/var/lib/kubelet", "the kubelet's root folder")
	fileSystems := flags.String("file-systems", "", "folder that holds one folder per file system")
	node := flags.String("node", "", "this node's id")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *fileSystems == "" || *node == "" {
		return errors.New("--file-systems and --node are required")
	}
	socket := filepath.Join(*kubelet, "plugins", fsxDriver, "csi.sock")
	driver := &fsx{fileSystems: *fileSystems, node: *node}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 2)
	go func() {
		failed <- serve(ctx, socket, func(server *grpc.Server) {
			csi.RegisterIdentityServer(server, driver)
			csi.RegisterNodeServer(server, driver)
		})
	}()
	go func() {
		path := filepath.Join(*kubelet, "plugins_registry", fsxDriver+"-reg.sock")
		failed <- serve(ctx, path, func(server *grpc.Server) {
			pluginregistration.RegisterRegistrationServer(server, &registration{driver: fsxDriver, socket: socket})
		})
	}()
	return <-failed
}

type fsx struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer

	fileSystems string
	node        string
}

func (f *fsx) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: fsxDriver, VendorVersion: "lab"}, nil
}

func (f *fsx) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (f *fsx) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (f *fsx) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (f *fsx) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: f.node}, nil
}

// NodePublishVolume binds the file system's folder to the pod's. The kubelet
// repeats the call, so a target that is bound already is left as it is.
func (f *fsx) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	if request.GetVolumeCapability().GetMount() == nil {
		return nil, status.Error(codes.InvalidArgument, "a Lustre file system can only be mounted, not used as a block device")
	}
	source, err := f.folder(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	target := request.GetTargetPath()
	if target == "" {
		return nil, status.Error(codes.InvalidArgument, "no target path")
	}
	if err := bind(source, target, request.GetReadonly()); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (f *fsx) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	target := request.GetTargetPath()
	if target == "" {
		return nil, status.Error(codes.InvalidArgument, "no target path")
	}
	if err := unbind(target); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// folder is where the file system's files are.
func (f *fsx) folder(id string) (string, error) {
	if !fileSystemID.MatchString(id) {
		return "", status.Errorf(codes.InvalidArgument, "%q is not a file system id", id)
	}
	folder := filepath.Join(f.fileSystems, id)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return "", status.Errorf(codes.NotFound, "file system %s does not exist", id)
	}
	return folder, nil
}

func bind(source, target string, readOnly bool) error {
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	bound, err := sameFolder(source, target)
	if err != nil || bound {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding %s to %s: %w", source, target, err)
	}
	if !readOnly {
		return nil
	}
	// A bind mount takes its flags in a second step (mount(2)).
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("making %s read-only: %w", target, err), unbind(target))
	}
	return nil
}

// unbind takes away the mount and its folder, or what is left of them.
func unbind(target string) error {
	// EINVAL: not a mount point. Rather than its contents, only an empty folder is ever removed.
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmounting %s: %w", target, err)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func sameFolder(a, b string) (bool, error) {
	first, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	second, err := os.Stat(b)
	if err != nil {
		return false, err
	}
	return os.SameFile(first, second), nil
}
