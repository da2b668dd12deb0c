// Command pulumi-resource-kubernetes is Pulumi's Kubernetes provider. The
// provider's own main embeds files that its build generates; the engine asks a
// kubernetes provider for no more of its schema than a name and a version.
package main

import (
	"fmt"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

// version is set by the linker to the one that the installed pulumi_kubernetes asks for.
var version = "0.0.0-dev"

func main() {
	schema := fmt.Sprintf(`{"name":"kubernetes","version":%q}`, version)
	provider.Serve("kubernetes", version, []byte(schema), nil)
}
