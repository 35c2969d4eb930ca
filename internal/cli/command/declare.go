package command

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/lists"
)

// Declare adds a flag for each field of settings, a pointer to a struct, and of the structs in it, that is tagged:
//
//	flag:"name"      the flag's name
//	short:"n"        its name in one letter
//	help:"text"      what --help says; <word> in it names the value
//	default:"text"   the default, as a person types it; without this tag it is the field's value
//	bare:"text"      the value if the flag is given without one
//	oneof:"a, b"     the words that are accepted, and completed by shells
//	words:"a, b"     words that are completed, while others are accepted, too
//	commas:"kept"    values of a list may have commas: the flag is repeated instead
//	typed:"only"     neither the environment nor the configuration file sets the flag
//	group:"title"    its group in --help, see SetUsage
//	rare:"yes"       few people need it: only --help-all shows it
//	with:"A=b|C=d"   what to write in place of A and C in the tags of the struct
//
// The last four hold for all fields of a struct if its field _ or the field that has it is tagged. with is as that tag
// for settings itself. Such fields must be exported.
func Declare(flags *pflag.FlagSet, settings any, with ...string) {
	flags.SortFlags = false
	for _, d := range declared(reflect.ValueOf(settings).Elem(), declaration{with: strings.Join(with, "|")}) {
		d.add(flags)
	}
}

// Names returns the names of the flags of settings, a pointer to a struct.
func Names(settings any) []string {
	all := declared(reflect.ValueOf(settings).Elem(), declaration{})
	return lists.Each(all, func(d declaration) string { return d.tag("flag") })
}

// declaration is a field, what its tags say, and what they inherit.
type declaration struct {
	value                    reflect.Value
	tags                     reflect.StructTag
	group, rare, typed, with string
}

// tag returns a tag, in which the words of with are replaced.
func (d *declaration) tag(name string) string {
	var pairs []string
	for pair := range strings.SplitSeq(d.with, "|") {
		if from, to, _ := strings.Cut(pair, "="); from != "" {
			pairs = append(pairs, from, to)
		}
	}
	return strings.NewReplacer(pairs...).Replace(d.tags.Get(name))
}

// inherit takes what holds for a whole struct from tags.
func (d *declaration) inherit(tags reflect.StructTag) {
	for name, to := range map[string]*string{"group": &d.group, "rare": &d.rare, "typed": &d.typed, "with": &d.with} {
		if text := tags.Get(name); text != "" {
			*to = text
		}
	}
}

// declared returns the fields of a struct that flags set, those of structs in it included.
func declared(of reflect.Value, outer declaration) (list []declaration) {
	if whole, is := of.Type().FieldByName("_"); is {
		outer.inherit(whole.Tag)
	}
	for i := range of.NumField() {
		field := of.Type().Field(i)
		d := outer
		d.value, d.tags = of.Field(i), field.Tag
		d.inherit(field.Tag)
		switch _, is := field.Tag.Lookup("flag"); {
		case is:
			list = append(list, d)
		case field.Type.Kind() == reflect.Struct && (field.IsExported() || field.Anonymous):
			list = append(list, declared(d.value, d)...)
		}
	}
	return list
}

// named is the name of a value in a help text.
var named = regexp.MustCompile(`<([^<> ][^<>]*)>`)

// add adds the flag.
func (d *declaration) add(flags *pflag.FlagSet) {
	f := d.variable(d.tag("flag"), named.ReplaceAllString(d.tag("help"), "`$1`"))
	if bare := d.tag("bare"); bare != "" {
		f.NoOptDefVal = bare
	}
	if usual := d.tag("default"); usual != "" {
		if err := f.Value.Set(usual); err != nil {
			panic(fmt.Sprintf("default of --%s: %v", f.Name, err)) // a test of the help texts finds it
		}
		f.DefValue = f.Value.String()
	}
	if t := f.Value.Type(); f.DefValue == "[]" && (t == "uintSlice" || t == "float64Slice") {
		f.DefValue = "" // pflag shows no empty list of another type
	}
	if d.typed != "" {
		annotate(f, typed)
	}
	if d.rare != "" {
		annotate(f, rare)
	}
	annotate(f, group, d.group)
	annotate(f, completes, listed(d.tag("oneof")+d.tag("words"))...)
	f.Shorthand = d.tag("short")
	flags.AddFlag(f)
}

// variable makes the flag, without what all types have in common.
func (d *declaration) variable(name, help string) *pflag.Flag {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	switch v := d.value.Addr().Interface().(type) {
	case pflag.Value:
		flags.Var(v, name, help)
	case *bool:
		flags.BoolVar(v, name, *v, help)
	case *int:
		flags.IntVar(v, name, *v, help)
	case *int32:
		flags.Int32Var(v, name, *v, help)
	case *uint32:
		flags.Uint32Var(v, name, *v, help)
	case *uint64:
		flags.Uint64Var(v, name, *v, help)
	case *float64:
		flags.Float64Var(v, name, *v, help)
	case *time.Duration:
		flags.DurationVar(v, name, *v, help)
	case *[]int:
		flags.IntSliceVar(v, name, *v, help)
	case *[]uint:
		flags.UintSliceVar(v, name, *v, help)
	case *[]float64:
		flags.Float64SliceVar(v, name, *v, help)
	case *[]string:
		if d.tag("commas") == "kept" {
			flags.StringArrayVar(v, name, *v, help)
		} else {
			flags.StringSliceVar(v, name, *v, help)
		}
	default: // a kind of string
		text, _ := d.value.Addr().Convert(reflect.TypeFor[*string]()).Interface().(*string)
		if of := listed(d.tag("oneof")); len(of) > 0 {
			flags.Var(&choice{text, of}, name, help)
		} else {
			flags.StringVar(text, name, *text, help)
		}
	}
	return flags.Lookup(name)
}

// choice is the value of a flag that accepts one of a few words.
type choice struct {
	value *string
	of    []string
}

// String returns the word.
func (c *choice) String() string { return *c.value }

// Type returns the name of the value in --help.
func (c *choice) Type() string { return "string" }

// Set sets the word. The error lists the accepted words.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.of, word) {
		last := len(c.of) - 1
		return fmt.Errorf("want %s or %s", strings.Join(c.of[:last], ", "), c.of[last])
	}
	*c.value = word
	return nil
}

// listed splits words with commas between them.
func listed(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// The marks of flags that Declare has added.
const (
	typed     = "spate_typed" // its presence says that only the command line sets the flag
	group     = "spate_group" // its group in --help
	rare      = "spate_rare"  // its presence says that only --help-all shows the flag
	completes = "spate_words" // the words that it completes
)

// Words returns the words that a flag completes.
func Words(f *pflag.Flag) []string { return f.Annotations[completes] }
