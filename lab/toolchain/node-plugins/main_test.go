package main

import (
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, one := range []struct {
		line      []string
		name      string
		arguments []string
	}{
		{[]string{"/pause"}, "pause", []string{}},
		{[]string{"/usr/bin/nvidia-device-plugin", "--folder=/x"}, "nvidia-device-plugin", []string{"--folder=/x"}},
		{[]string{"node-plugins", "fsx-csi-node", "--node=i-1"}, "fsx-csi-node", []string{"--node=i-1"}},
		// An image's own name wins, so that no argument can turn it into another program.
		{[]string{"/pause", "fsx-csi-node"}, "pause", []string{"fsx-csi-node"}},
	} {
		name, arguments, err := choose(one.line)
		if err != nil || name != one.name || !slices.Equal(arguments, one.arguments) {
			t.Errorf("%v: got %q %v %v", one.line, name, arguments, err)
		}
	}
}

func TestChooseNamesWhatThereIs(t *testing.T) {
	_, _, err := choose([]string{"node-plugins", "nonsense"})
	if err == nil || !strings.Contains(err.Error(), `"nonsense"`) || !strings.Contains(err.Error(), "pause") {
		t.Errorf("got %v", err)
	}
}
