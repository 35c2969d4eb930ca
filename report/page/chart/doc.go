// Package chart draws charts as SVG for the HTML report.
//
// gonum/plot computes axes, scales and positions. The SVG has classes instead of colours, so that the page's style
// sheet decides about light, dark and printed colours, and text in HTML's own fonts. A chart is complete without
// scripts: each point has its values as a <title>. The same input gives the same bytes.
//
// Why gonum/plot: it is maintained, has numeric and logarithmic axes, and draws to any canvas, so that ours can write
// SVG with classes. go-analyze/charts has axes of categories only, go-chart is archived, and go-echarts needs a script.
// Its price is 7 MB in a program, mostly fonts, of which it measures one.
package chart
