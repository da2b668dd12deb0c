package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const id = "fs-0123456789abcdef0"

var mounted = &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}}

func driver(t *testing.T) *fsx {
	t.Helper()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, id), 0o755); err != nil {
		t.Fatal(err)
	}
	return &fsx{fileSystems: folder, node: "i-1"}
}

func publish(f *fsx, id, target string, readOnly bool) error {
	_, err := f.NodePublishVolume(context.Background(), &csi.NodePublishVolumeRequest{
		VolumeId: id, TargetPath: target, VolumeCapability: mounted, Readonly: readOnly,
	})
	return err
}

func TestRefuses(t *testing.T) {
	f := driver(t)
	target := filepath.Join(t.TempDir(), "mount")
	for id, code := range map[string]codes.Code{
		"fs-0000000000000000f": codes.NotFound,
		"../../etc":            codes.InvalidArgument,
		"fs-0123/../..":        codes.InvalidArgument,
		"":                     codes.InvalidArgument,
	} {
		if err := publish(f, id, target, false); status.Code(err) != code {
			t.Errorf("%q: got %v", id, err)
		}
	}
	block := &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Block{}}
	request := &csi.NodePublishVolumeRequest{VolumeId: id, TargetPath: target, VolumeCapability: block}
	if _, err := f.NodePublishVolume(context.Background(), request); status.Code(err) != codes.InvalidArgument {
		t.Errorf("block device: got %v", err)
	}
	if _, err := os.Stat(target); !os.IsNotExist(err) {
		t.Error("a refused volume left its target")
	}
}

func TestUnpublishOfNothing(t *testing.T) {
	request := &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: filepath.Join(t.TempDir(), "mount")}
	if _, err := driver(t).NodeUnpublishVolume(context.Background(), request); err != nil {
		t.Error(err)
	}
}

func TestBindMounts(t *testing.T) {
	if unix.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	f := driver(t)
	file := filepath.Join(f.fileSystems, id, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		target := filepath.Join(t.TempDir(), "mount")
		t.Cleanup(func() { unix.Unmount(target, unix.MNT_DETACH) })
		for range 2 { // the kubelet repeats itself
			if err := publish(f, id, target, readOnly); err != nil {
				t.Fatal(err)
			}
		}
		if content, err := os.ReadFile(filepath.Join(target, "file")); err != nil || string(content) != "x" {
			t.Fatalf("got %q %v", content, err)
		}
		err := os.WriteFile(filepath.Join(target, "new"), nil, 0o600)
		if readOnly != (err != nil) {
			t.Errorf("read-only %v: writing gave %v", readOnly, err)
		}
		for range 2 {
			request := &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target}
			if _, err := f.NodeUnpublishVolume(context.Background(), request); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(target); !os.IsNotExist(err) {
			t.Error("the target is still there: mounted twice, or not removed")
		}
		if _, err := os.Stat(file); err != nil {
			t.Error("the file system lost its file")
		}
	}
}
