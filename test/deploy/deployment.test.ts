// Compares the files of a deployment with the gateway: its variables, ports, paths and imports.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import ms from 'ms';
import ts from 'typescript';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { readConfig, VARIABLES } from '../../src/config.ts';
import { useOpened } from '../helpers/database.ts';
import { startGateway } from '../helpers/gateway.ts';
import { findPort } from '../helpers/servers.ts';
import { createStubStore } from '../helpers/stub-store.ts';
import { waitFor } from '../helpers/wait-for.ts';

const read = (file: string) => readFileSync(file, 'utf8');

const NAMES = Object.keys(VARIABLES);
/** How long a gateway takes to stop: the notice, and the requests in progress on two ports. */
const STOP_MS =
  readConfig({}).drainMs +
  2 * Number(/FINISH_MS = ([\d_]+);/.exec(read('src/http/server.ts'))?.[1]?.replaceAll('_', ''));

/** The variables that OpenTelemetry itself reads from the environment, as far as deployments pass them on. */
const STANDARD = ['OTEL_SERVICE_NAME', 'OTEL_RESOURCE_ATTRIBUTES', 'OTEL_EXPORTER_OTLP_HEADERS'];

const unknown = (names: readonly string[]) => names.filter((name) => !NAMES.includes(name) && !STANDARD.includes(name));

