//go:build tools

// Package tools pins the Pulumi CLI: `go build github.com/pulumi/pulumi/pkg/v3/cmd/pulumi`
// in this module builds exactly the version that go.mod names. (`go install
// module@version` is refused, because Pulumi's own go.mod has a replace directive.)
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
