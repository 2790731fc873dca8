// Validates custom resources: a JSON list on stdin. Runs in the directory of the packages @kubernetes-models/*.
//
// Their validators check values, and accept unknown members. Their types do not, so a misspelt member is an error of the
// TypeScript compiler.
import fs from "node:fs";
import path from "node:path";
import ts from "typescript";

const MODULES = {
  EnvoyFilter: "istio/networking.istio.io/v1alpha3",
  EnvoyPatchPolicy: "envoy-gateway/gateway.envoyproxy.io/v1alpha1",
  ExtensionService: "contour/projectcontour.io/v1alpha1",
  ContourConfiguration: "contour/projectcontour.io/v1alpha1",
  HTTPProxy: "contour/projectcontour.io/v1",
  ServiceMonitor: "prometheus-operator/monitoring.coreos.com/v1",
};

const moduleOf = (kind) => `@kubernetes-models/${MODULES[kind]}/${kind}`;

async function checkValues(resource) {
  const model = (await import(moduleOf(resource.kind)))[resource.kind];
  if (resource.apiVersion !== model.apiVersion) throw new Error(`${resource.kind} has the version ${model.apiVersion}`);
  new model(resource).validate();
}

function checkMembers(resources) {
  const file = path.resolve("resources.ts");
  const text = resources.map(
    (resource, index) =>
      `import type { I${resource.kind} as T${index} } from "${moduleOf(resource.kind)}";\n` +
      `export const r${index}: T${index} = ${JSON.stringify(resource)};\n`,
  );
  const options = {
    noEmit: true,
    strict: true,
    skipLibCheck: true,
    types: [],
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
  };
  const host = ts.createCompilerHost(options);
  const { fileExists, getSourceFile } = host;
  host.fileExists = (name) => name === file || fileExists(name);
  host.getSourceFile = (name, ...rest) =>
    name === file ? ts.createSourceFile(name, text.join(""), ...rest) : getSourceFile(name, ...rest);
  const errors = ts.getPreEmitDiagnostics(ts.createProgram([file], options, host));
  if (errors.length > 0) throw new Error(ts.formatDiagnostics(errors, host));
}

const resources = JSON.parse(fs.readFileSync(0, "utf8"));
for (const resource of resources) await checkValues(resource);
checkMembers(resources);
console.log(`${resources.length} valid`);
