// Attacks that reach for what is not theirs: files, secrets, neighbours, the network, rights.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stderrOf, stdoutOf } from '../../src/testing/sandbox-bench.ts';
import type { Attack } from './attack.ts';

const environment: Attack = {
  name: 'SBX-07 environment of the server',
  isMain: true,
  async run({ bash }) {
    const canary = `canary-${crypto.randomUUID()}`;
    process.env['HOMARD_CANARY'] = canary;
    try {
      const result = await bash(`
        env
        cat /proc/*/environ /proc/*/task/*/environ /proc/*/cmdline /proc/self/mountinfo 2>/dev/null
        tr '\\0' '\\n' </proc/1/environ
      `);
      assert.equal(result.reason, 'exit');
      assert(!stdoutOf(result).includes('HOMARD_CANARY') && !stdoutOf(result).includes(canary));
      assert(stdoutOf(result).includes('HOME=/workspace'), 'the attack was run');
      return `refused: ${result.stdout.head.byteLength} bytes of environments and arguments, none of the server`;
    } finally {
      delete process.env['HOMARD_CANARY'];
    }
  },
};

const files: Attack = {
  name: 'files of the host',
  isMain: true,
  async run({ bash, outside }) {
    const paths = [
      outside.file,
      '/etc/shadow',
      '/etc/hostname',
      join(process.env['HOME'] ?? '/root', '.profile'),
      join(process.cwd(), 'package.json'),
      '/var/run/docker.sock',
      '/run/docker.sock',
      '/var/log',
      '/root',
      '/home',
      '/boot',
      '/sys/kernel',
      '/dev/vda',
      '/dev/sda',
      '/dev/mem',
      '/dev/kvm',
    ];
    const result = await bash(`
      for path in ${paths.map((path) => `'${path}'`).join(' ')}; do
        for root in '' /proc/1/root /proc/self/root /proc/$$/root/.. /slot/.. /workspace/../.. /usr/..; do
          [ -e "$root$path" ] && echo "$root$path"
        done
      done
      cat /proc/kcore 2>/dev/null | head -c 10
      ls /slot/.. | tr '\\n' ' '
    `);
    const text = stdoutOf(result);
    assert.match(text, /^bin dev etc lib.* usr workspace $/, `it sees ${text}`);
    return `refused: none of ${paths.length} paths is there; / has ${text.trim()}`;
  },
};

const neighbours: Attack = {
  name: 'files and processes of another conversation',
  isMain: true,
  async run({ another, bash, slot }) {
    const secret = crypto.randomUUID();
    const victim = await another();
    await victim.files.write('secret.txt', secret);
    const working = victim.execution.exec({
      argv: ['bash', '-c', 'cd /workspace; exec 7<secret.txt; sleep 1.5'],
      env: { SECRET: secret },
    });
    const result = await bash(`
      cat ${victim.slot.directory}/ws/secret.txt /slot/../*/ws/secret.txt /proc/*/root/workspace/secret.txt /proc/*/cwd/secret.txt
      cat /proc/*/fd/7 /proc/*/environ
      for pid in $(seq 2 400) $PPID; do cat /proc/$pid/root/slot/ws/secret.txt; kill -9 $pid; done
      mv /slot/ws /slot/moved
      ls ${slot.directory}/.. ${slot.directory}
    `);
    assert(!stdoutOf(result).includes(secret) && !stdoutOf(result).includes('secret.txt'));
    const ended = await working;
    assert.deepEqual([ended.reason, ended.exitCode], ['exit', 0], 'the neighbour was left alone');
    return 'refused: neither files nor processes of the neighbour are seen or ended';
  },
};

