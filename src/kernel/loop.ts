// One run, from its claim to its end: model, tool calls, results, until done, stopped, waiting or limited. Each thing is
// committed before it is shown, and a call is committed as started before it begins; so whoever claims the run after a
// crash goes on from the same rows.
import type { Assembly, RunEnvironment } from './assembly.ts';
import { specsOf } from './assembly.ts';
import type { Checked } from './calls.ts';
import { check, execute, failed, outcomeUnknown, recover, toCallParts, untilAborted } from './calls.ts';
import { emptyAnswer, gaveUp, MOST_ATTEMPTS, noFinal, timedOut, toReason } from './endings.ts';
import { AgentError, messageOf } from './errors.ts';
import type { EndReason, Outcome } from './events.ts';
import type { Claim, EntryBody, Step, StepChange } from './journal.ts';
import type { End } from './ledger.ts';
import { createLedger, LostRun } from './ledger.ts';
import type { Live } from './live.ts';
import type { Ask, ToolCallPart, ToolResultBody, Usage } from './messages.ts';
import { addUsage, callsOf, noUsage, textOf } from './messages.ts';
import type { RunContext } from './middleware.ts';
import type { ModelFinish, ModelRequest } from './model.ts';
import type { Answer } from './policy.ts';
import { project } from './project.ts';
import { runStart } from './replay.ts';
import { unmask } from './shown.ts';
import type { Tool } from './tool.ts';

/** Advances a claimed run as far as it goes. Resolves to the conversation's next run, claimed with this one's end. */
export async function advance(claim: Claim, assembly: Assembly, environment: RunEnvironment): Promise<Claim | null> {
  const run = createRun(claim, assembly, environment);
  try {
    const ended = await run.resume();
    if (ended) return ended.claim;
    for (;;) {
      if (environment.stopped()) return await run.stop();
      const next = (await run.settle()) ?? (await run.ask());
      if (next) return next.claim;
    }
  } catch (error) {
    if (error instanceof LostRun) return null;
    throw error;
  }
}

interface OpenCall {
  step: number;
  part: ToolCallPart;
  state: Step['state'];
  answer?: Answer;
  /** Checked in this very process, so ready to execute. */
  allowed?: Extract<Checked, { state: 'allowed' }>;
}

