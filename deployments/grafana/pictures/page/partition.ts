// The transformation "Partition by values" with names as labels: a frame for each combination of the values of some fields. @grafana/data
// does not have it.
import { type DataFrame, type DataTransformerInfo } from '@grafana/data';
import { map } from 'rxjs';

interface Options { fields: string[]; keepFields?: boolean }

function parts(frame: DataFrame, { fields, keepFields }: Options): DataFrame[] {
  const keys = fields.map((name) => frame.fields.find((f) => f.name === name)!);
  const rows = new Map<string, number[]>();
  for (let i = 0; i < frame.length; i++) {
    const key = JSON.stringify(keys.map((f) => f.values[i]));
    rows.set(key, [...(rows.get(key) ?? []), i]);
  }
  return [...rows.values()].map((indices) => {
    const labels = Object.fromEntries(keys.map((f) => [f.name, String(f.values[indices[0]])]));
    const kept = frame.fields.filter((f) => keepFields || !keys.includes(f));
    return { ...frame, length: indices.length, fields: kept.map((f) => ({ ...f, labels, state: null, values: indices.map((i) => f.values[i]) })) };
  });
}

export const partitionByValues: DataTransformerInfo<Options> = {
  id: 'partitionByValues',
  name: 'Partition by values',
  defaultOptions: { fields: [] },
  operator: (options) => (source) => source.pipe(map((frames) => frames.flatMap((frame) => parts(frame, options)))),
};
