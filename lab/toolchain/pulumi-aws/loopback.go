package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

const endpointVariable = "AWS_ENDPOINT_URL"

// stayOnThisMachine takes away what could lead a call elsewhere. This plugin creates and deletes what it is told
// to: with real keys in the environment and one endpoint forgotten, that would be a real account. Names are no
// longer looked up in DNS, so no host of AWS can be found (the hosts file still knows localhost); proxies and
// the metadata service are off.
func stayOnThisMachine() {
	net.DefaultResolver = &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, fmt.Errorf("the local stack's AWS plugin looks up no names: it talks to this machine only")
		},
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		_ = os.Unsetenv(name)
		_ = os.Unsetenv(strings.ToLower(name))
	}
	_ = os.Unsetenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
	_ = os.Unsetenv("AWS_USE_FIPS_ENDPOINT")
	_ = os.Unsetenv("AWS_USE_DUALSTACK_ENDPOINT")
	_ = os.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// requireLoopback is an error unless every endpoint of the environment and of the provider's inputs is on this
// machine, and there is one.
func requireLoopback(inputs map[string]any) error {
	found := map[string]string{}
	for _, line := range os.Environ() {
		name, value, _ := strings.Cut(line, "=")
		if value != "" && (name == endpointVariable || strings.HasPrefix(name, endpointVariable+"_")) {
			found[name] = value
		}
	}
	given, err := endpoints(inputs["endpoints"])
	if err != nil {
		return err
	}
	for service, address := range given {
		found["aws:endpoints for "+service] = address
	}
	for _, name := range []string{"httpProxy", "httpsProxy"} {
		if value, _ := inputs[name].(string); value != "" {
			found[name] = value
		}
	}
	for source, address := range found {
		if !onLoopback(address) {
			return fmt.Errorf("%s is %q, which isn't on this machine: this is the local stack's AWS plugin, and it talks "+
				"only to an AWS on loopback, such as http://127.0.0.1:14566. For AWS itself, use Pulumi's own plugin: "+
				"a shell without `eval \"$(make env)\"`", source, address)
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("no endpoint: set %s (`eval \"$(make env)\"` does) or aws:endpoints to the local stack's AWS",
			endpointVariable)
	}
	return nil
}

// endpoints is the provider's input of that name as service → address. Inputs that aren't strings travel as JSON
// in strings; what isn't known yet is left out, because it is asked about again.
func endpoints(value any) (map[string]string, error) {
	if text, ok := value.(string); ok {
		value = nil
		if strings.HasPrefix(strings.TrimSpace(text), "[") || strings.HasPrefix(strings.TrimSpace(text), "{") {
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				return nil, fmt.Errorf("aws:endpoints can't be read: %w", err)
			}
		}
	}
	entries, ok := value.([]any)
	if !ok {
		entries = []any{value}
	}
	found := map[string]string{}
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		for service, address := range fields {
			if text, ok := address.(string); ok && text != "" && !strings.HasPrefix(service, "__") {
				found[service] = text
			}
		}
	}
	return found, nil
}

// onLoopback tells whether the host of an address is this machine. Names other than localhost are not looked up:
// a name can point anywhere later.
func onLoopback(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := parsed.Hostname()
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
