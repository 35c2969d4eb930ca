package store

import (
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// This file moves files between a coordinator and its peers in pieces: datasets to and from its store, and the
// ledgers of runs that have ended. It knows nothing of runs.

// pieceSize is the size of the pieces in which files are sent.
const pieceSize = 256 << 10

// piece is a message with a piece of a file.
type piece interface{ GetData() []byte }

// ReceivePieces writes the pieces of a file until recv returns io.EOF. It returns the error of recv or f.
func ReceivePieces[P piece](f io.Writer, recv func() (P, error)) error {
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := f.Write(m.GetData()); err != nil {
			return err
		}
	}
}

// SendPieces reads a file to its end and sends its bytes in order, in pieces of at most 256 KiB.
// Its error is a status, or that of send.
func SendPieces(f io.Reader, send func(piece []byte) error) error {
	piece := make([]byte, pieceSize)
	for {
		n, err := io.ReadFull(f, piece)
		if n > 0 {
			if err := send(piece[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return status.Errorf(codes.Internal, "file cannot be read: %v", err)
		}
	}
}
