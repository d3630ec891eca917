import { readFileSync } from 'node:fs';

/** What a Dockerfile says of its last stage. */
export type Dockerfile = {
  readonly env: Readonly<Record<string, string>>;
  /** What is copied from the project; paths of the image are relative to its working directory. */
  readonly copies: readonly { readonly sources: readonly string[]; readonly target: string }[];
  readonly volume: string;
  readonly exposed: string;
  readonly healthCheck: readonly string[];
  readonly command: readonly string[];
};

/** Reads a Dockerfile whose commands have the form of a JSON array. */
export function readDockerfile(file: string): Dockerfile {
  const text = readFileSync(file, 'utf8')
    .replace(/^#.*\n/gm, '')
    .replace(/\\\n\s*/g, '');
  const lines = text.slice(text.lastIndexOf('\nFROM ')).split('\n');
  const read = (instruction: string): string[] =>
    lines.flatMap((line) => (line.startsWith(`${instruction} `) ? line.slice(instruction.length + 1) : []));
  const [volume = '', exposed = ''] = [...read('VOLUME'), ...read('EXPOSE')];
  return {
    env: Object.fromEntries(read('ENV').flatMap((line) => line.split(' ').map((pair) => pair.split('=')))),
    copies: read('COPY')
      .filter((line) => !line.startsWith('--from='))
      .map((line) => line.split(' '))
      .map((words) => ({ sources: words.slice(0, -1), target: words.at(-1) ?? '' })),
    ...{ volume, exposed },
    healthCheck: JSON.parse(read('HEALTHCHECK')[0]?.replace(/.* CMD /, '') ?? ''),
    command: JSON.parse(read('CMD')[0] ?? ''),
  };
}