function createRun(claim: Claim, assembly: Assembly, environment: RunEnvironment) {
  const { live, signal, stopped, mask } = environment;
  const show = (text: string) => (mask ? String(mask(text)) : text);
  const { limits, tools, middleware } = assembly;
  const { run, tenant, owner, conversation } = claim;
  const context: RunContext = { run, tenant, owner, conversation };
  const specs = specsOf(tools);
  const begun = performance.now() - claim.ageMs;
  const taken = new Set<string>();
  const ledger = createLedger(claim, environment);
  const { commit } = ledger;
  let open: OpenCall[] = [];
  let nextStep = 0;
  let modelSteps = 0;
  let isNudged = false;
  let hasRepaired = false;
  let usage: Usage = noUsage;

  /** Reads what the run needs of the record: the window, and after a take-over what its steps were doing. */
  async function resume(): Promise<End | undefined> {
    try {
      await read();
      return claim.attempts < MOST_ATTEMPTS ? undefined : await fail(gaveUp(claim.attempts));
    } catch (error) {
      // What cannot be read stays as it is: the run ends without adding to it.
      if (error instanceof AgentError && error.code === 'journal.state_unreadable') return await fail(error);
      throw error;
    }
  }

  async function read(): Promise<void> {
    const record = await ledger.read(assembly.window);
    if (!record) return live.committed(0, [runStart(claim, claim.startedAt)]);
    const parts = new Map<string, ToolCallPart>();
    for (const entry of record.entries) {
      if (entry.kind !== 'assistant') continue;
      usage = addUsage(usage, entry.body.usage);
      for (const part of callsOf(entry.body.parts)) parts.set(part.id, part);
    }
    for (const step of record.steps) {
      nextStep = Math.max(nextStep, step.n + 1);
      if (step.kind === 'model') modelSteps++;
      const part = parts.get(step.call ?? '');
      if (!part) continue;
      taken.add(part.id);
      if (step.state !== 'done') {
        const answer = step.answer && asMeant(step.answer, part);
        open.push({ step: step.n, part, state: step.state, ...(answer && { answer }) });
      }
    }
    const isAnswered = open.some(({ state }) => state === 'ready');
    if (claim.epoch > 1 && !isAnswered)
      live.notify({ type: 'warning', code: 'run.continued', message: 'This run was continued.' });
  }

  /** Who edits arguments sees them masked. */
  const asMeant = (answer: Answer, { args }: ToolCallPart): Answer =>
    mask && answer.args !== undefined ? { ...answer, args: unmask(answer.args, args, mask) } : answer;

  /** Another worker goes on: what came of an aborted check or call is not for the record. */
  function leaveIfLost(): void {
    const why = stopped();
    if (why === 'lost' || why === 'shutdown') throw new LostRun();
  }

  const doneStep = (n: number, part: ToolCallPart): StepChange => ({ n, kind: 'tool', call: part.id, state: 'done' });

  /** Brings every open call to its end, or to a person. Undefined: nothing is open, the model is next. */
  async function settle(): Promise<End | undefined> {
    if (!open.length) return undefined;
    const results: { call: OpenCall; body: ToolResultBody }[] = [];
    for (const call of open) {
      if (call.state === 'awaiting' || call.allowed) continue;
      const body = await prepare(call);
      if (body) results.push({ call, body });
    }
    const fresh = open.filter((call) => call.state === 'ready' && call.allowed);
    for (const { part, answer, step, state } of open) {
      if (!answer || state !== 'ready') continue;
      const { effect, comment } = answer;
      const id = `${run}:${step}`;
      live.notify({ type: 'approval_decision', id, call: part.id, effect, ...(comment && { comment }) });
    }
    if (fresh.length) {
      leaveIfLost();
      const steps = fresh.map(({ step, part }) => ({ ...doneStep(step, part), state: 'started' as const }));
      await commit('running', { steps });
    }
    return await executeAll(results);
  }

  /** Decides what to do with a call of the record: its result, or undefined when it is to be executed. */
  async function prepare(call: OpenCall): Promise<ToolResultBody | undefined> {
    const { part, step, state, answer } = call;
    if (state === 'started') {
      const recovered = await recover(part, tools.get(part.name), { key: `${run}:${step}`, signal });
      if (recovered !== 'again') return recovered;
    }
    // What was started had been allowed; policy decides anew for what a person answered.
    const known = state === 'started' ? { effect: 'allow' as const, by: 'record', ...answer } : answer;
    const checked = await check(part, assembly, { context, signal, ...(known && { answer: known }) });
    if (checked.state === 'allowed') {
      call.allowed = checked;
      return undefined;
    }
    if (state === 'started') return outcomeUnknown(part, `It was not repeated: ${checked.why}`);
    return checked.state === 'asks'
      ? failed(part, `Not executed: ${checked.why}`, { fault: 'stopped' })
      : checked.result;
  }

  /** Executes what is allowed, all at once, and commits results as they come; those that come together share a commit. */
  async function executeAll(results: { call: OpenCall; body: ToolResultBody }[]): Promise<End | undefined> {
    let pending = 0;
    let wake: () => void = () => undefined;
    for (const call of open) {
      if (!call.allowed) continue;
      pending++;
      void executeCall(call, call.allowed).then((body) => {
        pending--;
        results.push({ call, body });
        wake();
      });
    }
    for (;;) {
      if (!results.length && pending) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      leaveIfLost();
      const batch = results.splice(0).sort((a, b) => a.call.step - b.call.step);
      open = open.filter((call) => !batch.some((done) => done.call === call));
      const waits = !pending && open.length > 0 && !stopped();
      if (batch.length || waits) {
        const end = await commit(waits ? 'waiting' : 'running', {
          entries: batch.map(({ call, body }) => ({ kind: 'tool_result' as const, body: withEdit(call, body) })),
          steps: batch.map(({ call }) => doneStep(call.step, call.part)),
        });
        if (waits) return end;
      }
      if (!pending && !results.length) return undefined;
    }
  }

  function executeCall(
    { part, step }: OpenCall,
    { tool, args }: NonNullable<OpenCall['allowed']>,
  ): Promise<ToolResultBody> {
    const output = (text: string) => live.notify({ type: 'tool_output', id: part.id, text: show(text) });
    const timeoutMs = tool.timeoutMs ?? limits.toolMs;
    const key = `${run}:${step}`;
    const scrubber = assembly.scrub?.();
    return execute({ call: part, tool, args, key, timeoutMs, context, middleware, output, scrubber }, signal);
  }

  /** One model step: asks, and commits the answer with its calls. Undefined: there are calls to settle, or ask again. */
  async function ask(): Promise<End | undefined> {
    if (stopped()) return undefined;
    if (modelSteps >= limits.steps)
      return await end('max_steps', `The run reached its limit of ${limits.steps} model calls.`);
    modelSteps++;
    const raw: { id: string; name: string; args: string }[] = [];
    let answer: ModelFinish;
    try {
      answer = await callModel(raw);
    } catch (error) {
      return stopped() ? undefined : await fail(error);
    }
    if (stopped()) return undefined;
    usage = addUsage(usage, answer.usage);
    const isCut = toReason(answer.reason) !== 'done';
    const parts = [...live.open().parts, ...toCallParts(raw, { taken, tools, firstStep: nextStep + 1, isCut })];
    const calls = callsOf(parts);
    const { output } = assembly;
    if (output && calls.some(({ name }) => name === output.tool.name))
      return await takeFinal(output, { parts, answer });
    const isMissing = output !== undefined || !textOf(parts);
    if (!calls.length && isMissing && answer.reason === 'stop') {
      if (!isNudged) {
        isNudged = true;
        return await record(parts, answer, 'running');
      }
      const model = answer.model ?? assembly.model.name;
      if (output) return await fail(noFinal(model, output.tool.name));
      if (!parts.length) return await fail(emptyAnswer(model));
    }
    return await record(parts, answer, calls.length ? 'running' : 'done');
  }

  /** The run ends with a final answer that is valid; one that is not may be repaired once. */
  async function takeFinal(
    { tool, take }: NonNullable<Assembly['output']>,
    { parts, answer }: Answered,
  ): Promise<End | undefined> {
    const calls = callsOf(parts);
    for (const call of calls) {
      if (call.name !== tool.name || call.raw !== undefined) continue;
      const valid = await untilAborted(tool.validate(call.args), signal);
      if ('problem' in valid) continue;
      const told = (other: ToolCallPart): ToolResultBody =>
        other === call
          ? { call: call.id, name: call.name, result: 'Taken as the final answer.', ms: 0 }
          : failed(other, 'Not executed: the final answer was given.', { fault: 'stopped' });
      const entries = calls.map((other): EntryBody => ({ kind: 'tool_result', body: told(other) }));
      const steps = [modelStep(answer), ...calls.map((other) => doneStep(nextStep++, other))];
      const outcome: Outcome = { ...ended('done'), final: take(call.args) };
      return await commit('done', { entries: [answerEntry({ parts, answer }, []), ...entries], steps, outcome });
    }
    if (hasRepaired) return await fail(noFinal(answer.model ?? assembly.model.name, tool.name));
    hasRepaired = true;
    return await record(parts, answer, 'running');
  }

  function modelStep({ usage: used, model = assembly.model.name }: ModelFinish): StepChange {
    return { n: nextStep++, kind: 'model', call: null, state: 'done', usage: used, model };
  }

  function answerEntry({ parts, answer }: Answered, asks: Ask[]): EntryBody {
    const { voided } = live.open();
    const { model = assembly.model.name, usage: used } = answer;
    const body = { parts, model, usage: used, ...(voided && { voided }), ...(asks.length && { asks }) };
    return { kind: 'assistant', body };
  }

  async function callModel(raw: { id: string; name: string; args: string }[]): Promise<ModelFinish> {
    const messages = project(ledger.entries, assembly.window);
    const last = ledger.entries.at(-1);
    if (isNudged && last?.kind === 'assistant') {
      messages.push({ role: 'user', parts: [{ type: 'text', text: nudgeFor(assembly.output?.tool) }] });
    }
    const { system, loadFile, window } = assembly;
    const files = loadFile && { load: loadFile, windowTokens: window.tokens };
    let request: ModelRequest = { system, messages, tools: specs, ...files };
    for (const layer of middleware)
      if (layer.model) request = await untilAborted(layer.model(request, context), signal);
    const answer = assembly.model.call(request, signal, (part) => {
      if (signal.aborted) return;
      if (part.type === 'text' || part.type === 'reasoning') {
        live.stream(part.type, part.text, part.type === 'reasoning' ? part.metadata : undefined);
      } else if (part.type === 'tool_call') raw.push(part);
      else if (part.type === 'warning') live.notify(part);
      else {
        raw.length = 0;
        live.restart();
      }
    });
    return await untilAborted(answer, signal);
  }

  /** Commits an answer; its calls are checked first, and those allowed are `started` by the same commit. */
  async function record(parts: Parts, answer: ModelFinish, status: 'running' | 'done'): Promise<End | undefined> {
    const steps: StepChange[] = [modelStep(answer)];
    const asks: Ask[] = [];
    const settled: EntryBody[] = [];
    for (const part of callsOf(parts)) {
      const step = nextStep++;
      const checked = await check(part, assembly, { context, signal });
      const state = checked.state === 'allowed' ? 'started' : checked.state === 'asks' ? 'awaiting' : 'done';
      steps.push({ ...doneStep(step, part), state });
      if (checked.state === 'settled') settled.push({ kind: 'tool_result', body: checked.result });
      else open.push({ step, part, state, ...(checked.state === 'allowed' && { allowed: checked }) });
      if (checked.state === 'asks') {
        asks.push({ call: part.id, step, why: checked.why, ...(checked.rule !== undefined && { rule: checked.rule }) });
      }
    }
    leaveIfLost();
    const added = [answerEntry({ parts, answer }, asks), ...settled];
    if (status === 'running') {
      const waits = open.length > 0 && open.every((call) => call.state === 'awaiting');
      const committed = await commit(waits ? 'waiting' : 'running', { entries: added, steps });
      return waits ? committed : undefined;
    }
    return await commit('done', { entries: added, steps, outcome: ended(toReason(answer.reason)) });
  }

  const elapsed = () => Math.round(performance.now() - begun);
  const ended = (reason: EndReason): RunEnd => ({ type: 'run_end', reason, usage, ms: elapsed() });

  async function end(reason: EndReason, message: string): Promise<End> {
    const notice: EntryBody = { kind: 'notice', body: { code: `run.${reason}`, message } };
    return await commit('done', { entries: [notice], outcome: ended(reason) });
  }

  /** What was shown of an answer that will not be finished, so that the next turn knows of it. */
  function partial(): EntryBody[] {
    const { parts, voided } = live.open();
    if (!parts.length && !voided) return [];
    const model = assembly.model.name;
    return [
      { kind: 'assistant', body: { parts, model, usage: noUsage, interrupted: true, ...(voided && { voided }) } },
    ];
  }

  /** What is true of the calls that this run leaves open. */
  function abandon(why: string): { entries: EntryBody[]; steps: StepChange[] } {
    const entries = open.map(({ part, state, allowed }): EntryBody => {
      // What is `allowed` here was to be started and did not come to it: settle() ends whatever it starts.
      const hasBegun = state === 'started' && !allowed;
      const told = hasBegun
        ? `Stopped because ${why}. It may or may not have taken effect.`
        : `Not executed because ${why}.`;
      return { kind: 'tool_result', body: failed(part, told, { fault: hasBegun ? 'outcome_unknown' : 'stopped' }) };
    });
    return { entries, steps: open.map(({ step, part }) => doneStep(step, part)) };
  }

  async function fail(error: unknown): Promise<End> {
    const known = error instanceof AgentError;
    const code = known ? error.code : 'run.failed';
    const message = messageOf(error);
    const hint = known ? error.hint : 'Send the message again. If it fails again, look at the server log.';
    const outcome: Outcome = { type: 'error', code, message, hint, usage, ms: elapsed() };
    if (code === 'journal.state_unreadable') return await commit('failed', { outcome });
    const { entries, steps } = abandon('the run failed');
    const notice: EntryBody = { kind: 'notice', body: { code, message, hint } };
    return await commit('failed', { entries: [...partial(), ...entries, notice], steps, outcome });
  }

  /** The run was stopped from outside: ends it, unless another worker goes on. */
  async function stop(): Promise<Claim | null> {
    leaveIfLost();
    if (stopped() === 'timeout') return (await fail(timedOut(limits.runMs))).claim;
    const { entries, steps } = abandon('the run was cancelled');
    const end = await commit('cancelled', { entries: [...partial(), ...entries], steps, outcome: ended('cancelled') });
    return end.claim;
  }

  return { resume, settle, ask, stop };
}

function withEdit({ answer }: OpenCall, body: ToolResultBody): ToolResultBody {
  return answer?.args === undefined ? body : { ...body, args: answer.args };
}

/** Asked once when a model only thought, or said nothing; or did not give the final answer in its form. */
const nudgeFor = (output: Tool | undefined) =>
  output ? `Please give your final answer now, by calling ${output.name}.` : 'Please give your answer now, as text.';

type RunEnd = Extract<Outcome, { type: 'run_end' }>;

interface Answered {
  parts: Parts;
  answer: ModelFinish;
}

type Parts = ReturnType<Live['open']>['parts'][number] extends infer P ? (P | ToolCallPart)[] : never;
