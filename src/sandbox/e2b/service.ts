// The account at E2B: machines are made, kept alive and ended here, and what dead servers left is found by its metadata.
import type { Sandbox as Machine, SandboxOpts } from 'e2b';
import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { messageOf } from '../../kernel/index.ts';
import { listProcesses } from './command.ts';
import type { Mirror } from './mirror.ts';
import { createMirror } from './mirror.ts';
import { sandboxError } from '../errors.ts';
import type { BackendConfig, Slot } from '../sandbox.ts';

const OPEN_MS = 30_000;
const CALL_MS = 10_000;
const INSTALL = 'npm install e2b@2.51.0';

export interface Service {
  /** A machine with a copy of the slot's workspace, within 30 s. Rejects with `sandbox.failed`; then nothing of it is left. */
  start(slot: Slot, signal: AbortSignal): Promise<Guest>;
  /** Ends the machines that servers of this host left which are no more. Those of other hosts end by themselves. */
  reap(): Promise<number>;
}

export interface Guest {
  readonly machine: Machine;
  readonly mirror: Mirror;
  /** The processes that ran before all commands. */
  readonly early: string;
  /** One more command, which keeps the machine alive until it is over. */
  hold(): Disposable;
  /** Ends the machine. Never rejects. */
  discard(): Promise<void>;
}

/** Rejects with `sandbox.unavailable` without the package or a key, and where the service refuses it. */
export async function createService(config: BackendConfig, lifeMs: number): Promise<Service> {
  const { apiKey, apiUrl = 'https://api.e2b.app', sandboxUrl, template } = config.e2b;
  if (!apiKey) {
    throw sandboxError('unavailable', 'The kind e2b needs a key, and there is none.', {
      hint: 'Set the environment variable E2B_API_KEY, or the one that sandbox.e2b.apiKeyEnv names.',
    });
  }
  const { Sandbox: Machines } = await loadSdk();
  // All is given here: what is absent, the SDK would take from the environment.
  const account = { apiKey, apiUrl, ...(sandboxUrl && { sandboxUrl }), debug: false, validateApiKey: false };
  const own = {
    homard: 'sandbox',
    homardHost: hostOf(),
    homardPid: String(process.pid),
    homardStarted: startOf(process.pid),
  };

  async function list(metadata: Record<string, string>) {
    const pages = Machines.list({ ...account, query: { metadata } });
    const found = [];
    while (pages.hasNext) found.push(...(await pages.nextItems({ requestTimeoutMs: CALL_MS })));
    return found;
  }
  const kill = (id: string) => Machines.kill(id, { ...account, requestTimeoutMs: CALL_MS });

  /** A creation that was given up may have succeeded. */
  async function killStray(homardMachine: string): Promise<void> {
    for (const { sandboxId } of await list({ homard: own.homard, homardMachine })) await kill(sandboxId);
  }

  async function start(slot: Slot, given: AbortSignal): Promise<Guest> {
    const signal = AbortSignal.any([given, AbortSignal.timeout(OPEN_MS)]);
    const homardMachine = crypto.randomUUID();
    const options: SandboxOpts = {
      ...account,
      timeoutMs: lifeMs,
      metadata: { ...own, homardMachine, homardSlot: slot.id },
      allowInternetAccess: config.network === 'host',
      signal,
    };
    let machine: Machine | undefined;
    try {
      signal.throwIfAborted();
      machine = await (template ? Machines.create(template, options) : Machines.create(options));
      const mirror = createMirror({ machine, slot, limits: config.limits, log: config.log });
      const [early] = await Promise.all([listProcesses(machine, signal), mirror.send('', signal)]);
      return createGuest({ machine, mirror, early, lifeMs, log: config.log, kill });
    } catch (cause) {
      await (machine ? kill(machine.sandboxId) : killStray(homardMachine)).catch((error: unknown) => {
        config.log.warn({ error: messageOf(error), homardMachine }, 'A machine of E2B may be left; it ends by itself');
      });
      throw sandboxError('failed', `No machine could be made: ${messageOf(cause)}`, { cause });
    }
  }

  try {
    await Machines.list({ ...account, limit: 1 }).nextItems({ requestTimeoutMs: CALL_MS });
  } catch (cause) {
    throw sandboxError('unavailable', `The service at ${apiUrl} refuses or is away: ${messageOf(cause)}`, {
      cause,
      hint: 'Check the key in E2B_API_KEY, and sandbox.e2b.apiUrl where it is set.',
    });
  }
  return {
    start,
    async reap() {
      const found = await list({ homard: own.homard, homardHost: own.homardHost });
      const left = found.filter(({ metadata }) => startOf(Number(metadata['homardPid'])) !== metadata['homardStarted']);
      for (const { sandboxId } of left) await kill(sandboxId);
      return left.length;
    },
  };
}

async function loadSdk() {
  try {
    return await import('e2b');
  } catch (cause) {
    throw sandboxError('unavailable', `The package e2b cannot be loaded: ${messageOf(cause)}`, {
      cause,
      hint: `Run "${INSTALL}" where homard is installed.`,
    });
  }
}

interface GuestParts extends Pick<Guest, 'machine' | 'mirror' | 'early'> {
  lifeMs: number;
  log: BackendConfig['log'];
  kill: (id: string) => Promise<boolean>;
}

function createGuest({ machine, mirror, early, lifeMs, log, kill }: GuestParts): Guest {
  let extendedAt = Date.now();
  let commands = 0;
  let timer: NodeJS.Timeout | undefined;
  const warn = (text: string) => (error: unknown) =>
    log.warn({ error: messageOf(error), machine: machine.sandboxId }, text);

  function extend(): void {
    if (Date.now() - extendedAt < lifeMs / 4) return;
    extendedAt = Date.now();
    machine.setTimeout(lifeMs).catch(warn('The life of a machine of E2B could not be extended'));
  }

  return {
    machine,
    mirror,
    early,
    hold() {
      extend();
      if (++commands === 1) timer = setInterval(extend, lifeMs / 3).unref();
      return {
        [Symbol.dispose]() {
          if (--commands === 0) clearInterval(timer);
        },
      };
    },
    async discard() {
      clearInterval(timer);
      await kill(machine.sandboxId).catch(warn('A machine of E2B could not be ended; it ends by itself'));
    },
  };
}

/** Numbers of processes mean something only within it. */
function hostOf(): string {
  try {
    return `${hostname()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    // No Linux: there is only one.
    return hostname();
  }
}

/** When a process began, as the kernel counts; '' where it is gone. Without /proc, only whether it is there. */
function startOf(pid: number): string {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name of the program comes before, in brackets, and may hold anything.
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch {
    return existsSync('/proc/self') || !isProcess(pid) ? '' : 'unknown';
  }
}

function isProcess(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
