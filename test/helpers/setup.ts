// In each worker: `yaml` reads a variable of the environment for each token, which takes a microsecond from the system's own.

process.env = { ...process.env };
