// What the pictures show: a conversation with tools, a table and code, in both languages.
import { createPng } from './picture.ts';
import type { SharedServer } from './shared-server.ts';

export type Language = 'en' | 'zh';

const english = {
  question: 'How did October go, and how do I read the orders in code?',
  thought: 'The figures of October are needed first, then those of September to compare with.',
  answer: `October closed **8.1 % above September**. Returns stayed low:

| Month | Orders | Revenue | Returned |
|:------|-------:|--------:|---------:|
| September | 1,188 | €89,020 | 44 |
| October | 1,284 | €96,310 | 41 |

To read them yourself, ask for a page at a time:

\`\`\`ts
// One month of orders, newest first
const page = await orders.list({ month: '2026-10', limit: 100 });
for (const order of page.items) total += order.amountEur;
\`\`\`

Amounts are in euros, *without* tax, and \`returned\` counts parcels: see [the handbook](https://example.org/orders).`,
  failing: 'Sum up the year',
  failure: 'The quota of this month is used up.',
  running: 'Keep an eye on the bread',
  dish: 'bread',
  watching: 'Tell me what the server is doing',
  asking: 'Tell the team that we close early on Friday',
  mail: {
    to: 'team@example.org',
    subject: 'We close early on Friday',
    text: 'The office closes at three on Friday. Please hand over open orders before noon.',
  },
  others: ['Draft of the spring letter', 'Names for the new warehouse', 'Why is the export slow?'],
};

const chinese: typeof english = {
  question: '十月的订单情况怎么样？怎样用代码读取订单？',
  thought: '先查十月的数据，再查九月的数据来对比。',
  answer: `十月比九月**增长了 8.1 %**，退货仍然很少：

| 月份 | 订单 | 收入 | 退货 |
|:-----|-----:|-----:|-----:|
| 九月 | 1,188 | €89,020 | 44 |
| 十月 | 1,284 | €96,310 | 41 |

想自己读取的话，一次取一页：

\`\`\`ts
// 一个月的订单，最新的在前
const page = await orders.list({ month: '2026-10', limit: 100 });
for (const order of page.items) total += order.amountEur;
\`\`\`

金额以欧元计，**不含税**；\`returned\` 统计的是包裹，详见[手册](https://example.org/orders)。`,
  failing: '总结全年的情况',
  failure: '本月的额度已用完。',
  running: '帮我看着烤箱里的面包',
  dish: '面包',
  watching: '看看服务器在做什么',
  asking: '通知大家周五提前下班',
  mail: { to: 'team@example.org', subject: '周五提前下班', text: '周五下午三点下班，请在中午前交接未完成的订单。' },
  others: ['春季信件的草稿', '新仓库的名字', '导出为什么这么慢？'],
};

export interface Places {
  conversation: string;
  failed: string;
  running: string;
  watching: string;
  asking: string;
}

/** Talks of one user, each in the state that its name says. */
const SCRIPT = `# Sums up a month of orders.
import csv, sys

total = 0.0
for row in csv.DictReader(open(sys.argv[1])):
    total += float(row["amount_eur"])
print(f"{total:.2f} EUR")
`;

export async function fillTalks({ server, model, bring }: SharedServer, language: Language): Promise<Places> {
  const user = language === 'en' ? 'ann' : 'bob';
  const text = language === 'en' ? english : chinese;
  for (const title of text.others) model.on(title, [{ text: 'Here it is.' }]);
  model.on(
    text.question,
    [
      { reasoning: text.thought },
      { call: 'find_orders', args: { month: '2026-10', status: 'paid' } },
      { call: 'find_orders', args: { month: '2026-09', status: 'paid' } },
    ],
    [{ text: text.answer }, { usage: { prompt_tokens: 2184, completion_tokens: 312 } }, { finish: 'stop' }],
  );
  model.on(text.failing, { status: 402, json: { error: { message: text.failure } } });
  model.on(text.running, [{ reasoning: text.thought }, { call: 'watch_oven', args: { dish: text.dish } }]);
  model.on(text.watching, [{ call: 'follow_log', args: { name: 'server.log' } }]);
  model.on(text.asking, [{ call: 'send_mail', args: text.mail }]);
  const say = (conversationId: string, query: string) =>
    server.call('POST', '/chat', { user, body: { conversationId, query } });
  const begin = async (conversationId: string, query: string, event: string) => {
    const body = { conversationId, query };
    await server.stream('/chat/stream', { user, body, until: (frame) => frame.event === event });
  };
  for (const [index, title] of text.others.entries()) await say(`${language}-other-${index}`, title);
  const names = ['failed', 'running', 'watching', 'asking', 'conversation'].map((name) => `${language}-${name}`);
  const [failed = '', running = '', watching = '', asking = '', conversation = ''] = names;
  await say(failed, text.failing);
  await begin(running, text.running, 'tool_call');
  await begin(watching, text.watching, 'tool_call');
  await begin(asking, text.asking, 'approval_request');
  await say(conversation, text.question);
  const files: [path: string, content: string | Uint8Array][] = [
    ['orders.py', SCRIPT],
    ['data/orders-2026-09.csv', 'id,amount_eur\n1,74.93\n'.repeat(4000)],
    ['data/orders-2026-10.csv', 'id,amount_eur\n1,75.01\n'.repeat(4500)],
    ['reports/chart.png', createPng(640, 360)],
    [language === 'en' ? 'reports/October.md' : 'reports/十月.md', text.answer],
    ['reports/invoice\u202Efdp.sh', 'exit\n'],
    ['.outputs/call_0.txt', 'all of it\n'],
  ];
  for (const [path, content] of files) await bring(user, { conversation, path, content });
  return { conversation, failed, running, watching, asking };
}
