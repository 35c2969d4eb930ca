package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// check returns the errors of a struct's fields and of those of the structs in it. path is how they are named. Numbers
// and times are from the tag `least` to the tag `most`, else from 0. A text is one of the tag `words`, or empty if it
// has a tag `default`.
func check(path string, of reflect.Value) error {
	var errs []error
	for i := range of.NumField() {
		field := of.Type().Field(i)
		name := path + field.Name
		switch v := of.Field(i); v.Kind() {
		case reflect.Struct:
			errs = append(errs, check(name+".", v))
		case reflect.Int, reflect.Int64:
			errs = append(errs, checkNumber(name, float64(v.Int()), v.Interface(), field.Tag))
		case reflect.Float64:
			errs = append(errs, checkNumber(name, v.Float(), v.Interface(), field.Tag))
		case reflect.String:
			errs = append(errs, checkWord(name, v.String(), field.Tag))
		default:
		}
	}
	return errors.Join(errs...)
}

// checkNumber checks a number, shown as it is in the configuration.
func checkNumber(name string, n float64, shown any, tags reflect.StructTag) error {
	least, _ := strconv.ParseFloat(tags.Get("least"), 64) // 0 without the tag
	most, err := strconv.ParseFloat(tags.Get("most"), 64)
	if err != nil {
		most = math.MaxFloat64
	}
	if n >= least && n <= most {
		return nil
	}
	if err == nil && !math.IsInf(most, 1) {
		return fmt.Errorf("simulator: %s is %v: give %v to %v", name, shown, least, most)
	}
	if _, is := shown.(time.Duration); is {
		return fmt.Errorf("simulator: %s is %v: give at least %v", name, shown, time.Duration(least))
	}
	return fmt.Errorf("simulator: %s is %v: give at least %v", name, shown, least)
}

func checkWord(name, word string, tags reflect.StructTag) error {
	known := strings.Split(tags.Get("words"), ", ")
	_, optional := tags.Lookup("default")
	if known[0] == "" || slices.Contains(known, word) || word == "" && optional {
		return nil
	}
	return fmt.Errorf("simulator: %s is %q: give one of %q", name, word, known)
}
