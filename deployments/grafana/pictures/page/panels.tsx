// The panels by their types, drawn by Grafana's components.
import { type DataFrame, type GrafanaTheme2, type TimeRange, VizOrientation, getFieldDisplayValues } from '@grafana/data';
import { BigValue, BigValueColorMode, BigValueGraphMode, BigValueJustifyMode, BigValueTextMode, TimeSeries, type UPlotConfigBuilder, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { CurvePanel, NoData } from './curve';
import type { Panel } from './model';
import type { Mark } from './question';
import type uPlot from 'uplot';

export interface Drawn { panel: Panel; frames: DataFrame[]; marks: Mark[]; range: TimeRange; theme: GrafanaTheme2 }

interface Props extends Drawn { width: number; height: number }

/** Marks are drawn as Grafana draws annotations: a dashed line and a triangle below it. */
function draw(marks: Mark[], theme: GrafanaTheme2) {
  return (u: uPlot) => {
    const { ctx, bbox } = u;
    ctx.save();
    for (const { time, color } of marks) {
      const x = u.valToPos(time, 'x', true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = theme.visualization.getColorByName(color);
      ctx.setLineDash([5, 5]);
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x, bbox.top + bbox.height);
      ctx.lineTo(x - 4, bbox.top + bbox.height + 6);
      ctx.lineTo(x + 4, bbox.top + bbox.height + 6);
      ctx.fill();
    }
    ctx.restore();
  };
}

function LinesPanel({ panel, frames, marks, range, theme, width, height }: Props) {
  if (frames.every((frame) => frame.length === 0)) return <NoData />;
  let marked: UPlotConfigBuilder | undefined;
  return <TimeSeries frames={frames} width={width} height={height} timeRange={range} timeZone="utc" legend={panel.options.legend} options={panel.options}>
    {(builder) => {
      if (builder !== marked) builder.addHook('draw', draw(marks, theme));
      marked = builder;
      return null;
    }}
  </TimeSeries>;
}

function TablePanel({ panel, frames, width, height }: Props) {
  if (!frames[0]?.length) return <NoData />;
  return <TableNG data={frames[0]} width={width} height={height} cellHeight={panel.options.cellHeight} sortBy={panel.options.sortBy} fieldConfig={panel.fieldConfig}
    enableVirtualization={false} transparent={false} resizable={false} />;
}

function StatPanel({ panel, frames, theme, width, height }: Props) {
  const { reduceOptions, textMode, colorMode, justifyMode } = panel.options;
  const values = () => getFieldDisplayValues({
    fieldConfig: panel.fieldConfig, reduceOptions, replaceVariables: (text) => text, theme, data: frames, sparkline: panel.options.graphMode === 'area', timeZone: 'utc',
  });
  return <VizRepeater getValues={values} source={frames} renderCounter={0} width={width} height={height} orientation={VizOrientation.Vertical} autoGrid={false}
    renderValue={({ value, width: w, height: h, count }) => <BigValue value={value.display} width={w} height={h} theme={theme} count={count} sparkline={value.sparkline}
      colorMode={colorMode as BigValueColorMode} graphMode={panel.options.graphMode as BigValueGraphMode} textMode={textMode as BigValueTextMode}
      justifyMode={justifyMode as BigValueJustifyMode} />} />;
}

/** drawing is how a type of panel is drawn. */
const drawing: Record<string, (props: Props) => React.ReactNode> = {
  timeseries: LinesPanel,
  table: TablePanel,
  stat: StatPanel,
  xychart: (p) => <CurvePanel frames={p.frames} options={p.panel.options} width={p.width} height={p.height} theme={p.theme} />,
};

export function PanelContent(props: Props) {
  const Drawing = drawing[props.panel.type];
  if (!Drawing) throw new Error(`panel ${props.panel.title}: type ${props.panel.type} cannot be drawn`);
  return <Drawing {...props} />;
}
