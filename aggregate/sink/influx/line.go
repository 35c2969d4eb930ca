package influx

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spate-load/spate/aggregate/sink"
)

// longest bounds names and texts, in bytes: InfluxDB refuses a series name of 64 KiB.
const longest = 4096

// errNoTime is the error about a row without a time. The server would set the time, so that the row would be doubled if
// sent again.
var errNoTime = errors.New("the point has no time")

var (
	tagEscapes  = strings.NewReplacer(`,`, `\,`, `=`, `\=`, ` `, `\ `)
	textEscapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`)
)

// appendLine appends the row in line protocol. It appends nothing for a row without fields, because InfluxDB has no
// such points.
func appendLine(dst []byte, row *sink.Row) ([]byte, error) {
	first := slices.IndexFunc(row.Fields, func(f sink.Field) bool { return stores(&f) })
	if first < 0 {
		return dst, nil
	}
	if row.Time.IsZero() {
		return dst, fmt.Errorf("influx: %s: %w", row.Measurement, errNoTime)
	}
	dst = append(dst, row.Measurement...)
	for _, tag := range row.Tags {
		dst = append(dst, ',')
		dst = append(dst, tag.Key...)
		dst = append(dst, '=')
		dst = append(dst, tagEscapes.Replace(tagValue(tag.Value))...)
	}
	separator := byte(' ')
	for i := first; i < len(row.Fields); i++ {
		if !stores(&row.Fields[i]) {
			continue
		}
		dst = append(dst, separator)
		dst = appendField(dst, &row.Fields[i])
		separator = ','
	}
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, row.Time.UnixNano(), 10)
	return append(dst, '\n'), nil
}

// stores reports whether line protocol can express a field.
func stores(field *sink.Field) bool { return field.Kind != sink.KindBuckets }

// appendField appends a field. It writes floats with the fewest digits that read back as the same number.
func appendField(dst []byte, field *sink.Field) []byte {
	dst = append(dst, tagEscapes.Replace(field.Key)...)
	dst = append(dst, '=')
	switch field.Kind {
	case sink.KindInt:
		dst = strconv.AppendInt(dst, field.Int, 10)
		return append(dst, 'i')
	case sink.KindFloat:
		return strconv.AppendFloat(dst, field.Float, 'g', -1, 64)
	case sink.KindBool:
		return strconv.AppendBool(dst, field.Int != 0)
	default:
		dst = append(dst, '"')
		dst = append(dst, textEscapes.Replace(clean(field.Text))...)
		return append(dst, '"')
	}
}

// tagValue makes a value safe as a tag. Line protocol cannot express every backslash in a tag, so backslashes become
// slashes.
func tagValue(value string) string { return cmp.Or(strings.ReplaceAll(clean(value), `\`, `/`), "_") }

// clean replaces line breaks and other control characters by spaces, and truncates values that are too long.
func clean(value string) string {
	value = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(value, "\uFFFD"))
	if len(value) <= longest {
		return value
	}
	cut := longest
	for !utf8.RuneStart(value[cut]) {
		cut--
	}
	return value[:cut]
}
