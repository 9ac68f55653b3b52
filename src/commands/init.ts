// homard init: asks for provider, key and model, tries them by one live call, and saves what answered; through the running
// server, which uses it at once, or else in the data directory.
import { parseArgs } from 'node:util';
import * as z from 'zod';
import { AgentError, defineErrors, messageOf } from '../kernel/index.ts';
import type { ModelsConfig } from '../models/config.ts';
import type { SetupChoice } from '../models/setup.ts';
import { createSetup } from '../models/setup.ts';
import { createClient } from '../terminal/client.ts';
import type { Input } from '../terminal/input.ts';
import { createInput } from '../terminal/input.ts';
import type { Screen } from '../terminal/screen.ts';
import { createScreen } from '../terminal/screen.ts';
import { toDuration, toLine } from '../terminal/style.ts';

export const initError = defineErrors('init', {
  invalid_arguments: {
    status: 400,
    hint: 'homard init [--provider NAME] [--base-url ADDRESS] [--model NAME]; the key is asked for, or read as a line from a pipe.',
  },
  unknown_provider: { status: 400, hint: 'Give one of the numbers or names of the list.' },
  no_answer: { status: 400, hint: 'Start it again; give what it asks for, or --provider and --model.' },
});

export interface InitPlan {
  /** What follows `init` on the command line. */
  arguments: string[];
  /** The server that runs on this data directory. */
  server: { address: string; token: string | undefined } | undefined;
  /** The data directory. */
  directory: string;
  config: ModelsConfig;
  environment: Record<string, string | undefined>;
}

/** What is asked for here, of what a server of this version or another says. */
const description = z.object({
  providers: z
    .array(
      z.object({
        id: z.string(),
        label: z.string(),
        needsKey: z.boolean(),
        needsBaseUrl: z.boolean(),
        baseUrl: z.string().nullable(),
        exampleBaseUrl: z.string().nullable(),
        exampleModel: z.string().nullable(),
        hasKey: z.boolean(),
      }),
    )
    .min(1),
  current: z.object({ provider: z.string(), model: z.string() }),
  overriddenBy: z.array(z.object({ setting: z.string(), by: z.string() })),
});
type Description = z.output<typeof description>;
type Provider = Description['providers'][number];

const answered = z.object({ ms: z.number(), text: z.string() });

/** Where the choice is tried and kept. */
interface Place {
  describe(): Promise<Description>;
  /** Throws why the model did not answer. */
  save(choice: SetupChoice): Promise<z.output<typeof answered>>;
}

/** Resolves to the exit code. */
export async function init(plan: InitPlan): Promise<number> {
  const given = parse(plan.arguments);
  const screen = createScreen({ stdout: process.stdout, stderr: process.stderr, environment: plan.environment });
  const input = createInput(process.stdin, process.stderr);
  const place = plan.server ? placeOf(plan.server) : await createPlace(plan, screen);
  try {
    const { providers, current } = await place.describe();
    let usual: Usual = current;
    for (;;) {
      const choice = await ask({ screen, input }, { providers, usual, given });
      usual = choice;
      screen.status(() => `Asking ${choice.model} …`);
      try {
        const { ms, text } = await place.save(choice);
        screen.row(`${screen.style.green('✓')} ${toLine(choice.model)} answered in ${toDuration(ms)}: ${toLine(text)}`);
        break;
      } catch (error) {
        if (!(error instanceof AgentError)) throw error;
        screen.row(screen.style.red(`✗ ${toLine(error.message)}`));
        screen.row(`  ${toLine(error.hint)} (${error.code})`);
        if (!input.isLive) return 1;
        screen.row('Nothing was saved. Once more, or Ctrl-C:');
      }
    }
    for (const { setting, by } of (await place.describe()).overriddenBy) {
      screen.row(screen.style.yellow(`! Not used: the ${setting}, because ${by} goes first.`));
    }
    screen.row(
      plan.server ? 'Saved. The running server uses it from now on.' : 'Saved. Now: homard start, or homard chat',
    );
    return 0;
  } finally {
    input.close();
  }
}

