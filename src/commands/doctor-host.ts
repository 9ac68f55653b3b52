// What homard doctor looks at outside of the data: the runtime, the port, the model.
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Model } from '../kernel/index.ts';
import { AgentError } from '../kernel/index.ts';
import type { DoctorConfig, Finding, RunningServer } from './doctor.ts';

type Found = Omit<Finding, 'name'>;

const OLDEST_NODE = 24;
const CALL_MS = 30_000;

export function inspectRuntime(): Promise<Found> {
  const { node } = process.versions;
  if (Number.parseInt(node, 10) >= OLDEST_NODE) return Promise.resolve({ state: 'ok', message: node });
  const hint = `Install Node.js ${OLDEST_NODE} or newer.`;
  return Promise.resolve({ state: 'problem', message: `${node} is older than ${OLDEST_NODE}.`, hint });
}

export async function inspectPort({ host, port }: DoctorConfig, running: RunningServer | undefined): Promise<Found> {
  const place = `${host}:${port}`;
  if (running) return { state: 'ok', message: `the server has ${running.address} (process ${running.pid})` };
  const server = createServer();
  try {
    server.listen(port, host);
    await once(server, 'listening');
    return { state: 'ok', message: port === 0 ? 'any free one' : `${place} is free` };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE') {
      const hint = 'Stop the other program, or choose another port: HOMARD_PORT=4681 npm start.';
      return { state: 'problem', message: `${place} is used by another program.`, hint };
    }
    const hint = 'Choose an address of this machine in HOMARD_HOST, and a port that this user may use.';
    return { state: 'problem', message: `Nothing can listen on ${place} (${code}).`, hint };
  } finally {
    server.close();
  }
}

/** One live call. */
export async function inspectModel(findModel: () => Promise<Model>): Promise<Found> {
  const model = await findModel();
  if (model.name === 'demo') {
    const hint = 'Run "homard init", set OPENAI_API_KEY, DEEPSEEK_API_KEY or DASHSCOPE_API_KEY, or start Ollama.';
    return { state: 'warning', message: 'No model is configured: a scripted demo answers.', hint };
  }
  const began = performance.now();
  const question = {
    system: 'This is a connection test. Answer with one word.',
    messages: [{ role: 'user' as const, parts: [{ type: 'text' as const, text: 'Say: ok' }] }],
    tools: [],
  };
  const signal = AbortSignal.timeout(CALL_MS);
  try {
    await model.call(question, signal, () => undefined);
  } catch (error) {
    if (error instanceof AgentError || !signal.aborted) throw error;
    const hint = 'Look whether the host can be reached from here, and whether a proxy is needed.';
    return { state: 'problem', message: `${model.name} did not answer in ${CALL_MS / 1000} s.`, hint };
  }
  return { state: 'ok', message: `${model.name} answered in ${Math.round(performance.now() - began)} ms` };
}
