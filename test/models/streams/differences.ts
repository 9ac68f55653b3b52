export type PackageName = 'compatible' | 'deepseek';

/** Where we read otherwise than a package, on purpose. */
export interface Difference {
  because: string;
  /**
   * What the package makes of these streams: `fails` where we read an answer, `passes` where we see an error, other
   * `parts`, or the same parts with another reason or other counts at the `end`.
   */
  theirs: 'fails' | 'passes' | 'parts' | 'end';
  than: PackageName[];
  streams: string[];
}

const both: PackageName[] = ['compatible', 'deepseek'];

const counts: Difference[] = [
  {
    because: 'It counts cached tokens only in the field of DeepSeek; most hosts write prompt_tokens_details.',
    theirs: 'end',
    than: ['deepseek'],
    streams: [
      'OpenAI: service tier, fingerprint, obfuscation, log probabilities',
      'GLM: reasoning, whole calls with numbers, finish in the same chunk',
      'text with usage in a last chunk without choices',
    ],
  },
  {
    because: 'It does not know the field in which DeepSeek counts cached tokens.',
    theirs: 'end',
    than: ['compatible'],
    streams: ['DeepSeek: reasoning_content, usage beside the finish, cache hits in its own field'],
  },
  {
    because: 'xAI counts reasoning beside the output, but bills it as output.',
    theirs: 'end',
    than: both,
    streams: [
      'xAI: no finish_reason key, reasoning tokens counted beside the completion',
      'openai-compatible--xai-text',
      'openai-compatible--xai-tool-call',
      'xai--xai-text',
      'xai--xai-tool-call',
    ],
  },
  {
    because: 'Usage inside a choice or in the spelling of the responses API is usage, too.',
    theirs: 'end',
    than: both,
    streams: [
      'Kimi: usage inside the choice, cached_tokens at its top',
      'usage in the spelling of the responses API, then a chunk that counts nothing',
    ],
  },
  {
    because: 'Usage under x_groq is usage, too.',
    theirs: 'end',
    than: ['compatible'],
    streams: ['Groq: reasoning, usage under x_groq'],
  },
  {
    because: 'A later count of nothing does not undo the count before it.',
    theirs: 'end',
    than: both,
    streams: ['usage that counts nothing at the end'],
  },
];

const ends: Difference[] = [
  {
    because: 'A refusal is a whole answer in words of the model; content_filter says that the host cut it.',
    theirs: 'end',
    than: ['compatible'],
    streams: ['OpenAI: refused in pieces', 'a refusal is said as text'],
  },
  {
    because: 'An empty or "null" finish_reason is none, also after the real one.',
    theirs: 'fails',
    than: both,
    streams: [
      'Qwen: growing usage in each chunk, empty deltas, empty reasons, later ids empty, names null',
      'Qwen: "null" as the reason until the end',
    ],
  },
  {
    because: 'GLM says sensitive where others say content_filter.',
    theirs: 'fails',
    than: both,
    streams: ['GLM: ended as sensitive'],
  },
];

const words: Difference[] = [
  {
    because: 'It drops what the model says in a refusal.',
    theirs: 'parts',
    than: ['deepseek'],
    streams: ['OpenAI: refused in pieces', 'a refusal is said as text'],
  },
  {
    because: 'It reads reasoning_content only; many hosts write reasoning.',
    theirs: 'parts',
    than: ['deepseek'],
    streams: [
      'vLLM, newer: reasoning, calls by token',
      'Ollama: all calls numbered 0 and whole, finish "stop", reasoning',
      'OpenRouter: comments, reasoning with details, native reasons',
      'Groq: reasoning, usage under x_groq',
      'groq--groq-reasoning',
    ],
  },
  {
    because: 'Thinking may be one text instead of a list.',
    theirs: 'parts',
    than: ['compatible'],
    streams: ['Mistral: content as an array of thinking and text'],
  },
  {
    because: 'It takes no content but text; Mistral writes lists.',
    theirs: 'fails',
    than: ['deepseek'],
    streams: ['Mistral: content as an array of thinking and text', 'mistral--mistral-reasoning'],
  },
  {
    because: 'Content that is a number or one object is content: dropping the whole answer for it helps nobody.',
    theirs: 'fails',
    than: both,
    streams: ['content as a number', 'content as one object'],
  },
  {
    because: 'Half a character cannot be stored or sent on, so it becomes U+FFFD.',
    theirs: 'parts',
    than: both,
    streams: ['half a character, escaped', 'half a character that never becomes whole'],
  },
  {
    because: 'A second choice is another answer: it may not be mixed into the first.',
    theirs: 'parts',
    than: both,
    streams: ['two answers side by side (n = 2)'],
  },
];

