// The dashboards as their files have them, as far as they are drawn, and what a picture is of.
import type { DataTransformerConfig, FieldConfigSource } from '@grafana/data';

export interface Target { refId: string; query: string; resultFormat: string; alias?: string }

export interface Panel {
  id: number;
  type: string;
  title: string;
  description?: string;
  gridPos: { h: number; w: number; x: number; y: number };
  interval?: string;
  targets: Target[];
  transformations?: DataTransformerConfig[];
  fieldConfig: FieldConfigSource;
  options: Record<string, any>;
}

export interface Board {
  title: string;
  panels: Panel[];
  templating: { list: Array<{ name: string; label: string }> };
  annotations: { list: Array<{ iconColor: string; target: { query: string; textColumn: string } }> };
}

/** A series of an answer of InfluxDB. */
export interface Row { name: string; tags?: Record<string, string>; columns: string[]; values: any[][] }

/** What a picture is of: whose data, of when, and with which values of variables; none is all. */
export interface Setting {
  url: string;
  database: string;
  from: number;
  to: number;
  variables: Record<string, string[]>;
}
