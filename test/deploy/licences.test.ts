import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { matchesGlob } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

/** Licences that let a company use, change and distribute the gateway, without conditions beyond naming the authors. */
const PERMITTED = ['0BSD', 'Apache-2.0', 'BlueOak-1.0.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT', 'PSF-2.0'];

type Component = {
  readonly name: string;
  readonly licenses?: readonly { readonly license: { readonly id?: string } }[];
};

test('every package in production has a permitted licence, as the SBOM of SECURITY.md says', async () => {
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--omit', 'dev', '--package-lock-only'];
  const { stdout } = await promisify(execFile)('npm', args, { maxBuffer: 2 ** 24 });
  const { bomFormat, components }: { bomFormat: string; components: readonly Component[] } = JSON.parse(stdout);
  expect(bomFormat).toBe('CycloneDX');
  expect(components.map(({ name }) => name)).toContain('express');
  const others = components.filter(({ licenses = [] }) => {
    const ids = licenses.map(({ license }) => license.id ?? '');
    return ids.length === 0 || !ids.every((id) => PERMITTED.includes(id));
  });
  expect(others).toEqual([]);
});

test('CONTRIBUTING.md says of every dependency what it is for', () => {
  const { dependencies, devDependencies, optionalDependencies } = JSON.parse(readFileSync('package.json', 'utf8'));
  const [, table = ''] = /^## Dependencies\n(.*?)^## /ms.exec(readFileSync('CONTRIBUTING.md', 'utf8')) ?? [];
  const named = [...table.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
  const isNamed = (name: string) => named.some((one) => matchesGlob(name, one));
  const installed = Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies });
  expect(installed.filter((name) => !isNamed(name))).toEqual([]);
  expect(named.filter((name) => name !== '/mcp' && !installed.some((one) => matchesGlob(one, name)))).toEqual([]);
});
