// Runs in each worker. `yaml` reads a variable for each token, and Node asks the system at each read of process.env, which takes 1 µs; a
// plain object avoids that. Variables that a test sets reach other processes, but not native code in this one.

process.env = { ...process.env };
