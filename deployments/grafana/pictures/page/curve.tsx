// A panel of one column against another. Grafana's own XY chart is no part of @grafana/ui: this one draws the same by the same plot.
import { type DataFrame, type Field, type GrafanaTheme2, formattedValueToString, getFieldDisplayName } from '@grafana/data';
import { AxisPlacement, LegendDisplayMode, ScaleDirection, ScaleDistribution, ScaleOrientation, UPlotChart, UPlotConfigBuilder, VizLayout, VizLegend } from '@grafana/ui';
import { useMemo } from 'react';
import type uPlot from 'uplot';

interface Curve { x: Field; y: Field; name: string; color: string }

/** Pair are the columns of a series, as the panel's options name them. */
interface Pair { x: { matcher: { options: string } }; y: { matcher: { options: string } } }

/** curves are those of the frames in which both columns of a pair have values, in the colours of the palette in turn. */
function curves(frames: DataFrame[], pairs: Pair[], theme: GrafanaTheme2): Curve[] {
  const all = pairs.flatMap((pair) => frames.flatMap((frame) => {
    const [x, y] = [pair.x, pair.y].map(({ matcher }) => frame.fields.find((f) => f.name === matcher.options));
    if (!x || !y || !x.values.some((v, i) => v !== null && y.values[i] !== null)) return [];
    return [{ x, y, name: getFieldDisplayName(y, frame, frames) }];
  }));
  const { palette } = theme.visualization;
  return all.map((curve, i) => ({ ...curve, color: theme.visualization.getColorByName(palette[i % palette.length]) }));
}

/** stroke draws points, and lines between them in the order of the rows. */
function stroke(color: string, size: number): uPlot.Series.PathBuilder {
  return (u, seriesIdx) => {
    const [xs, ys] = u.data[seriesIdx] as unknown as Array<Array<number | null>>;
    const [sx, sy] = [u.series[seriesIdx].facets![0].scale, u.series[seriesIdx].facets![1].scale];
    const at = xs.map((x, i) => (x === null || ys[i] === null ? null : [u.valToPos(x, sx, true), u.valToPos(ys[i]!, sy, true)]));
    const { ctx } = u;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color;
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.beginPath();
    for (const point of at) if (point) ctx.lineTo(point[0], point[1]);
    ctx.stroke();
    for (const point of at) {
      if (!point) continue;
      ctx.beginPath();
      ctx.arc(point[0], point[1], (size / 2) * devicePixelRatio, 0, 2 * Math.PI);
      ctx.fill();
    }
    ctx.restore();
    return null;
  };
}

function plot(all: Curve[], theme: GrafanaTheme2): UPlotConfigBuilder {
  const builder = new UPlotConfigBuilder();
  builder.setMode(2);
  builder.setPadding([8, 28, 0, 0]); // The last number of the x axis is longer than the axis.
  const scale = (key: 'x' | 'y', field: Field) => {
    builder.addScale({
      scaleKey: key, orientation: key === 'x' ? ScaleOrientation.Horizontal : ScaleOrientation.Vertical, direction: key === 'x' ? ScaleDirection.Right : ScaleDirection.Up,
      isTime: false, distribution: (field.config.custom?.scaleDistribution?.type as ScaleDistribution) ?? ScaleDistribution.Linear,
      log: field.config.custom?.scaleDistribution?.log, min: field.config.min ?? undefined, max: field.config.max ?? undefined,
      ...(key === 'x' ? { range: (_u: uPlot, _min: number, max: number) => [field.config.min ?? 0, max * 1.03] as [number, number] } : {}),
    });
    builder.addAxis({
      scaleKey: key, theme, isTime: false, placement: key === 'x' ? AxisPlacement.Bottom : AxisPlacement.Left, label: field.config.custom?.axisLabel,
      formatValue: (v, decimals) => formattedValueToString(field.display!(v, decimals)),
    });
  };
  scale('x', all[0].x);
  scale('y', all[0].y);
  for (const { y, color } of all) {
    builder.addSeries({
      scaleKey: 'y', theme, facets: [{ scale: 'x', auto: true }, { scale: 'y', auto: true }], lineColor: color, pxAlign: false,
      pathBuilder: stroke(color, y.config.custom?.pointSize?.fixed ?? 5), value: () => '',
    });
  }
  return builder;
}

interface Props { frames: DataFrame[]; options: Record<string, any>; width: number; height: number; theme: GrafanaTheme2 }

export function CurvePanel({ frames, options, width, height, theme }: Props) {
  const all = useMemo(() => curves(frames, options.series, theme), [frames]);
  const config = useMemo(() => (all.length > 0 ? plot(all, theme) : null), [all]);
  if (!config) return <NoData />;
  const legend = <VizLayout.Legend placement="bottom">
    <VizLegend placement="bottom" displayMode={LegendDisplayMode.List} items={all.map(({ name, color }) => ({ label: name, color, yAxis: 1 }))} />
  </VizLayout.Legend>;
  return <VizLayout width={width} height={height} legend={legend}>
    {(w, h) => <UPlotChart config={config} data={[null, ...all.map((c) => [c.x.values, c.y.values])]} width={w} height={h} />}
  </VizLayout>;
}

/** NoData is what a panel without rows says. */
export function NoData() {
  return <div className="no-data">No data</div>;
}
