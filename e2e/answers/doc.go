// Package answers tests how runs count tool calls and answers in a form, in the real programs. It holds tests only.
package answers