const links: Attack = {
  name: 'links that are exchanged while the host reads',
  isMain: true,
  async run({ bash, files: ours, outside }) {
    await bash(`mkdir -p a b; echo ours >a/outside.txt; ln -s '${outside.directory}' c; ln -s '${outside.file}' d`);
    for (const path of ['c/outside.txt', 'd']) {
      await assert.rejects(ours.read(path), { code: 'sandbox.path_refused' });
      await assert.rejects(ours.write(path, 'harm'), { code: 'sandbox.path_refused' });
    }
    const swapping = bash(`while :; do mv -T a x; mv -T c a; mv -T a c; mv -T x a; done`, { timeoutMs: 2_000 });
    const seen = { ours: 0, refused: 0, missing: 0 };
    let isOver = false;
    void swapping.finally(() => {
      isOver = true;
    });
    while (!isOver) {
      try {
        const text = Buffer.from(await ours.read('a/outside.txt')).toString();
        assert.equal(text, 'ours\n');
        seen.ours++;
      } catch (error) {
        const { code } = error as { code?: string };
        if (code === 'sandbox.path_refused') seen.refused++;
        else if (code === 'sandbox.file_not_found') seen.missing++;
        else throw error;
      }
      const name = `new-${crypto.randomUUID()}`;
      await ours
        .write(`a/${name}`, 'harm')
        .catch((error: { code?: string }) => assert.match(String(error.code), /^sandbox\./));
    }
    assert.deepEqual(await namesIn(outside.directory), ['outside.txt']);
    return `refused: ${seen.ours} reads of our own file, ${seen.refused} refused, ${seen.missing} missed it, 0 led outside`;
  },
};

const namesIn = async (path: string) => (await import('node:fs/promises')).readdir(path);

/** Counts who comes, over the network and at an abstract socket. */
async function listen(): Promise<{ port: number; name: string; hits: () => number; close: () => void }> {
  let hits = 0;
  const name = `homard-attack-${crypto.randomUUID()}`;
  const servers = [0, 1].map(() =>
    createServer((socket) => {
      hits++;
      socket.end('reached');
    }),
  );
  servers[0]!.listen(0, '0.0.0.0');
  servers[1]!.listen(`\0${name}`);
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const address = servers[0]!.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return { port, name, hits: () => hits, close: () => servers.forEach((server) => server.close()) };
}

const network: Attack = {
  name: 'SBX-10 network',
  isMain: true,
  async run({ bash, backend }) {
    const canary = await listen();
    try {
      const result = await bash(
        `
        for address in 127.0.0.1 localhost 10.0.2.2 172.17.0.1 192.168.0.1 169.254.169.254 1.1.1.1; do
          for port in ${canary.port} 80 53; do
            timeout 1 bash -c "exec 3<>/dev/tcp/$address/$port && echo reached $address $port" 2>/dev/null
            timeout 1 bash -c "echo x >/dev/udp/$address/$port && echo sent $address $port" 2>/dev/null
          done
        done
        getent hosts example.com
        python3 - <<'END'
import socket
for family, address in ((socket.AF_UNIX, '\\0${canary.name}'), (40, (2, 22)), (40, (1, 22))):
    try:
        s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(1); s.connect(address); print('reached', address)
    except OSError as error: print('no', family, error.errno)
END
        true`,
        { timeoutMs: 60_000 },
      );
      const lines = stdoutOf(result).trim().split('\n');
      assert.deepEqual(
        lines.filter((line) => line.startsWith('reached')),
        [],
      );
      assert.equal(canary.hits(), 0);
      // Its own loopback takes what nobody listens to.
      const sent = lines.filter((line) => line.startsWith('sent') && !/ (127\.0\.0\.1|localhost) /.test(line));
      assert.deepEqual(sent, []);
      if (backend.kind === 'bwrap') assert(!lines.some((line) => line.startsWith('no 40') && !line.endsWith('97')));
      return `refused: 0 hits of the server, nothing reached; sockets by family: ${lines.filter((line) => line.startsWith('no')).join(', ')}`;
    } finally {
      canary.close();
    }
  },
};

/** Numbers of x86-64; a call that needs a right it does not have fails with EPERM, one that is filtered, too. */
const CALLS = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(*arguments)
    print(name, 'done' if result >= 0 else os.strerror(ctypes.get_errno()), sep='=')
