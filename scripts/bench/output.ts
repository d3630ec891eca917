import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';

/** All that a process prints. Throws, with what it says of errors, where it does not end well. */
export async function readOutput(child: ChildProcessWithoutNullStreams): Promise<string> {
  let [output, errors] = ['', ''];
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  // Fails with the error of the process itself, such as that it was aborted.
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${child.spawnargs.slice(0, 2).join(' ')} ended with ${code}: ${errors}${output}`);
  return output;
}
