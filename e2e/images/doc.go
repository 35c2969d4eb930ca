// Package images tests requests with images from files, in the real programs. It holds tests only.
package images
