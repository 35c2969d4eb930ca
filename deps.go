//go:build !never

package deps

import (
	_ "buf.build/go/protovalidate"
	_ "buf.build/go/protoyaml"
	_ "github.com/HdrHistogram/hdrhistogram-go"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/hashicorp/memberlist"
	_ "github.com/influxdata/influxdb-client-go/v2"
	_ "github.com/parquet-go/parquet-go"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "github.com/spf13/viper"
	_ "go.etcd.io/bbolt"
	_ "go.uber.org/goleak"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "google.golang.org/grpc"
	_ "google.golang.org/protobuf/proto"
	_ "pgregory.net/rapid"
)
