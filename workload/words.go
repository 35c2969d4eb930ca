package workload

import "strings"

// words are common lowercase English words. Each is one token in the vocabularies of GPT-2, GPT-3.5, GPT-4 and GPT-4o
// and of Llama 2 and 3, both at the start of a text and after a space, so that a text of n of them has n tokens. With
// other vocabularies the server's usage shows the difference.
var words = withSpaces(strings.Fields(`
able about above accept access account act action active add address after again against age ago air allow
almost along also always among amount and answer any apply are area around article as ask at author away back
bar based be because bed been before begin being below better between big bill bit board body book border both
break bring buffer build button by call can care case center changes city claim clean clear close color column
come comes comment common company connect context control cook copy correct cost could country course cover
create current custom cut date day deal design details device direct display do does doing double down draw
due during each early easy edit effect element email empty end energy engine enter even event ever every
example except express face fall far feature feel few field film filter final find fire first five follow font
food foot for form former forward found four frame free friend friends from front full future games general
getting give given global go going good got graph great ground group grow half hand handle hard has have
having he head health heart help her here high him his history hold home host hot hours if image in include
index info inside into is issue it item its just keep key kind know known label land large last late later law
learn left length less level life light likely limit line link list little live long look looking love low
main make makes making map margin mark market mass may mean media meet members message met might million mind
mode model money month months more most move much music must my name near need needs network never news next
night no normal not nothing now number object of off offer offset often old on once one online only open
option order other our out output outside over own page parent party pass past path people percent perfect
period person phone pick place plan play player players please point points policy port power present press
price problem process product program project push put quality quick raise random rate rather read real really
reason recent record report rest result review right role room round run running said save school screen
search season second section see seen select sell server session set shall share she short show side similar
simple single six size small so social someone sort source space special speed stand start started state
status step still store story stream study style subject success such suggest sum sure switch table take
taking talk target task tell term test than that the their them then there these they things think third this
though thought three through time times title to today top total track true try turn two types unique until up
update use user valid version very video view wait walk want was watch water way we week weight well went what
when where whether which white who why width will win with within without word words work working works world
write writing year yet your
`))

// word is a word and the space behind it.
type word struct {
	letters [8]byte
	size    int
}

// withSpaces puts a space behind each word. LexiconWords have at most 7 letters.
func withSpaces(list []string) []word {
	all := make([]word, len(list))
	for i, w := range list {
		all[i].size = copy(all[i].letters[:], w+" ")
	}
	return all
}

// LexiconWords returns the package's own words, which text prompts are made of unless other words are given. The caller
// may keep the list.
func LexiconWords() []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w.letters[:w.size-1])
	}
	return list
}
