/**
 * Returns whether a requirement of tests is present. If not, warns that they are skipped, or throws in CI, where everything has to be
 * installed. The message names what is missing and the tests.
 */
export function isPresent(found: boolean, message: string): boolean {
  if (found) return true;
  if (process.env.CI) throw new Error(message);
  console.warn(`\n${message}, and are SKIPPED\n`);
  return false;
}
