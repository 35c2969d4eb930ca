// Package page makes report.html: a run as one self-contained page. A manager reads its start, an engineer all of it.
//
// The page needs no network and no script: charts are SVG, each has its numbers in a table, and the little script only
// hides series. All numbers come from the result of the run. Texts from plans and servers are escaped by html/template,
// and control characters are removed. The same input gives the same bytes.
package page
