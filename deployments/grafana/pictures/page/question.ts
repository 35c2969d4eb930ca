// What Grafana does before it asks: it puts the variables' values and the time range into queries, and names what comes back.
import { type DataFrame, type Field, FieldType, type TimeRange, createDataFrame, rangeUtil } from '@grafana/data';
import type { Board, Panel, Row, Setting, Target } from './model';

/** Characters that Grafana escapes in a value for a regular expression of InfluxQL. */
const special = /[\\^$*+?.()|[\]{}/]/g;

/** filled puts values and times into a query. */
function filled(query: string, setting: Setting, intervalMs: number): string {
  const interval = rangeUtil.secondsToHms(intervalMs / 1000);
  const values: Record<string, string> = {
    timeFilter: `time >= ${setting.from}ms and time <= ${setting.to}ms`,
    __interval_ms: `${intervalMs}`,
    __interval: interval,
  };
  for (const [name, chosen] of Object.entries(setting.variables)) {
    values[name] = chosen.length === 0 ? '.*' : `(${chosen.map((v) => v.replace(special, '\\$&')).join('|')})`;
  }
  return query.replace(/\$(\w+)/g, (all, name: string) => values[name] ?? all);
}

/** ask runs a query. */
export async function ask(setting: Setting, query: string, intervalMs = 1000): Promise<Row[]> {
  const url = `${setting.url}/query?db=${setting.database}&epoch=ms`;
  const response = await fetch(url, { method: 'POST', body: new URLSearchParams({ q: filled(query, setting, intervalMs) }) });
  const { results, error } = await response.json();
  if (error ?? results[0].error) throw new Error(`${query}: ${error ?? results[0].error}`);
  return results[0].series ?? [];
}

/** kind is the type of a column by its first value. */
function kind(values: unknown[]): FieldType {
  switch (typeof values.find((v) => v !== null && v !== undefined)) {
    case 'number': return FieldType.number;
    case 'boolean': return FieldType.boolean;
    default: return FieldType.string;
  }
}

/** legend is what an alias makes of a column. */
function legend(row: Row, column: string, alias?: string): string {
  if (!alias) {
    const tags = Object.entries(row.tags ?? {}).map(([k, v]) => `${k}: ${v}`).join(' ');
    return `${row.name}.${column}${tags && ` { ${tags} }`}`;
  }
  return alias.replace(/\$(?:tag_)?(\w+)/g, (all, name) => (all === '$col' ? column : all === '$m' ? row.name : row.tags?.[name] ?? all));
}

/** lines makes a frame of each column of each series, as the data source does for time series. */
function lines(rows: Row[], target: Target): DataFrame[] {
  return rows.flatMap((row) => row.columns.slice(1).map((column, i) => {
    const name = legend(row, column, target.alias);
    return createDataFrame({
      name, refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, config: {}, values: row.values.map((v) => v[0]) },
        { name: 'Value', type: FieldType.number, labels: row.tags, config: { displayNameFromDS: name }, values: row.values.map((v) => v[i + 1]) },
      ],
    });
  }));
}

/** table makes one frame of all series, with tags as columns, as the data source does for tables. */
function table(rows: Row[], target: Target): DataFrame[] {
  if (rows.length === 0) return [];
  const tags = Object.keys(rows[0].tags ?? {}).sort();
  const field = (name: string, values: unknown[], type = kind(values)): Field => ({ name, type, config: {}, values });
  return [createDataFrame({
    refId: target.refId,
    fields: [
      field('Time', rows.flatMap((r) => r.values.map((v) => v[0])), FieldType.time),
      ...tags.map((tag) => field(tag, rows.flatMap((r) => r.values.map(() => r.tags![tag])), FieldType.string)),
      ...rows[0].columns.slice(1).map((column, i) => field(column, rows.flatMap((r) => r.values.map((v) => v[i + 1])))),
    ],
  })];
}

/** answers runs the queries of a panel. */
export async function answers(setting: Setting, panel: Panel, range: TimeRange, width: number): Promise<DataFrame[]> {
  const { intervalMs } = rangeUtil.calculateInterval(range, Math.max(width, 100), panel.interval ?? '1s');
  const all = await Promise.all(panel.targets.map(async (target) => {
    const rows = await ask(setting, target.query, intervalMs);
    return target.resultFormat === 'table' ? table(rows, target) : lines(rows, target);
  }));
  return all.flat();
}

/** A mark in time. */
export interface Mark { time: number; text: string; color: string }

/** marks runs the queries of the annotations. */
export async function marks(setting: Setting, board: Board): Promise<Mark[]> {
  const all = await Promise.all(board.annotations.list.map(async (annotation) => {
    const rows = await ask(setting, annotation.target.query);
    return rows.flatMap((row) => row.values.map((v) => ({
      time: v[0] as number, color: annotation.iconColor, text: String(v[row.columns.indexOf(annotation.target.textColumn)]),
    })));
  }));
  return all.flat();
}
