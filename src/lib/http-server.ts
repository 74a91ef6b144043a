/** Opening and closing a server of Node's. */
import type { Server } from 'node:http';

/** Listens, and answers the port: the one that was picked when `port` is 0. Rejects with Node's error. */
export async function listenOn(server: Server, port: number, host: string): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

/** Ends the connections too: streams that are open would keep it for ever. */
export async function closeServer(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
