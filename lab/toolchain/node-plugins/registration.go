package main

import (
	"context"
	"log"

	pluginregistration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registration tells the kubelet, which watches its plugins_registry folder,
// where a CSI driver's socket is.
type registration struct {
	pluginregistration.UnimplementedRegistrationServer

	driver string
	socket string
}

func (r *registration) GetInfo(
	context.Context, *pluginregistration.InfoRequest,
) (*pluginregistration.PluginInfo, error) {
	return &pluginregistration.PluginInfo{
		Type:              pluginregistration.CSIPlugin,
		Name:              r.driver,
		Endpoint:          r.socket,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r *registration) NotifyRegistrationStatus(
	_ context.Context, status *pluginregistration.RegistrationStatus,
) (*pluginregistration.RegistrationStatusResponse, error) {
	if status.PluginRegistered {
		log.Printf("%s: registered with the kubelet", r.driver)
	} else {
		log.Printf("%s: the kubelet refused: %s", r.driver, status.Error)
	}
	return &pluginregistration.RegistrationStatusResponse{}, nil
}
