// Package pages draws the pages that show a coordinator's runs to people, from states that it is given. Each page
// consists of a frame, and of parts that change: a viewer's browser replaces them as new ones come. A page without its
// script shows the state of the moment at which it was asked for.
package pages
