// Package forms tests requests that are forms, in the real programs. It holds tests only.
package forms
