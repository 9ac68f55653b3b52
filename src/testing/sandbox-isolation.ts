// Sandbox suite: what commands cannot see, reach or change of the host and of each other.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import type { Case, Needs } from './sandbox-bench.ts';
import { isIsolated, stdoutOf } from './sandbox-bench.ts';

/** Shares the kernel of the host, so that rights there are rights here. */
const sharesKernel: Needs = ({ isolation }) => ({
  'isolation by the kernel': isolation === 'namespace' || isolation === 'container',
});
const hasNoNetwork: Needs = (capabilities) => ({ ...isIsolated(capabilities), 'no network': !capabilities.hasNetwork });

async function readOrEmpty(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    // Not there, or not for us: nothing that could leak.
    return '';
  }
}

/** A server of the host, and how often somebody connected. */
async function listen(
  where: { port: number; host: string } | { path: string },
): Promise<{ server: Server; hits: () => number }> {
  let count = 0;
  const server = createServer((socket) => {
    count++;
    socket.on('error', () => undefined);
    socket.end('reached\n');
  });
  server.listen(where);
  await once(server, 'listening');
  return { server, hits: () => count };
}

export const isolationCases: Case[] = [
  {
    name: 'no file of the host can be read (SBX-08)',
    needs: isIsolated,
    async body({ outside, bash }) {
      const paths = [outside.file, join(process.cwd(), 'package.json'), '/etc/shadow'];
      const script = `
        for path in ${paths.map((path) => `'${path}'`).join(' ')}; do
          cat "$path" "/workspace/../$path" "../../../../../..$path"
          for root in /proc/[0-9]*/root /proc/self/root /proc/[0-9]*/cwd; do cat "$root$path"; done
        done 2>/dev/null
        ls -d '${outside.directory}' 2>/dev/null; true`;
      const result = await bash(script, { keepBytes: 2_000_000 });
      assert.equal(result.reason, 'exit');
      for (const path of paths) {
        const text = await readOrEmpty(path);
        assert(!text || !stdoutOf(result).includes(text), `${path} is read`);
      }
      assert(!stdoutOf(result).includes(outside.directory), `${outside.directory} is there`);
    },
  },
  {
    name: 'no socket of the host is there',
    needs: isIsolated,
    async body({ tell }) {
      const found = await tell(
        'ls -d /var/run/docker.sock /run/docker.sock /run/dbus /run/systemd/private /run/containerd 2>/dev/null; true',
      );
      assert.equal(found, '');
    },
  },
  {
    name: 'sandboxes see nothing of each other',
    needs: isIsolated,
    async body({ slot, files, tell, another }) {
      const secret = crypto.randomUUID();
      await files.write('secret.txt', secret);
      await tell('cp secret.txt /tmp/secret-copy.txt');
      const other = await another();
      const script = `
        cat "$SLOT/ws/secret.txt" "$SLOT/tmp/secret-copy.txt" /tmp/secret-copy.txt secret.txt ../*/ws/* ../../*/box/ws/* 2>/dev/null
        cat /proc/[0-9]*/cwd/secret.txt /proc/[0-9]*/environ 2>/dev/null
        grep -rs "$PART" /workspace /tmp /slot /run /mnt 2>/dev/null; true`;
      const argv = ['bash', '-c', script] as const;
      const running = tell('sleep 0.8', { env: { SECRET: secret } });
      const result = await other.execution.exec({ argv, env: { SLOT: slot.directory, PART: secret.slice(0, 20) } });
      assert.equal(result.reason, 'exit');
      assert(!stdoutOf(result).includes(secret), 'the secret of the other one is read');
      await running;
    },
  },
  {
    name: 'processes of the host are neither seen nor ended',
    needs: isIsolated,
    async body({ bash }) {
      const mark = crypto.randomUUID();
      const target = spawn('sh', ['-c', `sleep 20; : ${mark}`], { stdio: 'ignore' });
      try {
        const script = `cat /proc/[0-9]*/cmdline /proc/[0-9]*/comm 2>/dev/null; ls /proc 2>/dev/null; kill -KILL ${target.pid}; true`;
        const result = await bash(script);
        assert(!stdoutOf(result).includes(mark), 'a process of the host is seen');
        assert.deepEqual([target.exitCode, target.signalCode], [null, null], 'a process of the host was ended');
      } finally {
        target.kill('SIGKILL');
      }
    },
  },
  {
    name: 'nothing of the network is reached, not even this machine (SBX-10)',
    needs: hasNoNetwork,
    async body({ bash }) {
      const { server, hits } = await listen({ port: 0, host: '0.0.0.0' });
      const name = `homard-${crypto.randomUUID()}`;
      const abstract = process.platform === 'linux' ? await listen({ path: `\0${name}` }) : undefined;
      try {
        const address = server.address();
        const port = typeof address === 'object' && address ? address.port : 0;
        const own = Object.values(networkInterfaces()).flatMap((all) =>
          (all ?? []).filter(({ family }) => family === 'IPv4'),
        );
        const hosts = [...own.map(({ address }) => address), 'localhost', '169.254.169.254', '1.1.1.1'];
        const script = `
          reach() {
            timeout 2 bash -c "exec 3<>/dev/tcp/$1/$2 && echo reached $1" 2>/dev/null
            curl -s -m 2 "http://$1:$2/" 2>/dev/null
          }
          for host in ${hosts.join(' ')}; do reach $host ${port}; done
          reach 169.254.169.254 80; reach 1.1.1.1 53
          python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("\\0${name}"); print("reached")' 2>/dev/null
          true`;
        const result = await bash(script, { timeoutMs: 60_000 });
        assert.equal(result.reason, 'exit');
        assert.equal(stdoutOf(result), '');
        assert.deepEqual([hits(), abstract?.hits() ?? 0], [0, 0]);
      } finally {
        server.close();
        abstract?.server.close();
      }
    },
  },
  {
    name: 'a command has no rights that it could use against the host',
    needs: sharesKernel,
    async body({ bash, tell }) {
      // First, so that the attempts harm nothing: without rights they cannot.
      const status = await tell('cat /proc/self/status');
      for (const line of ['CapEff:\t0000000000000000', 'CapPrm:\t0000000000000000', 'NoNewPrivs:\t1'])
        assert(status.includes(line), `${line} is not in\n${status}`);
      const attempts = [
        'unshare -Ur true',
        'unshare -Urm mount -t tmpfs none /mnt',
        'mount -t tmpfs none /tmp',
        'mount -o remount,rw /',
        'umount /proc',
        'mknod /tmp/disk b 8 0',
        'chroot / true',
        ': >> /proc/sys/kernel/core_pattern',
        ': >> /proc/sysrq-trigger',
        ': >> /usr/bin/env',
      ];
      for (const attempt of attempts) assert.notEqual((await bash(attempt)).exitCode, 0, attempt);
    },
  },
  {
    name: 'a command that removes everything removes nothing of the host, and the next one runs',
    needs: isIsolated,
    async body({ outside, files, bash, tell, backend: { capabilities } }) {
      // Should the host be there against all promises, it must not be harmed.
      const guard = [outside.file, join(process.cwd(), 'package.json')]
        .map((path) => `[ ! -e '${path}' ]`)
        .join(' && ');
      assert.equal((await bash(guard)).exitCode, 0, 'the host is there');
      await files.write('file.txt', 'x');
      const flags = capabilities.hasPrograms ? '-rf --no-preserve-root' : '-rf';
      // What is its own first: all the rest may take it longer than it may compute.
      const result = await bash(`${guard} && rm ${flags} /workspace/* / 2>/dev/null; true`);
      assert.equal(result.reason, 'exit');
      assert.equal(await files.stat('file.txt'), null, 'it did nothing');
      assert.equal(await readFile(outside.file, 'utf8'), outside.text);
      assert.equal(await tell('echo on'), 'on\n');
      await files.write('again.txt', 'again');
      assert.equal(await tell('cat again.txt'), 'again');
    },
  },
];
