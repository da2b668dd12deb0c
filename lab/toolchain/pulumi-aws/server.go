package main

import (
	"context"
	"fmt"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// server is the bridge's, except that it refuses an AWS that isn't on this machine, and says what to do about a
// type that types.go lacks.
type server struct {
	pulumirpc.ResourceProviderServer
	calls calls
}

// CheckConfig is asked first, also in a preview: what is wrong is a failure of the provider's inputs.
func (s *server) CheckConfig(ctx context.Context, request *pulumirpc.CheckRequest) (*pulumirpc.CheckResponse, error) {
	if err := requireLoopback(request.GetNews().AsMap()); err != nil {
		failure := &pulumirpc.CheckFailure{Property: "endpoints", Reason: err.Error()}
		return &pulumirpc.CheckResponse{Inputs: request.GetNews(), Failures: []*pulumirpc.CheckFailure{failure}}, nil
	}
	return s.ResourceProviderServer.CheckConfig(ctx, request)
}

// Configure is asked by every engine, so the refusal is here too.
func (s *server) Configure(
	ctx context.Context, request *pulumirpc.ConfigureRequest,
) (*pulumirpc.ConfigureResponse, error) {
	inputs := request.GetArgs().AsMap()
	for name, value := range request.GetVariables() {
		if name == "aws:config:endpoints" {
			inputs["endpoints"] = value
		}
	}
	if err := requireLoopback(inputs); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return s.ResourceProviderServer.Configure(ctx, request)
}

func (s *server) Check(ctx context.Context, request *pulumirpc.CheckRequest) (*pulumirpc.CheckResponse, error) {
	if err := requireServed(request.GetType()); err != nil {
		return nil, err
	}
	return s.ResourceProviderServer.Check(ctx, request)
}

func (s *server) Read(ctx context.Context, request *pulumirpc.ReadRequest) (*pulumirpc.ReadResponse, error) {
	if err := requireServed(request.GetType()); err != nil {
		return nil, err
	}
	ctx, done := s.calls.begin(ctx)
	defer done()
	return s.ResourceProviderServer.Read(ctx, request)
}

func (s *server) Create(ctx context.Context, request *pulumirpc.CreateRequest) (*pulumirpc.CreateResponse, error) {
	ctx, done := s.calls.begin(ctx)
	defer done()
	return s.ResourceProviderServer.Create(ctx, request)
}

func (s *server) Update(ctx context.Context, request *pulumirpc.UpdateRequest) (*pulumirpc.UpdateResponse, error) {
	ctx, done := s.calls.begin(ctx)
	defer done()
	return s.ResourceProviderServer.Update(ctx, request)
}

func (s *server) Delete(ctx context.Context, request *pulumirpc.DeleteRequest) (*emptypb.Empty, error) {
	ctx, done := s.calls.begin(ctx)
	defer done()
	return s.ResourceProviderServer.Delete(ctx, request)
}

// Cancel is what the engine asks at the first ^C. The bridge ignores it, and its waits go on for up to an hour; here
// they end, and what was made so far is in the answer and so in the state.
func (s *server) Cancel(ctx context.Context, request *emptypb.Empty) (*emptypb.Empty, error) {
	s.calls.cancelAll()
	return s.ResourceProviderServer.Cancel(ctx, request)
}

func (s *server) Invoke(ctx context.Context, request *pulumirpc.InvokeRequest) (*pulumirpc.InvokeResponse, error) {
	if err := requireServed(request.GetTok()); err != nil {
		return nil, err
	}
	return s.ResourceProviderServer.Invoke(ctx, request)
}

// requireServed is an error for a type or function that is in neither table. An engine too old to send the type
// sends "": the bridge then speaks for itself.
func requireServed(token string) error {
	if token == "" || served[token] {
		return nil
	}
	return status.Error(codes.Unimplemented, fmt.Sprintf(
		"the local stack's AWS plugin doesn't serve %s. To add it: one line in lab/toolchain/pulumi-aws/types.go "+
			"(Terraform's name of it and this token) and, if it is of a service that isn't in SERVICES of "+
			"lab/toolchain/aws_provider.py, the service's name there; then `make up` builds the plugin anew", token))
}