const chunks: Difference[] = [
  {
    because: 'It demands "chat.completion.chunk" as the object; Azure and Perplexity have others.',
    theirs: 'fails',
    than: ['deepseek'],
    streams: [
      'Azure: filter results first, beside each delta and after the end',
      'openai--azure-model-router.1',
      'perplexity--perplexity-citations',
      'perplexity--perplexity-text',
    ],
  },
  {
    because: 'A gateway that cannot stream sends its whole answer as one event, with message in place of delta.',
    theirs: 'parts',
    than: ['compatible'],
    streams: ['a gateway that sends the whole answer as one event'],
  },
  {
    because: 'A gateway that cannot stream sends its whole answer as one event, of another object.',
    theirs: 'fails',
    than: ['deepseek'],
    streams: ['a gateway that sends the whole answer as one event'],
  },
  {
    because: 'A host that cannot stream answers with one JSON text.',
    theirs: 'fails',
    than: both,
    streams: ['a JSON body that is a whole answer'],
  },
  {
    because: 'Nobody needs the role, so a wrong one is no reason to fail.',
    theirs: 'fails',
    than: both,
    streams: ['the role of a tool'],
  },
  { because: 'An empty role is no role.', theirs: 'fails', than: ['deepseek'], streams: ['an empty role'] },
  {
    because: 'An event that holds nothing of the answer is a ping.',
    theirs: 'fails',
    than: both,
    streams: ['pings that are data', 'an event without choices'],
  },
  {
    because: 'An error that is null is none.',
    theirs: 'fails',
    than: ['compatible'],
    streams: ['error: null in each chunk'],
  },
  { because: 'A list of one chunk is a chunk.', theirs: 'fails', than: both, streams: ['each chunk in a list'] },
];

const frames: Difference[] = [
  {
    because: 'The body may end without a blank line: an answer that says that it is complete, is.',
    theirs: 'fails',
    than: both,
    streams: ['no line end at the end'],
  },
  {
    because: 'Each line that is JSON by itself is an event: some proxies swallow blank lines.',
    theirs: 'fails',
    than: both,
    streams: ['one line end between the events'],
  },
  {
    because: '[DONE] may have blanks around it.',
    theirs: 'fails',
    than: both,
    streams: ['two blanks after data:'],
  },
  { because: 'Nothing of an answer comes after [DONE].', theirs: 'parts', than: both, streams: ['text after [DONE]'] },
];

const calls: Difference[] = [
  {
    because: 'It demands a number for each call; Gemini, Mistral and older servers send none.',
    theirs: 'fails',
    than: ['deepseek'],
    streams: [
      'Ollama, older: whole calls without numbers',
      'Gemini: calls without numbers, thought signatures',
      'Mistral: a whole call without index, finish in the same chunk',
      'missing index: two whole calls in one chunk, without ids',
      'missing index: pieces follow by id, then by being last',
      'a number is missing at first and there later',
      'mistral--mistral-tool-call',
    ],
  },
  {
    because: 'Arguments that are an object already are arguments.',
    theirs: 'fails',
    than: both,
    streams: ['arguments as an object', 'arguments null, then an object'],
  },
  {
    because: 'A call that comes again, whole, is not to be run twice.',
    theirs: 'parts',
    than: both,
    streams: ['the whole call again at the end', 'the arguments again at the end, written otherwise'],
  },
  {
    because: 'An empty object before the arguments stands for "none yet".',
    theirs: 'parts',
    than: both,
    streams: [
      'an empty object first, then the real arguments',
      'an empty object first, then all of it with id and name again',
    ],
  },
  {
    because: 'A name may come in pieces, as arguments do.',
    theirs: 'parts',
    than: both,
    streams: ['the name in two pieces'],
  },
  {
    because: 'function_call is the older spelling of tool_calls, and its end is a word of its own.',
    theirs: 'fails',
    than: ['deepseek'],
    streams: ['the old function_call'],
  },
  {
    because: 'function_call is the older spelling of tool_calls.',
    theirs: 'parts',
    than: ['compatible'],
    streams: ['the old function_call'],
  },
  {
    because: 'An entry of tool_calls that holds nothing is skipped.',
    theirs: 'fails',
    than: both,
    streams: ['broken and empty entries of tool_calls'],
  },
];

export const differences: Difference[] = [...counts, ...ends, ...words, ...chunks, ...frames, ...calls];
