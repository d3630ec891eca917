// The entry point. It is JavaScript, so that a Node without support for TypeScript can say what it needs.

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  console.error(`This is Node ${process.versions.node}; the gateway needs 22.19 or later. npm start brings its own.`);
  process.exit(1);
}
await import('./main.ts');
