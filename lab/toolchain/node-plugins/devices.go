package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Offer is what a node has of one resource. The node's owner writes a file with
// one offer per resource name; a resource that is missing there has no devices.
type Offer struct {
	Count  int               `json:"count"`
	Mounts []Mount           `json:"mounts"`
	Env    map[string]string `json:"env"`
}

// Mount is a folder of the node that every container with a device sees,
// read-only, as the NVIDIA runtime does it with the driver.
type Mount struct {
	Host      string `json:"host"`
	Container string `json:"container"`
}

// readOffer looks a resource up in the file. A missing file is a node without
// devices, not an error: device plugins run on such nodes too.
func readOffer(path, resource string) (Offer, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Offer{}, nil
	}
	if err != nil {
		return Offer{}, err
	}
	offers := map[string]Offer{}
	if err := json.Unmarshal(content, &offers); err != nil {
		return Offer{}, fmt.Errorf("%s: %w", path, err)
	}
	offer := offers[resource]
	if offer.Count < 0 {
		return Offer{}, fmt.Errorf("%s: %s has a negative count, %d", path, resource, offer.Count)
	}
	return offer, nil
}
