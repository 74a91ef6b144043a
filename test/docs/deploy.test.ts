import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { EXIT } from '../../src/cli/terminal.ts';
import { loadConfig, type Config } from '../../src/config/config.ts';
import { VARIABLES } from '../../src/config/variables.ts';
import { Redactor } from '../../src/lib/secret.ts';

const text = (file: string): string =>
  readFileSync(fileURLToPath(new URL(`../../docs/deploy/${file}`, import.meta.url)), 'utf8');
const KNOWN = new Set(
  VARIABLES.flatMap((one) => (one.secret === true ? [one.name, `${one.name}_FILE`] : [one.name])),
);
const routes = readFileSync(fileURLToPath(new URL('../../src/ops/routes.ts', import.meta.url)), 'utf8');
/** The run command's own reserve behind SHUTDOWN_GRACE_SECONDS. */
const RESERVE_SECONDS = 2;

/** The real schema takes the file's variables, with every secret's file there. */
function accepted(env: Readonly<Record<string, string>>): Config {
  expect(Object.keys(env).filter((name) => !KNOWN.has(name))).toEqual([]);
  return loadConfig({
    env,
    files: { read: () => 'a-secret-of-some-length' },
    redactor: new Redactor(),
    terminal: false,
    onSecretTrouble: () => undefined,
  });
}
const outlives = (seconds: number, config: Config): void =>
  expect(seconds).toBeGreaterThan(config.shutdown.graceMs / 1_000 + RESERVE_SECONDS);

describe('the compose file', () => {
  const { services, secrets, volumes } = parse(text('compose.yaml'));
  const { dvo } = services;
  const env = { ...dvo.environment, OUTPOST_ID: 'outpost_env-a' };

  it('compose: sets only variables that exist, to values that are right', () => {
    expect(accepted(env).stateDir).toBe('/var/lib/dvo');
  });
  it('compose: waits longer for the end than the daemon takes', () => {
    outlives(Number.parseInt(dvo.stop_grace_period, 10), accepted(env));
  });
  it('compose: mounts every secret that a variable names, and keeps the state in a volume', () => {
    const files = Object.entries(env).filter(([name]) => name.endsWith('_FILE'));
    expect(new Set(files.map(([, path]) => path))).toEqual(
      new Set(dvo.secrets.map((name: string) => `/run/secrets/${name}`)),
    );
    expect(new Set(Object.keys(secrets))).toEqual(new Set(dvo.secrets));
    expect(dvo.volumes).toEqual([`${Object.keys(volumes)[0]}:${accepted(env).stateDir}`]);
  });
  it('compose: asks a health path that the daemon serves, at the port that it has', () => {
    const [, port, path] = /127\.0\.0\.1:(\d+)(\/\w+)/.exec(dvo.healthcheck.test.at(-1)) ?? [];
    expect(routes).toContain(`path: '${path}'`);
    expect(Number(port)).toBe(accepted(env).ops.port);
  });
});

describe('the systemd unit', () => {
  /** Section, key and value of each line. */
  const lines = text('dvo.service')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  let section = '';
  const settings: { readonly section: string; readonly key: string; readonly value: string }[] = [];
  for (const line of lines) {
    const head = /^\[(\w+)\]$/.exec(line);
    if (head !== null) section = head[1] ?? '';
    else {
      const at = line.indexOf('=');
      expect(at, line).toBeGreaterThan(0);
      settings.push({ section, key: line.slice(0, at), value: line.slice(at + 1) });
    }
  }
  const values = (key: string): readonly string[] =>
    settings.filter((one) => one.key === key).map(({ value }) => value);
  const env: Record<string, string> = { OUTPOST_ID: 'outpost_env-a' };
  for (const pair of values('Environment')) {
    const at = pair.indexOf('=');
    env[pair.slice(0, at)] = pair.slice(at + 1).replace('%d', '/run/credentials/dvo.service');
  }

  it('systemd: sets only variables that exist, to values that are right', () => {
    expect(accepted(env).log.format).toBe('json');
  });
  it('systemd: loads every credential that a variable names', () => {
    const loaded = values('LoadCredential').map((value) => value.split(':')[0]);
    const named = Object.entries(env).filter(([name]) => name.endsWith('_FILE'));
    expect(new Set(named.map(([, path]) => path.split('/').at(-1)))).toEqual(new Set(loaded));
  });
  it('systemd: waits longer for the end than the daemon takes, and owns the state', () => {
    outlives(Number(values('TimeoutStopSec')[0]), accepted(env));
    expect(`/var/lib/${values('StateDirectory')[0]}`).toBe(accepted(env).stateDir);
  });
  it('systemd: does not start again what cannot start, and outwaits whoever holds STATE_DIR', () => {
    expect(values('RestartPreventExitStatus')).toEqual([String(EXIT.config)]);
    expect(values('StartLimitIntervalSec')).toEqual(['0']);
    expect(values('Restart')).toEqual(['on-failure']);
  });
});

describe('the StatefulSet', () => {
  const documents = parseAllDocuments(text('kubernetes.yaml')).map((one) => one.toJS());
  const { spec } = documents.find(({ kind }) => kind === 'StatefulSet');
  const service = documents.find(({ kind }) => kind === 'Service');
  const pod = spec.template.spec;
  const [container] = pod.containers;
  const env = Object.fromEntries(
    container.env.map(({ name, value }: { name: string; value: string }) => [name, value]),
  );

  it('Kubernetes: sets only variables that exist, to values that are right', () => {
    expect(accepted(env).ops.host).toBe('0.0.0.0');
  });
  it('Kubernetes: has one replica, and one service that finds it', () => {
    expect([spec.replicas, spec.serviceName]).toEqual([1, service.metadata.name]);
    expect(service.spec.selector).toEqual(spec.selector.matchLabels);
    expect(spec.template.metadata.labels).toEqual(spec.selector.matchLabels);
  });
  it('Kubernetes: waits longer for the end than the daemon takes', () => {
    outlives(pod.terminationGracePeriodSeconds, accepted(env));
  });
  it('Kubernetes: probes paths that the daemon serves, at the port that it has', () => {
    for (const probe of [container.livenessProbe, container.readinessProbe]) {
      expect(routes).toContain(`path: '${probe.httpGet.path}'`);
      expect(probe.httpGet.port).toBe(container.ports[0].name);
    }
    expect(container.livenessProbe.httpGet.path).toBe('/healthz');
    expect(container.ports[0].containerPort).toBe(accepted(env).ops.port);
  });
  it('Kubernetes: keeps the state in its volume and reads secrets as files, none as a variable', () => {
    const mounts: readonly { name: string; mountPath: string }[] = container.volumeMounts;
    const under = (path: string): string | undefined =>
      mounts.find(({ mountPath }) => path.startsWith(`${mountPath}/`))?.name;
    expect(under(accepted(env).stateDir)).toBe(spec.volumeClaimTemplates[0].metadata.name);
    for (const [name, path] of Object.entries(env))
      if (name.endsWith('_FILE')) expect(under(String(path))).toBe('secrets');
    for (const { name, secret } of VARIABLES) if (secret === true) expect(env[name]).toBeUndefined();
  });
});
