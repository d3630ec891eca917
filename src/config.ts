/** How the process is configured. */
export type Config = {
  readonly port: number;
  readonly host: string;
  /** The folder of the embedded store; undefined keeps the data in memory. */
  readonly dataDir: string | undefined;
  /** Whether a new embedded store is given the demo data. */
  readonly demoData: boolean;
  /** The longest that a call of the store may take, in milliseconds. */
  readonly deadlineMs: number;
  /** The largest request body, in bytes. */
  readonly bodyLimit: number;
};

/** The environment holds mistakes; the message lists each with its value and what was expected. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/**
 * Reads the configuration from the environment. A variable that is empty counts as not set. Throws ConfigError with
 * all mistakes at once.
 */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const mistakes: string[] = [];

  function read<T>(name: string, fallback: T, expected: string, parse: (text: string) => T | undefined): T {
    const text = env[name];
    if (text === undefined || text === '') return fallback;
    const value = parse(text);
    if (value !== undefined) return value;
    mistakes.push(`${name}=${JSON.stringify(text)}: expected ${expected}`);
    return fallback;
  }

  function readInteger(name: string, fallback: number, min: number, max: number): number {
    return read(name, fallback, `a whole number from ${min} to ${max}`, (text) => {
      const value = Number(text);
      return /^\d+$/.test(text) && value >= min && value <= max ? value : undefined;
    });
  }

  const config: Config = {
    port: readInteger('PORT', 3000, 0, 65_535),
    host: read('HOST', '127.0.0.1', 'a host name or address, without a port', (text) =>
      /^[\w.:%-]+$/.test(text) ? text : undefined,
    ),
    dataDir: read('DATA_DIR', '.data', 'a folder, or :memory:', (text) => (text.includes('\0') ? undefined : text)),
    demoData: read('DEMO_DATA', true, 'on or off', (text) =>
      text === 'on' ? true : text === 'off' ? false : undefined,
    ),
    deadlineMs: readInteger('DEADLINE_MS', 5_000, 10, 60_000),
    bodyLimit: readInteger('BODY_LIMIT_BYTES', 100_000, 1, 10_000_000),
  };
  if (mistakes.length > 0) throw new ConfigError(mistakes.join('\n'));
  return config.dataDir === ':memory:' ? { ...config, dataDir: undefined } : config;
}
