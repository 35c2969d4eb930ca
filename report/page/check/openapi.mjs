// Checks OpenAPI documents by Redocly's recommended rules: node openapi.mjs DOCUMENT.yaml... `make test-page` runs it.
import { createConfig, formatProblems, getTotals, lint } from "@redocly/openapi-core";

const config = await createConfig({ extends: ["recommended-strict"] });
let findings = 0;
for (const ref of process.argv.slice(2)) {
  const problems = await lint({ ref, config });
  const totals = getTotals(problems);
  formatProblems(problems, { format: "codeframe", totals, version: "1" });
  findings += totals.errors + totals.warnings;
}
process.exit(findings > 0 ? 1 : 0);
