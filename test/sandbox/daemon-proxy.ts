// Stands between a client and a Docker daemon, and lets calls fail or the daemon go away.
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** `refuse`: status 500, unseen by the daemon. `hang`: never answered. `break`: done by the daemon, and then cut off. */
type Failure = 'refuse' | 'hang' | 'break';

export interface DaemonProxy extends AsyncDisposable {
  readonly path: string;
  fail(request: RegExp, how: Failure): void;
  heal(): void;
  leave(): void;
  come(): Promise<void>;
}

const REFUSAL = '{"message":"refused by the proxy"}';

export async function startDaemonProxy(target: string): Promise<DaemonProxy> {
  const directory = await mkdtemp(join(tmpdir(), 'homard-proxy-'));
  const path = join(directory, 'docker.sock');
  const sockets = new Set<Socket>();
  let fault: { request: RegExp; how: Failure } | undefined;
  let server: Server;

  function relay(client: Socket): void {
    const daemon = connect({ path: target, allowHalfOpen: true });
    for (const [socket, other] of [
      [client, daemon],
      [daemon, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('end', () => other.end());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    let isCut = false;
    daemon.on('data', (chunk) => void (isCut ? client.destroy() : client.write(chunk)));
    client.on('data', (chunk) => {
      const how = fault?.request.test(chunk.toString('latin1')) ? fault.how : undefined;
      if (how === 'hang') return;
      if (how === 'refuse') {
        client.write(
          `HTTP/1.1 500 Refused\r\nContent-Type: application/json\r\nContent-Length: ${REFUSAL.length}\r\n\r\n${REFUSAL}`,
        );
        return;
      }
      isCut = how === 'break';
      daemon.write(chunk);
    });
  }

  const come = async () => {
    server = createServer({ allowHalfOpen: true }, relay).listen(path);
    await once(server, 'listening');
  };
  const leave = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  await come();
  return {
    path,
    fail: (request, how) => void (fault = { request, how }),
    heal: () => void (fault = undefined),
    leave,
    come,
    async [Symbol.asyncDispose]() {
      leave();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
