// Package protosource reads proto files with their comments, which compiled Go does not have, for generators.
package protosource

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Read returns the file at a path from an image, the output of `buf build`.
func Read(image io.Reader, path string) (protoreflect.FileDescriptor, error) {
	data, err := io.ReadAll(image)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("standard input is not what `buf build` writes: %w", err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, err
	}
	return files.FindFileByPath(path)
}
