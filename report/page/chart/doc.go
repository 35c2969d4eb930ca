// Package chart draws charts as SVG for the HTML report.
//
// gonum/plot computes axes, scales and positions. The SVG has classes instead of colours, so that the page's style
// sheet decides about light, dark and printed colours, and text in HTML's own fonts. A chart is complete without
// scripts: each point has its values as a <title>. The same input gives the same bytes.
package chart