function placeOf({ address, token }: NonNullable<InitPlan['server']>): Place {
  const client = createClient({ fetch, address, ...(token !== undefined && { token }) });
  return {
    describe: async () => description.parse(await client.call('GET', '/setup')),
    save: async (choice) => answered.parse(await client.call('POST', '/setup', choice)),
  };
}

async function createPlace({ directory, config, environment }: InitPlan, screen: Screen): Promise<Place> {
  const warn = (message: string) => screen.row(screen.style.yellow(`! ${message}`));
  const setup = await createSetup({ directory, config, environment, warn });
  return {
    describe: async () => setup.describe(),
    async save(choice) {
      const trial = await setup.save(choice);
      if (trial.ok) return trial;
      const { code, message, hint } = trial.error;
      throw new AgentError(code, { status: 502, hint }, message);
    },
  };
}

interface Desk {
  screen: Screen;
  input: Input;
}

/** What counts where a person only presses Enter: what is set up, or what was given the last time. */
type Usual = Pick<SetupChoice, 'provider' | 'model'> & Partial<Pick<SetupChoice, 'baseUrl'>>;

interface Questions {
  providers: Provider[];
  usual: Usual;
  given: ReturnType<typeof parse>;
}

async function ask(desk: Desk, questions: Questions): Promise<SetupChoice> {
  const { given, usual } = questions;
  const provider = await askProvider(desk, questions);
  const { exampleBaseUrl, exampleModel, hasKey, needsKey } = provider;
  const isSame = usual.provider === provider.id;
  const usualUrl = (isSame ? usual.baseUrl : undefined) ?? provider.baseUrl ?? exampleBaseUrl ?? '';
  const baseUrl =
    given['base-url'] ?? (provider.needsBaseUrl ? await askLine(desk, 'Address', { usual: usualUrl }) : undefined);
  const keyHint = hasKey ? 'empty: the one that is known' : needsKey ? 'not shown' : 'empty: none';
  const apiKey = await askLine(desk, `Key (${keyHint})`, { isHidden: true, mayBeEmpty: hasKey || !needsKey });
  const usualModel = (isSame ? usual.model : exampleModel) ?? '';
  const model = given.model ?? (await askLine(desk, 'Model', { usual: usualModel }));
  return { provider: provider.id, model, baseUrl: baseUrl || undefined, apiKey: apiKey || undefined };
}

async function askProvider({ screen, input }: Desk, { providers, usual, given }: Questions): Promise<Provider> {
  const find = (text: string) => providers.find(({ id }, i) => id === text.trim() || String(i + 1) === text.trim());
  if (given.provider === undefined) {
    screen.row('Which provider shall answer?');
    for (const [i, { id, label, hasKey }] of providers.entries()) {
      screen.row(`  ${i + 1}  ${label}${screen.style.dim(` ${id}${hasKey ? ', its key is known' : ''}`)}`);
    }
  }
  const first = find(usual.provider) ?? providers.find(({ hasKey }) => hasKey) ?? providers[0];
  const text = given.provider ?? (await askLine({ screen, input }, 'Provider', { usual: first?.id ?? '' }));
  const found = find(text);
  if (found) return found;
  throw initError(
    'unknown_provider',
    `"${text}" is none of the providers: ${providers.map(({ id }) => id).join(', ')}.`,
  );
}

interface LineRules {
  /** Where nothing is typed. */
  usual?: string;
  isHidden?: boolean;
  mayBeEmpty?: boolean;
}

async function askLine(
  { input }: Desk,
  what: string,
  { usual = '', isHidden = false, mayBeEmpty = false }: LineRules,
): Promise<string> {
  for (;;) {
    const line = await input.ask(`${what}${usual ? ` [${usual}]` : ''}: `, { isHidden });
    if (line === null) throw initError('no_answer', `Nothing was saved: "${what}" has no answer.`);
    const text = line.trim() || usual;
    if (text || mayBeEmpty) return text;
    if (!input.isLive) throw initError('no_answer', `Nothing was saved: "${what}" has no answer.`);
  }
}

function parse(given: string[]) {
  try {
    const string = { type: 'string' } as const;
    return parseArgs({ args: given, options: { provider: string, 'base-url': string, model: string } }).values;
  } catch (error) {
    throw initError('invalid_arguments', messageOf(error).split('. ')[0] ?? '', { cause: error });
  }
}
