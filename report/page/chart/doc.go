// Package chart draws charts as SVG for the HTML report.
//
// The SVG has classes instead of colours, so that the page's style sheet decides about light, dark and printed colours,
// and text in HTML's own fonts, whose widths are estimated. A chart is complete without scripts: each point has its
// values as a <title>. The same input gives the same bytes.
package chart