const EXAMPLE = read('.env.example');
const [, ofCompose = ''] = EXAMPLE.split(/^# compose\.yaml:.*$/m);

test('.env.example is an environment that the gateway can start with', () => {
  expect(readConfig(parseEnv(EXAMPLE))).toEqual(readConfig({}));
});

type Yaml = ReturnType<typeof parse>;
type Service = Record<string, Yaml>;

describe('compose.yaml', () => {
  const text = read('compose.yaml');
  const { services, networks, volumes } = parse(text, { merge: true }) as Record<
    'services' | 'networks' | 'volumes',
    Record<string, Service>
  >;
  const gateways = Object.entries(services).filter(([, { build, ports }]) => build && ports);
  const references = [...text.matchAll(/\$\{(\w+)(?:(:-|:\?)([^}]*))?\}/g)].map(([, name = '', operator, word]) => ({
    ...{ name, operator, word },
  }));
  /** The environment of a service when the variables have these values. */
  const environmentOf = (name: string, values: Record<string, string>): Record<string, string> => {
    const put = (value: string) =>
      value.replace(
        /\$\{(\w+):([-?])([^}]*)\}/g,
        (_all, variable, kind, word) => values[variable] || (kind === '-' ? word : `no ${variable}`),
      );
    return Object.fromEntries(
      Object.entries<string>(services[name]?.environment ?? {}).map(([key, value]) => [key, put(value)]),
    );
  };

  /** The services that a service waits for, with their conditions. */
  const conditionsOf = (name: string) =>
    Object.entries<Yaml>(services[name]?.depends_on ?? {}).map(([needed, { condition }]) => `${needed} ${condition}`);

  test('reads variables that .env.example has, with their defaults; it requires those that have none', () => {
    const used = references.filter(({ name }) => ![...NAMES, ...STANDARD].includes(name));
    const lines = used.map(({ name, operator, word }) => (operator === ':?' ? `${name}=` : `# ${name}=${word}`));
    expect([...new Set(lines)].toSorted()).toEqual((ofCompose.match(/^(# )?[A-Z]\w*=.*$/gm) ?? []).toSorted());
  });

  test('requires nothing more for a service of a profile', () => {
    const required = (isInProfile: boolean) => {
      const some = Object.values(services).filter(({ profiles }) => (profiles !== undefined) === isInProfile);
      return new Set([...JSON.stringify(some).matchAll(/\$\{(\w+):\?/g)].map(([, name]) => name));
    };
    expect([...required(true).difference(required(false))]).toEqual([]);
  });

  test('configures each gateway, and the migrations', () => {
    const names = ['gateway', 'gateway-on-postgrest'];
    expect(gateways.map(([name]) => name)).toEqual(names);
    for (const [, { environment = {} }] of gateways) {
      expect(unknown(Object.keys(environment))).toEqual([]);
      expect(Object.keys(environment)).toEqual(expect.arrayContaining(STANDARD));
    }
    const passwords = { POSTGRES_PASSWORD: 'one', GATEWAY_PASSWORD: 'two', POSTGREST_KEY: 'three' };
    const { metricsPort, store, ...rest } = readConfig(environmentOf('gateway', passwords));
    expect({ ...readConfig({}), ...rest }).toEqual(readConfig({}));
    const urls = {
      gateway: 'gateway_login:two@postgres:5432/wellness?sslmode=disable',
      migrate: 'postgres:one@postgres:5432/wellness',
    };
    for (const [name, url] of Object.entries(urls)) {
      const { store } = readConfig(environmentOf(name, passwords));
      expect(store, name).toMatchObject({ kind: 'postgres', url: `postgres://${url}` });
    }
    expect(readConfig(environmentOf('gateway-on-postgrest', passwords)).store).toMatchObject({
      ...{ kind: 'supabase', url: 'http://postgrest:3000', key: 'three', restPath: '/' },
    });
    expect(metricsPort).not.toBe(readConfig({}).port);
    expect(read('scripts/deploy/prometheus.yaml')).toContain(
      `names: [${names.join(', ')}], type: A, port: ${metricsPort}`,
    );
  });

  test('publishes ports on the loopback address only', () => {
    const ports = Object.values(services).flatMap(({ ports = [] }) => ports);
    for (const port of ports) expect(port).toMatch(/127\.0\.0\.1:\d+/);
    for (const [, service] of gateways) expect(service.ports?.join()).toMatch(new RegExp(`:${readConfig({}).port}$`));
  });

  test('gives a gateway time to drain', () => {
    for (const [, { stop_grace_period: grace = '' }] of gateways) {
      expect(ms(grace as ms.StringValue)).toBeGreaterThan(STOP_MS);
    }
  });

  test('names files, networks and services that exist, and each volume once', () => {
    const sources = Object.values(services).flatMap(({ volumes = [] }) =>
      volumes.map((one: string) => one.split(':')[0]),
    );
    const isFile = (source: string) => source.startsWith('.');
    expect(sources.filter((source) => isFile(source) && !existsSync(source))).toEqual([]);
    expect(sources.filter((source) => !isFile(source)).toSorted()).toEqual(Object.keys(volumes).toSorted());
    for (const service of Object.values(services)) {
      for (const name of service.networks ?? []) expect([...Object.keys(networks), 'default']).toContain(name);
      for (const name of Object.keys(service.depends_on ?? {})) expect(Object.keys(services)).toContain(name);
    }
  });

  test('starts a service of a profile without those of other profiles', () => {
    for (const [name, { profiles, depends_on = {} }] of Object.entries(services)) {
      for (const needed of Object.keys(depends_on))
        expect([undefined, profiles?.join()], `${name} needs ${needed}`).toContain(services[needed]?.profiles?.join());
    }
  });

  test('starts the gateway after its logins, these after the migrations, and these after the server', () => {
    expect(['migrate', 'logins', 'gateway'].map(conditionsOf)).toEqual([
      ['postgres service_healthy'],
      ['migrate service_completed_successfully'],
      ['logins service_completed_successfully'],
    ]);
  });
});

/** Reads the last stage of the Dockerfile. Its commands have the form of a JSON array. */
function readDockerfile() {
  const text = read('Dockerfile')
    .replace(/^#.*\n/gm, '')
    .replace(/\\\n\s*/g, '');
  const lines = text.slice(text.lastIndexOf('\nFROM ')).split('\n');
  const find = (instruction: string): string[] =>
    lines.flatMap((line) => (line.startsWith(`${instruction} `) ? line.slice(instruction.length + 1) : []));
  const [volume, exposed, command = '', healthCheck = ''] = ['VOLUME', 'EXPOSE', 'CMD', 'HEALTHCHECK'].flatMap(find);
  return {
    ...{ volume, exposed },
    env: Object.fromEntries(find('ENV').flatMap((line) => line.split(' ').map((pair) => pair.split('=')))),
    /** The files that are copied from the project. Paths of the image are relative to its working directory. */
    copies: find('COPY')
      .filter((line) => !line.startsWith('--from='))
      .map((line) => line.split(' '))
      .map((words) => ({ sources: words.slice(0, -1), target: words.at(-1) ?? '' })),
    healthCheck: JSON.parse(healthCheck.replace(/.* CMD /, '')) as string[],
    command: JSON.parse(command) as string[],
  };
}

describe('kubernetes.yaml', () => {
  const resources = parseAllDocuments(read('scripts/deploy/kubernetes.yaml')).map((document) => document.toJS());
  const specOf = (name: string) => resources.find(({ kind }) => kind === name)?.spec;
  const [job, deployment, service] = [specOf('Job'), specOf('Deployment'), specOf('Service')];
  const [budget, policy] = [specOf('PodDisruptionBudget'), specOf('NetworkPolicy')];
  const { metadata, spec: pod } = deployment.template;
  const [container] = pod.containers;
  const portOf = (name: string) => container.ports.find((port: Yaml) => port.name === name)?.containerPort;
  const probes = [container.startupProbe, container.readinessProbe, container.livenessProbe];
  const env = Object.fromEntries(
    container.env.map(({ name, value }: Yaml) => [name, value ?? 'postgres://user:password@host/name']),
  );
  const gateway = useOpened(
    () => startGateway({ store: createStubStore() }),
    ({ close }) => close(),
  );

  test('sets variables of the configuration', () => {
    expect(unknown([...container.env, ...job.template.spec.containers[0].env].map(({ name }) => name))).toEqual([]);
    expect(readConfig(env).store.kind).toBe('postgres');
  });

  test('names the ports that the gateway listens on', () => {
    const { port, metricsPort } = readConfig(env);
    expect([portOf('http'), portOf('metrics')]).toEqual([port, metricsPort]);
    expect(service.ports.map(({ targetPort }: Yaml) => targetPort)).toEqual(['http']);
  });

  test.each(probes.map(({ httpGet }) => httpGet))('asks $path, which is served', async ({ path, port }) => {
    expect(port).toBe('http');
    expect((await fetch(new URL(path, gateway.url))).status).toBe(200);
  });

  test('gives a gateway the time to stop', () => {
    expect(pod.terminationGracePeriodSeconds * 1_000).toBeGreaterThan(STOP_MS);
  });

  test('selects the pods of the gateway, and not that of the migrations', () => {
    const ofService = { matchLabels: service.selector };
    for (const { matchLabels } of [deployment.selector, budget.selector, policy.podSelector, ofService]) {
      expect(matchLabels).toEqual(metadata.labels);
      expect(matchLabels).not.toEqual(job.template.metadata.labels);
    }
  });

  test('is of the version that is released', () => {
    const { version } = JSON.parse(read('package.json'));
    const images = [job.template.spec.containers[0].image, container.image];
    expect(images.map((image) => image.split(':')[1])).toEqual([version, version]);
  });

  test('migrates and checks the contract, by scripts of the image', () => {
    const command = job.template.spec.containers[0].command ?? [];
    expect(command).toEqual(['sh', '-c', 'node scripts/migrate.ts && node scripts/check-drift.ts']);
    const files = command[2]?.match(/scripts\/\S+/g) ?? [];
    expect(readDockerfile().copies.flatMap(({ sources }) => sources)).toEqual(expect.arrayContaining(files));
  });

  test('has the labels and the job name that Prometheus selects', () => {
    const text = read('scripts/deploy/prometheus-kubernetes.yaml');
    const [config] = parse(text).scrape_configs;
    const [discovery] = config.kubernetes_sd_configs;
    const labels = Object.entries(metadata.labels);
    expect(config.job_name).toBe('gateway');
    expect(discovery.selectors[0].label).toBe(labels.map(([name, value]) => `${name}=${value}`).join(','));
    const monitor = parse([...text.matchAll(/^# {3}(.*)$/gm)].map(([, line]) => line).join('\n'));
    expect(metadata.labels[monitor.spec.jobLabel]).toBe('gateway');
    expect(monitor.spec.selector.matchLabels).toEqual(metadata.labels);
    expect(monitor.spec.podMetricsEndpoints).toEqual([{ port: 'metrics' }]);
  });
});

describe('Dockerfile', () => {
  const dockerfile = readDockerfile();
  const { dependencies, devDependencies } = JSON.parse(read('package.json'));
  const root = mkdtempSync(join(tmpdir(), 'image-'));

  beforeAll(() => assemble(dockerfile, root, Object.keys(dependencies)));

  test('has the Node that the tests run on', () => {
    expect(/NODE_IMAGE=node:(\d+)-/.exec(read('Dockerfile'))?.[1]).toBe(/\d+/.exec(devDependencies.node)?.[0]);
  });

  test('sets variables of the configuration', () => {
    const { NODE_ENV, ...env } = dockerfile.env;
    expect(NODE_ENV).toBe('production');
    expect(unknown(Object.keys(env))).toEqual([]);
    const { port, host, store } = readConfig(env);
    expect(dockerfile.exposed).toBe(String(port));
    expect(host).toBe('0.0.0.0');
    expect(store).toEqual({ kind: 'embedded', dataDir: dockerfile.volume, demoData: false });
  });

  test('links the libraries of the embedded store, and runs no other script of a package', () => {
    const [install = ''] = /^RUN npm ci .*$/m.exec(read('Dockerfile')) ?? [];
    expect(install).toContain(' --ignore-scripts ');
    expect(install).not.toContain('--omit=optional');
    const [, folder = '', script = ''] = / && cd (\S+)\/\* && node (\S+)$/.exec(install) ?? [];
    const [platform = ''] = readdirSync(folder);
    expect(existsSync(join(folder, platform, script))).toBe(true);
  });

  test('copies what .dockerignore leaves it, and nothing of the tests or the client', () => {
    const [all, ...kept] = read('.dockerignore')
      .split('\n')
      .filter((line) => line && !line.startsWith('#'));
    expect(all).toBe('*');
    const sources = dockerfile.copies.flatMap(({ sources }) => sources);
    const isKept = (source: string) => kept.some((line) => `${source}/`.startsWith(`${line.slice(1)}/`));
    expect(sources.filter((source) => !isKept(source))).toEqual([]);
    expect(kept.filter((line) => !existsSync(line.slice(1)))).toEqual([]);
    expect(readdirSync(root).sort()).toEqual(
      'docs node_modules openapi.yaml package.json scripts src supabase'.split(' '),
    );
  });

  test('starts the gateway as npm start does, and as the documentation tells supervisors', () => {
    const command = dockerfile.command.join(' ');
    const { start } = JSON.parse(read('package.json')).scripts;
    expect(start).toBe(`exec ${command.replace('node ', 'node --import ./scripts/env.ts ')}`);
    expect(read('docs/deployment.md')).toContain(
      `node_modules/.bin/${command.replace('node ', 'node --env-file=.env ')}\n`,
    );
  });

  test('has everything that its programs import', () => {
    const scripts = dockerfile.copies
      .flatMap(({ sources }) => sources)
      .filter((file) => /^scripts\/.*\.ts$/.test(file));
    const entries = [dockerfile.command.at(-1) ?? '', 'src/admin/main.ts', ...scripts];
    expect(entries).toContain('scripts/migrate.ts');
    const { files, packages } = walk(root, entries);
    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
    expect(packages.filter((name) => !(name in dependencies))).toEqual([]);
    expect([files.length > 40, packages.length > 20]).toEqual([true, true]);
  });

  test('starts, is healthy, has its documentation, and ends at SIGTERM', async () => {
    const [port, nobody] = [await findPort(), await findPort()];
    // The store does not answer: the health does not depend on it, and making an embedded store takes seconds.
    const env = { PORT: String(port), DATABASE_URL: `postgres://user:password@127.0.0.1:${nobody}/name` };
    const { PATH: path, NODE_COMPILE_CACHE } = process.env;
    const common = { PATH: `${dirname(process.execPath)}:${path}`, NODE_COMPILE_CACHE };
    const options = { cwd: root, env: { ...common, ...dockerfile.env, ...env }, stdio: 'ignore' } as const;
    const url = `http://127.0.0.1:${port}`;
    const readHealth = () =>
      spawnSync(dockerfile.healthCheck[0] ?? '', dockerfile.healthCheck.slice(1), options).status;
    expect(readHealth()).toBe(1);
    const child = spawn(dockerfile.command[0] ?? '', dockerfile.command.slice(1), options);
    try {
      await waitFor(async () => expect((await fetch(`${url}/healthz`)).status).toBe(200));
      expect(readHealth()).toBe(0);
      const script = /docs\/scalar-[^"']+/.exec(await (await fetch(`${url}/docs`)).text())?.[0];
      expect((await fetch(`${url}/${script}`)).status).toBe(200);
    } finally {
      child.kill('SIGTERM');
    }
    expect(await once(child, 'exit')).toEqual([0, null]);
  });
});

/** Makes the folder of the image as its last stage does, but with links to these packages, and no other packages. */
function assemble({ copies }: ReturnType<typeof readDockerfile>, root: string, packages: readonly string[]): void {
  for (const { sources, target } of copies) {
    for (const source of sources) {
      const to = target.endsWith('/') ? join(target, basename(source)) : target;
      cpSync(source, join(root, to), { recursive: true });
    }
  }
  for (const name of packages) {
    mkdirSync(dirname(join(root, 'node_modules', name)), { recursive: true });
    symlinkSync(resolve('node_modules', name), join(root, 'node_modules', name));
  }
}

/** The files and packages that programs import, at their start or later. Types are left out: Node does not read them. */
function walk(root: string, entries: readonly string[]): { files: string[]; packages: string[] } {
  const files = new Set(entries);
  const packages = new Set<string>();
  for (const file of files) {
    if (!existsSync(join(root, file))) continue;
    for (const name of readImports(read(join(root, file)))) {
      if (name.startsWith('.')) files.add(relative(root, join(root, dirname(file), name)));
      else if (!name.startsWith('node:')) packages.add(/^(@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? '');
    }
  }
  return { files: [...files], packages: [...packages] };
}

function readImports(text: string): string[] {
  const { importedFiles } = ts.preProcessFile(stripTypeScriptTypes(text));
  const workers = [...text.matchAll(/new URL\('(\.[^']+)'/g)].map(([, path = '']) => path);
  return [...importedFiles.map(({ fileName }) => fileName), ...workers.filter((path) => path.endsWith('.ts'))];
}