buffer = ctypes.create_string_buffer(256)
call('mount', 165, b'none', b'/tmp', b'tmpfs', 0, None)
call('umount', 166, b'/proc', 2)
call('fsopen', 430, b'tmpfs', 0)
call('pivot_root', 155, b'/tmp', b'/tmp')
call('chroot', 161, b'/tmp')
call('unshare user', 272, 0x10000000)
call('unshare mount', 272, 0x20000)
call('setns', 308, os.open('/proc/self/ns/mnt', 0), 0)
call('setuid', 105, 0)
call('init_module', 175, buffer, 1, b'')
call('bpf', 321, 0, buffer, 120)
call('perf_event_open', 298, buffer, 0, -1, -1, 0)
call('open_by_handle_at', 304, 3, buffer, 0)
call('kexec_load', 246, 0, 0, None, 0)
call('reboot', 169, 0xfee1dead, 672274793, 0, None)
call('settimeofday', 164, ctypes.create_string_buffer(16), None)
call('sethostname', 170, b'x', 1)
call('mknod', 133, b'/tmp/device', 0o60666, 0xfe00)
call('syslog', 103, 3, buffer, 256)
call('swapon', 167, b'/tmp/x', 0)
call('ptrace', 101, 16, 1, 0, 0)
call('keyctl', 250, 0, -3, 0)
call('io_uring_setup', 425, 8, buffer)
call('userfaultfd', 323, 1)
call('kcmp', 312, os.getpid(), os.getpid(), 0, 0, 0)
`;
/** Only of use within the sandbox; a filter of system calls refuses them all the same. */
const HARMLESS = ['keyctl', 'io_uring_setup', 'userfaultfd', 'kcmp'];

const rights: Attack = {
  name: 'privileges by system calls',
  isMain: true,
  async run({ bash, backend }) {
    const result = await bash(`python3 -c "$CALLS"; grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status`, {
      env: { CALLS },
    });
    const lines = stdoutOf(result).trim().split('\n');
    const done = lines.filter((line) => line.endsWith('=done')).map((line) => line.replace('=done', ''));
    assert(lines.length > 25, `the attack was not run: ${stderrOf(result)}`);
    const allowed = backend.kind === 'bwrap' ? [] : HARMLESS;
    assert.deepEqual(
      done.filter((name) => !allowed.includes(name)),
      [],
    );
    for (const name of ['CapInh', 'CapPrm', 'CapEff', 'CapAmb'])
      assert(lines.includes(`${name}:\t0000000000000000`), name);
    assert(lines.includes('NoNewPrivs:\t1'));
    return `refused: ${lines.filter((line) => line.includes('=') && !line.endsWith('=done')).length} calls; done within the sandbox: ${done.join(', ') || 'none'}`;
  },
};

const escalation: Attack = {
  name: 'privileges by programs',
  async run({ bash, files: ours }) {
    const result = await bash(`
      id -u
      cp /usr/bin/id own; chmod 6755 own; ./own -u
      for program in /usr/bin/su /usr/bin/newgrp /usr/bin/passwd /usr/bin/mount; do
        [ -u $program ] && (timeout 1 $program </dev/null >/dev/null 2>&1; echo "$program $?" >&2)
      done
      unshare -r id -u; unshare -m true && echo mounted; nsenter -t 1 -a id -u
      sh -c 'echo 1 >/proc/sys/kernel/core_pattern' && echo wrote
      echo b >/proc/sysrq-trigger && echo wrote
      touch /usr/x /etc/x /x /dev/x /proc/x && echo wrote
      mount -o remount,rw / && echo mounted
      echo -1 >/proc/self/oom_score_adj && echo lowered
      true
    `);
    assert.deepEqual(stdoutOf(result).trim().split('\n'), ['1000', '1000']);
    assert((await ours.stat('own'))?.kind === 'file');
    return 'refused: uid 1000 before and after, nothing written, nothing mounted';
  },
};

const elsewhere: Attack = {
  name: 'folders that a command moves while the host works with them',
  async run({ bash, files: ours }) {
    const directory = mkdtempSync(join(tmpdir(), 'homard-elsewhere-'));
    try {
      writeFileSync(join(directory, 'target'), 'untouched');
      await bash(`ln -s '${directory}' up; mkdir -p deep; mkfifo pipe; ln /usr/bin/env hard || true`);
      for (const path of ['up/target', '../x', '/etc/passwd', 'deep/../../x', 'pipe', '/proc/self/root/etc/passwd']) {
        await assert.rejects(ours.read(path), /./, path);
        await assert.rejects(ours.write(path, 'harm'), /./, path);
      }
      await ours.remove('up');
      assert.deepEqual(await namesIn(directory), ['target'], 'only the link was removed');
      const began = performance.now();
      await Promise.race([ours.list('', { isRecursive: true }), sleep(2_000)]);
      assert(performance.now() - began < 2_000, 'a pipe holds up nobody');
      return 'refused: links, pipes and ways up are not opened; a removed link leaves its target';
    } finally {
      rmSync(directory, { recursive: true });
    }
  },
};

export const reachingAttacks: Attack[] = [
  environment,
  files,
  neighbours,
  links,
  network,
  rights,
  escalation,
  elsewhere,
];
