package foreign

// Settings gives tests the arguments and the field of each setting.
func Settings(each func(args, field string)) {
	for _, s := range settings {
		each(s.args, s.field)
	}
}
