// Finds what a misspelled name probably means. Imports nothing.

/** The first of several names that a text probably means. Few edits of a short name, such as HOST or MCP, make many others. */
export function findNear(text: string, names: readonly string[]): string | undefined {
  return names.find((name) => isNear(text, name, name.length > 6 ? 2 : name.length > 3 ? 1 : 0));
}

/** Whether `edits` edits turn one text into the other. An edit adds, drops or replaces a character, or swaps two. */
function isNear(one: string, other: string, edits: number): boolean {
  if (one === other) return true;
  if (edits === 0 || Math.abs(one.length - other.length) > edits) return false;
  let same = 0;
  while (one[same] === other[same]) same += 1;
  const [a, b] = [one.slice(same), other.slice(same)];
  return (
    isNear(a.slice(1), b, edits - 1) ||
    isNear(a, b.slice(1), edits - 1) ||
    isNear(a.slice(1), b.slice(1), edits - 1) ||
    (a[0] === b[1] && a[1] === b[0] && isNear(a.slice(2), b.slice(2), edits - 1))
  );
}
