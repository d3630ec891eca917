// The connection that a worker has not accepted when it ends.

import cluster, { type Worker } from 'node:cluster';
import type { EventEmitter } from 'node:events';

/** Node's message with which the primary process passes a connection to a worker, and its undocumented state of one. */
type Handover = { readonly act?: string; readonly seq?: number };
type Listening = Worker & { readonly state?: string };

/**
 * Gives the connection that a worker has not accepted at its end to another worker, or closes it without one. Node waits for the
 * worker's reply for ever, and so would the client, and does not even emit `disconnect`. The worker has read nothing of the request.
 */
export function returnUnaccepted(worker: Worker): void {
  const { process } = worker;
  const send = process.send.bind(process) as (message: Handover, ...rest: unknown[]) => boolean;
  // A worker gets the next connection when it has accepted the one before.
  let last: Handover | undefined;
  process.send = (message: Handover, ...rest: unknown[]) => {
    if (message.act === 'newconn') last = message;
    return send(message, ...rest);
  };
  // By then the worker's last replies have been read; Node ignores a second one.
  process.once('close', () => {
    process.emit('disconnect');
    const accepted = !Object.values(cluster.workers ?? {}).some((one) => (one as Listening).state === 'listening');
    (process as EventEmitter).emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: last?.seq, accepted });
  });
}
