package workload

// Words returns the package's own words, which text prompts are made of if a Config names none. The caller may keep the
// list.
func Words() []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w.letters[:w.size-1])
	}
	return list
}
