// Command pulumi-resource-aws is Pulumi's AWS plugin for the local stack: terraform-provider-aws behind Pulumi's
// bridge. The code that checks, compares, creates and waits is the vendors'. Ours are the table of resource types
// (types.go) and a server around the bridge's that talks to an AWS on loopback only.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-provider-aws/shim"
	pf "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/pf/tfbridge"
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge"
	shimv2 "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfshim/sdk-v2"
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/x/muxer"
	"github.com/pulumi/pulumi-terraform-bridge/v3/unstable/metadata"
	rprovider "github.com/pulumi/pulumi/pkg/v3/resource/provider"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

const plugin = "aws"

// version is set by the linker to the one that the installed pulumi_aws asks for.
var version = "0.0.0-dev"

func main() {
	ctx := context.Background()
	info, err := providerInfo(ctx)
	if err != nil {
		fail(err)
	}
	if len(os.Args) == 2 && os.Args[1] == "--describe" {
		if err := json.NewEncoder(os.Stdout).Encode(describe(info)); err != nil {
			fail(err)
		}
		return
	}
	stayOnThisMachine()
	endWithEngine()
	schema := []byte(fmt.Sprintf(`{"name":%q,"version":%q}`, plugin, version))
	bridge := pf.MakeMuxedServer(ctx, plugin, info, schema)
	err = rprovider.Main(plugin, func(host *rprovider.HostClient) (pulumirpc.ResourceProviderServer, error) {
		inner, err := bridge(host)
		return &server{ResourceProviderServer: inner}, err
	})
	if err != nil {
		fail(err)
	}
}

// providerInfo is what the bridge serves: both halves of the vendor's provider under the names of types.go.
func providerInfo(ctx context.Context) (tfbridge.ProviderInfo, error) {
	primary, secondary, err := shim.Provider(ctx)
	if err != nil {
		return tfbridge.ProviderInfo{}, err
	}
	info := tfbridge.ProviderInfo{
		P:            pf.MuxShimWithPF(ctx, shimv2.NewProvider(primary), secondary),
		Name:         plugin,
		Version:      version,
		Config:       config(),
		Resources:    resources(),
		DataSources:  functions(),
		MetadataInfo: tfbridge.NewProviderMetadata([]byte("{}")),
	}
	info.SetAutonaming(255, "-") // as pulumi-aws does
	// Which half serves which type is worked out here; the vendor's build does it beforehand and embeds the result.
	halves, ok := info.P.(interface {
		ResolveDispatch(*tfbridge.ProviderInfo) (muxer.DispatchTable, error)
	})
	if !ok {
		return info, fmt.Errorf("this bridge has no ResolveDispatch any more")
	}
	table, err := halves.ResolveDispatch(&info)
	if err != nil {
		return info, err
	}
	return info, metadata.Set(info.GetMetadata(), "mux", table)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "pulumi-resource-aws:", err)
	os.Exit(1)
}
